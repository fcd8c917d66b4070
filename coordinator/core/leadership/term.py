"""One leadership term: what was produced, what was acknowledged, and when the term is over.

An entry is acknowledged only when its report is for the successor of the last acknowledged seq and stands where the
claim says it must: `claim offset + seq`, plus the void entries that the reader saw in between. A report further on
is held until the reader has shown that the hole holds only void entries (a zombie must not be able to throw the
right leader out); any other surprise ends the term, because then the outcome is unknown and only the log can tell.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from coordinator.core.commands import Answer, Command
from coordinator.core.files.block import CommitBlock
from coordinator.core.leadership.transaction import AppliedChunk, Chunk
from records.model import Record

Token: TypeAlias = object
"""The receiver of an answer; opaque to the core."""


@dataclass(slots=True)
class Waiter:
    """A request in flight. `answer` is None for a strict read, which is evaluated when its turn comes."""

    token: Token
    deadline_ms: int
    command: Command
    answer: Answer | None = None
    is_answered: bool = False


@dataclass(slots=True)
class PendingCommit:
    """A commit under way, for retries of its key: they wait with it for the same answer."""

    content_hash: bytes
    answer: Answer
    waiters: list[Waiter]


@dataclass(slots=True)
class PendingEntry:
    """An entry under way, or those of a block or a transaction, which take effect together when the last is acknowledged.

    Reads in `before` see the state without it, waiters and reads in `after` with it. `seq` and `encoded` are those of the
    last of `count` entries.
    """

    seq: int
    records: list[Record]
    encoded: bytes
    produced_ms: int
    block: CommitBlock | None = None
    count: int = 1
    chunks: Sequence[Chunk] = ()
    offsets: list[int] = field(default_factory=list)
    object_keys: list[str] = field(default_factory=list)
    before: list[Waiter] = field(default_factory=list)
    after: list[Waiter] = field(default_factory=list)

    def placed_chunks(self) -> Iterator[AppliedChunk]:
        """The chunks of an acknowledged transaction, between the entries that begin and end it."""
        for chunk, offset in zip(self.chunks, self.offsets[1:-1], strict=True):
            yield AppliedChunk(chunk.records, offset, chunk.encoded)


class TermCause(Enum):
    """Why a term ended; a label of metrics."""

    FOREIGN_CLAIM = "foreign_claim"
    DELIVERY = "delivery"
    MISPLACED = "misplaced"
    PRODUCE = "produce"
    TIMEOUT = "timeout"
    STOPPING = "stopping"
    BROKEN = "broken"


class TermOver(Exception):
    """The outcome of entries under way is unknown; the text is for the log line."""

    def __init__(self, cause: TermCause, text: str) -> None:
        super().__init__(text)
        self.cause = cause


@dataclass(slots=True)
class Term:
    """Bookkeeping of the term of one claim."""

    epoch: int
    term_id: int
    claim_offset: int = -1
    next_seq: int = 1
    acked_seq: int = 0
    void_shift: int = 0
    in_flight: deque[PendingEntry] = field(default_factory=deque)
    held: deque[tuple[int, int]] = field(default_factory=deque)
    group_ends: deque[int] = field(default_factory=deque)
    by_key: dict[str, PendingCommit] = field(default_factory=dict)
    reported_seq: int = 0
    seen_seq: int = 0
    seen_shift: int = 0
    shifts: deque[tuple[int, int]] = field(default_factory=deque)

    def add(self, entry: PendingEntry) -> None:
        """Note an entry that is about to be produced."""
        first_seq = entry.seq - entry.count + 1
        if first_seq != self.next_seq:
            raise AssertionError(f"entry has seq {first_seq}, {self.next_seq} is next")
        self.next_seq = entry.seq + 1
        self.in_flight.append(entry)

    def reported(self, reports: Sequence[tuple[int, int | None, str | None]]) -> Iterator[tuple[PendingEntry, int]]:
        """Take delivery reports (seq, offset, error); yields the entries they acknowledge, with offsets. Raises `TermOver`.

        An entry leaves the term when the next one is asked for, so that one whose application fails is still known.
        What comes before a bad report is acknowledged first.
        """
        held, last_seq = self.held, self.reported_seq
        bad: TermOver | None = None
        for seq, offset, error in reports:
            if error is not None or offset is None:
                bad = TermOver(TermCause.DELIVERY, f"entry {seq} was not delivered: {error}")
                break
            if seq != last_seq + 1:
                bad = TermOver(TermCause.MISPLACED, f"report for entry {seq} came where {last_seq + 1} was due")
                break
            last_seq = seq
            held.append((seq, offset))
        self.reported_seq = last_seq
        yield from self._drain()
        if bad is not None:
            raise bad

    def seen(self, seq: int, offset: int) -> Iterator[tuple[PendingEntry, int]]:
        """The reader saw an own entry that counts; returns the held entries that this acknowledges, like `reported`."""
        self.seen_seq = seq
        shift = offset - self.claim_offset - seq
        if shift != self.seen_shift:
            self.seen_shift = shift
            self.shifts.append((seq, shift))
        return self._drain()

    def _drain(self) -> Iterator[tuple[PendingEntry, int]]:
        """Acknowledge reported entries in order, up to one that stands further on than the reader can explain yet."""
        held, shifts, in_flight = self.held, self.shifts, self.in_flight
        while held:
            seq, offset = held[0]
            while shifts and shifts[0][0] <= seq:
                self.void_shift = shifts.popleft()[1]
            expected = self.claim_offset + self.void_shift + seq
            if offset != expected:
                if offset > expected and self.seen_seq < seq:
                    break
                raise TermOver(TermCause.MISPLACED, f"entry {seq} was reported at offset {offset}, it must stand at {expected}")
            entry = in_flight[0]
            entry.offsets.append(offset)
            if seq == entry.seq:
                yield entry, offset
                self._acknowledged()
            held.popleft()

    def _acknowledged(self) -> None:
        entry = self.in_flight.popleft()
        self.acked_seq = entry.seq
        for key in entry.object_keys:
            del self.by_key[key]
        while self.group_ends and self.group_ends[0] <= entry.seq:
            self.group_ends.popleft()

    def oldest_age_ms(self, now_ms: int) -> int:
        """Age of the oldest entry that is not acknowledged, 0 when there is none."""
        return now_ms - self.in_flight[0].produced_ms if self.in_flight else 0
