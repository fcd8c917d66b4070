"""One leadership term: what was produced, what was acknowledged, and when the term is over.

An entry is acknowledged only when its report, without an error, is for the successor of the last acknowledged seq, and the entry is
where the claim says it must: `claim offset + seq`, plus the void entries that the reader saw in between. A report that names this place
settles it at once. One that names none, or one further on, says only that the brokers have the entry; void entries may precede it,
and librdkafka reports repeated requests like that. It is held until the reader has seen the entry and so its place. Any other report ends
the term, because then the outcome is unknown and only the log can tell.

The key of an entry can be forged. So an entry that is read before it is settled must have, byte for byte, the value that was written.
Another value uses up the seq for every replica: the own entry is void wherever it is, and the term ends at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain, islice, repeat
from operator import attrgetter, eq
from typing import NamedTuple

from coordinator.core.commands import Answer, Command, CommitAnswer
from coordinator.core.files.answers import FileAnswer
from coordinator.core.files.logged import LoggedFiles
from coordinator.core.leadership.transaction import AppliedChunk, Chunk
from coordinator.core.log_entry import ReadEntry
from coordinator.core.request import Reply, Request, Token
from records.committed_files.head import FileHead
from records.model import LeadershipClaimed, Record
from records.tuples import tuples_of


@dataclass(slots=True)
class Waiter:
    """A request in flight. `answer` is None for a strict read, which is evaluated when its turn comes."""

    token: Token
    deadline_ms: int
    command: Command
    answer: Answer | None = None
    is_answered: bool = False


@dataclass(slots=True)
class PendingEntry:
    """An entry under way, or those of many files or of a transaction, which take effect together when the last is acknowledged.

    Reads in `before` see the state without it, waiters and reads in `after` with it. `values` are those of all its entries, `seq` is
    that of the last.
    """

    seq: int
    records: list[Record]
    values: Sequence[bytes]
    produced_ms: int
    files: LoggedFiles | None = None
    chunks: Sequence[Chunk] = ()
    offsets: list[int] = field(default_factory=list)
    commits: list[Request | None] = field(default_factory=list)
    """The requests of its files, None for one that was answered early. Their retries wait in `after`."""
    refusals: dict[int, CommitAnswer] = field(default_factory=dict)
    """The answers of files, by their places, of which batches were refused."""
    ruled_out: list[str] = field(default_factory=list)
    """The keys of files that it fences, removes or hands over."""
    before: list[Waiter] = field(default_factory=list)
    after: list[Waiter] = field(default_factory=list)

    @property
    def heads(self) -> Sequence[FileHead]:
        """The heads of its files."""
        return () if self.files is None else self.files.table.heads

    def answer_of(self, file: int) -> CommitAnswer:
        """The answer to the commit of one of its files."""
        if self.files is None:
            raise AssertionError(f"entry {self.seq} has no files")
        return self.refusals.get(file) or FileAnswer(self.files, file)

    def take_replies(self) -> list[Reply]:
        """Take its commits, with their answers."""
        commits, self.commits = self.commits, []
        tokens = [request.token for request in commits if request is not None]
        if self.refusals or len(tokens) < len(commits):
            return [Reply(request.token, self.answer_of(file)) for file, request in enumerate(commits) if request is not None]
        return tuples_of(Reply, tokens, tuples_of(FileAnswer, repeat(self.files, len(tokens)), range(len(tokens))))

    def take_commits(self, until_ms: float) -> list[Request]:
        """Take its commits whose deadline is then or earlier: they get another answer, and none from here."""
        taken: list[Request] = []
        for file, request in enumerate(self.commits):
            if request is not None and request.deadline_ms <= until_ms:
                taken.append(request)
                self.commits[file] = None
        return taken

    def placed_chunks(self) -> Iterator[AppliedChunk]:
        """The chunks of an acknowledged transaction, between the entries that begin and end it."""
        for chunk, offset in zip(self.chunks, self.offsets[1:-1], strict=True):
            yield AppliedChunk(chunk.records, offset)


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


class HeldRun(NamedTuple):
    """Entries that were reported together and are not acknowledged: the first, the last, and the offset of the first, if known."""

    first_seq: int
    last_seq: int
    offset: int | None


@dataclass(slots=True)
class Term:
    """Bookkeeping of the term of one claim."""

    epoch: int
    term_id: int
    claim_offset: int = -1
    claim_reported_ms: int = -1
    """When Kafka acknowledged the claim; -1 before. The claim is in force once it is read."""
    next_seq: int = 1
    acked_seq: int = 0
    void_shift: int = 0
    in_flight: deque[PendingEntry] = field(default_factory=deque)
    held: deque[HeldRun] = field(default_factory=deque)
    group_ends: deque[int] = field(default_factory=deque)
    by_key: dict[str, tuple[PendingEntry, int]] = field(default_factory=dict)
    """The commits under way by the keys of their files: the entry, and the file's place in it."""
    ruled_out: dict[str, str] = field(default_factory=dict)
    """Keys that entries under way fence, remove or hand over, with the reasons of their tombstones."""
    reported_seq: int = 0
    seen_seq: int = 0
    seen_shift: int = 0
    shifts: deque[tuple[int, int]] = field(default_factory=deque)

    def add(self, entry: PendingEntry) -> None:
        """Note an entry that is about to be produced."""
        first_seq = entry.seq - len(entry.values) + 1
        if first_seq != self.next_seq:
            raise AssertionError(f"entry has seq {first_seq}, {self.next_seq} is next")
        self.next_seq = entry.seq + 1
        self.in_flight.append(entry)
        for file, head in enumerate(entry.heads):
            self.by_key[head.object_key] = entry, file

    def reported(self, reports: Sequence[tuple[int, int | None, str | None, int]]) -> Iterator[tuple[PendingEntry, int]]:
        """Take delivery reports (last seq, its offset if known, error, how many); yields the entries they acknowledge, with offsets.

        Raises `TermOver`. An entry leaves the term when the next one is asked for, so that one whose application fails is still known.
        What comes before a bad report is acknowledged first.
        """
        held, last_seq = self.held, self.reported_seq
        bad: TermOver | None = None
        for seq, offset, error, count in reports:
            first_seq = seq - count + 1
            if error is not None:
                bad = TermOver(TermCause.DELIVERY, f"entry {first_seq} was not delivered: {error}")
                break
            if first_seq != last_seq + 1:
                bad = TermOver(TermCause.MISPLACED, f"report for entry {first_seq} came where {last_seq + 1} was due")
                break
            last_seq = seq
            held.append(HeldRun(first_seq, seq, None if offset is None else offset - count + 1))
        self.reported_seq = last_seq
        yield from self.take_placed()
        if bad is not None:
            raise bad

    @property
    def settled_seq(self) -> int:
        """The last entry that is reported and whose place is known; those up to it are not compared with what is read."""
        return self.held[0].first_seq - 1 if self.held else self.reported_seq

    def seen(self, seq: int, entries: Sequence[ReadEntry]) -> Iterator[tuple[PendingEntry, int]]:
        """The reader saw entries with own keys that count, side by side, the last one of this seq.

        Yields the held entries that this acknowledges, like `reported`. Raises `TermOver` after them when one is not what was written.
        """
        first_seq = seq - len(entries) + 1
        own = len(entries) if seq <= self.settled_seq else self.count_own(first_seq, entries)
        if own:
            self.seen_seq = first_seq + own - 1
            shift = entries[0].offset - self.claim_offset - first_seq
            if shift != self.seen_shift:
                self.seen_shift = shift
                self.shifts.append((first_seq, shift))
            yield from self.take_placed()
        if own < len(entries):
            text = f"entry {first_seq + own} at offset {entries[own].offset} has the key but not the value that this leader wrote"
            raise TermOver(TermCause.MISPLACED, f"{text}: something else writes to the topic in its name")

    def passed(self, offset: int, seq_read_back: int) -> None:
        """The reader saw a void entry at this offset, and own ones up to a seq before it.

        Raises `TermOver` when an acknowledged entry should have come before: the log lost it, and this entry has its place or a later one.
        """
        if seq_read_back < self.acked_seq and offset >= self.claim_offset + self.void_shift + self.acked_seq:
            text = f"entry {seq_read_back + 1} is acknowledged, and offset {offset} was read without it"
            raise TermOver(TermCause.MISPLACED, f"{text}: the log lost it")

    def count_own(self, first_seq: int, entries: Sequence[ReadEntry]) -> int:
        """How many of the entries that were read, from the first one on, are settled or have the value that was written."""
        settled = max(0, self.settled_seq - first_seq + 1)
        under_way = chain.from_iterable(entry.values for entry in self.in_flight)
        written = islice(under_way, first_seq + settled - self.acked_seq - 1, None)
        # The False after the own entries stops the count at an entry that is not under way: this term did not write it.
        is_own = [*map(eq, map(attrgetter("value"), entries[settled:]), written), False]
        return settled + is_own.index(False)

    def take_placed(self) -> Iterator[tuple[PendingEntry, int]]:
        """Acknowledge reported entries in order, up to one whose place only the reader can tell and has not seen yet."""
        held, shifts, in_flight = self.held, self.shifts, self.in_flight
        while held:
            seq, last_seq, offset = held[0]
            while shifts and shifts[0][0] <= seq:
                self.void_shift = shifts.popleft()[1]
            entry = in_flight[0]
            stop_seq = min(last_seq, entry.seq) + 1
            if shifts:
                stop_seq = min(stop_seq, shifts[0][0])
            expected = self.claim_offset + self.void_shift + seq
            if offset != expected:
                if offset is not None and offset < expected:
                    raise TermOver(TermCause.MISPLACED, f"entry {seq} was reported at offset {offset}, it must be at {expected}")
                stop_seq = min(stop_seq, self.seen_seq + 1)
                if stop_seq <= seq:
                    break
            next_offset = expected + stop_seq - seq
            entry.offsets.extend(range(expected, next_offset))
            if stop_seq > entry.seq:
                yield entry, next_offset - 1
                self.retire_oldest()
            if stop_seq > last_seq:
                held.popleft()
            else:
                held[0] = HeldRun(stop_seq, last_seq, None if offset is None else offset + stop_seq - seq)

    def retire_oldest(self) -> None:
        """The oldest entry under way is acknowledged, applied and answered: it is under way no more."""
        entry = self.in_flight.popleft()
        self.acked_seq = entry.seq
        for head in entry.heads:
            del self.by_key[head.object_key]
        for key in entry.ruled_out:
            del self.ruled_out[key]
        while self.group_ends and self.group_ends[0] <= entry.seq:
            self.group_ends.popleft()

    def is_begun_by(self, claim: LeadershipClaimed) -> bool:
        """Whether a claim that came into force is the one of this term: another process may have claimed the same epoch."""
        return claim.term == self.term_id

    def oldest_age_ms(self, now_ms: int) -> int:
        """Age of the oldest entry that is not acknowledged, 0 when there is none."""
        return now_ms - self.in_flight[0].produced_ms if self.in_flight else 0
