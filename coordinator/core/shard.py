"""One replica of one metadata partition: events in, effects out, nothing else.

    effects = shard.feed(event, now_ms)

The same state and the same events give the same effects: no clock, no randomness, no I/O. The shape of a write is
decide -> append -> apply: decisions look at the speculative state (`overlay`: committed plus everything in flight) and
change nothing; entries are appended in groups, several of which may be in flight; state changes when an entry is
acknowledged (leader) or read (everybody else), through `ShardState.apply_entry` alone.

Who applies what. A follower applies what it reads, judged by its `Fence`. A leader applies its own entries when they
are acknowledged, and reads the log only to learn of claims and void entries, with a fence of its own (`read_fence`),
since it may read an entry before or after the report of it. When a term ends, everything under way is answered
NOT_COORDINATOR (its outcome is unknown; a retry finds out), and reading starts again behind the last applied entry.

An entry that counts by its key but contradicts the state is void (`core.contradiction`). But the state itself may be what is wrong. So
the verdict is certain only for entries that were in the log already when this replica began to fold it from its beginning
(`certain_end`); at a later one the replica fails, is built anew, and judges again on the way.

What nobody waits for comes last: blocks of plain commits are answered, or handed over to be appended, before they change
the tables. `settle` makes up for it; every event does so first, and so does whoever looks at `state` or `overlay`.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from coordinator.core.commands import OK, Answer, Barrier, Command, CommitFile, DescribeFiles, ListOffsets
from coordinator.core.contradiction import check_records
from coordinator.core.endpoints import format_endpoints
from coordinator.core.events import (
    Accused,
    Append,
    Assigned,
    Contradicted,
    Delivered,
    DirectoryChanged,
    Effect,
    EndTerm,
    EntriesRead,
    Event,
    Follow,
    Invalidated,
    LogUnreadable,
    MayClaim,
    NewEntry,
    OpenTerm,
    ProduceFailed,
    Recover,
    Reply,
    Request,
    StateChanged,
    Stopping,
    Submitted,
    Ticked,
    Unassigned,
)
from coordinator.core.files.block import CommitBlock
from coordinator.core.files.block_apply import apply_block
from coordinator.core.files.commit import CommitContext
from coordinator.core.files.replay import blocks_of
from coordinator.core.files.replay_loops import count_due
from coordinator.core.group import BLOCK_BATCHES_MIN, GroupBuilder
from coordinator.core.leadership.fence import VOID_REASONS, Fence, Verdict, admits
from coordinator.core.leadership.states import State, Trigger, transition
from coordinator.core.leadership.term import PendingEntry, Term, TermCause, TermOver, Waiter
from coordinator.core.leadership.transaction import AppliedChunk, OpenTransaction
from coordinator.core.limits import Limits
from coordinator.core.log_entry import ContradictoryEntry, ReadEntry
from coordinator.core.reads.queries import describe_file, list_offset
from coordinator.core.refusals import refuse
from coordinator.core.state.replica_state import ShardState
from coordinator.core.tables.in_memory import BrokenInvariant, Contradiction, HotState, NotSupported
from coordinator.core.tables.stored_rows import Header
from coordinator.kafka.errors import ErrorCode
from records.codec import UndecodableEntry, UnknownSchema, decode_entry, decode_key, encode_entry, encode_key
from records.entry_key import EntryKey, key_of_term
from records.model import Endpoint, FileCommitted, LeadershipClaimed, Record

REPLAY_BYTES_MAX = 256 * 1024
"""Entries of so many bytes are applied together: about 20 000 batches, whose columns stay in the cache of the processor."""

REPLAY_BLOCK_BYTES_MIN = 1
"""From this many bytes of entries on they are decoded and applied together: always, since the loops are compiled. Tests raise it."""

LEADS = (State.LEADING, State.RESIGNING)


@dataclass(slots=True)
class CommitCounts:
    """What this replica acknowledged as leader; `rejected` counts batches by Kafka error number."""

    commits: int = 0
    batches: int = 0
    records: int = 0
    duplicates: int = 0
    rejected: Counter[int] = field(default_factory=Counter)

    def add(self, record: FileCommitted) -> None:
        """Count one acknowledged commit."""
        self.commits += 1
        self.batches += len(record.byte_size)
        self.records += sum(record.record_count_minus_one) + len(record.byte_size)
        for code in record.other_code:
            if code:
                self.rejected[code] += 1
            else:
                self.duplicates += 1

    def add_block(self, block: CommitBlock) -> None:
        """Count the acknowledged commits of a block."""
        self.commits += len(block.heads)
        self.batches += block.batches
        self.records += int(block.count.sum())


class Shard:
    """See the module's text. Attributes are read by the runtime and changed by nobody else."""

    def __init__(
        self,
        *,
        partition: int,
        partition_count: int,
        node_id: int,
        rack: str,
        endpoints: list[Endpoint],
        limits: Limits,
        state: ShardState,
        fence: Fence,
        claim: LeadershipClaimed | None,
        certain_end: int,
    ) -> None:
        self.partition = partition
        self.partition_count = partition_count
        self.node_id = node_id
        self.rack = rack
        self.endpoints = endpoints
        self.limits = limits
        self._state = state
        self.fence = fence
        self.claim = claim
        self.successor: LeadershipClaimed | None = None
        self.phase = State.FOLLOWING
        self.failure: str | None = None
        self.is_unsupported = False
        """Whether it failed because a newer version wrote the log: only a newer version can go on."""
        self.is_assigned = False
        self._overlay: HotState | None = None
        self.term: Term | None = None
        self.queue: deque[Request] = deque()
        self.queue_bytes = 0
        self._taken: list[Request] = []  # from the queue, into a group that is not closed
        self.void_entries: Counter[str] = Counter()
        self.contradiction: ContradictoryEntry | None = None
        """The newest entry that was found to contradict the state."""
        self.term_ends: Counter[str] = Counter()
        self.commit_counts = CommitCounts()
        self.last_entry: tuple[bytes, bytes] = (b"", b"")
        """Key and value of the entry at the applied offset."""
        # The level entries are written at. The node sets it from the directory it has applied; of its own a replica writes the oldest.
        self.schema_level = 1
        self.log_ahead_ms = 0
        """How much earlier than `now_ms` times are written into the log: set by the runtime when this node's clock is too far ahead."""
        self._read_fence = fence
        self._certain_end = certain_end
        self._next_read = state.applied_offset + 1
        self._recover_end: int | None = None
        self._foreign_claim_offset = -1
        self._claim_term_id = 0
        self._next_expiry_ms = 0
        self._untrimmed_reads: list[Waiter] = []
        self._due: list[ReadEntry] = []
        self._due_bytes = 0
        self._transaction: OpenTransaction | None = None
        self._cut_off: str | None = None
        self._answered: deque[tuple[CommitBlock, Sequence[int]]] = deque()  # with their offsets: not yet in the committed state
        self._appended: deque[CommitBlock] = deque()  # not yet in the overlay
        self._effects: list[Effect] = []

    # ---- what the runtime may ask

    @property
    def is_leading(self) -> bool:
        """Whether this replica serves writes and strict reads."""
        return self.phase in LEADS and self._overlay is not None

    @property
    def state(self) -> ShardState:
        """The committed state, with everything that was answered. Raises when that cannot be applied; the replica fails then."""
        if self._answered:
            self._apply_answered()
        return self._state

    @property
    def overlay(self) -> HotState | None:
        """The committed state and everything in flight; None when nobody leads here."""
        if self._appended:
            self._apply_appended()
        return self._overlay

    @overlay.setter
    def overlay(self, overlay: HotState | None) -> None:
        self._appended.clear()
        self._overlay = overlay

    @property
    def is_settled(self) -> bool:
        """Whether nothing is left for `settle`."""
        return not self._answered and not self._appended

    @property
    def known_claim(self) -> LeadershipClaimed | None:
        """The newest claim in force that was seen; one that ended our own term is known before it is read again."""
        return self.claim if self.successor is None else self.successor

    @property
    def next_offset(self) -> int:
        """Everything before it was read and is applied, void, or of a transaction that has not ended."""
        return self.state.applied_offset + 1 if self._transaction is None else self._next_read

    def header(self, cluster_id: str, topic_id: bytes) -> Header:
        """Where this replica stands, for the state database."""
        claim = self.claim
        fence = self.fence if self._transaction is None else self._transaction.fence
        return Header(
            cluster_id=cluster_id,
            topic_id=topic_id,
            metadata_partition=self.partition,
            applied_offset=self.state.applied_offset,
            epoch=fence.epoch,
            term=fence.term,
            seq=fence.seq,
            leader_node_id=-1 if claim is None else claim.node_id,
            leader_endpoints="" if claim is None else format_endpoints(claim.endpoints),
            log_time_ms=self.state.hot.log_time_ms,
            last_entry_hash=b"",
            digest=b"",
        )

    def oldest_unacknowledged_ms(self, now_ms: int) -> int:
        """Age of the oldest entry under way."""
        return 0 if self.term is None else self.term.oldest_age_ms(now_ms)

    # ---- events

    def feed(self, event: Event, now_ms: int) -> list[Effect]:
        """Take one event. After a broken invariant the replica is failed, its evidence kept."""
        self._effects = []
        try:
            self._settle()
            self._take(event, now_ms)
        except TermOver as over:
            self._end_term(over.cause, str(over), Trigger.TERM_BROKEN, read_again=True)
        except BrokenInvariant as broken:
            self._fail(str(broken), is_unsupported=isinstance(broken, NotSupported))
        return self._effects

    def settle(self) -> list[Effect]:
        """Bring the tables up to what was answered and handed over: to be called once the effects of `feed` are performed."""
        self._effects = []
        try:
            self._settle()
        except BrokenInvariant as broken:
            self._fail(str(broken), is_unsupported=isinstance(broken, NotSupported))
        return self._effects

    def _settle(self) -> None:
        if self._appended:
            self._apply_appended()
        if self._answered:
            self._apply_answered()

    def _apply_answered(self) -> None:
        # One that raises stays: until the replica has failed nobody sees a state without it.
        while self._answered:
            block, offsets = self._answered[0]
            self._state.apply_block(block, offsets)
            self.commit_counts.add_block(block)
            self._answered.popleft()

    def _apply_appended(self) -> None:
        overlay = self._overlay
        while self._appended and overlay is not None:
            apply_block(overlay, self._appended[0])
            self._appended.popleft()

    def break_off(self, reason: str) -> list[Effect]:
        """`feed` or `settle` raised, so the state may be half changed: fail. What was answered stays answered, all else is refused."""
        self._fail(reason)
        return self._effects

    def _take(self, event: Event, now_ms: int) -> None:
        match event:
            case Submitted():
                self._submit(event, now_ms)
            case Delivered():
                self._delivered(event, now_ms)
            case EntriesRead():
                self._read(event, now_ms)
            case Ticked():
                self._tick(now_ms)
            case Assigned():
                self._assigned()
            case Unassigned():
                self.is_assigned = False
                if self.phase is not State.FAILED:
                    self._move(Trigger.UNASSIGNED, "the group took the assignment away")
            case MayClaim():
                self._may_claim(event)
            case ProduceFailed():
                if self.term is not None and self.term.term_id == event.term_id:
                    raise TermOver(TermCause.PRODUCE, event.reason)
            case Stopping():
                self._stopping()
            case LogUnreadable() | Invalidated():
                raise BrokenInvariant(event.reason)
            case Accused():
                self._accused(event)
            case _:
                assert_never(event)

    def _move(self, trigger: Trigger, reason: str) -> None:
        before = self.phase
        self.phase = transition(before, trigger)
        if self.phase is not before:
            self._effects.append(StateChanged(before, self.phase, reason))

    def _fail(self, reason: str, *, is_unsupported: bool = False) -> None:
        self.failure, self.is_unsupported = reason, is_unsupported
        self._answered.clear()
        if self.term is not None:
            self._abandon_term(TermCause.BROKEN, reason)
        self._refuse_taken()
        self._move(Trigger.BROKEN, reason)
        self._refuse_queue()

    # ---- leadership

    def _assigned(self) -> None:
        self.is_assigned = True
        if self.phase is State.FAILED:
            return
        was_following = self.phase is State.FOLLOWING
        self._move(Trigger.ASSIGNED, "the group assigned the partition")
        if was_following:
            self._recover_end = None
            self._effects.append(Recover(prove=False))

    def _may_claim(self, event: MayClaim) -> None:
        if self.phase is not State.RECOVERING:
            return
        if self._foreign_claim_offset >= event.end_offset:
            # Somebody claimed after the proof of membership: whoever claims now must prove itself anew.
            self._effects.append(Recover(prove=True))
            return
        self._recover_end = event.end_offset
        self._claim_term_id = event.term_id
        self._claim_when_caught_up()

    def _claim_when_caught_up(self) -> None:
        if self._recover_end is None or self.next_offset < self._recover_end:
            return
        self._recover_end = None
        self._move(Trigger.CAUGHT_UP, f"read up to offset {self.next_offset - 1}")
        epoch = self.fence.epoch + 1
        term = Term(epoch, self._claim_term_id)
        claim = LeadershipClaimed(epoch=epoch, term=term.term_id, node_id=self.node_id, rack=self.rack, endpoints=self.endpoints)
        self.term = term
        key = encode_key(EntryKey(epoch, term.term_id, 0))
        self._effects.append(OpenTerm(term.term_id, NewEntry(0, key, encode_entry([claim], self.schema_level))))

    def _lead(self, offset: int) -> None:
        """The own claim is in force and everything before it is applied."""
        term = self.term
        if term is None:
            raise BrokenInvariant("an own claim came into force without a term")
        self._move(Trigger.OWN_CLAIM, f"claim of epoch {term.epoch} in force at offset {offset}")
        term.claim_offset = offset
        self.overlay = self.state.hot.copy()
        self._read_fence = self.fence

    def _end_term(self, cause: TermCause, reason: str, trigger: Trigger, *, read_again: bool) -> None:
        """Stop leading or claiming: unknown outcomes are for the log to tell."""
        self._abandon_term(cause, reason)
        self._move(trigger, reason)
        self._recover_end = None
        if read_again:
            self._next_read = self.next_offset
            self._effects.append(Follow(self._next_read))
        if self.phase is not State.RESIGNING:
            if self.is_assigned:
                self._effects.append(Recover(prove=True))
            else:
                self._move(Trigger.UNASSIGNED, "not assigned any more")
        self._refuse_queue()

    def _abandon_term(self, cause: TermCause, reason: str) -> None:
        term = self.term
        if term is None:
            return
        self.term = None
        self.overlay = None
        self._effects.append(EndTerm(term.term_id, reason))
        self.term_ends[cause.value] += 1
        message = "leadership changed while the request was under way; find the coordinator and retry"
        waiters = [waiter for entry in term.in_flight for waiter in (*entry.before, *entry.after)]
        for waiter in (*waiters, *self._untrimmed_reads):
            self._refuse_waiter(waiter, ErrorCode.NOT_COORDINATOR, message)
        self._untrimmed_reads.clear()

    def _stopping(self) -> None:
        if self.phase is State.FAILED:
            return
        if self.phase is State.FENCING:
            self._abandon_term(TermCause.STOPPING, "the process is stopping")
        self._recover_end = None
        self._move(Trigger.STOP, "the process is stopping")

    # ---- reading the log

    def _read(self, event: EntriesRead, now_ms: int) -> None:
        if self.phase is State.FAILED:
            return
        entries = event.entries
        taken = self._read_own(entries) if self.is_leading else self._read_due(entries)
        for entry in entries[taken:]:
            if entry.offset != self._next_read:
                raise BrokenInvariant(f"read offset {entry.offset} where {self._next_read} was due: the log has a hole")
            self._next_read += 1
            if self.is_leading:
                if self._read_as_leader(entry):
                    return
            else:
                self._read_as_follower(entry)
        self._apply_due()
        if self.phase is State.RECOVERING:
            self._claim_when_caught_up()
        if self.is_leading:
            self._pump(now_ms)

    def _read_due(self, entries: Sequence[ReadEntry]) -> int:
        """Take the entries of the term in force that stand where they are due, which is nearly everything a follower reads.

        Returns how many; `_read_as_follower` judges the others, one by one. The verdicts are those of the fence.
        """
        fence = self.fence
        if fence.epoch == 0:
            return 0
        passed = count_due(entries, key_of_term(fence.epoch, fence.term), fence.seq + 1, self._next_read)
        if passed:
            self._next_read += passed
            self.fence = Fence(fence.epoch, fence.term, fence.seq + passed)
            start, size_bytes = 0, self._due_bytes
            for place in range(passed):
                size_bytes += len(entries[place].value or b"")
                if size_bytes >= REPLAY_BYTES_MAX:
                    self._due += entries[start : place + 1]
                    self._due_bytes = size_bytes
                    self._apply_due()
                    start, size_bytes = place + 1, 0
            self._due += entries[start:passed]
            self._due_bytes = size_bytes
        return passed

    def _read_as_follower(self, entry: ReadEntry) -> None:
        key = decode_key(entry.key)
        verdict = self.fence.judge(key)
        if verdict is Verdict.APPLY:
            self.fence = self.fence.advanced()
            self._take_due(entry)
            return
        self._apply_due()
        if verdict is Verdict.CLAIM and key is not None and (claim := self._admitted_claim(key, entry)) is not None:
            self._take_claim(claim, entry)
        else:
            self._void(verdict)
            if self._transaction is None:
                self._pass_over(entry)

    def _pass_over(self, entry: ReadEntry) -> None:
        self.state.skip_entry(entry.offset)
        self.last_entry = (entry.key or b"", entry.value or b"")

    def _take_due(self, entry: ReadEntry) -> None:
        """Keep an entry that counts until many can be applied together; the end of what was read applies the rest."""
        self._due.append(entry)
        self._due_bytes += len(entry.value or b"")
        if self._due_bytes >= REPLAY_BYTES_MAX:
            self._apply_due()

    def _apply_due(self) -> None:
        """Apply the entries that were kept: plain files together when they are many."""
        due, size_bytes = self._due, self._due_bytes
        if not due:
            return
        self._due, self._due_bytes = [], 0
        if size_bytes < REPLAY_BLOCK_BYTES_MIN:
            for entry in due:
                self._apply_read(entry)
            return
        for block, entries in blocks_of(self.state.hot, due, BLOCK_BATCHES_MIN):
            if block is None or self._transaction is not None or not self.state.are_new_files(block):
                for entry in entries:
                    self._apply_read(entry)
            else:
                self.state.apply_block(block, [entry.offset for entry in entries])
                last = entries[-1]
                self.last_entry = (last.key or b"", last.value or b"")

    def _apply_read(self, entry: ReadEntry) -> None:
        """Apply an entry of the term in force, or pass over one that contradicts the state."""
        try:
            self._apply_lawful(entry)
        except UnknownSchema as unknown:
            raise NotSupported(f"entry {entry.offset} of the term in force cannot be read by this version: {unknown}") from unknown
        except (UndecodableEntry, Contradiction) as contradiction:
            # Of an open transaction nothing counts any more.
            self._transaction = None
            self._contradicted(entry, str(contradiction))
            self._pass_over(entry)

    def _apply_lawful(self, entry: ReadEntry) -> None:
        """Apply an entry, or keep it until its transaction ends. Raises `Contradiction` or a decoder's error before anything changes."""
        value = entry.value or b""
        records = decode_entry(value)
        opened = self._transaction
        if opened is not None:
            chunks = opened.take(records, entry.offset, value)
            if chunks is None:
                return
            check_records(self.state, [record for chunk in chunks for record in chunk.records], in_transaction=True)
            self._transaction = None
            self._apply_chunks(chunks)
            self._pass_over(entry)
            return
        key = decode_key(entry.key)
        self._transaction = None if key is None else OpenTransaction.begun_by(records, entry.offset, key)
        if self._transaction is None:
            check_records(self.state, records)
            self._apply(records, entry.offset, value)
            self.last_entry = (entry.key or b"", value)

    def _contradicted(self, entry: ReadEntry, reason: str) -> None:
        """Note an entry that contradicts the state. Raises `BrokenInvariant` while it is not certain which of them is wrong."""
        found = ContradictoryEntry(entry.offset, self.fence.epoch, self.fence.term, reason)
        self.contradiction = found
        is_certain = entry.offset < self._certain_end
        self._effects.append(Contradicted(found, is_certain))
        if not is_certain:
            raise BrokenInvariant(f"entry {entry.offset} contradicts this state, which is built anew from the log to judge again: {reason}")
        self._void(Verdict.VOID_CONTRADICTION)

    def _accused(self, event: Accused) -> None:
        """Another node says that an entry of the current term contradicts the log: what this leader decides by must not be trusted."""
        term, found = self.term, event.contradiction
        if term is None or not self.is_leading or (term.epoch, term.term_id) != (found.epoch, found.term):
            return
        self.contradiction = found
        raise BrokenInvariant(
            f"node {event.accuser_id} reads entry {found.offset} of this term as a contradiction ({found.reason}); the state it was decided"
            " by is set aside and built anew from the log"
        )

    def _apply_chunks(self, chunks: Iterable[AppliedChunk]) -> None:
        """Apply a transaction that has ended."""
        for chunk in chunks:
            self._apply(chunk.records, chunk.offset, chunk.encoded)

    def _apply(self, records: Sequence[Record], offset: int, encoded: bytes) -> None:
        touched_before = self.state.hot.touched.directory
        self.state.hot.touched.directory = False
        self.state.apply_entry(records, offset, encoded)
        if self.state.hot.touched.directory:
            self._effects.append(DirectoryChanged())
        self.state.hot.touched.directory |= touched_before

    def _take_claim(self, claim: LeadershipClaimed, entry: ReadEntry) -> None:
        self.fence = self.fence.claimed_by(claim)
        self.claim = claim
        self.successor = None
        self._cut_off = None if self._transaction is None else self._transaction.name
        self._transaction = None
        self._pass_over(entry)
        if self.term is not None and claim.term == self.term.term_id:
            self._lead(entry.offset)
            return
        self._foreign_claim_offset = entry.offset
        if self.phase is State.FENCING:
            # What this replica applied is what it read: nothing has to be read again.
            reason = f"node {claim.node_id} claimed epoch {claim.epoch} first"
            self._end_term(TermCause.FOREIGN_CLAIM, reason, Trigger.FOREIGN_CLAIM, read_again=False)
        else:
            self._move(Trigger.FOREIGN_CLAIM, f"node {claim.node_id} leads epoch {claim.epoch}")
            if self._recover_end is not None and entry.offset >= self._recover_end:
                self._recover_end = None
                self._effects.append(Recover(prove=True))

    def _admitted_claim(self, key: EntryKey, entry: ReadEntry) -> LeadershipClaimed | None:
        """The claim in an entry whose key may be one, or None when the entry is void."""
        try:
            records = decode_entry(entry.value or b"")
        except UnknownSchema as unknown:
            raise NotSupported(f"a claim at offset {entry.offset} cannot be read by this version: {unknown}") from unknown
        except UndecodableEntry:
            return None
        if len(records) == 1 and isinstance(records[0], LeadershipClaimed) and admits(key, records[0]):
            return records[0]
        return None

    def _void(self, verdict: Verdict) -> None:
        self.void_entries[VOID_REASONS.get(verdict, Verdict.VOID_FOREIGN.value)] += 1

    def _read_own(self, entries: Sequence[ReadEntry]) -> int:
        """Pass over own entries that stand where they are expected, which is nearly everything a leader reads.

        Returns how many; `_read_as_leader` judges the others, one by one. The verdicts are those of the fence: an entry of
        the term in force with the next seq counts.
        """
        term, fence = self.term, self._read_fence
        if term is None or self._next_read <= term.claim_offset:
            return 0
        head = key_of_term(fence.epoch, fence.term)
        shift = term.claim_offset + term.seen_shift
        if fence.epoch != term.epoch or self._next_read != shift + fence.seq + 1:
            return 0
        passed = count_due(entries, head, fence.seq + 1, self._next_read)
        if passed:
            self._next_read += passed
            self._read_fence = Fence(fence.epoch, fence.term, fence.seq + passed)
            self._acknowledge(term.seen(fence.seq + passed, self._next_read - 1))
        return passed

    def _read_as_leader(self, entry: ReadEntry) -> bool:
        """Look for claims and void entries; returns whether the term ended."""
        term = self.term
        if term is None or entry.offset <= term.claim_offset:
            return False
        key = decode_key(entry.key)
        verdict = self._read_fence.judge(key)
        if verdict is Verdict.APPLY and key is not None:
            self._read_fence = self._read_fence.advanced()
            self._acknowledge(term.seen(key.seq, entry.offset))
            return False
        if verdict is Verdict.CLAIM and key is not None:
            claim = self._admitted_claim(key, entry)
            if claim is not None:
                self.successor = claim
                reason = f"node {claim.node_id} claimed epoch {claim.epoch}"
                self._end_term(TermCause.FOREIGN_CLAIM, reason, Trigger.FOREIGN_CLAIM, read_again=True)
                return True
        self._void(verdict)
        return False

    # ---- writing

    def _submit(self, event: Submitted, now_ms: int) -> None:
        requests, limit = event.requests, self.limits.queue_bytes_max
        size_bytes = self.queue_bytes + sum([request.size_bytes for request in requests])
        if size_bytes <= limit:
            self.queue.extend(requests)
            self.queue_bytes = size_bytes
        else:
            self._queue_what_fits(requests, limit)
        if not self.is_leading:
            self._refuse_queue()
            return
        self._pump(now_ms)

    def _queue_what_fits(self, requests: Sequence[Request], limit: int) -> None:
        for request in requests:
            if self.queue and self.queue_bytes + request.size_bytes > limit:
                self._refuse_excess(request)
                continue
            self.queue.append(request)
            self.queue_bytes += request.size_bytes

    def _refuse_excess(self, request: Request) -> None:
        """Memory stays bounded while Kafka acknowledges less than clients send."""
        message = (
            f"{self.queue_bytes} bytes of requests wait for coordinator {self.partition}, {self.limits.queue_bytes_max} may"
            " (partition.pending.max.bytes); nothing of this request was done: retry"
        )
        self._effects.append(Reply(request.token, refuse(request.command, ErrorCode.REQUEST_TIMED_OUT, message)))

    def _refuse_taken(self) -> None:
        """A decision raised: its group is not closed, and those of it that wait for no entry would never be answered."""
        answered = Counter(id(effect.token) for effect in self._effects if isinstance(effect, Reply))
        message = f"coordinator {self.partition} failed on node {self.node_id} while it decided the request; find it and retry"
        for request in self._taken:
            if answered[id(request.token)]:
                answered[id(request.token)] -= 1
            else:
                self._effects.append(Reply(request.token, refuse(request.command, ErrorCode.NOT_COORDINATOR, message)))
        self._taken = []

    def _refuse_queue(self) -> None:
        """Nobody serves what is queued: say why, so that the client knows whether to look elsewhere."""
        while self.queue:
            request = self.queue.popleft()
            if self.phase in (State.RECOVERING, State.FENCING):
                error, message = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"coordinator {self.partition} is loading; retry"
            else:
                error, message = (
                    ErrorCode.NOT_COORDINATOR,
                    f"node {self.node_id} does not lead coordinator {self.partition}; find it and retry",
                )
            self._effects.append(Reply(request.token, refuse(request.command, error, message)))
        self.queue_bytes = 0

    def _pump(self, now_ms: int) -> None:
        """Form groups from the queue while there is room in flight."""
        term, overlay = self.term, self.overlay
        if term is None or overlay is None:
            return
        if self._cut_off is not None:
            builder = self._builder(term, overlay, now_ms)
            builder.note_aborted(self._cut_off)
            self._cut_off = None
            self._close_group(builder, term)
        while self.queue and len(term.group_ends) < self.limits.groups_in_flight_max:
            self._settle()
            builder = self._builder(term, overlay, now_ms)
            taken = 0
            while self.queue and taken < self.limits.group_batches_max:
                request = self.queue.popleft()
                self.queue_bytes -= request.size_bytes
                self._taken.append(request)
                builder.take(request)
                taken += len(request.command.batches) if isinstance(request.command, CommitFile) else 1
            self._close_group(builder, term)
            self._taken = []

    def _builder(self, term: Term, overlay: HotState, now_ms: int) -> GroupBuilder:
        log_now_ms = now_ms - self.log_ahead_ms
        context = CommitContext(
            coordinator_id=self.partition, coordinator_count=self.partition_count, limits=self.limits, now_ms=log_now_ms
        )
        return GroupBuilder(state=self.state, term=term, overlay=overlay, context=context, level=self.schema_level, now_ms=now_ms)

    def _close_group(self, builder: GroupBuilder, term: Term) -> None:
        builder.close()
        self._effects.extend(builder.replies)
        if builder.last_block is not None:
            self._appended.append(builder.last_block)
        if builder.entries:
            term.group_ends.append(builder.entries[-1].seq)
            self._effects.append(Append(term.term_id, builder.entries))

    def _delivered(self, event: Delivered, now_ms: int) -> None:
        term = self.term
        if term is None or term.term_id != event.term_id:
            return
        reports = event.reports
        if reports and reports[0].seq == 0:
            if reports[0].error is not None:
                raise TermOver(TermCause.DELIVERY, f"the claim was not delivered: {reports[0].error}")
            reports = reports[1:]
        self._acknowledge(term.reported(reports))
        self._pump(now_ms)

    def _acknowledge(self, entries: Iterator[tuple[PendingEntry, int]]) -> None:
        term = self.term
        for entry, offset in entries:
            for waiter in entry.before:
                self._answer(waiter)
            # Void entries between the own ones were read and judged; they count for the applied offset only.
            self.fence = Fence(self.fence.epoch, self.fence.term, entry.seq)
            if entry.block is not None:
                self._answered.append((entry.block, entry.offsets))
            elif entry.chunks:
                self._apply_chunks(entry.placed_chunks())
                self.state.skip_entry(offset)
            else:
                self._apply(entry.records, offset, entry.encoded)
                if entry.object_keys and isinstance(record := entry.records[0], FileCommitted):
                    self.commit_counts.add(record)
            if term is not None:
                self.last_entry = (encode_key(EntryKey(term.epoch, term.term_id, entry.seq)), entry.encoded)
            for waiter in entry.after:
                # Nearly all are writes, whose answer stands.
                if waiter.answer is not None and not waiter.is_answered:
                    waiter.is_answered = True
                    self._effects.append(Reply(waiter.token, waiter.answer))
                else:
                    self._answer(waiter)

    def _answer(self, waiter: Waiter) -> None:
        if waiter.is_answered:
            return
        if isinstance(waiter.command, DescribeFiles) and self.state.trimming:
            self._untrimmed_reads.append(waiter)
            return
        answer = self._evaluate(waiter.command) if waiter.answer is None else waiter.answer
        # Not before: a read may raise, and whoever waits for it is refused then.
        waiter.is_answered = True
        self._effects.append(Reply(waiter.token, answer))

    def _evaluate(self, read: Command) -> Answer:
        match read:
            case ListOffsets():
                return [list_offset(self.state, query) for query in read.queries]
            case DescribeFiles():
                return [describe_file(self.state, key) for key in read.object_keys]
            case Barrier():
                return OK
            case _:
                raise BrokenInvariant(f"{type(read).__name__} was acknowledged without an answer")

    # ---- time

    def _tick(self, now_ms: int) -> None:
        if self.state.trimming:
            self.state.trim_step()
        if not self.state.trimming and self._untrimmed_reads:
            for waiter in self._untrimmed_reads:
                self._answer(waiter)
            self._untrimmed_reads.clear()
        self._expire(now_ms)
        self._forget_old(now_ms)
        if self.term is not None and self.is_leading and self.term.oldest_age_ms(now_ms) > self.limits.term_timeout_ms:
            message = (
                f"entry {self.term.acked_seq + 1} was not acknowledged within {self.limits.term_timeout_ms} ms (leader.term.timeout.ms)"
            )
            raise TermOver(TermCause.TIMEOUT, message)

    def _expire(self, now_ms: int) -> None:
        """Answer what waited too long; entries under way stay, and a retry of their key joins them."""
        message = "the request was not finished within its timeout; a write may still happen: a retry of the same key is safe"
        if self.queue and any(request.deadline_ms <= now_ms for request in self.queue):
            kept: deque[Request] = deque()
            for request in self.queue:
                if request.deadline_ms > now_ms:
                    kept.append(request)
                else:
                    self.queue_bytes -= request.size_bytes
                    self._effects.append(Reply(request.token, refuse(request.command, ErrorCode.REQUEST_TIMED_OUT, message)))
            self.queue = kept
        under_way = () if self.term is None else self.term.in_flight
        waiters = [waiter for entry in under_way for waiter in (*entry.before, *entry.after)]
        for waiter in (*waiters, *self._untrimmed_reads):
            if waiter.deadline_ms <= now_ms:
                self._refuse_waiter(waiter, ErrorCode.REQUEST_TIMED_OUT, message)

    def _forget_old(self, now_ms: int) -> None:
        """A leader logs now and then what the log's clock has made old."""
        term, overlay = self.term, self.overlay
        if now_ms < self._next_expiry_ms or term is None or overlay is None:
            return
        if len(term.group_ends) >= self.limits.groups_in_flight_max:
            return
        self._next_expiry_ms = now_ms + self.limits.expiration_interval_ms
        builder = self._builder(term, overlay, now_ms)
        builder.expire()
        self._close_group(builder, term)

    def _refuse_waiter(self, waiter: Waiter, error: ErrorCode, message: str) -> None:
        if not waiter.is_answered:
            waiter.is_answered = True
            self._effects.append(Reply(waiter.token, refuse(waiter.command, error, message)))
