"""Reads the metadata topic by the rules every replica must follow, written anew: the checker trusts no product code here.

Only the byte formats (`records`) are shared with the product. A claim is in force iff its key has seq 0 and the epoch
after the one in force, and its body is one LeadershipClaimed of the same epoch and term. Another entry counts iff its
epoch and term are in force and its seq is the next. Everything else is void. What stands inside a transaction is taken when
that ends, and never if it is aborted or cut off by a claim. An entry or transaction that would count and contradicts what
stands before it (`log_fold`), or cannot be decoded, is void too, but uses up its seq.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from integration_tests.history import LogMessage
from integration_tests.log_fold import LogFold, marker_fault
from records.codec import decode_entry
from records.committed_files.codec import FileCommitted
from records.entry_key import EntryKey, decode_key
from records.errors import UndecodableEntry, UnknownSchema, UnreadableEntry
from records.model import (
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
    """An entry that does not count; `contradiction` says why when its key alone would let it count."""

    offset: int
    key: EntryKey | None
    contradiction: str | None = None


ACCEPTED = 0
ERROR_OF = {1: 0, 2: 45, 3: 45, 4: 47, 5: 42, 6: 42}
"""The error that a batch is answered with, by the verdict on it. A duplicate is answered as it was the first time."""


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
    logged_ms: int = 0
    """What the broker's clock showed when it wrote the entry."""


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
    last_offset: int = -1
    """Offset of the last message that was read."""
    unreadable: str | None = None
    """The first entry that only another version can read; nothing behind it is judged."""

    @property
    def contradictions(self) -> list[Void]:
        """The entries that are void because they contradict those before them."""
        return [void for void in self.voids if void.contradiction is not None]


def read_log(messages: Iterable[LogMessage]) -> ReadLog:
    """Judge every message of a partition in order."""
    reader = LogReader()
    for message in messages:
        reader.take(message)
    return reader.read


class LogReader:
    """Reads a partition message by message; `read` is what it says so far, `fold` the state after the last one."""

    def __init__(self) -> None:
        self.read = ReadLog()
        self.fold = LogFold()
        self._claim: Claim | None = None
        self._seq = 0
        self._open: list[tuple[LogMessage, list[Record]]] | None = None
        """The entries read of a transaction that has not ended."""

    @property
    def next_key(self) -> EntryKey | None:
        """The key of the next entry that could count without a claim; None before the first claim."""
        return None if self._claim is None else EntryKey(self._claim.epoch, self._claim.term, self._seq + 1)

    def take(self, message: LogMessage) -> None:
        """Judge the next message."""
        self.read.last_offset = message.offset
        if self.read.unreadable is not None:
            return
        key = decode_key(message.key)
        epoch = 0 if self._claim is None else self._claim.epoch
        if key is not None and key.seq == 0 and key.epoch == epoch + 1 and (node_id := _claimant(key, message.value)) is not None:
            self._claim, self._seq = Claim(message.offset, key.epoch, key.term, node_id, message.timestamp_ms), 0
            self.read.claims.append(self._claim)
            self._open = None
        elif self._claim is not None and key is not None and key == self.next_key:
            self._seq += 1
            self._count(message, key, self._claim)
        else:
            self.read.voids.append(Void(message.offset, key))

    def _count(self, message: LogMessage, key: EntryKey, claim: Claim) -> None:
        """Take an entry whose key lets it count, unless it contradicts; one that does ends the transaction that is open."""
        try:
            fault = self._resolve(message, decode_entry(message.value or b""), claim)
        except UnknownSchema as unknown:
            self.read.unreadable = f"entry {message.offset}: {unknown}"
            return
        except UndecodableEntry as undecodable:
            fault = f"cannot be decoded: {undecodable}"
        if fault is not None:
            self.read.voids.append(Void(message.offset, key, fault))
            self._open = None

    def _resolve(self, message: LogMessage, records: list[Record], claim: Claim) -> str | None:
        """Let records take effect, or keep them until their transaction ends; returns why they contradict."""
        match records:
            case [TransactionBegan()]:
                if self._open is not None:
                    return "a transaction begins inside another"
                self._open = []
            case [TransactionAborted()]:
                self._open = None
            case [TransactionEnded(num_chunks=count)]:
                if self._open is None:
                    return "a transaction ends that never began"
                if count != len(self._open):
                    return f"a transaction ends with {count} chunks where {len(self._open)} were read"
                chunks, self._open = self._open, None
                fault = self.fold.apply([record for _, chunk in chunks for record in chunk], is_transaction=True)
                if fault is not None:
                    return fault
                for chunk_message, chunk in chunks:
                    self._note(chunk_message, chunk, claim)
                self.read.last_change = message.offset
            case _:
                fault = marker_fault(records)
                if fault is not None:
                    return fault
                if self._open is not None:
                    self._open.append((message, records))
                    return None
                fault = self.fold.apply(records)
                if fault is not None:
                    return fault
                self._note(message, records, claim)
        return None

    def _note(self, message: LogMessage, records: list[Record], claim: Claim) -> None:
        """Keep what records that took effect say."""
        for record in records:
            if not isinstance(record, NoOp):
                self.read.last_change = message.offset
            if isinstance(record, FileCommitted):
                self.read.commits.append(
                    Commit(message.offset, claim, record.object_key, tuple(_outcomes(record)), record.append_time_ms, message.timestamp_ms)
                )
            if isinstance(record, RecordsDeleted) and (where := (record.topic_id, record.partition)) in self.fold.high_watermarks:
                self.read.log_starts[where] = max(record.new_log_start_offset, self.read.log_starts.get(where, 0))


def _claimant(key: EntryKey, value: bytes | None) -> int | None:
    try:
        records: list[Record] = decode_entry(value or b"")
    except UnreadableEntry:
        return None
    match records:
        case [LeadershipClaimed(epoch=key.epoch, term=key.term, node_id=node_id)]:
            return node_id
        case _:
            return None


def _outcomes(record: FileCommitted) -> list[Outcome]:
    outcomes = []
    for batch in record.batches:
        if batch.verdict == ACCEPTED:
            where = (batch.topic_id, batch.partition)
            outcomes.append(Outcome(True, 0, batch.base_offset, batch.record_count, batch.byte_offset, where, batch.byte_size))
        else:
            outcomes.append(Outcome(False, ERROR_OF[batch.verdict], batch.base_offset, 0, -1, (b"", -1)))
    return outcomes
