"""Times looked up in partitions that moved: the coordinators that had one before have its older batches.

The owner is asked first, strictly, and says which older stretches there are. Their batches do not change, so that any replica that has read
the end of one has the answer.
"""

from __future__ import annotations

from collections.abc import Sequence

from coordinator.core.commands import FoundOffset, OffsetQuery, OlderStretches, Outcome
from coordinator.core.view import ShardView
from coordinator.kafka.batches import partition_key
from coordinator.kafka.errors import ErrorCode
from coordinator.runtime.failures import NotReadable
from coordinator.runtime.routing.replicas import Replicas
from records.model import EarlierStretch


def with_older(replicas: Replicas, queries: Sequence[OffsetQuery], answers: Sequence[FoundOffset]) -> list[FoundOffset]:
    """The answers of owners, or better ones of stretches before, in order."""
    return [_best(replicas, query, answer) for query, answer in zip(queries, answers, strict=True)]


def _best(replicas: Replicas, query: OffsetQuery, answer: FoundOffset) -> FoundOffset:
    if answer.older is None:
        return answer
    best = answer
    # The newest first: the older one wins where both have the greatest time, or one that is great enough.
    for stretch in reversed(answer.older.stretches):
        found = _look(replicas, stretch, query, answer.older)
        if found.outcome.error is not ErrorCode.NONE:
            return found
        if found.offset >= 0 and (query.timestamp >= 0 or best.offset < 0 or found.timestamp >= best.timestamp):
            best = found
    return best


def _look(replicas: Replicas, stretch: EarlierStretch, query: OffsetQuery, older: OlderStretches) -> FoundOffset:
    replica = replicas.get(stretch.coordinator_id)
    message = f"coordinator {stretch.coordinator_id} has batches of the partition, and cannot be read here now; ask another node, or retry"
    refused = FoundOffset(outcome=Outcome(error=ErrorCode.OFFSET_NOT_AVAILABLE, message=message))
    if replica is None:
        return refused
    try:
        if not replica.look(ShardView.knows_release, partition_key(query.topic_id, query.partition)):
            return refused
        return replica.look(ShardView.list_released, query, older.log_start_offset)
    except NotReadable:
        return refused
