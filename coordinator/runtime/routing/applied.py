"""Reads of what the replicas of this node have applied, for answers that need not wait for anything."""

from __future__ import annotations

from collections.abc import Sequence

from coordinator.core.commands import FetchPoint, FoundBatches
from coordinator.core.reads.queries import FetchBudget
from coordinator.core.view import ShardView
from coordinator.kafka.batches import partition_key
from coordinator.runtime.failures import NotReadable
from coordinator.runtime.routing.cluster_view import ClusterView


def find_applied_batches(
    view: ClusterView, points: Sequence[FetchPoint], max_bytes: int, batches_per_partition: int
) -> list[FoundBatches] | None:
    """Answer as `Router.find_batches` does, or None when that may have to wait."""
    budget = FetchBudget(max_bytes, batches_per_partition)
    answers = []
    for point in points:
        found = find_applied(view, point, budget)
        if found is None:
            return None
        answers.append(found)
    return answers


def find_applied(view: ClusterView, point: FetchPoint, budget: FetchBudget) -> FoundBatches | None:
    """Return the batches from a point on, or None when this node cannot tell at once.

    That is so when the partition has no owner or is not created yet, when the offset lies past the high watermark, and
    when the replica cannot be read, or may be too far behind for that.
    """
    key = partition_key(point.topic_id, point.partition)
    owner = view.reader_of(key, point.offset)
    replica = None if owner is None else view.replicas.get(owner)
    if owner is None or replica is None or not replica.freshness.is_sufficient:
        return None
    try:
        return replica.look(_find_placed, point, budget)
    except NotReadable:
        return None


def _find_placed(shard: ShardView, point: FetchPoint, budget: FetchBudget) -> FoundBatches | None:
    return shard.find_batches(point, budget) if shard.has_partition(point.topic_id, point.partition) else None
