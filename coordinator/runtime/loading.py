"""Opening a replica's state database: proven against the log, or set aside as evidence and begun anew."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import TypeVar

from coordinator.core.state.damage import StateCorrupt
from coordinator.core.state.packing import Packer
from coordinator.core.state.replica_state import ShardState
from coordinator.core.tables.stored_rows import Header
from coordinator.runtime.failures import FailureLog
from coordinator.runtime.ports import Cluster, StateStore, StateStores

LOG = logging.getLogger("coordinator.replica")

ENTRY_HASH_BYTES = 16

T = TypeVar("T")


class ReplicaUnloadable(Exception):
    """The replica cannot be brought up from where it stands; the text says why and what to do."""


class EntryDiffers(Exception):
    """The state database was built from another log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """An open state database and the state that it holds; `header` is None for an empty one.

    Verdicts on entries before `certain_end` are certain: the state is folded from the beginning of a log that held them already.
    """

    store: StateStore
    state: ShardState
    header: Header | None
    packer: Packer
    certain_end: int


class StateLoader:
    """Loads and closes the state database of one metadata partition."""

    def __init__(
        self,
        *,
        partition: int,
        cluster_id: str,
        topic_id: bytes,
        cluster: Cluster,
        stores: StateStores,
        executor: Executor,
        failures: FailureLog,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._partition = partition
        self._cluster_id = cluster_id
        self._topic_id = topic_id
        self._cluster = cluster
        self._stores = stores
        self._executor = executor
        self._failures = failures
        self._loop = loop

    async def load(self) -> Loaded:
        """Open the state database and restore the state; one that is damaged or of another log is set aside, and begun anew.

        A failure leaves it closed: loading is tried again. Raises `ReplicaUnloadable`, `KafkaUnavailable`, and `StateFailed` when even an
        empty database cannot be used.
        """
        return await self._open(is_new=False)

    async def _open(self, *, is_new: bool) -> Loaded:
        store: StateStore | None = None
        try:
            store = await self._off_the_loop(partial(self._stores.open, self._partition, self._cluster_id, self._topic_id))
            stored = await self._off_the_loop(store.load)
            end = await self._verify_position(None if stored is None else stored.header)
            if stored is None:
                return Loaded(store=store, state=ShardState(cold=store.reader()), header=None, packer=Packer(), certain_end=end)
            # Seconds for a million partitions: what else this process leads goes on meanwhile.
            state = await self._off_the_loop(partial(ShardState.restore, stored, store.reader()))
            return Loaded(store=store, state=state, header=stored.header, packer=stored.packer, certain_end=0)
        except (EntryDiffers, StateCorrupt) as refused:
            if is_new:
                await self.close(store)
                raise
            self._failures.failed(str(refused))
            await self.set_aside(store, str(refused))
        except BaseException:
            await self.close(store)
            raise
        return await self._open(is_new=True)

    async def close(self, store: StateStore | None) -> None:
        """Close a database, if it could be opened, without marking it as clean."""
        if store is not None:
            await self._off_the_loop(partial(store.close, clean=False))

    async def set_aside(self, store: StateStore | None, reason: str) -> None:
        """Close a database, if it could be opened, and keep it as evidence. Raises `DirectoryFailed`."""
        await self.close(store)
        name = await self._off_the_loop(partial(self._stores.set_aside, self._partition))
        self._failures.kept(name)
        LOG.error("state database set aside partition=%d file=%s reason=%r", self._partition, name, reason)

    async def _off_the_loop(self, work: Callable[[], T]) -> T:
        return await self._loop.run_in_executor(self._executor, work)

    async def _verify_position(self, header: Header | None) -> int:
        """The log must still hold what the database was built from; returns its end. Raises `ReplicaUnloadable`, `EntryDiffers`."""
        start, end = await self._cluster.log_range(self._partition)
        applied_offset = -1 if header is None else header.applied_offset
        if applied_offset >= end:
            raise ReplicaUnloadable(
                f"metadata partition {self._partition}: the state database has applied offset {applied_offset}, but the log ends at {end}."
                " Acknowledged data is missing from the log: restore the topic, or remove the data directory to accept the loss"
            )
        if applied_offset < start - 1:
            raise ReplicaUnloadable(
                f"metadata partition {self._partition}: the log starts at {start}, after the applied offset {applied_offset} of the state"
                " database, and no snapshot reaches it: the state cannot be rebuilt from here"
            )
        if header is not None and applied_offset >= max(start, 0):
            entry = await self._cluster.read_entry(self._partition, applied_offset)
            if entry is not None and entry_hash(entry.key or b"", entry.value or b"") != header.last_entry_hash:
                raise EntryDiffers(f"entry {applied_offset} of the log is not the one the state database has applied")
        return end


def entry_hash(key: bytes, value: bytes) -> bytes:
    """Identify an entry of the log."""
    return blake2b(key + value, digest_size=ENTRY_HASH_BYTES).digest()
