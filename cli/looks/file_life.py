"""The life of files as operators read it: one row for each owner of a file, what the file waits for, and when its object could go.

Computes rows from the answers of the coordinators; asks no node. A coordinator tells what it knows itself; what a file waits for is
concluded from the answers of all its owners.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from cli.output import time_text
from coordinator.core.file_state import FileState

if TYPE_CHECKING:
    from cli.output import Row
    from coordinator.client.calls.files import ListedFile

UNKNOWN = "unknown"
"""The state of a file for an owner that has never heard of it: its commit may still come, or it is fenced when it is asked."""
UNANSWERED = "no answer"
"""The state of a file for an owner that could not be asked."""

_OUT = frozenset({FileState.FENCED, FileState.REMOVED, FileState.HANDED_OVER})


def state_text(state: int) -> str:
    """A state as it is written in options and tables."""
    return FileState(state).name.lower().replace("_", "-")


def listed_row(file: ListedFile) -> Row:
    """A file as one coordinator tells it."""
    return {
        "object_key": file.object_key,
        "coordinator": file.coordinator_id,
        "state": state_text(file.state),
        "since": time_text(file.since_ms),
        "until": time_text(file.until_ms),
        "size": file.size,
        "batch_count": file.batch_count,
        "live_batches": file.live_batches,
        "created": time_text(file.created_ms),
        "committed": time_text(file.append_time_ms),
        "owner_ids": list(file.owner_ids),
        "owners_before": list(file.owners_before),
        "uploader_broker_id": file.uploader_broker_id,
    }


def described_rows(files: Sequence[ListedFile], unanswered: Collection[int] = ()) -> list[Row]:
    """One file by the answers of the coordinators but those `unanswered`: a row for each that knows it, and for each other owner."""
    known = {file.coordinator_id: file for file in files}
    owner_ids = next((file.owner_ids for file in files if file.owner_ids), ())
    missing = {owner_id for owner_id in owner_ids if owner_id in unanswered}
    earliest = None if missing else time_text(_earliest_ms(known.values(), has_owners=bool(owner_ids)))
    rows: list[Row] = []
    for coordinator_id in (*owner_ids, *sorted(set(known) - set(owner_ids))):
        file = known.get(coordinator_id)
        row: dict[str, object] = {
            "coordinator": coordinator_id,
            "state": UNANSWERED if coordinator_id in missing else UNKNOWN,
            "since": None,
            "waits_for": "",
            "earliest": earliest,
            "live_batches": 0,
            "size": -1,
            "owner_ids": list(owner_ids),
        }
        if file is not None:
            row |= {
                "state": state_text(file.state),
                "since": time_text(file.since_ms),
                "live_batches": file.live_batches,
                "size": file.size,
            }
            row["waits_for"] = _waits_for(file, known, owner_ids, missing)
        rows.append(row)
    return rows


def _waits_for(file: ListedFile, known: Mapping[int, ListedFile], owner_ids: Sequence[int], missing: Collection[int]) -> str:
    """Tell what must happen before this coordinator can hand the file over or delete its object; empty when it is out."""
    state = FileState(file.state)
    if state is FileState.LIVE:
        return f"the deletion of {file.live_batches} batches"
    if state in _OUT:
        return ""
    later = owner_ids[len(file.owners_before) + 1 :]
    parts = [f"the time {time_text(file.until_ms) or 'that is set in a moment'}"] if state is FileState.EMPTY else []
    parts += [f"owner {one}" for one in _first_in(file.owners_before, known, missing)]
    if not parts:
        parts = [f"a hand-over to owner {one}" for one in _first_in(later, known, missing)]
    return ", ".join(parts) or "the object store"


def _first_in(owner_ids: Iterable[int], known: Mapping[int, ListedFile], missing: Collection[int]) -> list[str]:
    """The first of these owners that is not done with the file, with its state; those that do not know the file are fenced at once."""
    for owner_id in owner_ids:
        if owner_id in missing:
            return [f"{owner_id} ({UNANSWERED})"]
        if owner_id in known and known[owner_id].state not in _OUT:
            return [f"{owner_id} ({state_text(known[owner_id].state)})"]
    return []


def _earliest_ms(files: Collection[ListedFile], *, has_owners: bool) -> int:
    """The time until which the object stays in any case; -1 while some batch lives, and for a file that no owner has any more.

    It is -1 as well while an owner cannot tell its time yet.
    """
    left = [file for file in files if file.state not in _OUT]
    if not left or not has_owners or any(file.until_ms < 0 for file in left):
        return -1
    return max(file.until_ms for file in left)
