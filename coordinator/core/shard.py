"""One replica of one metadata partition: events in, effects out, nothing else.

    effects = shard.feed(event, now_ms)

The same state and the same events give the same effects: no clock, no randomness, no I/O, and nothing else changes a shard. This module
is the life of a replica (`core.leadership.states`) and the routing of events to its parts: `Committed` has the state, `Follower` reads
the log, `Leader` decides, appends and acknowledges.

Table updates of plain commits are deferred until after the replies: `settle` applies them. Every event settles first.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from coordinator.core.committed import Committed
from coordinator.core.events import (
    Accused,
    Assigned,
    ClockAhead,
    Closing,
    Delivered,
    Effect,
    EntriesRead,
    Event,
    Follow,
    Invalidated,
    LogUnreadable,
    MayClaim,
    NewEntry,
    OpenTerm,
    PartitionsGrew,
    ProduceFailed,
    Recover,
    SchemaLevel,
    StateChanged,
    Stopping,
    Submitted,
    Ticked,
    Unassigned,
)
from coordinator.core.follower import Follower
from coordinator.core.leader import Leader
from coordinator.core.leadership.states import State, Trigger, transition
from coordinator.core.leadership.term import Term, TermCause, TermOver
from coordinator.core.limits import Limits
from coordinator.core.log_entry import ReadEntry
from coordinator.core.state.packing import Freeze
from coordinator.core.state.replica_state import Sealed, ShardState
from coordinator.core.tables.in_memory import BrokenInvariant, NotSupported
from coordinator.core.tables.stored_rows import Header
from coordinator.kafka.errors import ErrorCode
from records.codec import encode_entry
from records.entry_key import EntryKey, encode_key
from records.log import Fence
from records.model import Endpoint, LeadershipClaimed

LEADS = (State.LEADING, State.RESIGNING)
"""A replica in one of these states leads if it has an overlay: a leader that stops leads on until a successor claims."""


class Shard:
    """See the module's text. Events are its only input; other modules read it through `core.view.ShardView`."""

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
        self._effects: list[Effect] = []
        self.partition = partition
        self.phase = State.FOLLOWING
        self.failure: str | None = None
        self.is_unsupported = False
        """Whether it failed because a newer version wrote the log; only that version can continue."""
        self.successor: LeadershipClaimed | None = None
        """A claim that ended the own term and was not yet read as a follower."""
        self.committed = Committed(state=state, fence=fence, claim=claim, effects=self._effects)
        self.follower = Follower(committed=self.committed, certain_end=certain_end, effects=self._effects)
        self.leader = Leader(
            partition=partition,
            partition_count=partition_count,
            node_id=node_id,
            limits=limits,
            committed=self.committed,
            effects=self._effects,
        )
        self._node_id = node_id
        self._rack = rack
        self._endpoints = endpoints
        self._is_assigned = False
        self._recover_end: int | None = None
        self._foreign_claim_offset = -1
        self._claim_term_id = 0

    @property
    def is_leading(self) -> bool:
        """Whether this replica serves writes and strict reads."""
        return self.phase in LEADS and self.leader.overlay is not None

    @property
    def is_settled(self) -> bool:
        """Whether nothing is left for `settle`."""
        return self.committed.is_settled

    # ---- events

    def feed(self, event: Event, now_ms: int) -> list[Effect]:
        """Take one event. After a broken invariant the replica is failed, its evidence kept."""
        try:
            try:
                self.committed.settle()
                self._take(event, now_ms)
            except TermOver as over:
                self._end_term(over.cause, str(over), Trigger.TERM_BROKEN, read_again=True)
        except BrokenInvariant as broken:
            self._fail(str(broken), is_unsupported=isinstance(broken, NotSupported))
        return self._take_effects()

    def settle(self) -> list[Effect]:
        """Apply the deferred updates; call it once the effects of `feed` are performed. The replica fails if they cannot be applied."""
        try:
            self.committed.settle()
        except BrokenInvariant as broken:
            self._fail(str(broken), is_unsupported=isinstance(broken, NotSupported))
        return self._take_effects()

    def break_off(self, reason: str) -> list[Effect]:
        """Fail after `feed` or `settle` raised: the state may be half changed. Unanswered requests are refused."""
        self._fail(reason)
        return self._take_effects()

    def _take_effects(self) -> list[Effect]:
        effects = self._effects[:]
        self._effects.clear()
        return effects

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
                self._is_assigned = False
                if self.phase is not State.FAILED:
                    self._move(Trigger.UNASSIGNED, "the group took the assignment away")
            case MayClaim():
                self._may_claim(event)
            case ProduceFailed():
                if self.leader.term is not None and self.leader.term.term_id == event.term_id:
                    raise TermOver(TermCause.PRODUCE, event.reason)
            case Stopping():
                self._stop("the process is stopping")
            case Closing():
                self._closing()
            case LogUnreadable() | Invalidated():
                raise BrokenInvariant(event.reason)
            case Accused():
                self._accused(event)
            case SchemaLevel():
                self.leader.schema_level = event.level
            case PartitionsGrew():
                self.leader.partition_count = event.partition_count
            case ClockAhead():
                self.leader.log_ahead_ms = event.ahead_ms
            case _:
                assert_never(event)

    def _submit(self, event: Submitted, now_ms: int) -> None:
        self.leader.queue.add(event.requests)
        if self.is_leading:
            self.leader.pump(now_ms)
        else:
            self._refuse_queue()

    def _delivered(self, event: Delivered, now_ms: int) -> None:
        term = self.leader.term
        if term is not None and term.term_id == event.term_id:
            self.leader.take_reports(term, event.reports, now_ms)
            self.leader.pump(now_ms)

    def _tick(self, now_ms: int) -> None:
        state = self.committed.state
        if state.trimming:
            state.trim_step()
        self.leader.answer_trimmed()
        self.leader.expire(now_ms)
        self.leader.forget_old(now_ms)
        if self.is_leading:
            self.leader.check_age(now_ms)
        elif self.phase is State.FENCING:
            self.leader.check_claim(now_ms)

    def _move(self, trigger: Trigger, reason: str) -> None:
        before = self.phase
        self.phase = transition(before, trigger)
        if self.phase is not before:
            self._effects.append(StateChanged(before, self.phase, reason))

    def _fail(self, reason: str, *, is_unsupported: bool = False) -> None:
        self.failure, self.is_unsupported = reason, is_unsupported
        self.committed.forget_deferred()
        self.leader.abandon_term(TermCause.BROKEN, reason)
        self.leader.refuse_taken()
        self._move(Trigger.BROKEN, reason)
        self._refuse_queue()

    def _refuse_queue(self) -> None:
        """Refuse the queued requests, with a reason from which the client knows whether to look elsewhere."""
        if self.phase in (State.RECOVERING, State.FENCING):
            self.leader.queue.refuse_all(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"coordinator {self.partition} is loading; retry")
        else:
            message = f"node {self._node_id} does not lead coordinator {self.partition}; find it and retry"
            self.leader.queue.refuse_all(ErrorCode.NOT_COORDINATOR, message)

    # ---- leadership

    def _assigned(self) -> None:
        self._is_assigned = True
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
            # Another process claimed after the proof of membership: the next claim needs a new proof.
            self._effects.append(Recover(prove=True))
            return
        self._recover_end = event.end_offset
        self._claim_term_id = event.term_id
        self._claim_when_caught_up()

    def _claim_when_caught_up(self) -> None:
        next_offset = self.follower.next_offset
        if self._recover_end is None or next_offset < self._recover_end:
            return
        self._recover_end = None
        self._move(Trigger.CAUGHT_UP, f"read up to offset {next_offset - 1}")
        epoch = self.committed.fence.epoch + 1
        term = Term(epoch, self._claim_term_id)
        claim = LeadershipClaimed(epoch=epoch, term=term.term_id, node_id=self._node_id, rack=self._rack, endpoints=self._endpoints)
        self.leader.term = term
        key = encode_key(EntryKey(epoch, term.term_id, 0))
        self._effects.append(OpenTerm(term.term_id, NewEntry(0, key, encode_entry([claim], self.leader.schema_level))))

    def _take_claim(self, claim: LeadershipClaimed, entry: ReadEntry) -> None:
        """Take a claim that came into force while this replica does not lead: begin the own term, or make way for another node's."""
        self.successor = None
        self.leader.note_cut_off(self.committed.take_claim(claim, entry))
        term = self.leader.term
        if term is not None and term.is_begun_by(claim):
            self._lead(term, entry.offset)
            return
        self._foreign_claim_offset = entry.offset
        if self.phase is State.FENCING:
            # This replica applied exactly the entries it read: none has to be read again.
            reason = f"node {claim.node_id} claimed epoch {claim.epoch} first"
            self._end_term(TermCause.FOREIGN_CLAIM, reason, Trigger.FOREIGN_CLAIM, read_again=False)
        else:
            self._move(Trigger.FOREIGN_CLAIM, f"node {claim.node_id} leads epoch {claim.epoch}")
            if self._recover_end is not None and entry.offset >= self._recover_end:
                self._recover_end = None
                self._effects.append(Recover(prove=True))

    def _lead(self, term: Term, offset: int) -> None:
        """Begin to lead: the own claim is in force, and everything before it is applied."""
        self._move(Trigger.OWN_CLAIM, f"claim of epoch {term.epoch} in force at offset {offset}")
        self.leader.lead(term, offset)
        self.follower.read_back_from_here()

    def _end_term(self, cause: TermCause, reason: str, trigger: Trigger, *, read_again: bool) -> None:
        """Stop leading or claiming; only the log knows the outcome of entries in flight."""
        self.leader.abandon_term(cause, reason)
        self._move(trigger, reason)
        self._recover_end = None
        if read_again:
            self.committed.settle()
            self._effects.append(Follow(self.follower.read_again()))
        if self.phase is not State.RESIGNING:
            if self._is_assigned:
                self._effects.append(Recover(prove=True))
            else:
                self._move(Trigger.UNASSIGNED, "not assigned any more")
        self._refuse_queue()

    def _stop(self, reason: str) -> None:
        if self.phase is State.FAILED:
            return
        if self.phase is State.FENCING:
            self.leader.abandon_term(TermCause.STOPPING, reason)
        self._recover_end = None
        self._move(Trigger.STOP, reason)

    def _closing(self) -> None:
        if self.phase is State.FAILED:
            return
        self.leader.abandon_term(TermCause.STOPPING, "the replica is closed")
        self._stop("the replica is closed")
        self._refuse_queue()

    def leads_term(self, epoch: int, term_id: int) -> bool:
        """Whether this replica leads, in this very term."""
        term = self.leader.term
        return self.is_leading and term is not None and (term.epoch, term.term_id) == (epoch, term_id)

    def _accused(self, event: Accused) -> None:
        """Another node says that an entry of the current term contradicts the log: the state of this leader must not be trusted."""
        found = event.contradiction
        if not self.leads_term(found.epoch, found.term):
            return
        self.follower.contradiction = found
        raise BrokenInvariant(
            f"node {event.accuser_id} reads entry {found.offset} of this term as a contradiction ({found.reason}); its state"
            " is set aside and rebuilt from the log"
        )

    # ---- reading the log

    def _read(self, event: EntriesRead, now_ms: int) -> None:
        if self.phase is State.FAILED:
            return
        entries, follower = event.entries, self.follower
        taken = self._pass_own(event) if self.is_leading else follower.take_due(entries)
        for entry in entries[taken:]:
            follower.expect(entry)
            if self.is_leading:
                if self._read_as_leader(entry):
                    return
            elif (claim := follower.read(entry)) is not None:
                self._take_claim(claim, entry)
        follower.apply_due()
        if self.phase is State.RECOVERING:
            self._claim_when_caught_up()
        if self.is_leading:
            self.leader.pump(now_ms)

    def _pass_own(self, event: EntriesRead) -> int:
        """Pass over own entries at their expected offsets; returns how many."""
        term, follower = self.leader.term, self.follower
        if term is None:
            return 0
        passed = follower.pass_own(term, event.entries)
        if passed:
            self.leader.acknowledge(term, term.seen(follower.seq_read_back, event.entries[:passed]))
        return passed

    def _read_as_leader(self, entry: ReadEntry) -> bool:
        """Look for claims and void entries; returns whether the term ended."""
        term = self.leader.term
        if term is None or entry.offset <= term.claim_offset:
            return False
        found = self.follower.read_back(entry)
        if isinstance(found, EntryKey):
            self.leader.acknowledge(term, term.seen(found.seq, [entry]))
        elif found is None:
            term.passed(entry.offset, self.follower.seq_read_back)
        else:
            self.successor = found
            reason = f"node {found.node_id} claimed epoch {found.epoch}"
            self._end_term(TermCause.FOREIGN_CLAIM, reason, Trigger.FOREIGN_CLAIM, read_again=True)
            return True
        return False

    # ---- the state database

    def header(self, cluster_id: str, topic_id: bytes) -> Header:
        """The position of this replica, for the state database. That of an unsettled shard is ahead of its tables."""
        header = self.committed.header(self.committed.written_fence)
        return replace(header, cluster_id=cluster_id, topic_id=topic_id, metadata_partition=self.partition)

    def freeze(self, header: Header, *, results_before_ms: int = 0, written_ms: int = -1) -> Freeze:
        """Hand over everything applied since the last freeze (`ShardState.freeze`). Raises `BrokenInvariant` while not settled."""
        if not self.is_settled:
            raise BrokenInvariant("deferred updates must be settled before the state is written")
        return self.committed.state.freeze(header, results_before_ms=results_before_ms, written_ms=written_ms)

    def take_sealed(self) -> Sealed | None:
        """Hand over the oldest generation that ends at a mark (`ShardState.take_sealed`), None when there is none."""
        return self.committed.state.take_sealed()

    def written(self) -> None:
        """Note that the frozen generation is in the database."""
        self.committed.state.written()
