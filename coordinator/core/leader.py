"""The work of a leader: requests become groups of entries in flight, and acknowledged entries become state and answers.

Decisions use the overlay: the committed state and everything in flight. Several groups may be in flight. When a term ends the overlay is
dropped and everything under way is answered NOT_COORDINATOR: its outcome is unknown, and a retry finds it out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import inf

from coordinator.core.commands import Command, CommitFile, DescribeFiles, FenceFiles, HandOverFiles, RemoveFiles, StrictRead
from coordinator.core.committed import Committed, mark_in
from coordinator.core.deciding.group import GroupBuilder
from coordinator.core.events import Append, Delivery, Effect, EndTerm
from coordinator.core.files.requests import CommitContext
from coordinator.core.leadership.term import PendingEntry, Term, TermCause, TermOver, Waiter
from coordinator.core.limits import Limits
from coordinator.core.reads.queries import answer_read
from coordinator.core.request import Reply, Request
from coordinator.core.request_queue import RequestQueue
from coordinator.core.state.expiry import AGAIN_MS
from coordinator.core.tables.in_memory import HotState
from coordinator.kafka.errors import ErrorCode
from records.entry_key import EntryKey, encode_key
from records.log import Fence

TOO_LATE = "the request was not finished within its timeout"
WRITE_TOO_LATE = f"{TOO_LATE}; the write may still happen: the same request may be sent again"


class Leader:
    """See the module's text. `effects` is the list of the shard, to which this adds."""

    def __init__(
        self, *, partition: int, partition_count: int, node_id: int, limits: Limits, committed: Committed, effects: list[Effect]
    ) -> None:
        self.partition_count = partition_count
        # The schema level of new entries. The replica of the directory knows it; until then a replica writes the oldest.
        self.schema_level = 1
        self.log_ahead_ms = 0
        """By how much this node's clock is ahead: subtracted from the time of events for times in the log."""
        self.term: Term | None = None
        self.overlay: HotState | None = None
        """None while this replica does not lead."""
        self.queue = RequestQueue(partition=partition, bytes_max=limits.queue_bytes_max, effects=effects)
        self.term_ends: Counter[str] = Counter()
        self._partition = partition
        self._node_id = node_id
        self._limits = limits
        self._committed = committed
        self._effects = effects
        self._taken: list[Request] = []  # from the queue, into a group that is not closed
        self._cut_off: str | None = None
        self._next_expiry_ms = 0
        self._untrimmed_reads: list[Waiter] = []

    # ---- terms

    def lead(self, term: Term, claim_offset: int) -> None:
        """Begin to lead: the own claim is in force, and everything before it is applied."""
        term.claim_offset = claim_offset
        self.overlay = self._committed.state.hot.copy()

    def note_cut_off(self, name: str | None) -> None:
        """Note the transaction that the newest claim aborted, if any. If the claim is this leader's own, it logs that."""
        self._cut_off = name

    def abandon_term(self, cause: TermCause, reason: str) -> None:
        """Forget the term, if there is one, and everything in flight; only the log knows the outcome."""
        term = self.term
        if term is None:
            return
        self.term = None
        self.overlay = None
        self._effects.append(EndTerm(term.term_id, reason))
        self.term_ends[cause.value] += 1
        message = "leadership changed while the request was under way; find the coordinator and retry"
        self._refuse_commits(term.in_flight, ErrorCode.NOT_COORDINATOR, message)
        for waiter in (*_waiters(term.in_flight), *self._untrimmed_reads):
            self._refuse_waiter(waiter, ErrorCode.NOT_COORDINATOR, message)
        self._untrimmed_reads.clear()

    def refuse_taken(self) -> None:
        """Refuse the requests of an unclosed group after a decision raised; otherwise those without an entry would never be answered."""
        answered = Counter(id(effect.token) for effect in self._effects if isinstance(effect, Reply))
        message = f"coordinator {self._partition} failed on node {self._node_id} while it decided the request; find it and retry"
        for request in self._taken:
            if answered[id(request.token)]:
                answered[id(request.token)] -= 1
            else:
                self._effects.append(Reply(request.token, request.command.refused(ErrorCode.NOT_COORDINATOR, message)))
        self._taken = []

    # ---- groups

    def pump(self, now_ms: int) -> None:
        """Form groups from the queue while there is room in flight."""
        term, overlay = self.term, self.overlay
        if term is None or overlay is None:
            return
        if self._cut_off is not None:
            builder = self._builder(term, overlay, now_ms)
            builder.note_aborted(self._cut_off)
            self._cut_off = None
            self._close_group(builder, term)
        while self.queue and len(term.group_ends) < self._limits.groups_in_flight_max:
            builder = self._builder(term, overlay, now_ms)
            taken = 0
            while self.queue and taken < self._limits.group_batches_max:
                request = self.queue.take()
                self._taken.append(request)
                builder.take(request)
                taken += _size_of(request.command)
            self._close_group(builder, term)
            self._taken = []

    def _builder(self, term: Term, overlay: HotState, now_ms: int) -> GroupBuilder:
        """Begin a group, decided on tables that include everything in flight."""
        self._committed.settle()
        # The overlay is never written.
        overlay.take_touched()
        log_now_ms = now_ms - self.log_ahead_ms
        context = CommitContext(
            coordinator_id=self._partition,
            coordinator_count=self.partition_count,
            limits=self._limits,
            now_ms=log_now_ms,
            log_time_ms=overlay.log_time_ms,
        )
        state = self._committed.state
        return GroupBuilder(state=state, term=term, overlay=overlay, context=context, level=self.schema_level, now_ms=now_ms)

    def _close_group(self, builder: GroupBuilder, term: Term) -> None:
        builder.close()
        self._effects.extend(builder.replies)
        if builder.entries:
            term.group_ends.append(builder.entries[-1].seq)
            self._effects.append(Append(term.term_id, builder.entries))

    # ---- acknowledgement

    def take_reports(self, term: Term, reports: Sequence[Delivery], now_ms: int) -> None:
        """Take delivery reports of the term in force. Raises `TermOver`, `BrokenInvariant`."""
        if reports and reports[0].seq + 1 == reports[0].entries:
            seq, offset, error, count = reports[0]
            if error is not None:
                raise TermOver(TermCause.DELIVERY, f"the claim was not delivered: {error}")
            term.claim_reported_ms = now_ms
            reports = [Delivery(seq, offset, None, count - 1), *reports[1:]] if count > 1 else reports[1:]
        self.acknowledge(term, term.reported(reports))

    def acknowledge(self, term: Term, entries: Iterator[tuple[PendingEntry, int]]) -> None:
        """Apply and answer entries that are in the log at these offsets. Raises `TermOver`, `BrokenInvariant`."""
        committed = self._committed
        for entry, offset in entries:
            for waiter in entry.before:
                self._answer(waiter)
            # Void entries between the own ones were read and judged; they only move the applied offset.
            committed.fence = Fence(committed.fence.epoch, committed.fence.term, entry.seq)
            if entry.files is not None:
                entry.files.offsets[:] = entry.offsets
                committed.defer(entry.files)
            elif entry.chunks:
                committed.apply_chunks(entry.placed_chunks())
                committed.state.skip_entry(offset)
            else:
                committed.apply(entry.records, offset)
            committed.last_entry = (encode_key(EntryKey(term.epoch, term.term_id, entry.seq)), entry.values[-1])
            if (mark_id := mark_in(entry.records)) is not None:
                committed.seal(mark_id, committed.fence)
            self._effects.extend(entry.take_replies())
            for waiter in entry.after:
                self._answer(waiter)

    def _answer(self, waiter: Waiter) -> None:
        if waiter.is_answered:
            return
        answer = waiter.answer
        if answer is None:
            self._committed.settle()
            if self.waits_for_trimming(waiter.command):
                self._untrimmed_reads.append(waiter)
                return
            answer = answer_read(self._committed.state, waiter.command)
        # Marked only now: if the read raises, the replica fails, and refuses the requests that are not answered.
        waiter.is_answered = True
        self._effects.append(Reply(waiter.token, answer))

    def waits_for_trimming(self, command: Command) -> bool:
        """Whether a read has to wait until deleted batches are counted out of their files: it tells the live ones of each file."""
        return isinstance(command, DescribeFiles) and bool(self._committed.state.trimming)

    # ---- time

    @property
    def is_trimming_awaited(self) -> bool:
        """Whether a read waits until deleted batches are subtracted from their files."""
        return bool(self._untrimmed_reads)

    def answer_trimmed(self) -> None:
        """Answer the reads that waited until deleted batches were subtracted from their files, if they are."""
        if not self._committed.state.trimming and self._untrimmed_reads:
            for waiter in self._untrimmed_reads:
                self._answer(waiter)
            self._untrimmed_reads.clear()

    def expire(self, now_ms: int) -> None:
        """Answer requests that waited too long; entries under way stay, and a retry of their key joins them."""
        self.queue.expire(now_ms, TOO_LATE)
        under_way = () if self.term is None else self.term.in_flight
        self._refuse_commits(under_way, ErrorCode.REQUEST_TIMED_OUT, WRITE_TOO_LATE, until_ms=now_ms)
        for waiter in (*_waiters(under_way), *self._untrimmed_reads):
            if waiter.deadline_ms <= now_ms:
                message = TOO_LATE if isinstance(waiter.command, StrictRead) else WRITE_TOO_LATE
                self._refuse_waiter(waiter, ErrorCode.REQUEST_TIMED_OUT, message)

    def forget_old(self, now_ms: int) -> None:
        """Log, at intervals, what has expired by the log's clock."""
        term, overlay = self.term, self.overlay
        if now_ms < self._next_expiry_ms or term is None or overlay is None:
            return
        if len(term.group_ends) >= self._limits.groups_in_flight_max:
            return
        builder = self._builder(term, overlay, now_ms)
        pause_ms = self._limits.expiration_interval_ms
        self._next_expiry_ms = now_ms + (min(AGAIN_MS, pause_ms) if builder.expire() else pause_ms)
        self._close_group(builder, term)

    def check_claim(self, now_ms: int) -> None:
        """Raise `TermOver` when the claim was acknowledged and not read for too long: the log has lost it."""
        term, timeout_ms = self.term, self._limits.term_timeout_ms
        if term is not None and 0 <= term.claim_reported_ms < now_ms - timeout_ms:
            message = f"the claim was acknowledged and not read within {timeout_ms} ms (leader.term.timeout.ms)"
            raise TermOver(TermCause.TIMEOUT, message)

    def check_age(self, now_ms: int) -> None:
        """Raise `TermOver` when the oldest entry of the term has waited too long for its acknowledgement."""
        term, timeout_ms = self.term, self._limits.term_timeout_ms
        if term is not None and term.oldest_age_ms(now_ms) > timeout_ms:
            message = f"entry {term.acked_seq + 1} was not acknowledged within {timeout_ms} ms (leader.term.timeout.ms)"
            raise TermOver(TermCause.TIMEOUT, message)

    def _refuse_commits(self, under_way: Iterable[PendingEntry], error: ErrorCode, message: str, until_ms: float = inf) -> None:
        """Refuse the commits of entries under way whose deadline is `until_ms` or earlier."""
        commits = [request for entry in under_way for request in entry.take_commits(until_ms)]
        self._effects += [Reply(request.token, request.command.refused(error, message)) for request in commits]

    def _refuse_waiter(self, waiter: Waiter, error: ErrorCode, message: str) -> None:
        if not waiter.is_answered:
            waiter.is_answered = True
            self._effects.append(Reply(waiter.token, waiter.command.refused(error, message)))


def _waiters(under_way: Iterable[PendingEntry]) -> list[Waiter]:
    """Return the requests that wait for entries under way, except the commits of these entries."""
    return [waiter for entry in under_way for waiter in (*entry.before, *entry.after)]


def _size_of(command: Command) -> int:
    """Return the share of a request in the size of its group: its batches, its files, or one."""
    match command:
        case CommitFile():
            return len(command.batches)
        case FenceFiles() | RemoveFiles() | HandOverFiles():
            return len(command.object_keys)
        case _:
            return 1
