"""Opening a replica's state database: proven against the log, or set aside as evidence and begun anew.

One that is empty, or from which the log does not go on any more, is made from a snapshot; one of a restored log begins with a snapshot
of another log.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial

from coordinator.core.endpoints import parse_endpoints
from coordinator.core.limits import Limits
from coordinator.core.log_entry import entry_hash
from coordinator.core.shard import Shard
from coordinator.core.state.damage import StateCorrupt
from coordinator.core.state.packing import Packer
from coordinator.core.state.replica_state import ShardState, Stored
from coordinator.core.tables.stored_rows import Header
from coordinator.runtime.failures import FailureLog
from coordinator.runtime.loading.from_snapshot import FoundSnapshots, NoGoodSnapshot, SnapshotLoader
from coordinator.runtime.loading.progress import LoadProgress
from coordinator.runtime.loading.restored import RestoredStates
from coordinator.runtime.ports import SnapshotStoreFailed, StateStore
from coordinator.runtime.replica_config import ReplicaIdentity, ReplicaPorts
from coordinator.runtime.threads import in_thread
from records.log import Fence
from records.model import LeadershipClaimed
from records.snapshot import BadSnapshot

LOG = logging.getLogger("coordinator.replica")


class ReplicaUnloadable(Exception):
    """The replica cannot continue from its state; the text says why and what to do."""


class BehindLogStart(ReplicaUnloadable):
    """The log begins after the state ends, and no snapshot closes the gap; one may reappear, so loading is tried again."""


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

    def shard(self, identity: ReplicaIdentity, limits: Limits) -> Shard:
        """Put the core of a replica together over the state."""
        header = self.header
        return Shard(
            partition=identity.partition,
            partition_count=identity.partition_count,
            node_id=identity.node_id,
            rack=identity.rack,
            endpoints=identity.endpoints,
            limits=limits,
            state=self.state,
            fence=Fence() if header is None else Fence(header.epoch, header.term, header.seq),
            claim=None if header is None else _claim_of(header),
            certain_end=self.certain_end,
        )


class StateLoader:
    """Loads and closes the state database of one metadata partition."""

    def __init__(self, identity: ReplicaIdentity, ports: ReplicaPorts, failures: FailureLog) -> None:
        """`failures` gets the reasons for which a state database is set aside."""
        self.progress = LoadProgress()
        self._snapshots = SnapshotLoader(identity, ports, self.progress)
        self._restored = RestoredStates(identity, ports)
        self._identity = identity
        self._partition = identity.partition
        self._cluster = ports.cluster
        self._stores = ports.stores
        self._executor = ports.writer
        self._failures = failures

    async def load(self) -> Loaded:
        """Open the state database and restore the state; one that is damaged or of another log is set aside, and begun anew.

        A failure leaves it closed: loading is tried again. Raises `ReplicaUnloadable`, of which `BehindLogStart` is one,
        `RestoreUnfinished`, `KafkaUnavailable`, and `StateFailed` when even an empty database cannot be used.
        """
        return await self._open(is_new=False)

    async def _open(self, *, is_new: bool) -> Loaded:
        identity = self._identity
        self.progress.opens()
        store: StateStore | None = None
        try:
            open_store = partial(self._stores.open, self._partition, identity.cluster_id, identity.topic_id)
            store = await in_thread(self._executor, open_store)
            stored = await in_thread(self._executor, store.load)
            start, end = await self._cluster.log_range(self._partition)
            applied_offset = -1 if stored is None else stored.header.applied_offset
            is_fresh = stored is None
            is_needed = applied_offset < start - 1
            found = await self._snapshots.find(start, end) if is_needed or (is_fresh and end) else None
            if found is not None and (is_needed or found.sources):
                closing, store = store, None
                await self.close(closing)
                stored = await self._from_snapshot(found, applied_offset, start, end)
                is_fresh = True
                store = await in_thread(self._executor, open_store)
            prepared_for = b""
            if start == 0 and (stored is None or stored.header.applied_offset < 0):
                # The database has no entry of this log.
                beginning = await self._restored.beginning(end)
                prepared_for = b"" if beginning is None else beginning.prepared_for
                found_for = b"" if stored is None else stored.header.last_entry_hash
                if found_for not in (b"", prepared_for):
                    raise EntryDiffers("the state database was made for another beginning of the log")
                is_fresh = True
                if beginning is not None and not found_for:
                    closing, store = store, None
                    await self.close(closing)
                    stored = await self._restored.prepare(beginning)
                    store = await in_thread(self._executor, open_store)
            self.progress.reads_log(start if stored is None else stored.header.applied_offset + 1, end)
            if stored is None:
                state = ShardState(cold=store.reader(), prepared_for=prepared_for)
                return Loaded(store=store, state=state, header=None, packer=Packer(), certain_end=end)
            if not is_fresh:
                await self.verify_position(stored.header, start, end)
            # Seconds for a million partitions: what else this process leads goes on meanwhile.
            state = await in_thread(self._executor, partial(ShardState.restore, stored, store.reader()))
            # A snapshot was proven, and its log with it: folded from there is folded from the beginning.
            certain_end = end if is_fresh else 0
            return Loaded(store=store, state=state, header=stored.header, packer=stored.packer, certain_end=certain_end)
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

    async def _from_snapshot(self, found: FoundSnapshots, applied_offset: int, start: int, end: int) -> Stored | None:
        """Make the state database, which is closed, from a snapshot; None when the log is enough and no snapshot is good.

        Raises `BehindLogStart` when the log is not enough and no snapshot is good, `SnapshotStoreFailed` when there may be one, also
        because the log's start has moved meanwhile, to a newer one.
        """

        async def verify(header: Header) -> None:
            try:
                await self.verify_position(header, start, end)
            except (EntryDiffers, ReplicaUnloadable) as other:
                raise BadSnapshot(f"the snapshot up to offset {header.applied_offset} is not of this log: {other}") from other

        try:
            return await self._snapshots.install(found, verify)
        except NoGoodSnapshot as none:
            if applied_offset >= start - 1:
                LOG.info("replica is built from the log partition=%d reason=%r", self._partition, str(none))
                return None
            message = f"metadata partition {self._partition}: the log starts at {start}, after the applied offset {applied_offset}; {none}"
            moved, _ = await self._cluster.log_range(self._partition)
            if none.is_certain and moved == start:
                remedy = "Bring a snapshot back to the object store, start a node that has one, or restore the topic"
                raise BehindLogStart(f"{message}. {remedy}. This node looks again by itself, after some minutes at most") from none
            raise SnapshotStoreFailed(message) from none

    async def close(self, store: StateStore | None) -> None:
        """Close a database, if it could be opened, without marking it as clean."""
        if store is not None:
            await in_thread(self._executor, partial(store.close, clean=False))

    async def set_aside(self, store: StateStore | None, reason: str) -> None:
        """Close a database, if it could be opened, and keep it as evidence. Raises `DirectoryFailed`."""
        await self.close(store)
        name = await in_thread(self._executor, partial(self._stores.set_aside, self._partition))
        self._failures.kept(name)
        LOG.error("state database set aside partition=%d file=%s reason=%r", self._partition, name, reason)

    async def verify_position(self, header: Header, start: int, end: int) -> None:
        """The log, which has the entries `[start, end)`, must still hold what the database was built from.

        Raises `ReplicaUnloadable`, `EntryDiffers`.
        """
        applied_offset = header.applied_offset
        self._check_range(applied_offset, start, end)
        if applied_offset < start:
            return
        entry = await self._cluster.read_entry(self._partition, applied_offset)
        if entry is None:
            # Deleted with the beginning of the log meanwhile, which is no contradiction; or the log has a hole where an entry was applied.
            start, end = await self._cluster.log_range(self._partition)
            self._check_range(applied_offset, start, end)
            if applied_offset >= start:
                raise EntryDiffers(f"the log has no entry {applied_offset}, which the state database has applied")
        elif entry_hash(entry.key or b"", entry.value or b"") != header.last_entry_hash:
            raise EntryDiffers(f"entry {applied_offset} of the log is not the one the state database has applied")

    def _check_range(self, applied_offset: int, start: int, end: int) -> None:
        """Raises `ReplicaUnloadable` when the log ends before the applied offset, `BehindLogStart` when it begins after the next one."""
        if applied_offset >= end:
            raise ReplicaUnloadable(
                f"metadata partition {self._partition}: the state database has applied offset {applied_offset}, but the log ends at {end}."
                " Acknowledged data is missing from the log. Restore the topic, or remove the data directory to accept the loss; then start"
                " the node again"
            )
        if applied_offset < start - 1:
            raise BehindLogStart(f"metadata partition {self._partition}: the log starts at {start}, after the offset {applied_offset}")


def _claim_of(header: Header) -> LeadershipClaimed | None:
    """The claim in force as a database remembers it, enough to find the leader."""
    if header.leader_node_id < 0:
        return None
    return LeadershipClaimed(
        epoch=header.epoch, term=header.term, node_id=header.leader_node_id, rack="", endpoints=parse_endpoints(header.leader_endpoints)
    )
