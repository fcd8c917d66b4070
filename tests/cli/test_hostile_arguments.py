"""The table of hostile arguments: every command, every option, every manner of being wrong, in this process.

Whatever is given, a command ends within its bound with a documented status and one line that says why: no traceback, no report of
a defect, no control character from outside on the terminal, no file or process left behind.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from cli.main import root
from cli.outcome import Exit
from tests.cli.hostile import (
    BASES,
    BOUND_S,
    LEAVES,
    MANNERS,
    Manner,
    Path_,
    base,
    children,
    command_lines,
    files_below,
    make_files,
    positional,
    positional_words,
    without,
)

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e]")
CASES = [(path, manner) for path, command in LEAVES.items() for manner in MANNERS if any(map(manner.fits, command.params))]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to run in, and a cache folder that cannot be made: nothing here may fetch or start a program."""
    folder = tmp_path / "here"
    folder.mkdir()
    make_files(folder)
    blocked = tmp_path / "no-cache"
    blocked.write_text("")
    monkeypatch.setenv("DISKLESS_CACHE_DIR", str(blocked / "cache"))
    for name in ("CONFIG", "BOOTSTRAP_SERVER", "KAFKA_BOOTSTRAP_SERVER", "OBJECT_STORE_URL", "MONITOR_DIR"):
        monkeypatch.delenv(f"DISKLESS_{name}", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("spark_jobs.monitor.topic.REQUEST_TIMEOUT_S", 0.2)  # these commands have no option for it
    monkeypatch.chdir(folder)
    return folder


def run(words: list[str]) -> tuple[Result, float]:
    start_s = time.monotonic()
    result = CliRunner().invoke(root, words, prog_name="diskless", input="")
    return result, time.monotonic() - start_s


def check(words: list[str], here: Path) -> Result:
    files, processes = files_below(here), children()
    result, took_s = run(words)
    if took_s >= BOUND_S:
        # The first of its kind imports its modules, which takes long on a busy machine; what waits for something waits again.
        result, took_s = run(words)
    shown = [word if len(word) < 100 else f"{word[:40]}.. ({len(word)} characters)" for word in words]
    said = f"{shown}\nstatus {result.exit_code}\n{result.output[-2000:]}"
    assert isinstance(result.exception, SystemExit | None), f"{result.exception!r} of {said}"
    assert result.exit_code in set(Exit), said
    assert "Traceback" not in result.output, said
    assert "defect of diskless" not in result.output, said
    assert not CONTROL.search(result.stderr), said
    assert result.exit_code == Exit.OK or result.stderr.strip(), f"no word of why: {said}"
    assert took_s < BOUND_S, f"{took_s:.1f} s: {said}"
    assert files_below(here) == files, f"left behind {files_below(here) ^ files}: {said}"
    assert children() <= processes, said
    return result


def test_every_command_has_a_line_in_the_table() -> None:
    assert set(BASES) == set(LEAVES)
    assert len(MANNERS) + len(("missing", "unknown option")) >= 13


@pytest.mark.parametrize(("path", "manner"), CASES, ids=lambda one: one.name if isinstance(one, Manner) else "-".join(one))
def test_a_wrong_value_ends_in_one_line(path: Path_, manner: Manner, here: Path) -> None:
    for words in command_lines(path, manner, here):
        result = check(words, here)
        assert not manner.is_usage or result.exit_code == Exit.USAGE, f"{words}: {result.output}"


@pytest.mark.parametrize("path", LEAVES, ids="-".join)
def test_what_is_required_and_missing_is_a_usage_error(path: Path_, here: Path) -> None:
    command, words = LEAVES[path], base(path, here)
    for parameter in command.params:
        if not parameter.required:
            continue
        count = len(positional_words(words))
        left = without(words, parameter) if isinstance(parameter, click.Option) else words[count:]
        assert check([*path, *left], here).exit_code == Exit.USAGE


@pytest.mark.parametrize("path", LEAVES, ids="-".join)
def test_what_nobody_asked_for_is_a_usage_error(path: Path_, here: Path) -> None:
    assert check([*path, *base(path, here), "--nonsense"], here).exit_code == Exit.USAGE
    if not any(one.nargs == -1 for one in positional(LEAVES[path])):
        assert check([*path, *base(path, here), "--", "one", "too", "many", "words"], here).exit_code == Exit.USAGE


@pytest.mark.parametrize("path", LEAVES, ids="-".join)
def test_as_it_stands_in_the_table_a_command_ends_as_documented(path: Path_, here: Path) -> None:
    check([*path, *base(path, here)], here)
