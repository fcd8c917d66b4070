"""The owner of one replica: feeds its shard with what happens, and performs what the shard wants done.

One replica, one owner, one event loop: nothing here runs in another thread except writing the state database, which
gets immutable values. Every wait has a deadline and every task is kept and cancelled at the end.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from typing import Concatenate, ParamSpec, TypeAlias, TypeVar, assert_never, cast

from coordinator.core.commands import Answer, Command
from coordinator.core.endpoints import parse_endpoints
from coordinator.core.events import (
    Accused,
    Append,
    Assigned,
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
from coordinator.core.leadership.fence import Fence
from coordinator.core.leadership.states import State
from coordinator.core.limits import Limits
from coordinator.core.log_entry import ContradictoryEntry
from coordinator.core.refusals import refuse
from coordinator.core.shard import Shard
from coordinator.core.state.damage import DiskFull, StateBusy, StateCorrupt, StateFailed
from coordinator.core.state.packing import Flush, Freeze, Packer
from coordinator.core.state.replica_state import ShardState, Stored
from coordinator.core.tables.in_memory import BrokenInvariant, HotState
from coordinator.core.tables.stored_rows import ColdStore, Header
from coordinator.core.yielding import Rest, no_rest
from coordinator.kafka.errors import ErrorCode
from coordinator.runtime.broker_time import BrokerTime
from coordinator.runtime.failures import FailureLog, NotReadable
from coordinator.runtime.ports import (
    Cluster,
    KafkaUnavailable,
    LogBroken,
    LogEntry,
    LogReader,
    Membership,
    ProduceRefused,
    Proof,
    Report,
    StateStore,
    StateStores,
    TermProducer,
    TermProducers,
    TopicMissing,
)
from coordinator.runtime.telemetry import Telemetry
from records.model import Endpoint, LeadershipClaimed
from records.state_digest import Digest

LOG = logging.getLogger("coordinator.replica")

P = ParamSpec("P")
T = TypeVar("T")

Answered: TypeAlias = Callable[[Answer], None]
"""Whoever waits for an answer: the token of every request. Has a name because making such a type takes a microsecond."""

FEW_SPACING_S, GROUP_SPACING_S = 0.001, 0.005
"""While a group is in flight another one starts no sooner than this after it, so that what arrives one by one travels together;
the first while so little is in flight (`GROUP_BYTES_MIN`) that nobody is busy.

