"""Reads of what the replicas of this node have applied, for answers that need not wait for anything."""

from __future__ import annotations

from collections.abc import Sequence

from coordinator.core.commands import FetchPoint, FoundBatches
from coordinator.core.reads.queries import FetchBudget, find_batches
from coordinator.core.state.replica_state import ShardState
from coordinator.kafka.batches import partition_key
from coordinator.runtime.cluster_view import ClusterView
from coordinator.runtime.failures import NotReadable


def find_applied_batches(
    view: ClusterView, points: Sequence[FetchPoint], max_bytes: int, batches_per_partition: int
) -> list[FoundBatches] | None:
    """What `Router.find_batches` answers, or None when it may have to wait for that.

    It waits for the directory when a partition has no owner, and for a barrier when an offset lies past the high watermark.
    Replicas that cannot be read are left to it too.
    """
    budget = FetchBudget(max_bytes, batches_per_partition)
    answers = []
    for point in points:
        key = partition_key(point.topic_id, point.partition)
        owner = view.owner_of(key)
        replica = None if owner is None else view.replica(owner)
        if owner is None or replica is None:
            return None
        try:
            found = replica.look(find_placed_batches, key, point, budget, owner)
        except NotReadable:
            return None
        if found is None:
            return None
        answers.append(found)
    return answers


def find_placed_batches(state: ShardState, key: bytes, point: FetchPoint, budget: FetchBudget, coordinator_id: int) -> FoundBatches | None:
    """`find_batches`, or None when the partition is not created yet."""
    return find_batches(state, point, budget, coordinator_id) if key in state.hot.partitions.index else None
