"""Writing a replica's state database: freeze on the event loop, pack and write in another thread, one write at a time.

A write that fails loses nothing, because the log has everything: the replica is stopped and built anew. One that meets the lock of another
connection has not failed: it is tried again until the lock is gone, while what is applied meanwhile stays in memory.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple, TypeVar

from coordinator.core.leadership.states import State
from coordinator.core.log_entry import entry_hash
from coordinator.core.shard import Shard
from coordinator.core.state.damage import DirectoryFailed, StateBusy, StateFailed
from coordinator.core.state.packing import Flush, Freeze, Packer
from coordinator.core.state.replica_state import Sealed
from coordinator.core.tables.stored_rows import Header
from coordinator.core.view import ShardView
from coordinator.core.yielding import Rest, no_rest
from coordinator.runtime.loading.opening import Loaded
from coordinator.runtime.ports import PinnedState, StateStore
from coordinator.runtime.replica.state_lock import RETRY_S, StateLock
from coordinator.runtime.replica.write_times import WriteTimes
from coordinator.runtime.replica_config import ReplicaIdentity, ReplicaPorts
from coordinator.runtime.threads import in_thread
from records.state_digest import Digest

LOG = logging.getLogger("coordinator.replica")

T = TypeVar("T")


class Marked(NamedTuple):
    """A write of the state database that ended exactly at a mark. The taker of the snapshot gets that state pinned, and closes it."""

    mark_id: int
    header: Header
    is_trimming: bool
    """Whether deleted batches were still being subtracted from their files, so that the digest is no other replica's."""
    pinned: PinnedState | None