A group costs as much as forty small files add to it, and librdkafka sends the next one of more than four entries only when the
one before it was acknowledged.
The second is longer than a round trip in one data centre: where that takes longer, groups overlap under load too.
"""
GROUP_BYTES_MIN = 64 * 1024
"""Requests of so many bytes are worth a group: it starts as soon as as much waits as is in flight, so that under load one group
is decided while another is on its way."""
ENTRY_HASH_BYTES = 16
PROOF_BACKOFF_S = (0.05, 0.3)
REFUSALS_COUNTED_MAX = 4
"""Each refusal in a row doubles the back-off before the next claim, up to this one."""
RETRY_BACKOFF_S = (0.2, 1.0)
RESTED_BATCHES = range(1_000, 25_000)
"""The writer rests between pieces of a generation of so many batches and files. Fewer are packed in a millisecond or two. Of
more there may soon be too many, and who commits so much waits for others of his own rather than for the writer."""
IDLE_WRITE_INTERVAL_MS = 5_000
"""How long a newer applied offset alone (barriers, claims) may stay unwritten."""


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


class ReplicaUnloadable(Exception):
    """The replica cannot be brought up from where it stands; the text says why and what to do."""


class EntryDiffers(Exception):
    """The state database was built from another log."""


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
        self.identity = identity
        self.failures = failures
        self.partition = identity.partition
        self.shard: Shard | None = None
        self.written_offset = -1
        self.digest = Digest()
        self.flush_failures = 0
        self.broker_time = BrokerTime(lambda: loop.time() * 1000)
        self.refused_terms = 0
        """Terms in a row of which Kafka took no entry, or none but the claim, before one failed."""
        self.refusal = ""
        self._log_ahead_ms = log_ahead_ms
        self._ports = ports
        self._limits = limits
        self._loop = loop
        self._clock_ms = clock_ms
        self._rng = rng
        self._flush_batches_max = flush_batches_max
        self._flush_interval_ms = flush_interval_ms
        self._restored: tuple[int, bytes] = (-1, b"")
        self._on_directory_changed = on_directory_changed
        self._on_failed = on_failed
        self._on_contradicted = on_contradicted
        self._generation = 0
        self._next_generation = next_generation
        self._producer: TermProducer | None = None
        self._group_starts: deque[tuple[int, float, int]] = deque()
        self._store: StateStore | None = None
        self._packer = Packer()
        self._writing: asyncio.Task[None] | None = None
        self._last_write_ms = 0
        self._recovery: asyncio.Task[None] | None = None
        self._incoming: list[Request] = []
        self._incoming_ms = 0
        self._incoming_bytes = 0
        self._submitted_bytes = 0
        self._enough_bytes = 0
        self._spacing: asyncio.TimerHandle | None = None
        self._is_settling = False
        self._is_closed = False
        self._is_disk_full = False
        self._certain_end = 0
        self.unloadable: str | None = None

    @property
    def failure(self) -> str | None:
        """Why this replica has failed, or could not be loaded; None while nothing is wrong."""
        if self.unloadable is not None:
            return self.unloadable
        return self.shard.failure if self.shard is not None and self.shard.phase is State.FAILED else None

    # ---- life

    def reopen(self) -> None:
        """Allow another `load` after `close`."""
        self._is_closed = False
        self._packer = Packer()

    async def load(self) -> None:
        """Open the state database and start following the log.

        Raises `ReplicaUnloadable`, `KafkaUnavailable`, and `StateFailed` when even an empty database cannot be used.
        """
        started = self._loop.time()
        store, state, stored = await self._open_proven()
        self._store = store
        fence, claim = Fence(), None
        if stored is not None:
            header = stored.header
            self.digest = Digest.from_bytes(header.digest)
            fence = Fence(header.epoch, header.term, header.seq)
            claim = _claim_of(header)
            self.written_offset = header.applied_offset
            self._restored = (header.applied_offset, header.last_entry_hash)
        self.shard = Shard(
            partition=self.partition,
            partition_count=self.identity.partition_count,
            node_id=self.identity.node_id,
            rack=self.identity.rack,
            endpoints=self.identity.endpoints,
            limits=self._limits,
            state=state,
            fence=fence,
            claim=claim,
            certain_end=self._certain_end,
        )
        self._follow(state.applied_offset + 1)
        if stored is not None and state.hot.directory.placements:
            self._on_directory_changed()
        LOG.info(
            "replica loaded partition=%d applied_offset=%d partitions=%d seconds=%.3f",
            self.partition,
            state.applied_offset,
            len(state.hot.partitions.index),
            self._loop.time() - started,
        )
        self._ports.telemetry.loaded(self.partition, self._loop.time() - started)

    async def _open_proven(self, *, is_new: bool = False) -> tuple[StateStore, ShardState, Stored | None]:
        """Open the state database and restore the state; one that is damaged or of another log is set aside, and begun anew.

        A failure leaves it closed: loading is tried again.
        """
        store: StateStore | None = None
        try:
            store = await self._open_store()
            stored = await self._loop.run_in_executor(self._ports.writer, store.load)
            end = await self._verify_position(None if stored is None else stored.header)
            self._certain_end = end if stored is None else 0
            state = await self._restore(stored, store.reader())
        except (EntryDiffers, StateCorrupt) as refused:
            if is_new:
                await self._close_store(store)
                raise
            self.failures.failed(str(refused))
            await self._set_aside(store, str(refused))
        except BaseException:
            await self._close_store(store)
            raise
        else:
            return store, state, stored
        return await self._open_proven(is_new=True)

    async def _restore(self, stored: Stored | None, reader: ColdStore) -> ShardState:
        """The state of a database whose rows are proven, and the digest to go on with."""
        if stored is None:
            self._packer = Packer()
            return ShardState(cold=reader)
        self._packer = stored.packer
        # Seconds for a million partitions: what else this process leads goes on meanwhile.
        return await self._loop.run_in_executor(self._ports.writer, ShardState.restore, stored, reader)

    async def _open_store(self) -> StateStore:
        identity = self.identity
        open_store = partial(self._ports.stores.open, self.partition, identity.cluster_id, identity.topic_id)
        return await self._loop.run_in_executor(self._ports.writer, open_store)

    async def _close_store(self, store: StateStore | None) -> None:
        if store is None:
            return
        await self._loop.run_in_executor(self._ports.writer, partial(store.close, clean=False))

    async def _set_aside(self, store: StateStore | None, reason: str) -> None:
        """Close a database, if it could be opened, and keep it as evidence. Raises `DirectoryFailed`."""
        await self._close_store(store)
        name = await self._loop.run_in_executor(self._ports.writer, self._ports.stores.set_aside, self.partition)
        self.failures.kept(name)
        LOG.error("state database set aside partition=%d file=%s reason=%r", self.partition, name, reason)

    async def _verify_position(self, header: Header | None) -> int:
        """The log must still hold what the database was built from; returns its end. Raises `ReplicaUnloadable`, `EntryDiffers`."""
        start, end = await self._ports.cluster.log_range(self.partition)
        applied_offset = -1 if header is None else header.applied_offset
        if applied_offset >= end:
            raise ReplicaUnloadable(
                f"metadata partition {self.partition}: the state database has applied offset {applied_offset}, but the log ends at {end}."
                " Acknowledged data is missing from the log: restore the topic, or remove the data directory to accept the loss"
            )
        if applied_offset < start - 1:
            raise ReplicaUnloadable(
                f"metadata partition {self.partition}: the log starts at {start}, after the applied offset {applied_offset} of the state"
                " database, and no snapshot reaches it: the state cannot be rebuilt from here"
            )
        if header is not None and applied_offset >= max(start, 0):
            entry = await self._ports.cluster.read_entry(self.partition, applied_offset)
            if entry is not None and entry_hash(entry.key or b"", entry.value or b"") != header.last_entry_hash:
                raise EntryDiffers(f"entry {applied_offset} of the log is not the one the state database has applied")
        return end

    async def close(self, *, keep_evidence: bool = False) -> None:
        """Write what is applied and let everything go; with `keep_evidence` write nothing and set the database aside, if it may be damaged.

        Only the latter raises `DirectoryFailed`.
        """
        self._is_closed = True
        if self._recovery is not None:
            self._recovery.cancel()
        self._drop_producer()
        if self.shard is not None:
            self._ports.reader.unfollow(self.partition)
        if self._writing is not None:
            await asyncio.wait([self._writing])
        store = self._store
        if store is None:
            return
        self._store = None
        if keep_evidence and self._is_disk_full:
            # What was written is whole and is read again; setting it aside would need as much room once more.
            self.shard = None  # see below
            await self._close_store(store)
            return
        if keep_evidence:
            self.shard = None  # see below
            await self._set_aside(store, self.failures.last_reason)
            return
        clean = False
        if self.shard is not None and self.flush_failures == 0 and self.shard.phase is not State.FAILED:
            clean = await self._write_last(self.shard, store)
        # Reads go through the store, which is closed now: nobody may find the way to it.
        self.shard = None
        await self._loop.run_in_executor(self._ports.writer, partial(store.close, clean=clean))

    async def _write_last(self, shard: Shard, store: StateStore) -> bool:
        """Write what is applied before the database is closed; returns whether that succeeded."""
        try:
            flush = partial(self._packer.pack, self._freeze(shard))
            await self._loop.run_in_executor(self._ports.writer, lambda: store.write(flush()))
        except Exception as error:  # noqa: BLE001 - the log has everything, and the rest of the process has to be closed too
            LOG.error("state database not written on closing partition=%d error=%r", self.partition, error)
            self.flush_failures += 1
            return False
        shard.state.written()
        return True

    # ---- reading what is applied

    @property
    def is_readable(self) -> bool:
        """Whether `look` has a state to look at."""
        return self.shard is not None and not self._is_closed and self.shard.phase is not State.FAILED

    def look(self, read: Callable[Concatenate[ShardState, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Read the applied state: the only way to it for whatever is answered from here. Raises `NotReadable`.

        Whatever a read finds that cannot be (a damaged page, a file that is not there, numbers that do not fit) fails the
        replica, which is set aside and rebuilt. So what is wrong is never answered, and never stays.
        """
        shard = self.shard
        if shard is None or not self.is_readable:
            raise NotReadable(self.partition)
        try:
            return read(shard.state, *args, **kwargs)
        except StateBusy as busy:
            LOG.warning("a read was not possible partition=%d reason=%r", self.partition, str(busy))
            raise NotReadable(self.partition) from busy
        except Exception as error:
            # Any error: what damaged bytes lead to is not known in advance.
            self._found_damage(error)
            raise NotReadable(self.partition) from error

    @property
    def hot(self) -> HotState | None:
        """The tables in memory, also those of a failed replica; None while none is loaded."""
        shard = self.shard
        if shard is None:
            return None
        try:
            return shard.state.hot
        except Exception as error:  # noqa: BLE001 - see `look`
            self._found_damage(error)
            return None

    def _found_damage(self, error: Exception) -> None:
        # A traceback is for what nobody foresaw; damage that was recognised says what it is.
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
        if self._spacing is not None and self._incoming_bytes >= self._enough_bytes:
            self._end_spacing()

    def _schedule_submit(self) -> None:
        """At once when nothing is in flight; else when it is acknowledged, or as much waits, or the spacing after it started."""
        starts = self._group_starts
        in_flight_bytes = sum([size_bytes for _, _, size_bytes in starts])
        spacing_s = FEW_SPACING_S if in_flight_bytes < GROUP_BYTES_MIN else GROUP_SPACING_S
        wait_s = starts[-1][1] + spacing_s - self._loop.time() if starts else 0.0
        if wait_s > 0:
            self._enough_bytes = max(GROUP_BYTES_MIN, in_flight_bytes)
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
        self._submitted_bytes += self._incoming_bytes
        self._incoming_bytes, self._spacing = 0, None
        self._feed(Submitted(requests))

    def set_assigned(self, is_assigned: bool) -> None:
        """Tell whether the group assigns this partition to us."""
        self._feed(Assigned() if is_assigned else Unassigned())

    def stop_leading(self) -> None:
        """The process is stopping: lead on until a successor's claim is read."""
        self._feed(Stopping())

    def invalidate(self, reason: str) -> None:
        """What this replica is built on is gone."""
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

    def tick(self) -> bool:
        """Look at deadlines and at what is to be written; returns whether there is housekeeping left to do soon."""
        self._correct_log_time()
        self._feed(Ticked())
        if self._clock_ms() - self._last_write_ms >= self._flush_interval_ms:
            self._write_if_due()
        return self.shard is not None and bool(self.shard.state.trimming)

    def _correct_log_time(self) -> None:
        if self.shard is not None:
            self.shard.log_ahead_ms = self._log_ahead_ms(self._clock_ms())

    # ---- performing effects

    def _feed(self, event: Event) -> None:
        if self.shard is None or self._is_closed:
            if isinstance(event, Submitted):
                self._refuse_unloaded(event)
            return
        self._advance(self.shard, event)

    def _advance(self, shard: Shard, event: Event | None) -> None:
        """Feed the core an event, or without one let it do what nobody waits for."""
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
                self._loop.call_soon(self._settle)
        elif shard.state.unwritten_batches >= self._flush_batches_max:
            self._write_if_due()

    def _settle(self) -> None:
        self._is_settling = False
        if self.shard is not None and not self._is_closed:
            self._advance(self.shard, None)

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
                self._start_recovery(prove=effect.prove)
            case StateChanged():
                self._state_changed(effect)
            case DirectoryChanged():
                self._on_directory_changed()
            case Contradicted():
                self._on_contradicted(self.partition, effect, None if self.shard is None else self.shard.claim)
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
        self._group_starts.append((effect.entries[-1].seq, self._loop.time(), self._submitted_bytes))
        self._submitted_bytes = 0
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
            self._note_refusal(str(refused))
            self._loop.call_soon(self._feed, ProduceFailed(term_id, str(refused)))

    def _on_reports(self, term_id: int, reports: Sequence[Report]) -> None:
        starts, last_seq = self._group_starts, reports[-1].seq
        while starts and starts[0][0] <= last_seq:
            self._ports.telemetry.group_acknowledged(self.partition, self._loop.time() - starts.popleft()[1])
        error = next((report.error for report in reports if report.error is not None), None)
        if error is not None:
            self._note_refusal(error)
        elif last_seq > 0:
            self.refused_terms = 0
        self._feed(Delivered(term_id, reports))
        if not starts:
            self._end_spacing()

    def _note_refusal(self, error: str) -> None:
        self.refused_terms += 1
        self.refusal = error

    def _drop_producer(self) -> None:
        self._group_starts.clear()
        self._submitted_bytes = 0
        if self._producer is not None:
            self._producer.abandon()
            self._producer = None

    # ---- recovery

    def _start_recovery(self, *, prove: bool) -> None:
        if self._recovery is not None:
            self._recovery.cancel()
        self._recovery = self._loop.create_task(self._recover(prove), name=f"recover-{self.partition}")

    async def _recover(self, prove: bool) -> None:
        """Find the end of the log (and prove membership after it, so that no later claim goes unnoticed), then allow the claim."""
        if prove:
            await asyncio.sleep(self._rng.uniform(*PROOF_BACKOFF_S) * 2 ** min(self.refused_terms, REFUSALS_COUNTED_MAX))
        while True:
            try:
                topic_id = await self._ports.cluster.topic_id()
                if topic_id != self.identity.topic_id:
                    self._feed(Invalidated("the metadata topic was deleted and created anew"))
                    return
                _, end = await self._ports.cluster.log_range(self.partition)
                if not prove or await self._prove() is Proof.MEMBER:
                    self._feed(MayClaim(end, self._rng.getrandbits(63) | 1))
                    return
            except (KafkaUnavailable, TopicMissing) as unavailable:
                LOG.warning("recovery waits for Kafka partition=%d error=%r", self.partition, str(unavailable))
            await asyncio.sleep(self._rng.uniform(*RETRY_BACKOFF_S))

    async def _prove(self) -> Proof:
        proof: asyncio.Future[Proof] = self._loop.create_future()
        self._ports.membership.prove(self.partition, lambda value: None if proof.done() else proof.set_result(value))
        return await proof

    # ---- writing the state database

    def _write_if_due(self) -> None:
        shard = self.shard
        if shard is None or self._store is None or self._writing is not None or self._is_closed or shard.phase is State.FAILED:
            return
        now_ms = self._clock_ms()
        if not shard.state.has_unwritten():
            is_idle = shard.state.applied_offset == self.written_offset or now_ms - self._last_write_ms < IDLE_WRITE_INTERVAL_MS
            if is_idle:
                return
        self._last_write_ms = now_ms
        freeze = self._freeze(shard)
        self._writing = self._loop.create_task(self._write(shard, self._store, freeze), name=f"write-{self.partition}")

    def _freeze(self, shard: Shard) -> Freeze:
        identity = self.identity
        # The bytes of the last applied entry are only known if it was applied in this life of the process.
        applied_offset, restored_hash = self._restored
        last_hash = restored_hash if shard.state.applied_offset == applied_offset else entry_hash(*shard.last_entry)
        header = replace(shard.header(identity.cluster_id, identity.topic_id), last_entry_hash=last_hash)
        return shard.state.freeze(header, results_before_ms=header.log_time_ms - self._limits.commit_results_retention_ms)

    async def _write(self, shard: Shard, store: StateStore, freeze: Freeze) -> None:
        started = self._loop.time()
        rest = self._ports.rest if freeze.generation.batches in RESTED_BATCHES else no_rest

        def pack_and_write() -> Flush:
            flush = self._packer.pack(freeze, rest)
            store.write(flush, rest)
            return flush

        try:
            flush = await self._loop.run_in_executor(self._ports.writer, pack_and_write)
        except Exception as error:  # noqa: BLE001 - see below
            # Whatever keeps the database from being written, the log has everything: stop this replica and rebuild it.
            self.flush_failures += 1
            self._writing = None
            self._is_disk_full = isinstance(error, DiskFull)
            self._feed(Invalidated(str(error) if isinstance(error, StateFailed) else f"the state database cannot be written: {error!r}"))
            return
        shard.state.written()
        self._writing = None
        self.written_offset = flush.header.applied_offset
        self.digest = Digest.from_bytes(flush.header.digest)
        self._ports.telemetry.flushed(self.partition, self._loop.time() - started, freeze.generation.batches)
        # Not before what was written is let go of, with this coroutine.
        self._loop.call_soon(self._ports.on_written)


def entry_hash(key: bytes, value: bytes) -> bytes:
    """Identify an entry of the log."""
    return blake2b(key + value, digest_size=ENTRY_HASH_BYTES).digest()


def _claim_of(header: Header) -> LeadershipClaimed | None:
    """The claim in force as a database remembers it, enough to find the leader."""
    if header.leader_node_id < 0:
        return None
    return LeadershipClaimed(
        epoch=header.epoch, term=header.term, node_id=header.leader_node_id, rack="", endpoints=parse_endpoints(header.leader_endpoints)
    )
