"""Decisions on the life of files: keys that are fenced, and empty files that are removed or handed over.

A key that was fenced, removed or handed over has a tombstone, and its coordinator is *out*: a commit of the key is refused for as long as
the age limit would admit it. Entries under way count: a commit under way makes its key known, a fence under way makes its coordinator out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from coordinator.core.commands import OK, FenceFiles, FileStanding, HandOverFiles, Outcome, RemoveFiles
from coordinator.core.leadership.term import Term
from coordinator.core.limits import FILES_PER_REQUEST_MAX
from coordinator.core.reads.standings import fence_fault, standings_of
from coordinator.core.state.lookups import Lookups
from coordinator.kafka.errors import ErrorCode
from records.model import FilesFenced, FilesHandedOver, FilesRemoved, Record

RECORD_KEY_BYTES_MAX = 128 << 10
"""A record has keys of so many bytes at most: the records of a request of long keys fit several entries."""
_NUMBERS_OF_KEY_BYTES = 12
"""The bytes of a record for each key beside the key: lengths, a time or an owner."""


def ruled_out(object_key: str, reason: str) -> Outcome:
    """Why a key that is out is not committed, by the reason of its tombstone."""
    if reason == "fenced":
        message = f"file {object_key} was fenced for deletion: it was not committed here and never will be; upload the data under a new key"
        return Outcome(error=ErrorCode.INVALID_REQUEST, message=message)
    # Only files that were committed are removed or handed over: who uploads this one anew would write it twice.
    message = f"file {object_key} was committed, its batches were deleted, and it is {reason}; its results are no longer kept"
    return Outcome(error=ErrorCode.DUPLICATE_RESOURCE, message=message)


# ---- fencing


def fences(state: Lookups, term: Term, command: FenceFiles, entry_bytes_max: int) -> list[Record]:
    """The records that fence the keys of a request that nothing is known of; none when there are none, or it only asks.

    Each fits an entry of so many bytes.
    """
    if not command.is_fencing or len(command.object_keys) > FILES_PER_REQUEST_MAX:
        return []
    standings = standings_of(state, command.object_keys)
    fenced = {
        key: created_ms
        for key, created_ms, standing in zip(command.object_keys, command.created_ms, standings, strict=True)
        if standing is FileStanding.UNKNOWN
        and key not in term.by_key
        and key not in term.ruled_out
        and fence_fault(key, created_ms) is None
    }
    return [FilesFenced(object_keys=keys, created_ms=[fenced[key] for key in keys]) for keys in _cut(fenced, entry_bytes_max)]


# ---- the end of a file


def decide_end(
    state: Lookups, term: Term, command: RemoveFiles | HandOverFiles, entry_bytes_max: int
) -> tuple[list[Record], list[Outcome]]:
    """The records that end the empty files of a request, and one outcome for each key: success also for a key that is out already.

    Each record fits an entry of so many bytes.
    """
    ended: dict[str, int] = {}
    outcomes: list[Outcome] = []
    next_owners = command.next_owner_ids if isinstance(command, HandOverFiles) else [-1] * len(command.object_keys)
    standings = standings_of(state, command.object_keys)
    for key, next_owner_id, acknowledged in zip(command.object_keys, next_owners, standings, strict=True):
        standing = FileStanding.REMOVED if key in term.ruled_out or key in ended else acknowledged
        if key in term.by_key:
            outcomes.append(_not_ended(key, "its commit is under way"))
        elif standing is FileStanding.LIVE:
            outcomes.append(_not_ended(key, "it has live batches"))
        elif standing is FileStanding.UNKNOWN:
            outcomes.append(_not_ended(key, "it is not known to this coordinator"))
        else:
            outcomes.append(OK)
            if standing is FileStanding.EMPTY:
                ended[key] = next_owner_id
    if isinstance(command, RemoveFiles):
        return [FilesRemoved(object_keys=keys) for keys in _cut(ended, entry_bytes_max)], outcomes
    return [
        FilesHandedOver(object_keys=keys, next_owner_ids=[ended[key] for key in keys]) for keys in _cut(ended, entry_bytes_max)
    ], outcomes


def _not_ended(object_key: str, why: str) -> Outcome:
    message = f"file {object_key} is neither removed nor handed over: {why}; look again before its object is deleted"
    return Outcome(error=ErrorCode.INVALID_REQUEST, message=message)


# ---- helpers


def ruled_out_by(records: Iterable[Record]) -> Iterator[tuple[str, str]]:
    """The keys that records rule out, with the reasons of their tombstones."""
    for record in records:
        match record:
            case FilesFenced():
                yield from ((key, "fenced") for key in record.object_keys)
            case FilesRemoved():
                yield from ((key, "removed") for key in record.object_keys)
            case FilesHandedOver():
                yield from ((key, "handed over") for key in record.object_keys)
            case _:
                pass


def _cut(object_keys: Iterable[str], entry_bytes_max: int) -> Iterator[list[str]]:
    """Keys as records hold them, in their order: a request of many becomes a transaction where entries are small, a record cannot."""
    size_max = min(RECORD_KEY_BYTES_MAX, entry_bytes_max // 2)
    piece: list[str] = []
    size = 0
    for key in object_keys:
        key_bytes = len(key.encode()) + _NUMBERS_OF_KEY_BYTES
        if piece and size + key_bytes > size_max:
            yield piece
            piece, size = [], 0
        piece.append(key)
        size += key_bytes
    if piece:
        yield piece
