"""Questions to the leaders of coordinators about partitions that moved, here or elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from coordinator.core.commands import DescribeStretches, KnownStretch, Outcome, WantedMove
from coordinator.kafka.batches import partition_key
from coordinator.kafka.errors import ErrorCode
from coordinator.operations.moves import known_stretches
from coordinator.protocol.messages import DescribeStretchesRequest, DescribeStretchesResponse
from coordinator.runtime.routing.context import NodeContext
from coordinator.runtime.routing.leader_calls import LEADER_TIMEOUT_MS, NotYet, call_leader


def not_followed(context: NodeContext, command: DescribeStretches) -> Outcome | None:
    """Why this node does not answer yet: it has not read what it has to."""
    for one in command.beside:
        replica = context.replicas.get(one)
        if replica is None or not replica.is_warm:
            message = f"node {context.node_id} does not follow coordinator {one} yet, of which it is to know; retry"
            return Outcome(error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, message=message)
    return None


async def stretches_of(context: NodeContext, coordinator_id: int, beside: tuple[int, ...] = ()) -> list[KnownStretch]:
    """The partitions of a coordinator that moved, strictly, from a node that follows others `beside` it. Raises `NotYet`."""
    if context.replicas.is_leading(coordinator_id):
        command = DescribeStretches(beside=beside)
        answer = not_followed(context, command) or await context.replicas[coordinator_id].ask(command, LEADER_TIMEOUT_MS)
        if isinstance(answer, Outcome):
            raise NotYet(f"{answer.error.name}: {answer.message}")
        return cast(list[KnownStretch], answer)
    request = DescribeStretchesRequest(coordinator_id=coordinator_id, beside_coordinator_ids=beside, timeout_ms=LEADER_TIMEOUT_MS)
    response = await call_leader(context, coordinator_id, request, DescribeStretchesResponse)
    if response.error_code != ErrorCode.NONE:
        raise NotYet(f"{ErrorCode(response.error_code).name}: {response.error_message}")
    return known_stretches(response)


async def returning(context: NodeContext, wanted: Sequence[WantedMove]) -> frozenset[bytes]:
    """The partitions that were where they are to go, and of which nothing is left there: what was released takes no batches again."""
    ends: dict[int, dict[bytes, int]] = {}
    for one in wanted:
        key = partition_key(one.topic_id, one.partition)
        for earlier in context.view.earlier_of(key):
            if earlier.coordinator_id == one.to_coordinator:
                ends.setdefault(one.to_coordinator, {})[key] = earlier.end_offset
    found: set[bytes] = set()
    for coordinator_id, asked in ends.items():
        try:
            stretches = await stretches_of(context, coordinator_id)
        except NotYet:
            continue  # whoever orders is told that it may be there still
        starts = {partition_key(one.topic_id, one.partition): one.start_offset for one in stretches}
        found.update(key for key, end in asked.items() if starts.get(key, -1) >= end)
    return frozenset(found)
