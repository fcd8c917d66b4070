"""Writing a replica's state database: freeze on the event loop, pack and write in another thread, one write at a time.

A write that fails loses nothing, because the log has everything: the replica is stopped and built anew.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import replace

from coordinator.core.leadership.states import State
from coordinator.core.shard import Shard
from coordinator.core.state.damage import DiskFull, StateFailed
from coordinator.core.state.packing import Flush, Freeze, Packer
from coordinator.core.view import ShardView
from coordinator.core.yielding import Rest, no_rest
from coordinator.runtime.loading import Loaded, entry_hash
from coordinator.runtime.ports import StateStore
from coordinator.runtime.telemetry import Telemetry
from records.state_digest import Digest

LOG = logging.getLogger("coordinator.replica")

RESTED_BATCHES = range(1_000, 25_000)
"""The writer rests between pieces of a generation of so many batches and files. Fewer are packed in a millisecond or two. Of
more there may soon be too many, and who commits so much waits for others of his own rather than for the writer."""
IDLE_WRITE_INTERVAL_MS = 5_000
"""How long a newer applied offset alone (barriers, claims) may stay unwritten."""


class StateWriter:
    """The state database of one replica, from `use` on."""

    def __init__(
        self,
        *,
        partition: int,
        cluster_id: str,
        topic_id: bytes,
        executor: Executor,
        rest: Rest,
        on_written: Callable[[], None],
        on_failed: Callable[[str], None],
        telemetry: Telemetry,
        loop: asyncio.AbstractEventLoop,
        clock_ms: Callable[[], int],
        interval_ms: int,
        results_retention_ms: int,
    ) -> None:
        """`on_written` is called when a write is in the database and its objects are gone, `on_failed` when one could not be written."""
        self.written_offset = -1
        self.digest = Digest()
        """The digest of the written state."""
        self.failures = 0
        self.is_disk_full = False
        """Whether the last write failed for want of room: what was written before is whole."""
        self._partition = partition
        self._cluster_id = cluster_id
        self._topic_id = topic_id
        self._executor = executor
        self._rest = rest
        self._on_written = on_written
        self._on_failed = on_failed
        self._telemetry = telemetry
        self._loop = loop
        self._clock_ms = clock_ms
        self._interval_ms = interval_ms
        self._results_retention_ms = results_retention_ms
        self._store: StateStore | None = None
        self._packer = Packer()
        self._restored: tuple[int, bytes] = (-1, b"")
        self._writing: asyncio.Task[None] | None = None
        self._last_write_ms = 0

    @property
    def is_writing(self) -> bool:
        return self._writing is not None

    def use(self, loaded: Loaded) -> None:
        """Write to a database that was loaded."""
        self._store, self._packer = loaded.store, loaded.packer
        header = loaded.header
        if header is not None:
            self.digest = Digest.from_bytes(header.digest)
            self.written_offset = header.applied_offset
            self._restored = (header.applied_offset, header.last_entry_hash)

    def is_time(self) -> bool:
        """Whether the last write is so long ago that there may be something to write."""
        return self._clock_ms() - self._last_write_ms >= self._interval_ms

    def write_if_due(self, shard: Shard, view: ShardView) -> None:
        """Begin to write what a settled shard has applied, if there is anything and nothing is being written."""
        if self._store is None or self._writing is not None or view.phase is State.FAILED:
            return
        now_ms = self._clock_ms()
        if not view.has_unwritten():
            is_idle = view.applied_offset == self.written_offset or now_ms - self._last_write_ms < IDLE_WRITE_INTERVAL_MS
            if is_idle:
                return
        self._last_write_ms = now_ms
        freeze = self._freeze(shard, view)
        self._writing = self._loop.create_task(self._write(shard, self._store, freeze), name=f"write-{self._partition}")

    async def finish(self) -> StateStore | None:
        """Wait for the write that is under way, and let go of the database: it is returned, to be closed; None when there is none."""
        if self._writing is not None:
            await asyncio.wait([self._writing])
        store, self._store = self._store, None
        return store

    async def write_last(self, shard: Shard, view: ShardView, store: StateStore) -> bool:
        """Write what is applied before the database is closed; returns whether that succeeded."""
        if self.failures:
            return False
        shard.settle()
        if view.phase is State.FAILED:
            return False
        try:
            freeze = self._freeze(shard, view)
            await self._loop.run_in_executor(self._executor, lambda: store.write(self._packer.pack(freeze)))
        except Exception as error:  # noqa: BLE001 - the log has everything, and the rest of the process has to be closed too
            LOG.error("state database not written on closing partition=%d error=%r", self._partition, error)
            self.failures += 1
            return False
        shard.written()
        return True

    def _freeze(self, shard: Shard, view: ShardView) -> Freeze:
        header = shard.header(self._cluster_id, self._topic_id)
        # The bytes of the last applied entry are only known if it was applied in this life of the process.
        applied_offset, restored_hash = self._restored
        last_hash = restored_hash if header.applied_offset == applied_offset else entry_hash(*view.last_entry)
        header = replace(header, last_entry_hash=last_hash)
        return shard.freeze(header, results_before_ms=header.log_time_ms - self._results_retention_ms)

    async def _write(self, shard: Shard, store: StateStore, freeze: Freeze) -> None:
        started = self._loop.time()
        rest = self._rest if freeze.generation.batches in RESTED_BATCHES else no_rest

        def pack_and_write() -> Flush:
            flush = self._packer.pack(freeze, rest)
            store.write(flush, rest)
            return flush

        try:
            flush = await self._loop.run_in_executor(self._executor, pack_and_write)
        except Exception as error:  # noqa: BLE001 - after any failure to write the database the replica is built anew
            self.failures += 1
            self._writing = None
            self.is_disk_full = isinstance(error, DiskFull)
            self._on_failed(str(error) if isinstance(error, StateFailed) else f"the state database cannot be written: {error!r}")
            return
        shard.written()
        self._writing = None
        self.written_offset = flush.header.applied_offset
        self.digest = Digest.from_bytes(flush.header.digest)
        self._telemetry.flushed(self._partition, self._loop.time() - started, freeze.generation.batches)
        # Not before what was written is let go of, with this coroutine.
        self._loop.call_soon(self._on_written)
