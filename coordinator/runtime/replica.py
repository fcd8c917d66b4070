"""The owner of one replica: feeds its shard with what happens, and performs what the shard wants done.

One replica, one owner, one event loop: nothing here runs in another thread except loading and writing the state database, which
gets immutable values. Every wait has a deadline and every task is kept and cancelled at the end.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Concatenate, ParamSpec, TypeAlias, TypeVar, assert_never, cast

from coordinator.core.commands import Answer, Command
from coordinator.core.endpoints import parse_endpoints
from coordinator.core.events import (
    Accused,
    Append,
    Assigned,
    ClockAhead,
    Contradicted,
    Delivered,
    DirectoryChanged,
    EndTerm,
    EntriesRead,
    Errand,
    Event,
    Follow,
    Invalidated,
    LogUnreadable,
    NewEntry,
    OpenTerm,
    PartitionsGrew,
    ProduceFailed,
    Recover,
    Reply,
    Request,
    SchemaLevel,
    StateChanged,
    Stopping,
    Submitted,
    Ticked,
    Unassigned,
)
from coordinator.core.leadership.states import State
from coordinator.core.limits import Limits
from coordinator.core.log_entry import ContradictoryEntry
from coordinator.core.refusals import refuse
from coordinator.core.shard import Shard
from coordinator.core.state.damage import StateBusy, StateFailed
from coordinator.core.tables.in_memory import BrokenInvariant
from coordinator.core.tables.stored_rows import Header
from coordinator.core.view import ShardView
from coordinator.core.yielding import Rest
from coordinator.kafka.errors import ErrorCode
from coordinator.runtime.broker_time import BrokerTime
from coordinator.runtime.failures import FailureLog, NotReadable
from coordinator.runtime.grouping import Grouping
from coordinator.runtime.loading import StateLoader
from coordinator.runtime.ports import (
    Cluster,
    LogBroken,
    LogEntry,
    LogReader,
    Membership,
    ProduceRefused,
    Report,
    StateStores,
    TermProducer,
    TermProducers,
)
from coordinator.runtime.recovery import Recovery
from coordinator.runtime.state_writer import StateWriter
from coordinator.runtime.telemetry import Telemetry
from records.log import Fence
from records.model import Endpoint, LeadershipClaimed
from records.state_digest import Digest

LOG = logging.getLogger("coordinator.replica")

P = ParamSpec("P")
T = TypeVar("T")

Answered: TypeAlias = Callable[[Answer], None]
"""The receiver of an answer: the token of every request. It has a name because making such a type takes a microsecond."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaPorts:
    """The outside world of one replica."""

    reader: LogReader
    producers: TermProducers
    membership: Membership
    cluster: Cluster
    stores: StateStores
    writer: Executor
    rest: Rest
    on_written: Callable[[], None]
    telemetry: Telemetry


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaIdentity:
    """Which log, and who we are."""

    cluster_id: str
    topic_id: bytes
    partition: int
    partition_count: int
    node_id: int
    rack: str
    endpoints: list[Endpoint]


