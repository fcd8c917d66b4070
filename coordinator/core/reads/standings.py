"""The standing of object keys at this coordinator, by the acknowledged log: unknown, a known file, or a tombstone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from coordinator.core.commands import OK, FencedFile, FenceFiles, FileStanding, Outcome
from coordinator.core.limits import FILES_PER_REQUEST_MAX
from coordinator.core.state.lookups import Lookups
from coordinator.kafka.errors import ErrorCode
from coordinator.object_store import key_fault

_STANDING_OF: Mapping[str, FileStanding] = {
    "fenced": FileStanding.FENCED,
    "removed": FileStanding.REMOVED,
    "handed over": FileStanding.HANDED_OVER,
}
"""The standing of a key by the reason of its tombstone."""


def standings_of(state: Lookups, object_keys: Sequence[str]) -> list[FileStanding]:
    """Return the standing of each key by the acknowledged log; deleted batches that are not counted out yet are live."""
    files = state.find_files(object_keys)
    standings: list[FileStanding] = []
    for key in object_keys:
        if key in files:
            standings.append(FileStanding.LIVE if files[key].live_batches else FileStanding.EMPTY)
        else:
            stone = state.find_tombstone(key)
            standings.append(FileStanding.UNKNOWN if stone is None else _STANDING_OF[stone.reason])
    return standings


def answer_fence(state: Lookups, command: FenceFiles) -> list[FencedFile]:
    """Answer a request behind its fences."""
    count = len(command.object_keys)
    if count > FILES_PER_REQUEST_MAX:
        return command.refused(ErrorCode.INVALID_REQUEST, f"{count} files in a request, {FILES_PER_REQUEST_MAX} are allowed: split it")
    standings = standings_of(state, command.object_keys)
    return [_fenced(command.is_fencing, *one) for one in zip(command.object_keys, command.created_ms, standings, strict=True)]


def _fenced(is_fencing: bool, object_key: str, created_ms: int, standing: FileStanding) -> FencedFile:
    fault = fence_fault(object_key, created_ms)
    if fault is not None:
        return FencedFile(outcome=Outcome(error=ErrorCode.INVALID_REQUEST, message=fault))
    if is_fencing and standing is FileStanding.UNKNOWN:
        message = f"file {object_key} was fenced, and its fence has just expired; retry"
        return FencedFile(outcome=Outcome(error=ErrorCode.COORDINATOR_NOT_AVAILABLE, message=message))
    return FencedFile(outcome=OK, standing=standing)


def fence_fault(object_key: str, created_ms: int) -> str | None:
    """Why a key cannot be that of a file."""
    if fault := key_fault(object_key):
        return fault
    if created_ms < -1:
        return f"file {object_key} was created at {created_ms}; send milliseconds since the epoch, or -1 if that is not known"
    return None
