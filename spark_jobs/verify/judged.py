"""Which entries of a metadata partition count, told from keys alone: the rule all replicas follow (KIP-1164, "Leadership").

Apart on purpose from `records.log`: `verify` must find out if that gets it wrong. A claim is in
force iff its seq is 0, its epoch follows the one in force, and its body is a LeadershipClaimed of that epoch and term; any
other entry counts iff it is the next of the term in force. A Restored at offset 0 under a key of zeros sets the epoch that a claim
follows. All else is void. What counts may still contradict the log: see `effective`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from records.codec import UndecodableEntry, UnknownSchema, decode_entry, decode_key
from records.model import LeadershipClaimed, Record, Restored

PLAIN_COMMIT = b""
"""Stands for the value of an entry that begins like a file (`begins_like_a_file`), where bodies are not wanted."""


class LogFault(Exception):
    """The log cannot be rebuilt from this entry on."""

    def __init__(self, offset: int, message: str) -> None:
        super().__init__(f"entry {offset}: {message}")
        self.offset = offset


@dataclass(slots=True)
class TermJudge:
    """Follows one metadata partition from its first entry. `next_offset` is the first entry not seen."""

    next_offset: int = 0
    epoch: int = 0
    term: int = 0
    seq: int = 0

    def counts(self, offset: int, key: bytes | None, value: bytes | None) -> bool:
        """Whether the next entry is to be applied. Raises `LogFault` when entries are missing before it."""
        if offset != self.next_offset:
            why = "the entries between are not in the log, or another program wrote in a transaction (`diskless log` shows its records)"
            raise LogFault(offset, f"{self.next_offset} was expected: {why}")
        self.next_offset += 1
        parts = decode_key(key)
        if parts is None:
            return False
        if offset == 0 and parts == (0, 0, 0) and (floor := _floor(offset, value)) is not None:
            self.epoch = floor
            return False
        if parts.seq == 0:
            if parts.epoch == self.epoch + 1 and _is_claim(offset, parts.epoch, parts.term, value):
                self.epoch, self.term, self.seq = parts
            return False
        if self.term == 0 or (parts.epoch, parts.term, parts.seq) != (self.epoch, self.term, self.seq + 1):
            return False
        self.seq += 1
        return True


def _floor(offset: int, value: bytes | None) -> int | None:
    """The epoch that the first claim of a restored log follows; None when the entry is no restore."""
    match _records_if_any(offset, value, "restore"):
        case [Restored(epoch_floor=floor, file_id_base=base)] if floor > 0 and base >= 0:
            return floor
    return None


def _is_claim(offset: int, epoch: int, term: int, value: bytes | None) -> bool:
    match _records_if_any(offset, value, "claim"):
        case [LeadershipClaimed() as claim]:
            return claim.epoch == epoch and claim.term == term
    return False


def _records_if_any(offset: int, value: bytes | None, what: str) -> Sequence[Record]:
    """The records of an entry that may be a `what`, none if it cannot be decoded. Raises `LogFault` when a newer version wrote it."""
    try:
        return decode_entry(value or b"")
    except UndecodableEntry:
        return ()
    except UnknownSchema as error:
        raise LogFault(offset, f"it may be a {what}, but {error}") from error


def records_of(offset: int, value: bytes | None) -> Sequence[Record]:
    """The records of an entry that counts. Raises `UndecodableEntry`, and `LogFault` when a newer version wrote it."""
    try:
        return decode_entry(value or b"")
    except UnknownSchema as error:
        raise LogFault(offset, f"replicas of this version stop here: {error}") from error
