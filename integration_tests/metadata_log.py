"""Reads the metadata topic by the rules every replica must follow, written anew: the checker trusts no product code here.

Only the byte formats (`records`) are shared with the product. A claim is in force iff its key has seq 0 and the epoch
after the one in force, and its body is one LeadershipClaimed of the same epoch and term. Another entry counts iff its
epoch and term are in force and its seq is the next. Everything else is void. What stands inside a transaction is taken when
that ends, and never if it is aborted or cut off by a claim.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from integration_tests.history import LogMessage
from records.codec import UndecodableEntry, decode_entry, decode_key
from records.file_columns import iterate, request_order
from records.model import (
    EntryKey,
    FileCommitted,
    LeadershipClaimed,
    NoOp,
    Record,
    RecordsDeleted,
    TransactionAborted,
    TransactionBegan,
    TransactionEnded,
)


class Claim(NamedTuple):
    """A claim in force."""

    offset: int
    epoch: int
    term: int
    node_id: int
    timestamp_ms: int


class Void(NamedTuple):
    """An entry that does not count."""

    offset: int
    key: EntryKey | None


class Outcome(NamedTuple):
    """What the log says about one batch of a file: accepted at, duplicate of or refused (then `base_offset` is -1)."""

    is_accepted: bool
    error_code: int
    base_offset: int
    record_count: int
    byte_offset: int
    where: tuple[bytes, int]
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Commit:
    """A FileCommitted that counts: the outcomes of one coordinator's share of a file, in the order of the request."""

    offset: int
    claim: Claim
    object_key: str
    outcomes: tuple[Outcome, ...]
    append_time_ms: int = 0


@dataclass(slots=True)
class ReadLog:
    """What a metadata partition says."""

    claims: list[Claim] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    voids: list[Void] = field(default_factory=list)
    log_starts: dict[tuple[bytes, int], int] = field(default_factory=dict)
    """The last log start of each user partition from which records were deleted."""
    last_change: int = -1
    """Offset of the last entry that counts and changes something; barriers and claims do not."""


def read_log(messages: Sequence[LogMessage]) -> ReadLog:
    """Judge every message of a partition in order. Raises UndecodableEntry for an entry that counts and cannot be read."""
    read = ReadLog()
    claim: Claim | None = None
    seq = 0
    chunks: list[LogMessage] | None = None
    for message in messages:
        key = decode_key(message.key)
        epoch = 0 if claim is None else claim.epoch
        if key is not None and key.seq == 0 and key.epoch == epoch + 1 and (node_id := _claimant(key, message.value)) is not None:
            claim, seq = Claim(message.offset, key.epoch, key.term, node_id, message.timestamp_ms), 0
            read.claims.append(claim)
            chunks = None
        elif claim is not None and key is not None and key == EntryKey(claim.epoch, claim.term, seq + 1):
            seq += 1
            chunks = _resolve(read, claim, message, chunks)
        else:
            read.voids.append(Void(message.offset, key))
    return read


def _resolve(read: ReadLog, claim: Claim, message: LogMessage, chunks: list[LogMessage] | None) -> list[LogMessage] | None:
    """Take an entry that counts, and with the end of a transaction its chunks; returns those of the one that is open then."""
    match decode_entry(message.value or b""):
        case [TransactionBegan()]:
            return []
        case [TransactionAborted()]:
            return None
        case [TransactionEnded()]:
            for chunk in chunks or ():
                _take(read, claim, chunk)
            read.last_change = message.offset
            return None
    if chunks is None:
        _take(read, claim, message)
        return None
    chunks.append(message)
    return chunks


def _claimant(key: EntryKey, value: bytes | None) -> int | None:
    try:
        records: list[Record] = decode_entry(value or b"")
    except UndecodableEntry:
        return None
    match records:
        case [LeadershipClaimed(epoch=key.epoch, term=key.term, node_id=node_id)]:
            return node_id
        case _:
            return None


def _take(read: ReadLog, claim: Claim, message: LogMessage) -> None:
    for record in decode_entry(message.value or b""):
        if not isinstance(record, NoOp):
            read.last_change = message.offset
        if isinstance(record, FileCommitted):
            read.commits.append(Commit(message.offset, claim, record.object_key, tuple(_outcomes(record)), record.append_time_ms))
        if isinstance(record, RecordsDeleted):
            read.log_starts[record.topic_id, record.partition] = record.new_log_start_offset


def _outcomes(record: FileCommitted) -> list[Outcome]:
    accepted = list(iterate(record))
    outcomes = []
    for place in request_order(record):
        if place.is_accepted:
            batch = accepted[place.ordinal]
            where = (record.topic_ids[batch.topic_index], batch.partition)
            outcomes.append(Outcome(True, 0, batch.base_offset, batch.record_count, batch.byte_offset, where, batch.byte_size))
        else:
            outcomes.append(Outcome(False, record.other_code[place.ordinal], record.other_base_offset[place.ordinal], 0, -1, (b"", -1)))
    return outcomes
