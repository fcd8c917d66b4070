"""The state of a file at one of its owners, what the file waits for, and when its object may be deleted.

Answers to operators come from `life_of`. The worker that hands files over and deletes objects leaves a file alone until `ends_ms`. Both
know one coordinator only: the other owners are asked whether they still need the object when the file is past its times here.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile

from coordinator.core.file_state import FileState
from coordinator.core.files.logged import owner_ids_of
from coordinator.core.tables.stored_rows import FileRow, Tombstone
from records.file_owners import in_turn

UNKNOWN_MS = -1
TIME_MS_MAX = 2**63 - 1
"""Brokers may say that they created a file at any time; sums of it and of a setting end here, as the answers' fields do."""


STATES_OF_TOMBSTONES = {"fenced": FileState.FENCED, "removed": FileState.REMOVED, "handed over": FileState.HANDED_OVER}
"""The state of a key by the reason of its tombstone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTimes:
    """The settings that bound the life of files, in milliseconds."""

    commit_max_age_ms: int
    delete_grace_ms: int
    fence_retention_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLife:
    """The state of a file at one coordinator, with its times.

    `since_ms` is when the state began. After `until_ms` the object may be deleted, or the tombstone be forgotten: UNKNOWN_MS for a
    live file, and for a tombstone that stays for ever. Both are unknown for a file that lost its last batch a moment ago, until
    that is written. `owners_before` are responsible before the coordinator, and must be done with the file first.
    """

    state: FileState
    since_ms: int
    until_ms: int
    owners_before: tuple[int, ...] = ()


def life_of(known: FileRow | Tombstone, coordinator_id: int, times: FileTimes, now_ms: int) -> FileLife:
    """The state of a file at a coordinator at a time of the log's clock."""
    if isinstance(known, Tombstone):
        until_ms = UNKNOWN_MS if known.created_ms < 0 else min(known.created_ms + times.fence_retention_ms, TIME_MS_MAX)
        return FileLife(state=STATES_OF_TOMBSTONES[known.reason], since_ms=known.time_ms, until_ms=until_ms)
    before = tuple(takewhile(lambda one: one != coordinator_id, in_turn(known.object_key, owner_ids_of(known.owner_ids))))
    if known.live_batches:
        return FileLife(state=FileState.LIVE, since_ms=known.append_time_ms, until_ms=UNKNOWN_MS, owners_before=before)
    if known.emptied_ms < 0:
        return FileLife(state=FileState.EMPTY, since_ms=UNKNOWN_MS, until_ms=UNKNOWN_MS, owners_before=before)
    until_ms = ends_ms(known, times.commit_max_age_ms, times.delete_grace_ms)
    if now_ms <= until_ms:
        state = FileState.EMPTY
    else:
        state = FileState.WAITING if before else FileState.DELETABLE
    return FileLife(state=state, since_ms=known.emptied_ms, until_ms=until_ms, owners_before=before)


def ends_ms(empty: FileRow, commit_max_age_ms: int, delete_grace_ms: int) -> int:
    """The time up to which the object of an empty file stays in any case, by the log's clock.

    Until then another owner may still get an honest commit of the file, or a reader may still use an answer about its batches. Who
    dates a file ahead of its commit has it for no longer: it was there by then.
    """
    born_ms = empty.append_time_ms if empty.created_ms < 0 else min(empty.created_ms, empty.append_time_ms)
    return min(max(born_ms + commit_max_age_ms, empty.emptied_ms + delete_grace_ms), TIME_MS_MAX)
