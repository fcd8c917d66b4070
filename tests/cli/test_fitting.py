"""Tables on a terminal: no line is wider than it, no word is folded, and --wide shows all. What takes long says what it is."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cli
from cli.fitting import GAP, declared, fitted, measured, shortened, wrapped

HERE = Path(cli.__file__).parents[1]
KEY = "wal/01M8HPHZ0YXDM6P41C4B0X0A78"
TIME = "2026-11-28T18:26:52.743Z"
HEAD = "import sys\nfrom cli.ending import take_streams\ntake_streams()\n"


@given(st.lists(st.sampled_from(["7", KEY, TIME, "a few words", "-", "x" * 200]), min_size=1, max_size=12), st.integers(40, 200))
def test_whatever_the_columns_are_they_fit(cells: list[str], room: int) -> None:
    columns = [measured(f"column_{at}", f"COLUMN {at}", [cell]) for at, cell in enumerate(cells)]
    widths = fitted(columns, room)
    assert 0 in widths
    assert list(widths) == sorted(widths)
    assert sum(width + GAP for width in widths.values()) - GAP <= room or len(widths) == 1
    for at, width in widths.items():
        if cells[at] == "7":
            assert shortened(cells[at], width) == "7"  # half a number would be another one
        else:
            assert all(len(word) <= width for word in shortened(cells[at], width).split(" "))


def test_long_cells_are_shortened_in_the_middle_and_times_lose_their_milliseconds() -> None:
    assert shortened(KEY, 30) == KEY
    assert shortened(KEY, 16) == "wal/0…1C4B0X0A78"
    assert shortened(TIME, 20) == "2026-11-28T18:26:52Z"
    assert wrapped(shortened(f"FileCommitted(object_key={KEY} size=7)", 24), 24) == ["FileCom…XDM6P41C4B0X0A78", "size=7)"]


def test_columns_that_say_nothing_go_first_then_those_of_least_use() -> None:
    names = ("coordinator", "state", "term", "error", "log_end")
    rows = (("0", "leading", "37ea7787cf768b55", "-", "17"), ("1", "following", "6e81963819aa8b0f", "-", "17"))
    columns = [measured(name, name.replace("_", " ").upper(), [row[at] for row in rows]) for at, name in enumerate(names)]
    assert [names[at] for at in fitted(columns, 60)] == list(names)
    assert [names[at] for at in fitted(columns, 44)] == ["coordinator", "state", "term", "log_end"]
    assert [names[at] for at in fitted(columns, 32)] == ["coordinator", "state", "log_end"]
    assert [names[at] for at in fitted(columns, 14)] == ["coordinator"]


def test_the_first_column_is_shortened_last() -> None:
    cells = (
        "diskless.metadata.topic.min.insync.replicas",
        "file:///tmp/a/rather/long/folder/of/objects",
        "/etc/diskless/coordinator.properties:3",
    )
    columns = [measured(name, name, [cell]) for name, cell in zip(("key", "value", "source"), cells, strict=True)]
    assert fitted(columns, 80)[0] == len(cells[0])
    assert fitted(columns, 50)[0] == 50 - 2 * (12 + GAP)


def test_a_stream_gives_what_is_left_to_its_last_column() -> None:
    columns = [declared("offset", 8), declared("time", 24), declared("records", 0)]
    assert fitted(columns, 80) == {0: 8, 1: 24, 2: 44}
    assert fitted(columns, 60) == {0: 8, 1: 20, 2: 28}


def on_terminal(program: str, *, columns: int, until: str = "") -> str:
    """Run a program on a terminal; return what it wrote there."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (50, columns))
    environment = {**os.environ, "PYTHONPATH": str(HERE), "NO_COLOR": "1", "TERM": "xterm"}
    environment.pop("COLUMNS", None)
    process = subprocess.Popen(
        [sys.executable, "-c", HEAD + program], stdin=subprocess.PIPE, stdout=theirs, stderr=theirs, env=environment, cwd=HERE
    )
    os.close(theirs)
    seen = b""
    try:
        while chunk := os.read(ours, 65_536):
            seen += chunk
            if until.encode() in seen and process.stdin is not None and not process.stdin.closed:
                process.stdin.close()  # the program waits for this
    except OSError:
        pass  # the other end is closed
    os.close(ours)
    if process.stdin is not None:
        process.stdin.close()
    assert process.wait(60) == 0, seen.decode()
    return re.sub(r"\x1b\[\d*m", "", seen.decode())


TABLE = """
import click
from cli.options import output_option
from cli.output import RowStream, print_fields, print_rows
ROW = {"object_key": %r, "coordinator": 0, "state": "deletable", "since": %r, "until": None, "size": 123456789, "batch_count": 4,
       "live_batches": 4, "owner_ids": list(range(8)), "uploader_broker_id": -1, "waits_for": "the deletion of 4 batches"}
@click.command()
@output_option
def show(output):
    print_rows([ROW] * 3, output, tuple(ROW))
    print_fields(ROW, output)
    with RowStream(output, (("state", 9), ("since", 24), ("term", 16), ("object_key", 44), ("waits_for", 0))) as rows:
        rows.write({**ROW, "term": "37ea7787cf768b55"})
show(%r, standalone_mode=False)
"""


@pytest.mark.parametrize("columns", [80, 100, 200])
def test_no_line_is_wider_than_the_terminal(columns: int) -> None:
    lines = on_terminal(TABLE % (KEY, TIME, []), columns=columns).splitlines()
    assert max(map(len, lines)) <= columns, lines
    assert any("left out for lack of room" in line for line in lines) == (columns < 200)
    assert sum("deletable" in line.split() for line in lines) == 5  # three rows, a field and a row of the stream: no word is folded


def test_wide_shows_all() -> None:
    shown = on_terminal(TABLE % (KEY, TIME, ["--wide"]), columns=80)
    assert shown.count(KEY) == shown.count(TIME) == 5
    assert "left out" not in shown


SLOW = """
import sys
from cli import progress
from cli.output import say
progress.AFTER_S = progress.EVERY_S = 0.05
with progress.doing("reading the log", 40) as work:
    work.step(10)
    sys.stdin.read()
    say("a message")
say("the end")
"""


def test_what_takes_long_is_said_on_a_terminal_and_taken_away_before_anything_else() -> None:
    seen = on_terminal(SLOW, columns=60, until="reading the log: 10 of 40 (25 %), 0 s")
    assert re.search(r"25 %\), \d s\r\x1b\[Ka message\r\n", seen), seen
    assert seen.endswith("the end\r\n")


def test_nothing_is_said_where_standard_error_is_no_terminal() -> None:
    program = HEAD + SLOW.replace("sys.stdin.read()", "time.sleep(0.3)").replace("import sys", "import time")
    done = subprocess.run([sys.executable, "-c", program], cwd=HERE, capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr == "a message\nthe end\n"


def test_a_person_who_is_asked_is_not_interrupted() -> None:
    program = """
import sys, time
from cli import progress
progress.AFTER_S = progress.EVERY_S = 0.02
with progress.doing("deleting"):
    with progress.hushed():
        sys.stderr.write("Sure? ")
        sys.stderr.flush()
        sys.stdin.read()
        time.sleep(0.3)
        sys.stderr.write("yes\\n")
"""
    assert "Sure? yes\r\n" in on_terminal(program, columns=60, until="Sure?")
