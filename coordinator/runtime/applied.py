"""Reads of what the replicas of this node have applied, for answers that need not wait for anything."""

from __future__ import annotations

from collections.abc import Sequence

from coordinator.core.batches import partition_key
from coordinator.core.commands import FetchPoint, FoundBatches
from coordinator.core.queries import FetchBudget, find_batches
from coordinator.runtime.cluster_view import ClusterView


def find_applied_batches(
    view: ClusterView, points: Sequence[FetchPoint], max_bytes: int, batches_per_partition: int
) -> list[FoundBatches] | None:
    """What `Router.find_batches` answers, or None when it may have to wait for that.

    It waits for the directory when a partition has no owner, and for a barrier when an offset lies past the high watermark.
    """
    budget = FetchBudget(max_bytes, batches_per_partition)
    answers = []
    for point in points:
        key = partition_key(point.topic_id, point.partition)
        owner = view.owner_of(key)
        shard = None if owner is None else view.shard(owner)
        if owner is None or shard is None or key not in shard.state.hot.partitions.index:
            return None
        found = find_batches(shard.state, point, budget, owner)
        if found is None:
            return None
        answers.append(found)
    return answers
