"""Times and durations as people write them: one meaning each, and a text that is none says what to write."""

from __future__ import annotations

from contextlib import suppress

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from cli.main import root
from cli.outcome import Exit
from cli.output import TIME_MAX_MS, time_text
from cli.times import parse_time_ms

NOW_MS = 1_795_890_000_000
TWO_MS = 1_795_831_200_000  # 2026-11-28T02:00Z


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("2026-11-28T02:00", TWO_MS),
        ("2026-11-28T02:00:00.000Z", TWO_MS),
        ("2026-11-28 02:00:00.0009", TWO_MS),
        ("2026-11-28T04:00+02:00", TWO_MS),
        ("2026-11-28", TWO_MS - 7_200_000),
        (str(TWO_MS), TWO_MS),
        ("90m", NOW_MS - 5_400_000),
        ("1.5h", NOW_MS - 5_400_000),
        ("0", 0),
    ],
)
def test_a_time_is_iso_so_long_ago_or_milliseconds(text: str, time_ms: int) -> None:
    assert parse_time_ms(text, NOW_MS) == time_ms


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("yesterday", "is no time; write 2026-11-28T02:00"),
        ("2026-13-01", "is no time"),
        ("", "is no time"),
        ("1969-12-31", "is before 1970"),
        ("-7", "is before 1970"),
        (str(2**63), "the greatest one is"),
        ("99999d", "is before 1970"),
        ("1.5", "is no time"),
    ],
)
def test_a_text_that_is_no_time_says_why(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_time_ms(text, NOW_MS)


@given(st.integers(0, TIME_MAX_MS))
def test_every_time_that_is_printed_can_be_given(time_ms: int) -> None:
    assert parse_time_ms(time_text(time_ms) or "", NOW_MS) == time_ms


@given(st.text())
def test_no_text_is_worse_than_a_value_error(text: str) -> None:
    with suppress(ValueError):
        assert parse_time_ms(text, NOW_MS) >= 0


@pytest.mark.parametrize(
    "words", [("offsets", "list", "--time", "noon"), ("log", "dump", "--since", "noon"), ("log", "dump", "--until", "noon")]
)
def test_a_wrong_time_is_a_usage_error(words: tuple[str, ...]) -> None:
    result = CliRunner().invoke(root, [*words, "--bootstrap-server", "localhost:1"], prog_name="diskless")
    assert result.exit_code == Exit.USAGE
    assert "'noon' is no time" in result.stderr


def test_what_goes_on_for_ever_has_no_end() -> None:
    words = ["log", "dump", "--follow", "--until", "1h", "--bootstrap-server", "localhost:1"]
    assert CliRunner().invoke(root, words, prog_name="diskless").exit_code == Exit.USAGE