class StateWriter:
    """The state database of one replica, from `use` on."""

    def __init__(
        self,
        identity: ReplicaIdentity,
        ports: ReplicaPorts,
        *,
        on_written: Callable[[], None],
        on_failed: Callable[[str], None],
        on_directory_failed: Callable[[DirectoryFailed], None],
        on_marked: Callable[[Marked], None],
        lock: StateLock,
        interval_ms: int,
        results_retention_ms: int,
    ) -> None:
        """`on_written` is called when a write is in the database and its objects are gone, `on_failed` when one could not be written.

        `on_directory_failed` is called instead when the directory would not take it: nothing is written from then on.

        `on_marked` is called when a write that ends at a mark is in the database; `lock` gets the locks that a write meets.
        """
        self.written_offset = -1
        self.written_batches = 0
        """The number of batches and files that this process has written."""
        self.wanted_mark: int | None = None
        """The id of the mark whose written state is to be pinned."""
        self.digest = Digest()
        """The digest of the written state."""
        self.failures = 0
        self._identity = identity
        self._partition = identity.partition
        self._executor = ports.writer
        self._rest = ports.rest
        self._on_writing = ports.on_writing
        self._on_written = on_written
        self._on_failed = on_failed
        self._on_directory_failed = on_directory_failed
        self._is_suspended = False
        self._on_marked = on_marked
        self._lock = lock
        self._telemetry = ports.telemetry
        self._loop = ports.loop
        self._clock_ms = ports.clock_ms
        self._times = WriteTimes(clock_ms=ports.clock_ms, interval_ms=interval_ms)
        self._results_retention_ms = results_retention_ms
        self._store: StateStore | None = None
        self._packer = Packer()
        self._restored: tuple[int, bytes] = (-1, b"")
        self._writing: asyncio.Task[None] | None = None
        self._is_finishing = asyncio.Event()

    @property
    def is_writing(self) -> bool:
        return self._writing is not None

    def use(self, loaded: Loaded) -> None:
        """Write to a database that was loaded."""
        self._store, self._packer = loaded.store, loaded.packer
        self._is_finishing.clear()
        header = loaded.header
        if header is not None:
            self.digest = Digest.from_bytes(header.digest)
            self.written_offset = header.applied_offset
            self._restored = (header.applied_offset, header.last_entry_hash)

    def last_entry_hash(self, view: ShardView) -> bytes:
        """Identify the entry at the applied offset of a settled shard."""
        # Its bytes are only known if it was applied in this life of the process.
        applied_offset, restored_hash = self._restored
        return restored_hash if view.applied_offset == applied_offset else entry_hash(*view.last_entry)

    def is_time(self) -> bool:
        """Whether `write_if_due` is to be called by the clock."""
        return self._times.is_time()

    def write_if_due(self, shard: Shard, view: ShardView) -> None:
        """Begin to write what a settled shard has applied if it is time for that; for the clock to call."""
        if not view.has_unwritten():
            is_due = self._times.is_offset_due() and view.applied_offset != self.written_offset
        else:
            is_due = view.phase is not State.FOLLOWING or view.has_sealed() or self._times.is_followed_due(view.unwritten_batches)
        if is_due:
            self.write(shard, view)

    def write(self, shard: Shard, view: ShardView) -> None:
        """Begin to write what a settled shard has applied, unless something is being written or the database is given up."""
        if self._store is None or self._writing is not None or self._is_suspended or view.phase is State.FAILED:
            return
        freeze, mark = self._take(shard, view)
        rest = self._rest if self._times.begin(freeze.generation.batches) else no_rest
        self._on_writing(self._partition, freeze.generation.batches)
        self._writing = self._loop.create_task(self._write(shard, self._store, freeze, mark, rest), name=f"write-{self._partition}")

    def suspend(self) -> None:
        """Begin no further write: the database is given up, or the directory would not take it."""
        self._is_suspended = True

    async def pin(self) -> PinnedState:
        """Hold on to the state that the last write left. Raises `StateFailed`, also when nothing was written yet."""
        store = self._store
        if store is None:
            raise StateFailed(f"coordinator {self._partition} has no open state database")
        return await self.once_unlocked(store.pin)

    async def finish(self) -> StateStore | None:
        """Wait for the write that is under way, and let go of the database: it is returned, to be closed; None when there is none.

        A write that waits for the end of a lock is given up.
        """
        self._is_finishing.set()
        if self._writing is not None:
            await asyncio.wait([self._writing])
        self._on_writing(self._partition, 0)
        store, self._store = self._store, None
        return store

    async def write_last(self, shard: Shard, view: ShardView, store: StateStore, *, is_state_sound: bool = False) -> bool:
        """Write what is applied before the database is closed; returns whether that succeeded.

        The state of a failed replica is not written, unless it is sound: something outside it failed.
        """
        if self.failures:
            return False
        shard.settle()
        if view.phase is State.FAILED and not is_state_sound:
            return False
        is_last = False
        try:
            while not is_last:
                freeze, mark = self._take(shard, view)
                is_last = mark is None
                await self._loop.run_in_executor(self._executor, self._pack_and_write, store, freeze, no_rest)
                shard.written()
        except Exception as error:  # noqa: BLE001 - the log has everything, and the other parts of the process have to be closed too
            LOG.error("state database not written on closing partition=%d error=%r", self._partition, error)
            self.failures += 1
            return False
        return True

    async def once_unlocked(self, work: Callable[[], T]) -> T:
        """Do work on the database in the writer's thread, again until it meets no lock. Raises `StateBusy` once the writer finishes."""
        while True:
            try:
                return await in_thread(self._executor, work)
            except StateBusy as busy:
                self._lock.met(busy)
                if self._is_finishing.is_set():
                    raise
            with suppress(TimeoutError):
                await asyncio.wait_for(self._is_finishing.wait(), RETRY_S)

    def _take(self, shard: Shard, view: ShardView) -> tuple[Freeze, Sealed | None]:
        """The generation that is written next, and the mark at which it ends; None when it ends at none."""
        identity = self._identity
        written_ms = self._clock_ms() - view.log_ahead_ms
        sealed = shard.take_sealed()
        if sealed is not None:
            freeze = sealed.freeze
            header = replace(
                freeze.header,
                cluster_id=identity.cluster_id,
                topic_id=identity.topic_id,
                metadata_partition=identity.partition,
                last_entry_hash=entry_hash(*sealed.last_entry),
            )
            results_before_ms = header.log_time_ms - self._results_retention_ms
            return replace(freeze, header=header, results_before_ms=results_before_ms, written_ms=written_ms), sealed
        header = shard.header(identity.cluster_id, identity.topic_id)
        header = replace(header, last_entry_hash=self.last_entry_hash(view))
        results_before_ms = header.log_time_ms - self._results_retention_ms
        return shard.freeze(header, results_before_ms=results_before_ms, written_ms=written_ms), None

    def _pack_and_write(self, store: StateStore, freeze: Freeze, rest: Rest) -> Flush:
        flush = self._packer.pack(freeze, rest)
        store.write(flush, rest)
        return flush

    async def _write(self, shard: Shard, store: StateStore, freeze: Freeze, mark: Sealed | None, rest: Rest) -> None:
        started = self._loop.time()
        is_wanted = mark is not None and mark.mark_id == self.wanted_mark
        try:
            # Packed once: a packer goes on from the flush before.
            flush = await in_thread(self._executor, lambda: self._packer.pack(freeze, rest))
            await self.once_unlocked(lambda: store.write(flush, rest))
            self._lock.gone()
            # The next write does not begin before this is pinned.
            pinned = await self.once_unlocked(store.pin) if is_wanted else None
            shard.written()
        except DirectoryFailed as failed:
            self.failures += 1
            self._writing = None
            self.suspend()
            self._on_directory_failed(failed)
            return
        except StateBusy as busy:
            self.failures += 1
            self._writing = None
            LOG.warning("state database not written, it is locked partition=%d reason=%r", self._partition, str(busy))
            return
        except Exception as error:  # noqa: BLE001 - after any failure to write the database the replica is built anew
            self.failures += 1
            self._writing = None
            self._on_failed(str(error) if isinstance(error, StateFailed) else f"the state database cannot be written: {error!r}")
            return
        self._writing = None
        self.written_offset = flush.header.applied_offset
        self.digest = Digest.from_bytes(flush.header.digest)
        self.written_batches += freeze.generation.batches
        if mark is not None:
            self._on_marked(Marked(mark.mark_id, flush.header, mark.is_trimming, pinned))
        self._telemetry.flushed(self._partition, self._loop.time() - started, freeze.generation.batches)
        # Not before what was written is let go of, with this coroutine.
        self._loop.call_soon(self._on_written)