class Replica:
    """See the module's text."""

    def __init__(
        self,
        *,
        identity: ReplicaIdentity,
        ports: ReplicaPorts,
        limits: Limits,
        loop: asyncio.AbstractEventLoop,
        clock_ms: Callable[[], int],
        rng: random.Random,
        flush_batches_max: int,
        flush_interval_ms: int,
        next_generation: Callable[[], int],
        on_directory_changed: Callable[[], None],
        on_failed: Callable[[int, str], None],
        on_contradicted: Callable[[int, Contradicted, LeadershipClaimed | None], None],
        failures: FailureLog,
        log_ahead_ms: Callable[[int], int],
    ) -> None:
        """`log_ahead_ms` says how much too late a time of `clock_ms` is for the log."""
        partition = identity.partition
        self.identity = identity
        self.failures = failures
        self.partition = partition
        self.view: ShardView | None = None
        """The view of the loaded state; None while none is loaded."""
        self.unloadable: str | None = None
        self.broker_time = BrokerTime(lambda: loop.time() * 1000)
        self.recovery = Recovery(
            partition=partition,
            topic_id=identity.topic_id,
            cluster=ports.cluster,
            membership=ports.membership,
            loop=loop,
            rng=rng,
            feed=self._feed,
        )
        self.writer = StateWriter(
            partition=partition,
            cluster_id=identity.cluster_id,
            topic_id=identity.topic_id,
            executor=ports.writer,
            rest=ports.rest,
            on_written=ports.on_written,
            on_failed=self.invalidate,
            telemetry=ports.telemetry,
            loop=loop,
            clock_ms=clock_ms,
            interval_ms=flush_interval_ms,
            results_retention_ms=limits.commit_results_retention_ms,
        )
        self._loader = StateLoader(
            partition=partition,
            cluster_id=identity.cluster_id,
            topic_id=identity.topic_id,
            cluster=ports.cluster,
            stores=ports.stores,
            executor=ports.writer,
            failures=failures,
            loop=loop,
        )
        self._log_ahead_ms = log_ahead_ms
        self._ports = ports
        self._limits = limits
        self._loop = loop
        self._clock_ms = clock_ms
        self._flush_batches_max = flush_batches_max
        self._on_directory_changed = on_directory_changed
        self._on_failed = on_failed
        self._on_contradicted = on_contradicted
        self._shard: Shard | None = None
        self._generation = 0
        self._next_generation = next_generation
        self._producer: TermProducer | None = None
        self._incoming: list[Request] = []
        self._incoming_ms = 0
        self._incoming_bytes = 0
        self._grouping = Grouping()
        self._spacing: asyncio.TimerHandle | None = None
        self._is_settling = False
        self._is_closed = False

    @property
    def failure(self) -> str | None:
        """Why this replica has failed, or could not be loaded; None while nothing is wrong."""
        if self.unloadable is not None:
            return self.unloadable
        return self.view.failure if self.view is not None and self.view.phase is State.FAILED else None

    @property
    def written_offset(self) -> int:
        """The applied offset of the state database; -1 while nothing is written."""
        return self.writer.written_offset

    @property
    def digest(self) -> Digest:
        """The digest of the state database."""
        return self.writer.digest

    # ---- life

    def reopen(self) -> None:
        """Allow another `load` after `close`."""
        self._is_closed = False

    async def load(self) -> None:
        """Open the state database and start following the log.

        Raises `ReplicaUnloadable`, `KafkaUnavailable`, and `StateFailed` when even an empty database cannot be used.
        """
        started = self._loop.time()
        loaded = await self._loader.load()
        self.writer.use(loaded)
        header, state = loaded.header, loaded.state
        self._shard = Shard(
            partition=self.partition,
            partition_count=self.identity.partition_count,
            node_id=self.identity.node_id,
            rack=self.identity.rack,
            endpoints=self.identity.endpoints,
            limits=self._limits,
            state=state,
            fence=Fence() if header is None else Fence(header.epoch, header.term, header.seq),
            claim=None if header is None else _claim_of(header),
            certain_end=loaded.certain_end,
        )
        view = self.view = ShardView(self._shard)
        self._follow(view.next_offset)
        if view.directory.placements:
            self._on_directory_changed()
        LOG.info(
            "replica loaded partition=%d applied_offset=%d partitions=%d seconds=%.3f",
            self.partition,
            view.applied_offset,
            view.live_partitions,
            self._loop.time() - started,
        )
        self._ports.telemetry.loaded(self.partition, self._loop.time() - started)

    async def close(self, *, keep_evidence: bool = False) -> None:
        """Write what is applied and let everything go; with `keep_evidence` write nothing and set the database aside, if it may be damaged.

        Only the latter raises `DirectoryFailed`.
        """
        self._is_closed = True
        self.recovery.cancel()
        self._drop_producer()
        if self._shard is not None:
            self._ports.reader.unfollow(self.partition)
        store = await self.writer.finish()
        if store is None:
            return
        # Reads go through the store, which is about to be closed: no read may reach it.
        if not keep_evidence:
            clean = False
            if self._shard is not None and self.view is not None:
                clean = await self.writer.write_last(self._shard, self.view, store)
            self._shard = self.view = None
            await self._loop.run_in_executor(self._ports.writer, partial(store.close, clean=clean))
            return
        self._shard = self.view = None
        if self.writer.is_disk_full:
            # The written database is whole and is read again; setting it aside would need as much room once more.
            await self._loader.close(store)
        else:
            await self._loader.set_aside(store, self.failures.last_reason)

    # ---- reading what is applied

    @property
    def is_readable(self) -> bool:
        """Whether `look` has a state to look at."""
        return self.view is not None and not self._is_closed and self.view.phase is not State.FAILED

    def look(self, read: Callable[Concatenate[ShardView, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Read the state with everything that was answered: for all answers to clients. Raises `NotReadable`.

        A finding that cannot be (a damaged page, a file that is not there, numbers that do not fit) fails the
        replica, which is set aside and rebuilt. So what is wrong is never answered, and never stays.
        """
        self._settle()
        view = self.view
        if view is None or not self.is_readable:
            raise NotReadable(self.partition)
        try:
            return read(view, *args, **kwargs)
        except StateBusy as busy:
            LOG.warning("a read was not possible partition=%d reason=%r", self.partition, str(busy))
            raise NotReadable(self.partition) from busy
        except Exception as error:
            # Any error: what damaged bytes lead to is not known in advance.
            self._found_damage(error)
            raise NotReadable(self.partition) from error

    def _found_damage(self, error: Exception) -> None:
        # A traceback is for unforeseen errors; recognised damage describes itself.
        trouble = None if isinstance(error, StateFailed) else error
        LOG.error("a read found what cannot be partition=%d reason=%r", self.partition, str(error), exc_info=trouble)
        self.invalidate(str(error) if isinstance(error, StateFailed | BrokenInvariant) else f"a read failed: {error!r}")

    # ---- what others tell the replica

    def submit(self, command: Command, timeout_ms: int, callback: Answered, size_bytes: int = 0) -> None:
        """Queue a command. Those of one tick of the loop are decided together; while a group is in flight, those of a moment."""
        if not self._incoming:
            self._incoming_ms = self._clock_ms()
            self._schedule_submit()
        self._incoming.append(Request(callback, command, self._incoming_ms + timeout_ms, size_bytes))
        self._incoming_bytes += size_bytes
        if self._spacing is not None and self._incoming_bytes >= self._grouping.enough_bytes:
            self._end_spacing()

    def _schedule_submit(self) -> None:
        wait_s = self._grouping.wait_s(self._loop.time())
        if wait_s > 0:
            self._spacing = self._loop.call_later(wait_s, self._submit_incoming)
        else:
            self._loop.call_soon(self._submit_incoming)

    def _end_spacing(self) -> None:
        if self._spacing is not None:
            self._spacing.cancel()
            self._spacing = None
            self._loop.call_soon(self._submit_incoming)

    async def ask(self, command: Command, timeout_ms: int) -> Answer:
        """Submit a command and wait for its answer, which comes within the timeout and a tick."""
        answer: asyncio.Future[Answer] = self._loop.create_future()
        self.submit(command, timeout_ms, lambda value: None if answer.done() else answer.set_result(value))
        return await answer

    def _submit_incoming(self) -> None:
        requests, self._incoming = self._incoming, []
        self._grouping.submitted(self._incoming_bytes)
        self._incoming_bytes, self._spacing = 0, None
        self._feed(Submitted(requests))

    def set_assigned(self, is_assigned: bool) -> None:
        """Tell whether the group assigns this partition to us."""
        self._feed(Assigned() if is_assigned else Unassigned())

    def stop_leading(self) -> None:
        """The process is stopping: lead on until a successor's claim is read."""
        self._feed(Stopping())

    def invalidate(self, reason: str) -> None:
        """The base of this replica is gone."""
        self._feed(Invalidated(reason))

    def accuse(self, entry: ContradictoryEntry, accuser_id: int) -> None:
        """Another node reads an entry of the term led here as a contradiction."""
        self._feed(Accused(contradiction=entry, accuser_id=accuser_id))

    def on_entries(self, generation: int, entries: Sequence[LogEntry]) -> None:
        """Entries of the log, in order."""
        if generation == self._generation:
            if self.broker_time.read(entries):
                self._correct_log_time()
            self._feed(EntriesRead(entries))

    def on_log_broken(self, generation: int, why: LogBroken, detail: str) -> None:
        """The log cannot be read on."""
        if generation == self._generation:
            self._feed(LogUnreadable(f"{why.value}: {detail}"))

    def use_schema_level(self, level: int) -> None:
        """Write entries at this level of the log's schema from now on."""
        if self.view is not None and self.view.schema_level != level:
            self._feed(SchemaLevel(level))

    def grow(self, partition_count: int) -> None:
        """The metadata topic has so many partitions now."""
        self._feed(PartitionsGrew(partition_count))

    def tick(self) -> bool:
        """Look at deadlines and at what is to be written; returns whether there is housekeeping left to do soon."""
        self._correct_log_time()
        self._feed(Ticked())
        if self.writer.is_time():
            self._write_if_due()
        return self.view is not None and self.view.is_trimming

    def _correct_log_time(self) -> None:
        ahead_ms = self._log_ahead_ms(self._clock_ms())
        if self.view is not None and self.view.log_ahead_ms != ahead_ms:
            self._feed(ClockAhead(ahead_ms))

    # ---- performing effects

    def _feed(self, event: Event) -> None:
        if self._shard is None or self._is_closed:
            if isinstance(event, Submitted):
                self._refuse_unloaded(event)
            return
        self._advance(self._shard, event)

    def _advance(self, shard: Shard, event: Event | None) -> None:
        """Feed the core an event, or without one let it apply what it deferred."""
        try:
            effects = shard.settle() if event is None else shard.feed(event, self._clock_ms())
        except StateFailed as failed:
            effects = shard.break_off(str(failed))
        except Exception as error:
            # A bug of the core: the state may be half changed, so this replica stops, keeps the evidence and is rebuilt.
            LOG.exception("the core failed partition=%d event=%s", self.partition, type(event).__name__)
            effects = shard.break_off(f"the core failed: {error!r}")
        for effect in effects:
            if isinstance(effect, Reply):
                # Here and not in `_perform`: nearly all effects are answers.
                cast(Answered, effect.token)(effect.answer)
            else:
                self._perform(effect)
        if not shard.is_settled:
            if not self._is_settling:
                # The connections scheduled the writing of the answers just now: it comes first.
                self._is_settling = True
                self._loop.call_soon(self._settle_deferred)
        elif self.view is not None and self.view.unwritten_batches >= self._flush_batches_max:
            self._write_if_due()

    def _settle_deferred(self) -> None:
        self._is_settling = False
        self._settle()

    def _settle(self) -> None:
        """Have the core apply what it deferred; a replica to which it does not fit fails."""
        if self._shard is not None and not self._is_closed and not self._shard.is_settled:
            self._advance(self._shard, None)

    def _write_if_due(self) -> None:
        self._settle()
        if self._shard is not None and self.view is not None and not self._is_closed:
            self.writer.write_if_due(self._shard, self.view)

    def _refuse_unloaded(self, event: Submitted) -> None:
        for request in event.requests:
            message = f"coordinator {self.partition} is loading; retry"
            cast(Answered, request.token)(refuse(request.command, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, message))

    def _perform(self, effect: Errand) -> None:
        match effect:
            case Append():
                self._append(effect)
            case OpenTerm():
                self._open_term(effect)
            case EndTerm():
                self._drop_producer()
                LOG.info("term ended partition=%d term=%d reason=%r", self.partition, effect.term_id, effect.reason)
            case Follow():
                self._follow(effect.next_offset)
            case Recover():
                self.recovery.start(prove=effect.prove)
            case StateChanged():
                self._state_changed(effect)
            case DirectoryChanged():
                self._on_directory_changed()
            case Contradicted():
                self._on_contradicted(self.partition, effect, None if self.view is None else self.view.claim)
            case _:
                assert_never(effect)

    def _state_changed(self, effect: StateChanged) -> None:
        level = logging.ERROR if effect.after is State.FAILED else logging.INFO
        LOG.log(
            level,
            "replica state partition=%d before=%s after=%s reason=%r",
            self.partition,
            effect.before.value,
            effect.after.value,
            effect.reason,
        )
        self._ports.telemetry.state_changed(self.partition, effect.before, effect.after)
        if effect.after is State.FAILED:
            self.failures.failed(effect.reason)
            self._ports.reader.unfollow(self.partition)
            self._on_failed(self.partition, effect.reason)

    def _follow(self, next_offset: int) -> None:
        # Numbers that no earlier replica of this partition had: what was read for one that failed may still be on its way.
        self._generation = self._next_generation()
        self._ports.reader.follow(self.partition, next_offset, self._generation)

    def _open_term(self, effect: OpenTerm) -> None:
        self._drop_producer()
        self._producer = self._ports.producers.open(self.partition, partial(self._on_reports, effect.term_id))
        self._produce(effect.term_id, [effect.claim])

    def _append(self, effect: Append) -> None:
        self._grouping.started(effect.entries[-1].seq, self._loop.time())
        self._ports.telemetry.group_appended(self.partition, len(effect.entries), sum([len(value) for _, _, value in effect.entries]))
        self._produce(effect.term_id, effect.entries)

    def _produce(self, term_id: int, entries: Sequence[NewEntry]) -> None:
        producer = self._producer
        if producer is None:
            return
        self.broker_time.produced(entries)
        try:
            producer.produce(entries)
        except ProduceRefused as refused:
            self.recovery.note_refusal(str(refused))
            self._loop.call_soon(self._feed, ProduceFailed(term_id, str(refused)))

    def _on_reports(self, term_id: int, reports: Sequence[Report]) -> None:
        last_seq = reports[-1].seq
        for started_s in self._grouping.acknowledged(last_seq):
            self._ports.telemetry.group_acknowledged(self.partition, self._loop.time() - started_s)
        error = next((report.error for report in reports if report.error is not None), None)
        if error is not None:
            self.recovery.note_refusal(error)
        elif last_seq > 0:
            self.recovery.forget_refusals()
        self._feed(Delivered(term_id, reports))
        if self._grouping.is_idle:
            self._end_spacing()

    def _drop_producer(self) -> None:
        self._grouping.clear()
        if self._producer is not None:
            self._producer.abandon()
            self._producer = None


def _claim_of(header: Header) -> LeadershipClaimed | None:
    """The claim in force as a database remembers it, enough to find the leader."""
    if header.leader_node_id < 0:
        return None
    return LeadershipClaimed(
        epoch=header.epoch, term=header.term, node_id=header.leader_node_id, rack="", endpoints=parse_endpoints(header.leader_endpoints)
    )
