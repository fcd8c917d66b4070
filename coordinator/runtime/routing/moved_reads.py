"""Times looked up in partitions that moved: the coordinators that had one before have its older batches.

The owner is asked first, strictly, also where the partition starts. The batches of the stretches before do not change, so that any replica
that has read the end of one has the answer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from coordinator.core.commands import FoundOffset, OffsetQuery, Outcome
from coordinator.core.view import ShardView
from coordinator.kafka.batches import partition_key
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.timestamps import EARLIEST, MAX_TIMESTAMP
from coordinator.runtime.failures import NotReadable
from coordinator.runtime.routing.cluster_view import ClusterView
from records.model import EarlierStretch

Ask = Callable[[list[OffsetQuery]], Awaitable[list[FoundOffset]]]


def needs_earlier(view: ClusterView, query: OffsetQuery) -> bool:
    """Whether the answer may be in a coordinator that had the partition before."""
    is_time = query.timestamp >= 0 or query.timestamp == MAX_TIMESTAMP
    return is_time and bool(view.earlier_of(partition_key(query.topic_id, query.partition)))


async def list_offsets_moved(view: ClusterView, queries: Sequence[OffsetQuery], ask: Ask) -> list[FoundOffset]:
    """Answer queries some of which `needs_earlier`; `ask` asks owners."""
    moved = [query for query in queries if needs_earlier(view, query)]
    answers = await ask([*queries, *(query._replace(timestamp=EARLIEST) for query in moved)])
    starts = iter(answers[len(queries) :])
    return [
        _with_earlier(view, query, answer, next(starts)) if query in moved else answer
        for query, answer in zip(queries, answers, strict=False)
    ]


def _with_earlier(view: ClusterView, query: OffsetQuery, answer: FoundOffset, start: FoundOffset) -> FoundOffset:
    """The answer of the owner, or a better one of a stretch before."""
    for one in (answer, start):
        if one.outcome.error is not ErrorCode.NONE:
            return one
    best = answer
    # The newest first: the older one wins where both have the greatest time, or one that is great enough.
    for earlier in reversed(view.earlier_of(partition_key(query.topic_id, query.partition))):
        if earlier.end_offset <= start.offset:
            break
        found = _look(view, earlier, query, start.offset)
        if found.outcome.error is not ErrorCode.NONE:
            return found
        if found.offset >= 0 and (query.timestamp >= 0 or best.offset < 0 or found.timestamp >= best.timestamp):
            best = found
    return best


def _look(view: ClusterView, earlier: EarlierStretch, query: OffsetQuery, start_offset: int) -> FoundOffset:
    replica = view.replicas.get(earlier.coordinator_id)
    message = f"coordinator {earlier.coordinator_id} has batches of the partition, and cannot be read here now; ask another node, or retry"
    refused = FoundOffset(outcome=Outcome(error=ErrorCode.OFFSET_NOT_AVAILABLE, message=message))
    if replica is None:
        return refused
    try:
        if not replica.look(ShardView.knows_release, partition_key(query.topic_id, query.partition)):
            return refused
        return replica.look(ShardView.list_released, query, start_offset)
    except NotReadable:
        return refused
