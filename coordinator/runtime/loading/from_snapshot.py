"""Loading a replica from a snapshot: the newest good one that the log goes on from.

The data directory's are tried first, then those of the object store, and when none is good those in the data directories of other nodes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, NamedTuple

from coordinator.core.state.replica_state import Stored
from coordinator.core.tables.stored_rows import Header
from coordinator.runtime.loading.downloading import download
from coordinator.runtime.loading.peers import PeerFetchFailed, PeerSnapshots, SnapshotGone
from coordinator.runtime.loading.progress import LoadProgress
from coordinator.runtime.ports import SnapshotStoreFailed
from coordinator.runtime.replica_config import ReplicaIdentity, ReplicaPorts
from coordinator.runtime.telemetry import SnapshotPurpose
from coordinator.runtime.threads import in_thread
from records.snapshot import BadSnapshot, SnapshotId, SnapshotReader, check_identity, snapshot_name

LOG = logging.getLogger("coordinator.snapshots")

PEER_ROUNDS = 3
"""Snapshots are removed when newer ones are there: this often the nodes are asked anew what they have."""


class NoGoodSnapshot(Exception):
    """No snapshot could be loaded; the text says which were refused and why. `is_certain`: every store could be looked at."""

    def __init__(self, reason: str, *, is_certain: bool) -> None:
        super().__init__(reason)
        self.is_certain = is_certain


class SnapshotObject(NamedTuple):
    """A snapshot in the object store."""

    location: str
    size_bytes: int


class FoundSnapshots(NamedTuple):
    """Snapshots that end within a log, the newest first, with their sources; what could not be looked at, and whether all could be.

    A source that is None is the file in the data directory.
    """

    sources: dict[SnapshotId, list[SnapshotObject | None]]
    refused: list[str]
    is_certain: bool
    log_start: int
    log_end: int


class SnapshotLoader:
    """Loads the state database of one metadata partition from a snapshot."""

    def __init__(self, identity: ReplicaIdentity, ports: ReplicaPorts, progress: LoadProgress) -> None:
        self._identity = identity
        self._ports = ports
        self._progress = progress
        self._peers = PeerSnapshots(identity, ports, progress)
        self._local = ports.local_snapshots
        self._durable = ports.snapshots
        self._executor = ports.writer

    async def find(self, log_start: int, log_end: int) -> FoundSnapshots:
        """The snapshots that end within a log, which has the entries `[log_start, log_end)`. Raises `DirectoryFailed`."""
        refused: list[str] = []
        local = await in_thread(self._executor, self._local.ids)
        stored, is_certain = await self._stored(refused)
        sources: dict[SnapshotId, list[SnapshotObject | None]] = {}
        for snapshot_id in sorted({*local, *stored}, reverse=True):
            if log_start <= snapshot_id.end_offset <= log_end:
                sources[snapshot_id] = [*([None] if snapshot_id in local else []), *stored.get(snapshot_id, ())]
        return FoundSnapshots(sources, refused, is_certain, log_start, log_end)

    async def install(self, found: FoundSnapshots, verify: Callable[[Header], Coroutine[Any, Any, None]]) -> Stored:
        """Make the state database, which is not open, from the newest good one of the snapshots that were found.

        `verify` raises `BadSnapshot` when the log is not the one of a snapshot. Raises `NoGoodSnapshot`, `StateFailed`.
        """
        refused, is_certain = list(found.refused), found.is_certain
        for snapshot_id, sources in found.sources.items():
            for source in sources:
                where = str(self._local.path(snapshot_id)) if source is None else source.location
                try:
                    return await self._load(snapshot_id, where, None if source is None else self._download(snapshot_id, source), verify)
                except (BadSnapshot, SnapshotStoreFailed, OSError) as bad:
                    is_certain &= isinstance(bad, BadSnapshot)
                    reason = str(bad) if where in str(bad) else f"{where}: {bad}"
                    refused.append(reason)
                    LOG.error("snapshot refused partition=%d reason=%r", self._identity.partition, reason)
        from_peer = await self._install_from_peers(found, verify, refused)
        if isinstance(from_peer, Stored):
            return from_peer
        is_certain &= from_peer
        reasons = "; ".join(refused) if refused else "there is none"
        raise NoGoodSnapshot(f"no snapshot of coordinator {self._identity.partition} can be loaded: {reasons}", is_certain=is_certain)

    async def _stored(self, refused: list[str]) -> tuple[dict[SnapshotId, list[SnapshotObject]], bool]:
        """The stored snapshots, and whether the store could be looked at."""
        found: dict[SnapshotId, list[SnapshotObject]] = {}
        if self._durable is None:
            refused.append("this node has no object store that keeps them")
            return found, True
        identity = self._identity
        try:
            for one in await self._durable.list(identity.cluster_id, identity.topic_id, identity.partition):
                found.setdefault(SnapshotId(one.end_offset, one.epoch), []).append(SnapshotObject(one.location, one.size_bytes))
        except SnapshotStoreFailed as failed:
            refused.append(str(failed))
            return found, False
        return found, True

    async def _install_from_peers(
        self, found: FoundSnapshots, verify: Callable[[Header], Coroutine[Any, Any, None]], refused: list[str]
    ) -> Stored | bool:
        """Make the state database from a snapshot of another node, else say whether it is certain that no node has a good one.

        A node that takes a snapshot away while it is read is asked again for what it has, and so are all others.
        """
        is_certain = True
        for _ in range(PEER_ROUNDS):
            known = await self._peers.look()
            refused += known.silent
            is_certain = not known.silent
            is_moved = False
            for snapshot_id, sources in sorted(known.sources.items(), reverse=True):
                if not found.log_start <= snapshot_id.end_offset <= found.log_end:
                    continue
                for source in sources:
                    where = f"{source.host}:{source.port}"
                    try:
                        return await self._load(snapshot_id, where, self._peers.fetch(source, snapshot_id), verify)
                    except (BadSnapshot, PeerFetchFailed) as bad:
                        is_certain &= isinstance(bad, BadSnapshot)
                        is_moved |= isinstance(bad, SnapshotGone)
                        reason = str(bad) if where in str(bad) else f"{where}: {bad}"
                        refused.append(reason)
                        LOG.error("snapshot refused partition=%d reason=%r", self._identity.partition, reason)
            if not is_moved:
                break
        return is_certain

    async def _download(self, snapshot_id: SnapshotId, stored: SnapshotObject) -> None:
        """Bring an object of the store into the data directory. Raises `SnapshotStoreFailed`, `StateFailed`."""
        assert self._durable is not None
        self._progress.fetches(stored.location)
        await download(stored.location, snapshot_id, stored.size_bytes, durable=self._durable, local=self._local, executor=self._executor)
        await in_thread(self._executor, lambda: self._local.adopt(snapshot_id))

    async def _load(
        self,
        snapshot_id: SnapshotId,
        where: str,
        bringing: Coroutine[Any, Any, None] | None,
        verify: Callable[[Header], Coroutine[Any, Any, None]],
    ) -> Stored:
        """Have a snapshot brought into the data directory, unless it is there, and load it; a bad one is removed there.

        Raises `BadSnapshot`, `StateFailed`, and what `bringing` raises.
        """
        started = asyncio.get_running_loop().time()
        if bringing is not None:
            await bringing
        try:
            stored = await in_thread(self._executor, lambda: self._build(snapshot_id))
            await verify(stored.header)
        except BadSnapshot:
            with suppress(FileNotFoundError):
                await in_thread(self._executor, lambda: self._local.remove(snapshot_id))
            raise
        seconds = asyncio.get_running_loop().time() - started
        self._ports.telemetry.snapshot_loaded(SnapshotPurpose.REPLICA, seconds)
        LOG.info(
            "replica made from a snapshot partition=%d snapshot=%s from=%s seconds=%.3f",
            self._identity.partition,
            snapshot_name(*snapshot_id),
            where,
            seconds,
        )
        return stored

    def _build(self, snapshot_id: SnapshotId) -> Stored:
        identity = self._identity
        with SnapshotReader(self._local.path(snapshot_id)) as reader:
            check_identity(reader.head, identity.cluster_id, identity.topic_id, identity.partition)
            if reader.head.snapshot_id != snapshot_id:
                raise BadSnapshot(f"{self._local.path(snapshot_id)}: it holds the snapshot {reader.head.snapshot_id}")
            self._progress.builds(self._local.path(snapshot_id).name, reader.size_bytes)
            rows = self._progress.building(reader.rows(), lambda: reader.position)
            return self._ports.stores.build(identity.partition, reader.head, rows, self._ports.rest)
