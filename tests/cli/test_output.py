"""Data goes to standard output in every format, plain when it is no terminal; messages go to standard error."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cli.output import TIME_MAX_MS, RowStream, print_fields, print_rows, say, tell, time_text

ROWS = [{"name": "orders", "count": 3, "ids": [1, 2], "note": None}, {"name": "réturns", "count": 10, "ids": [], "note": "x y"}]


def test_a_table_in_a_pipe_is_aligned_and_neither_cut_nor_wrapped(capsys: pytest.CaptureFixture[str]) -> None:
    long = "x" * 300
    print_rows([*ROWS, {"name": long, "count": 1, "ids": [], "note": ""}], "table", ("name", "count", "ids"))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert lines[0].split() == ["NAME", "COUNT", "IDS"]
    assert lines[1].split() == ["orders", "3", "1,2"]
    assert lines[3].startswith(long)
    assert len({line.index(cell) for line, cell in zip(lines, ("COUNT", "3", "10", "1"), strict=True)}) == 1
    assert "\x1b" not in "".join(lines)


def test_texts_of_strangers_move_no_cursor_and_make_no_lines(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows([{"name": "a\x1b[2Jb\nc\u2028", "more": {"k": "\x9b"}}], "table", ["name", "more"])
    assert capsys.readouterr().out.splitlines()[1:] == [r'a\x1b[2Jb\nc\u2028  {"k": "\x9b"}']


@pytest.mark.parametrize("stream", [False, True], ids=["list", "stream"])
@pytest.mark.parametrize("output", ["json", "jsonl", "yaml"])
def test_other_formats_hold_every_field(capsys: pytest.CaptureFixture[str], output: str, stream: bool) -> None:
    if stream:
        with RowStream(output, (("name", 4),)) as rows:
            for row in ROWS:
                rows.write(row)
    else:
        print_rows(ROWS, output, ("name",))
    printed = capsys.readouterr().out
    match output:
        case "json":
            assert json.loads(printed) == ROWS
        case "jsonl":
            assert [json.loads(line) for line in printed.splitlines()] == ROWS
        case "yaml":
            assert yaml.safe_load(printed) == ROWS


def test_nothing_is_an_empty_list_for_machines_and_a_message_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows([], "json", ("name",))
    with RowStream("json", (("name", 4),)):
        pass
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [[], []]
    print_rows([], "table", ("name",), empty="no topics")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "no topics\n")


def test_one_thing_is_an_object_and_a_mapping_in_it_gets_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    thing = {"topic": "orders", "config": {"a": "1", "b": "2"}}
    print_fields(thing, "json")
    assert json.loads(capsys.readouterr().out) == thing
    print_fields(thing, "table")
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [["TOPIC", "orders"], ["CONFIG", "a=1"], ["b=2"]]


def test_times_are_utc_with_milliseconds_and_minus_one_is_none() -> None:
    assert time_text(1_700_000_000_123) == "2023-11-14T22:13:20.123Z"
    assert time_text(-1) is None
    assert time_text(TIME_MAX_MS) == "9999-12-31T23:59:59.999Z"
    assert time_text(1_795_629_724_307_000_000) == "1795629724307000000 ms"


@given(st.integers(-(2**63), 2**63 - 1))
def test_every_time_that_a_producer_can_write_has_a_text(time_ms: int) -> None:
    text = time_text(time_ms)
    assert text is None if time_ms < 0 else text is not None and text.endswith("Z" if time_ms <= TIME_MAX_MS else f"{time_ms} ms")


OUTSIDE = st.text(
    alphabet=st.one_of(
        st.sampled_from("\n\r\t\x00\x07\x1b[2J\x7f\x85\x9b\u200b\u2028\u202e\ufeff\U000e0041a-"), st.characters(codec="utf-8")
    )
)


@given(OUTSIDE, st.sampled_from(["table", "json", "jsonl", "yaml"]))
def test_text_from_outside_is_printable_in_every_format_and_the_same_for_machines(text: str, output: str) -> None:
    row = {"name": text, text or "x": {"name": [text]}}
    ways: list[tuple[Callable[[], None], object]] = [
        (lambda: print_rows([row], output, tuple(row)), [row]),
        (lambda: print_fields(row, output), row),
        (lambda: _stream(row, output), [row]),
    ]
    for way, meant in ways:
        with redirect_stdout(io.StringIO()) as printed:
            way()
        shown = printed.getvalue()
        assert shown.replace("\n", "").isprintable()
        match output:
            case "json":
                assert json.loads(shown) == meant
            case "jsonl":
                assert json.loads(shown) == row
            case "yaml":
                assert yaml.safe_load(shown) == meant
            case "table":
                assert len(shown.splitlines()) == (2 if isinstance(meant, list) else len(row))


def _stream(row: dict[str, object], output: str) -> None:
    with RowStream(output, [(name, 4) for name in row]) as rows:
        rows.write(row)


@given(OUTSIDE)
def test_a_message_has_no_line_at_the_margin_but_its_first(text: str) -> None:
    with redirect_stderr(io.StringIO()) as printed:
        say(f"not possible: {text}")
    first, *rest = printed.getvalue().removesuffix("\n").split("\n")
    assert first.startswith("not possible: ")
    assert all(line.startswith("    ") for line in rest)
    assert "".join([first, *rest]).isprintable()
    with redirect_stdout(io.StringIO()) as printed:
        tell(text)
    assert printed.getvalue().removesuffix("\n").isprintable()
