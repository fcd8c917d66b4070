"""The owner of one replica: feeds its shard with events, and performs the effects that the shard returns.

One replica, one owner, one event loop: nothing here runs in another thread except loading and writing the state database, which
gets immutable values. Every wait has a deadline and every task is kept and cancelled at the end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Concatenate, ParamSpec, TypeVar, assert_never, cast

from coordinator.core.assignor.member import WARM_LAG
from coordinator.core.events import (
    Accused,
    Append,
    Assigned,
    ClockAhead,
    Closing,
    Contradicted,
    DirectoryChanged,
    EndTerm,
    EntriesRead,
    Errand,
    Event,
    Follow,
    Invalidated,
    LogUnreadable,
    OpenTerm,
    PartitionsGrew,
    Recover,
    SchemaLevel,
    StateChanged,
    Stopping,
    Submitted,
    Ticked,
    Unassigned,
)
from coordinator.core.leadership.states import State
from coordinator.core.log_entry import ContradictoryEntry
from coordinator.core.request import Reply
from coordinator.core.shard import Shard
from coordinator.core.state.damage import DirectoryFailed, DiskFull, StateBusy, StateFailed
from coordinator.core.tables.in_memory import BrokenInvariant
from coordinator.core.view import ShardView
from coordinator.kafka.errors import ErrorCode
from coordinator.runtime.failures import FailureLog, NotReadable
from coordinator.runtime.loading.opening import StateLoader
from coordinator.runtime.loading.progress import LoadStatus
from coordinator.runtime.ports import (
    LogBroken,
    LogEntry,
    PinnedState,
    StateStore,
)
from coordinator.runtime.replica.broker_time import BrokerTime
from coordinator.runtime.replica.freshness import Freshness
from coordinator.runtime.replica.grouping import Grouping
from coordinator.runtime.replica.hooks import ReplicaHooks
from coordinator.runtime.replica.incoming import Answered, IncomingRequests
from coordinator.runtime.replica.recovery import Recovery
from coordinator.runtime.replica.state_lock import StateLock
from coordinator.runtime.replica.state_writer import StateWriter
from coordinator.runtime.replica.term_writer import TermWriter
from coordinator.runtime.replica.watches import Watch, Watches
from coordinator.runtime.replica_config import ReplicaIdentity, ReplicaPorts, ReplicaRules

LOG = logging.getLogger("coordinator.replica")

CHANGING = frozenset({State.RECOVERING, State.FENCING, State.RESIGNING})
"""States of a change of leader: commits wait until the log is read."""

P = ParamSpec("P")
T = TypeVar("T")


class Replica:
    """See the module's text."""

    def __init__(
        self,
        *,
        identity: ReplicaIdentity,
        rules: ReplicaRules,
        ports: ReplicaPorts,
        hooks: ReplicaHooks,
        loader: StateLoader,
        failures: FailureLog,
        next_generation: Callable[[], int],
    ) -> None:
        """`next_generation` numbers the times that this replica begins to read the log: entries of an earlier one do not count."""
        partition, loop = identity.partition, ports.loop
        self.identity = identity
        self.partition = partition
        self.failures = failures
        self.view: ShardView | None = None
        """The view of the loaded state; None while none is loaded."""
        self.unloadable: str | None = None
        self.is_behind_log_start = False
        """Whether it is unloadable only as long as no snapshot reaches up to the start of the log."""
        self.trouble: StateFailed | None = None
        """The last trouble with the state database; `DirectoryFailed` when the directory may be the reason."""
        self.state_lock = StateLock(partition, ports.clock_ms)
        self.log_bytes = 0
        """The size of the entries that were read since this replica was loaded; some twice, after a term ended."""
        self.is_state_sound = False
        """Whether the replica failed for something outside its state: the log is unreadable or was cut, or an effect failed."""
        self.broker_time = BrokerTime(lambda: loop.time() * 1000)
        self.freshness = Freshness(monotonic_s=loop.time, lag_max_s=rules.read_lag_max_s)
        self._watches = Watches(on_used=self._hurry)
        self.recovery = Recovery(identity, ports, feed=self._feed, on_log_lost=partial(self._log_broken, LogBroken.PAST_END))
        self.writer = StateWriter(
            identity,
            ports,
            on_written=self._written,
            on_failed=self.invalidate,
            on_directory_failed=self._directory_failed,
            on_marked=partial(hooks.on_marked, partition),
            lock=self.state_lock,
            interval_ms=rules.flush_interval_ms,
            results_retention_ms=rules.limits.commit_results_retention_ms,
        )
        grouping = Grouping(pauses=rules.pauses)
        incoming = IncomingRequests(
            grouping=grouping,
            loop=loop,
            clock_ms=ports.clock_ms,
            feed=self._feed,
            is_behind=self._is_behind,
            is_stuck=lambda: self._is_stuck() and self.view is not None and self.view.is_leading,
            backlog_s=rules.pauses.backlog_s,
        )
        # Attributes instead of methods that hand over: every request takes this way.
        self.submit, self.submit_all, self.ask = incoming.submit, incoming.submit_all, incoming.ask
        self._end_spacing = incoming.end_spacing
        self._term = TermWriter(
            partition,
            ports,
            grouping=grouping,
            incoming=incoming,
            broker_time=self.broker_time,
            recovery=self.recovery,
            feed=self._feed,
        )
        self._rules = rules
        self._ports = ports
        self._hooks = hooks
        self._loader = loader
        self._loop = loop
        self._clock_ms = ports.clock_ms
        self._shard: Shard | None = None
        self._generation = 0
        self._next_generation = next_generation
        self._is_settling = False
        self._is_closed = False
        self._is_reading_paused = False

    @property
    def failure(self) -> str | None:
        """Why this replica has failed, or could not be loaded; None while nothing is wrong."""
        if self.unloadable is not None:
            return self.unloadable
        return self.view.failure if self.view is not None and self.view.phase is State.FAILED else None

    @property
    def entries_behind(self) -> int | None:
        """How many entries a loaded replica is behind the end of its log; None while that is not known."""
        return None if self.view is None else self.freshness.entries_behind(self.view.next_offset)

    @property
    def is_warm(self) -> bool:
        """Whether this replica leads, or could at once as far as it knows the end of its log."""
        if self.view is not None and self.view.is_leading:
            return True
        behind = self.entries_behind
        return behind is not None and behind <= WARM_LAG

    # ---- life

    def reopen(self) -> None:
        """Allow another `load` after `close`."""
        self._is_closed = False

    def load_status(self) -> LoadStatus | None:
        """The progress of the loading; None for a replica that is loaded, or cannot be."""
        if self.unloadable is not None:
            return None
        return self._loader.progress.status(None if self.view is None else self.view.next_offset)

    async def load(self) -> None:
        """Open the state database and start following the log.

        Raises `ReplicaUnloadable`, `KafkaUnavailable`, and `StateFailed` when even an empty database cannot be used, `StateBusy` while
        another connection has locked it.
        """
        started = self._loop.time()
        try:
            loaded = await self._loader.load()
        except StateBusy as busy:
            self.state_lock.met(busy)
            raise
        self.state_lock.gone()
        self.writer.use(loaded)
        self._shard = loaded.shard(self.identity, self._rules.limits)
        self.freshness.forget()
        view = self.view = ShardView(self._shard)
        self._follow(view.next_offset)
        if view.directory.placements:
            self._hooks.on_directory_changed()
        LOG.info(
            "replica loaded partition=%d applied_offset=%d partitions=%d seconds=%.3f",
            self.partition,
            view.applied_offset,
            view.live_partitions,
            self._loop.time() - started,
        )
        self._ports.telemetry.loaded(self.partition, self._loop.time() - started)

    async def close(self, *, keep_evidence: bool = False) -> None:
        """Write all applied changes and end; with `keep_evidence` write nothing and set the database aside, if it may be damaged.

        All that waits is answered. Only the latter raises `DirectoryFailed`.
        """
        store = await self._let_go()
        if store is None:
            return
        # Reads go through the store, which is about to be closed: no read may reach it.
        if not keep_evidence:
            clean = False
            if self._shard is not None and self.view is not None:
                clean = await self.writer.write_last(self._shard, self.view, store, is_state_sound=self.is_state_sound)
            self._shard = self.view = None
            await self._close(store, clean=clean)
            return
        self._shard = self.view = None
        if isinstance(self.trouble, DiskFull | StateBusy):
            # The written database is whole and is read again; of a full disk setting it aside would need as much room once more.
            await self._loader.close(store)
        else:
            await self._loader.set_aside(store, self.failures.last_reason)

    async def pin(self) -> PinnedState:
        """Hold on to the state that the last write of the database left. Raises `StateFailed`, also when there is none."""
        return await self.writer.pin()

    async def abandon(self) -> None:
        """Let everything go, and leave the database as it is: its directory has failed. All that waits is answered."""
        self.writer.suspend()
        store = await self._let_go()
        self._shard = self.view = None
        if store is not None:
            await self._close(store, clean=False)

    async def _let_go(self) -> StateStore | None:
        """End everything but the state database, which is returned, to be closed; None when there is none."""
        self._feed(Closing())
        self._is_closed = True
        self._watches.fire_all()
        self.recovery.cancel()
        self._term.close()
        if self._shard is not None:
            self._ports.reader.unfollow(self.partition)
        return await self.writer.finish()

    async def _close(self, store: StateStore, *, clean: bool) -> None:
        try:
            # The caller may be cancelled, since the process stops: work that has not begun would be dropped, and the file stay locked.
            await asyncio.shield(self._loop.run_in_executor(self._ports.writer, partial(store.close, clean=clean)))
        except Exception as error:  # noqa: BLE001 - any error of a lost disk: a database that is not marked as clean is not trusted
            LOG.warning("the state database was not closed cleanly partition=%d error=%r", self.partition, error)

    # ---- reading what is applied

    @property
    def is_readable(self) -> bool:
        """Whether `look` has a state to look at."""
        return self.view is not None and not self._is_closed and self.view.phase is not State.FAILED

    def look(self, read: Callable[Concatenate[ShardView, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Read the state with everything that was answered: for all answers to clients. Raises `NotReadable`.

        A finding that cannot be (a damaged page, a file that is not there, numbers that do not fit) fails the
        replica, which is set aside and rebuilt. So damaged data is never answered, and never stays.
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
            # Any error: the consequences of damaged bytes are not known in advance.
            self._found_damage(error)
            raise NotReadable(self.partition) from error

    def _found_damage(self, error: Exception) -> None:
        # A traceback is for unforeseen errors; recognised damage describes itself.
        trouble = None if isinstance(error, StateFailed) else error
        if isinstance(error, StateFailed):
            self.trouble = error
        LOG.error("a read found what cannot be partition=%d reason=%r", self.partition, str(error), exc_info=trouble)
        self.invalidate(str(error) if isinstance(error, StateFailed | BrokenInvariant) else f"a read failed: {error!r}")

    def watch(self, watch: Watch) -> None:
        """Have a watch fire when its partitions change in the state that `look` reads, also when they have since its marks were taken."""
        if self.view is None or not self.is_readable:
            watch.wake(None)
        else:
            self._watches.add(watch, self.view if self.view.is_settled else None)

    def unwatch(self, watch: Watch) -> None:
        """Forget a watch, if it has not fired."""
        self._watches.discard(watch)

    # ---- news from the other parts of the node

    def set_assigned(self, is_assigned: bool) -> None:
        """Tell whether the group assigns this partition to us."""
        self._feed(Assigned() if is_assigned else Unassigned())

    def stop_leading(self) -> None:
        """Begin to stop: lead on until a successor's claim is read."""
        self._feed(Stopping())

    def invalidate(self, reason: str) -> None:
        """Fail the replica, since its base is gone."""
        self._feed(Invalidated(reason))

    def accuse(self, entry: ContradictoryEntry, accuser_id: int) -> None:
        """Take the accusation of another node, which reads an entry of the term led here as a contradiction."""
        self._feed(Accused(contradiction=entry, accuser_id=accuser_id))

    def on_entries(self, generation: int, entries: Sequence[LogEntry], size_bytes: int) -> None:
        """Take entries of the log, in order."""
        if generation == self._generation:
            self.log_bytes += size_bytes
            if self.broker_time.read(entries):
                self._correct_log_time()
            self._feed(EntriesRead(entries))
            if self._is_stuck() and self.view is not None and self.view.phase in (State.FOLLOWING, State.RECOVERING):
                self._pause_reading()

    def on_log_broken(self, generation: int, why: LogBroken, detail: str) -> None:
        """Take the end of reading: the log cannot be read on."""
        if generation == self._generation:
            self._log_broken(why, detail)

    def _log_broken(self, why: LogBroken, detail: str) -> None:
        unreadable = LogUnreadable(f"{why.value}: {detail}")
        if why in (LogBroken.PAST_END, LogBroken.CUT, LogBroken.FAILED):
            self._fail_with_sound_state(unreadable)
        else:
            self._feed(unreadable)

    def _fail_with_sound_state(self, event: LogUnreadable | Invalidated) -> None:
        """Fail for something outside the state: its database is written and kept."""
        self._settle()  # acknowledged changes belong to the state that is going to be compared with the log
        self.is_state_sound |= self.failure is None  # this may be told twice, and an earlier failure has another reason
        self._feed(event)

    def use_schema_level(self, level: int) -> None:
        """Write entries at this level of the log's schema from now on."""
        if self.view is not None and self.view.schema_level != level:
            self._feed(SchemaLevel(level))

    def grow(self, partition_count: int) -> None:
        """Note how many partitions the metadata topic has now."""
        self._feed(PartitionsGrew(partition_count))

    def tick(self) -> bool:
        """Look at deadlines and at changes that are to be written; returns whether there is housekeeping left to do soon."""
        self._correct_log_time()
        self._feed(Ticked())
        if self.writer.is_time():
            self._settle()
            if self._shard is not None and self.view is not None and not self._is_closed:
                self.writer.write_if_due(self._shard, self.view)
        if self.view is not None:
            self.freshness.reached(self.view.next_offset)
        if self._watches and not self.freshness.is_sufficient:
            self._watches.fire_all()
        return self.view is not None and self.view.is_trimming

    def _correct_log_time(self) -> None:
        ahead_ms = self._ports.log_ahead_ms(self._clock_ms())
        if self.view is not None and self.view.log_ahead_ms != ahead_ms:
            self._feed(ClockAhead(ahead_ms))

    # ---- performing effects

    def _directory_failed(self, failed: DirectoryFailed) -> None:
        self.trouble = failed
        self._hooks.on_directory_failed(self.partition)

    def _is_behind(self) -> bool:
        """Whether so much is not written yet that commits have to wait for the writer."""
        return self.view is not None and self.view.backlog_batches >= self._rules.flush_backlog_max

    def _is_stuck(self) -> bool:
        """Whether memory holds as much as it may, and a lock keeps the writer from writing it."""
        return self.state_lock.is_held and self._is_behind()

    def _pause_reading(self) -> None:
        """Follow the log no further until the state database is written: what is read is applied, and stays in memory."""
        LOG.warning("replica follows the log no further: its state database is locked partition=%d", self.partition)
        self._is_reading_paused = True
        self._generation = self._next_generation()  # entries that are on their way do not count
        self._ports.reader.unfollow(self.partition)

    def _written(self) -> None:
        self._ports.on_written()
        self._end_spacing()
        if self._is_reading_paused and self.is_readable and self.view is not None:
            self._follow(self.view.next_offset)

    def _feed(self, event: Event) -> None:
        if self._shard is None or self._is_closed:
            if isinstance(event, Submitted):
                self._refuse_unloaded(event)
            return
        self._advance(self._shard, event)

    def _advance(self, shard: Shard, event: Event | None) -> None:
        """Feed the core an event, or without one let it apply deferred changes."""
        try:
            effects = shard.settle() if event is None else shard.feed(event, self._clock_ms())
        except StateFailed as failed:
            self.trouble = failed
            effects = shard.break_off(str(failed))
        except Exception as error:
            # A bug of the core: the state may be half changed, so this replica stops, keeps the evidence and is rebuilt.
            LOG.exception("the core failed partition=%d event=%s", self.partition, type(event).__name__)
            effects = shard.break_off(f"the core failed: {error!r}")
        undone: Exception | None = None
        for effect in effects:
            try:
                if isinstance(effect, Reply):
                    # Here and not in `_perform`: nearly all effects are answers.
                    cast(Answered, effect.token)(effect.answer)
                else:
                    self._perform(effect)
            except Exception as error:
                # Perform the remaining effects anyway; otherwise requests hang and entries are skipped.
                LOG.exception("an effect was not performed partition=%d effect=%s", self.partition, type(effect).__name__)
                if not isinstance(effect, Reply):
                    undone = undone or error
        if not shard.is_settled:
            if not self._is_settling:
                # The connections scheduled the writing of the answers just now: it comes first.
                self._is_settling = True
                self._loop.call_soon(self._settle_deferred)
        elif self.view is not None:
            self._watches.look(self.view)
            if self.view.unwritten_batches >= self._rules.flush_batches_max:
                self.writer.write(shard, self.view)
        if isinstance(undone, StateFailed | BrokenInvariant):
            self.invalidate(str(undone))
        elif undone is not None:
            self._fail_with_sound_state(Invalidated(f"an effect was not performed: {undone!r}"))

    def _settle_deferred(self) -> None:
        self._is_settling = False
        self._settle()

    def _settle(self) -> None:
        """Have the core apply deferred changes; a replica to which they do not fit fails."""
        if self._shard is not None and not self._is_closed and not self._shard.is_settled:
            self._advance(self._shard, None)

    def _refuse_unloaded(self, event: Submitted) -> None:
        for request in event.requests:
            message = f"coordinator {self.partition} is loading; retry"
            cast(Answered, request.token)(request.command.refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, message))

    def _perform(self, effect: Errand) -> None:
        match effect:
            case Append():
                self._term.append(effect)
            case OpenTerm():
                self._term.open(effect)
            case EndTerm():
                self._term.close()
                LOG.info("term ended partition=%d term=%d reason=%r", self.partition, effect.term_id, effect.reason)
            case Follow():
                self._follow(effect.next_offset)
            case Recover():
                if self.view is not None:
                    self.recovery.start(prove=effect.prove, next_offset=self.view.next_offset)
            case StateChanged():
                self._state_changed(effect)
            case DirectoryChanged():
                self._hooks.on_directory_changed()
            case Contradicted():
                self._hooks.on_contradicted(self.partition, effect, None if self.view is None else self.view.claim)
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
        self._hooks.on_state_changed()
        self._hurry()
        if effect.after is State.FAILED:
            self._watches.fire_all()
            self.failures.failed(effect.reason)
            self._ports.reader.unfollow(self.partition)
            self._hooks.on_failed(self.partition, effect.reason)

    def _hurry(self) -> None:
        """Have the log read without delay while a change of leader, or a poll at a replica that does not lead, waits for its entries."""
        view = self.view
        if view is not None and not self._is_closed:
            self._ports.reader.hurry(self.partition, view.phase in CHANGING or (bool(self._watches) and not view.is_leading))

    def _follow(self, next_offset: int) -> None:
        # Numbers that no earlier replica of this partition had: entries that were read for a failed one may still be on their way.
        self._generation = self._next_generation()
        self._is_reading_paused = False
        view, last_hash = self.view, None
        if view is not None and view.applied_offset == next_offset - 1 >= 0:
            last_hash = self.writer.last_entry_hash(view)
        self._ports.reader.follow(self.partition, next_offset, self._generation, last_hash)
        if self._watches:
            self._hurry()
