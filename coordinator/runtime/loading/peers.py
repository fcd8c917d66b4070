"""The snapshots in the data directories of other nodes: which there are, and how one is fetched (FetchSnapshot, KIP-630).

The nodes say in DescribeSnapshots what they have. What is fetched is as doubtful as any other file: the caller proves it.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import NamedTuple

from coordinator.core.state.damage import DiskFull
from coordinator.kafka.errors import ErrorCode
from coordinator.operations.snapshot_fetches import SnapshotAnswer, SnapshotQuestion, fetch_snapshot_request, snapshot_answer
from coordinator.protocol.messages import DescribeSnapshotsRequest, DescribeSnapshotsResponse
from coordinator.runtime.loading.progress import LoadProgress
from coordinator.runtime.ports import PeerAddress, PeerUnavailable, group_client_id
from coordinator.runtime.replica_config import ReplicaIdentity, ReplicaPorts
from coordinator.runtime.threads import in_thread
from records.snapshot import SnapshotId

LOOK_TIMEOUT_MS = 2_000
FETCH_TIMEOUT_MS = 30_000
"""The timeout of one piece: the node may be writing a snapshot of its own, for which reads wait."""
PIECE_BYTES = 1024 * 1024


class PeerFetchFailed(Exception):
    """A snapshot could not be fetched from another node; the text names both and the reason. Trying again later is safe."""


class SnapshotGone(PeerFetchFailed):
    """The node has removed or replaced the snapshot: it has others now."""


class PeerSource(NamedTuple):
    """A node that has a snapshot."""

    host: str
    port: int


class KnownElsewhere(NamedTuple):
    """Snapshots with the nodes that have them, and what those lack that may have more: why each could not be asked."""

    sources: dict[SnapshotId, list[PeerSource]]
    silent: list[str]


class PeerSnapshots:
    """The snapshots that other nodes have of one metadata partition."""

    def __init__(self, identity: ReplicaIdentity, ports: ReplicaPorts, progress: LoadProgress) -> None:
        self._identity = identity
        self._ports = ports
        self._progress = progress
        self._local = ports.local_snapshots
        self._executor = ports.writer

    async def look(self) -> KnownElsewhere:
        """Ask the nodes that are known. A registered one that does not answer counts while it is a member of the group.

        Raises `KafkaUnavailable`.
        """
        addresses, is_complete = self._ports.peer_addresses()
        members = await self._ports.cluster.group_members() if addresses else frozenset()
        sources: dict[SnapshotId, list[PeerSource]] = {}
        silent = [] if is_complete else ["the directory, which names the other nodes, is not loaded yet"]
        for address, found in zip(addresses, await asyncio.gather(*map(self._ask, addresses)), strict=True):
            if isinstance(found, PeerUnavailable):
                if address.node_id is None or group_client_id(address.node_id) in members:
                    silent.append(f"{address.host}:{address.port} does not answer ({found})")
                continue
            for snapshot_id in found:
                source = PeerSource(address.host, address.port)
                if source not in sources.setdefault(snapshot_id, []):
                    sources[snapshot_id].append(source)
        return KnownElsewhere(sources, silent)

    async def fetch(self, source: PeerSource, snapshot_id: SnapshotId) -> None:
        """Bring a snapshot of another node into the data directory, unproven. Raises `PeerFetchFailed`, `StateFailed`."""
        part = await in_thread(self._executor, lambda: self._local.part(snapshot_id))
        await in_thread(self._executor, lambda: part.unlink(missing_ok=True))
        position, size = 0, -1
        self._progress.fetches(f"{snapshot_id.end_offset}-{snapshot_id.epoch} of {source.host}:{source.port}")
        while position != size:
            answer = await self._piece(source, snapshot_id, position)
            if size not in (-1, answer.size):
                raise SnapshotGone(f"{_named(source, snapshot_id)}: it had {size} bytes and has {answer.size} now")
            if not answer.data or position + len(answer.data) > answer.size:
                raise PeerFetchFailed(f"{_named(source, snapshot_id)}: {len(answer.data)} bytes at {position} of {answer.size}")
            size = answer.size
            self._progress.fetched(position + len(answer.data), size)
            try:
                await in_thread(self._executor, partial(self._local.append, snapshot_id, answer.data))
            except DiskFull as full:
                full.wanted_bytes = size
                await in_thread(self._executor, lambda: part.unlink(missing_ok=True))
                raise
            position += len(answer.data)
        await in_thread(self._executor, lambda: self._local.adopt(snapshot_id))

    async def _piece(self, source: PeerSource, snapshot_id: SnapshotId, position: int) -> SnapshotAnswer:
        identity = self._identity
        question = SnapshotQuestion(self._ports.topic, identity.partition, snapshot_id.end_offset, snapshot_id.epoch, position)
        request = fetch_snapshot_request(identity.cluster_id, identity.node_id, question, PIECE_BYTES)
        try:
            answer = snapshot_answer(await self._ports.peers.call(source.host, source.port, request, FETCH_TIMEOUT_MS))
        except (PeerUnavailable, ValueError) as failed:
            raise PeerFetchFailed(f"{_named(source, snapshot_id)}: {failed}") from failed
        if answer.error is ErrorCode.NONE:
            return answer
        gone = answer.error in (ErrorCode.SNAPSHOT_NOT_FOUND, ErrorCode.POSITION_OUT_OF_RANGE)
        raise (SnapshotGone if gone else PeerFetchFailed)(f"{_named(source, snapshot_id)}: {answer.error.name} at {position}")

    async def _ask(self, address: PeerAddress) -> list[SnapshotId] | PeerUnavailable:
        identity = self._identity
        request = DescribeSnapshotsRequest(coordinator_ids=(identity.partition,))
        try:
            answer = await self._ports.peers.call(address.host, address.port, request, LOOK_TIMEOUT_MS)
        except PeerUnavailable as unavailable:
            return unavailable
        if not isinstance(answer, DescribeSnapshotsResponse) or answer.cluster_id != identity.cluster_id:
            return []
        if answer.node_id == identity.node_id:
            return []
        return [
            SnapshotId(found.end_offset, found.epoch)
            for one in answer.coordinators
            if one.coordinator_id == identity.partition
            for found in one.snapshots
            if found.is_local
        ]


def _named(source: PeerSource, snapshot_id: SnapshotId) -> str:
    return f"snapshot {snapshot_id.end_offset}-{snapshot_id.epoch} of {source.host}:{source.port}"
