"""What `files describe` concludes from the answers of the owners of a file."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import pytest

from cli.commands.data.files import STATES
from cli.looks.file_life import described_rows, listed_row, state_text
from coordinator.core.file_state import FileState
from coordinator.protocol.messages import ListFilesFile

UNTIL_MS = 1_700_000_000_000
UNTIL = "2023-11-14T22:13:20.000Z"
LATER = "2023-11-14T22:13:21.000Z"


def told(coordinator_id: int, state: FileState, *, owners: Sequence[int] = (1, 2, 3), until_ms: int = UNTIL_MS) -> ListFilesFile:
    """An answer as coordinators give it."""
    is_file = state < FileState.FENCED
    return ListFilesFile(
        object_key="wal/1",
        coordinator_id=coordinator_id,
        size=100 if is_file else -1,
        batch_count=3 if is_file else 0,
        live_batches=3 if state is FileState.LIVE else 0,
        append_time_ms=UNTIL_MS - 9 if is_file else -1,
        owner_ids=tuple(owners) if is_file else (),
        state=state,
        since_ms=UNTIL_MS - 5,
        until_ms=-1 if state is FileState.LIVE else until_ms,
        owners_before=tuple(owners[: owners.index(coordinator_id)]) if is_file else (),
    )


LIVE, EMPTY, WAITING, DELETABLE = FileState.LIVE, FileState.EMPTY, FileState.WAITING, FileState.DELETABLE
Told = list[tuple[int, str, str]]
CASES: dict[str, tuple[list[ListFilesFile], Collection[int], Told, str | None]] = {
    "unknown": ([], (), [], None),
    "one owner, live": ([told(1, LIVE, owners=[1])], (), [(1, "live", "the deletion of 3 batches")], None),
    "one owner, empty": ([told(1, EMPTY, owners=[1])], (), [(1, "empty", f"the time {UNTIL}")], UNTIL),
    "one owner, just emptied": (
        [told(1, EMPTY, owners=[1], until_ms=-1)],
        (),
        [(1, "empty", "the time that is set in a moment")],
        None,
    ),
    "one owner, deletable": ([told(1, DELETABLE, owners=[1])], (), [(1, "deletable", "the object store")], UNTIL),
    "removed": ([told(1, FileState.REMOVED)], (), [(1, "removed", "")], None),
    "fenced everywhere": ([told(one, FileState.FENCED) for one in (0, 1)], (), [(0, "fenced", ""), (1, "fenced", "")], None),
    "the last of three lives": (
        [told(1, DELETABLE), told(2, WAITING), told(3, LIVE)],
        (),
        [
            (1, "deletable", "a hand-over to owner 2 (waiting)"),
            (2, "waiting", "owner 1 (deletable)"),
            (3, "live", "the deletion of 3 batches"),
        ],
        None,
    ),
    "the first is done": (
        [told(1, FileState.HANDED_OVER), told(2, WAITING), told(3, EMPTY, until_ms=UNTIL_MS + 1000)],
        (),
        [(1, "handed-over", ""), (2, "waiting", "a hand-over to owner 3 (empty)"), (3, "empty", f"the time {LATER}, owner 2 (waiting)")],
        LATER,
    ),
    "all before the last are done": (
        [told(1, FileState.HANDED_OVER), told(2, FileState.FENCED), told(3, WAITING)],
        (),
        [(1, "handed-over", ""), (2, "fenced", ""), (3, "waiting", "the object store")],
        UNTIL,
    ),
    "one owner never got it": (
        [told(2, WAITING), told(3, WAITING)],
        (),
        [(1, "unknown", ""), (2, "waiting", "a hand-over to owner 3 (waiting)"), (3, "waiting", "owner 2 (waiting)")],
        UNTIL,
    ),
    "one owner does not answer": (
        [told(2, WAITING), told(3, FileState.REMOVED)],
        (1, 9),
        [(1, "no answer", ""), (2, "waiting", "owner 1 (no answer)"), (3, "removed", "")],
        None,
    ),
}


@pytest.mark.parametrize(("files", "unanswered", "rows", "earliest"), CASES.values(), ids=CASES)
def test_described(files: list[ListFilesFile], unanswered: Collection[int], rows: Told, earliest: str | None) -> None:
    found = described_rows(files, unanswered)
    assert [(row["coordinator"], row["state"], row["waits_for"]) for row in found] == rows
    assert {row["earliest"] for row in found} <= {earliest}


def test_the_order_of_the_answers_does_not_matter() -> None:
    files = [told(1, DELETABLE), told(2, WAITING), told(3, LIVE)]
    assert described_rows(files[::-1]) == described_rows(files)


def test_every_state_can_be_asked_for() -> None:
    assert [state_text(state) for state in FileState] == list(STATES)


def test_a_listed_file_names_its_state_and_its_times() -> None:
    row = listed_row(replace(told(2, WAITING), created_ms=UNTIL_MS - 10_000))
    assert (row["state"], row["since"], row["until"]) == ("waiting", "2023-11-14T22:13:19.995Z", UNTIL)
    assert (row["created"], row["owners_before"]) == ("2023-11-14T22:13:10.000Z", [1])
    gone = listed_row(told(2, FileState.FENCED, until_ms=-1))
    assert (gone["state"], gone["until"], gone["committed"], gone["size"]) == ("fenced", None, None, -1)
