"""Pruning the log of a coordinator that this node leads, and removing the snapshots that no replica could use any more.

Decided from what is applied alone: a leader that does not know yet that it was replaced prunes to where its successor may as well.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from coordinator.kafka.errors import ErrorCode
from coordinator.protocol.messages import DescribeCoordinatorsRequest, DescribeCoordinatorsResponse
from coordinator.runtime.ports import (
    DurableSnapshots,
    PeerUnavailable,
    SnapshotStoreFailed,
    StoredSnapshot,
    group_client_id,
)
from coordinator.runtime.replica_config import ReplicaIdentity
from coordinator.runtime.routing.context import NodeContext
from coordinator.runtime.snapshots.policy import OBJECTS_KEPT, Prune, Standing, prune_to, useless
from coordinator.runtime.snapshots.rules import SnapshotRules
from records.model import NodeRegistered, SnapshotCommitted

LOG = logging.getLogger("coordinator.snapshots")

ASK_TIMEOUT_MS = 2_000
CLEAN_INTERVAL_MS = 3_600_000
"""The store is looked through when the log's start has moved, and so often besides: a leader that was killed leaves objects."""


class SnapshotsLost(SnapshotStoreFailed):
    """Committed snapshots that replicas may need are not in the store as they were committed; the text names them."""


class LogPruner:
    """Prunes one metadata partition."""

    def __init__(
        self,
        context: NodeContext,
        *,
        identity: ReplicaIdentity,
        durable: DurableSnapshots,
        rules: SnapshotRules,
    ) -> None:
        self.log_start = -1
        """The first offset of the log, as this node has seen it last; -1 before that."""
        self.prune = Prune(-1, "this node does not lead")
        """The last decision."""
        self._identity = identity
        self._context = context
        self._cluster = context.cluster
        self._durable = durable
        self._rules = rules
        self._clock_ms = context.clock_ms
        self._wanted = -1
        self._wanted_since_ms = 0
        self._cleaned_start = -1
        self._cleaned_ms = 0

    async def decide(self, snapshots: tuple[SnapshotCommitted, ...], own_verified_end: int, *, is_restore_open: bool) -> Prune:
        """How far the log may be pruned now, and why no further. Raises `KafkaUnavailable`."""
        target = snapshots[-2].end_offset if len(snapshots) > 1 else -1
        if self.log_start < 0 or target > self.log_start:
            self.log_start, _ = await self._cluster.log_range(self._identity.partition)
        if target != self._wanted:
            self._wanted, self._wanted_since_ms = target, self._clock_ms()
        self.prune = prune_to(
            snapshots,
            log_start=self.log_start,
            own_verified_end=own_verified_end,
            others=await self._others() if target > self.log_start else (),
            waited_ms=self._clock_ms() - self._wanted_since_ms,
            is_restore_open=is_restore_open,
            rules=self._rules,
        )
        return self.prune

    async def carry_out(self, prune: Prune, snapshots: Sequence[SnapshotCommitted]) -> list[StoredSnapshot] | None:
        """Prune as decided; returns what the store had then, None when nothing is pruned.

        Raises `KafkaUnavailable`, `SnapshotStoreFailed`, and its `SnapshotsLost`: then nothing is pruned either.
        """
        if prune.before_offset < 0:
            return None
        partition = self._identity.partition
        # The objects were there when they were committed and verified; but pruned entries cannot be got from anywhere else, so look again.
        stored = await self._stored()
        _check_stored(snapshots, stored)
        self.log_start = await self._cluster.delete_before(partition, prune.before_offset)
        LOG.info("log pruned partition=%d log_start=%d reason=%r", partition, self.log_start, prune.reason)
        return stored

    async def look_after_store(self, snapshots: Sequence[SnapshotCommitted], stored: list[StoredSnapshot] | None) -> None:
        """Remove the stored snapshots after which the log is gone; `stored` is what the store has, None to ask it when that is due.

        Raises `SnapshotStoreFailed`, and its `SnapshotsLost`.
        """
        identity = self._identity
        now_ms = self._clock_ms()
        if self.log_start <= 0 or (self.log_start == self._cleaned_start and now_ms < self._cleaned_ms + CLEAN_INTERVAL_MS):
            return
        if stored is None:
            stored = await self._stored()
            _check_stored(snapshots, stored)
        gone = useless(stored, self.log_start)
        if gone:
            await self._durable.remove(gone)
            LOG.info("snapshots removed partition=%d objects=%s", identity.partition, ",".join(gone))
        self._cleaned_start, self._cleaned_ms = self.log_start, now_ms

    async def _stored(self) -> list[StoredSnapshot]:
        identity = self._identity
        return await self._durable.list(identity.cluster_id, identity.topic_id, identity.partition)

    async def _others(self) -> list[Standing]:
        """How far the other nodes are that follow: by their answers, and members of the group that do not answer now may follow."""
        nodes = self._context.other_nodes()
        if not nodes:
            return []
        members = await self._cluster.group_members()
        found = await asyncio.gather(*(self._ask(node) for node in nodes))
        standings: list[Standing] = []
        for node, answered in zip(nodes, found, strict=True):
            if answered is not None:
                standings += answered
            elif group_client_id(node.node_id) in members:
                standings.append(Standing(node.node_id, -1, -1))
        return standings

    async def _ask(self, node: NodeRegistered) -> list[Standing] | None:
        """How far a node is, nothing when it does not follow; None when it does not answer."""
        partition = self._identity.partition
        if not node.endpoints:
            return None
        endpoint = self._context.view.node_endpoint(node.endpoints)
        request = DescribeCoordinatorsRequest(coordinator_ids=(partition,))
        try:
            answer = await self._context.peers.call(endpoint.host, endpoint.port, request, ASK_TIMEOUT_MS)
        except PeerUnavailable:
            return None
        if not isinstance(answer, DescribeCoordinatorsResponse) or answer.node_id != node.node_id:
            return None
        return [
            Standing(node.node_id, one.applied_offset, one.verified_end_offset)
            for one in answer.coordinators
            if one.coordinator_id == partition and one.error_code == ErrorCode.NONE
        ]


def _check_stored(snapshots: Sequence[SnapshotCommitted], stored: Sequence[StoredSnapshot]) -> None:
    """Raise `SnapshotsLost` when one of the newest committed snapshots is not in the store, or has another size there."""
    sizes = {one.location: one.size_bytes for one in stored}
    lost = [one.location for one in snapshots[-OBJECTS_KEPT:] if sizes.get(one.location) != one.size_bytes]
    if lost:
        raise SnapshotsLost(f"the store has not what was committed, or a part of it: {', '.join(lost)}; others are taken in their place")
