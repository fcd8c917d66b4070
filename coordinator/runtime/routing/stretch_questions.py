"""Questions to the leaders of coordinators about partitions that moved, here or elsewhere."""

from __future__ import annotations

from typing import Final, cast

from coordinator.core.commands import DescribeStretches, KnownStretch, Outcome
from coordinator.kafka.errors import ErrorCode
from coordinator.operations.moves import known_stretches
from coordinator.protocol.codec import Message
from coordinator.protocol.messages import DescribeStretchesRequest, DescribeStretchesResponse
from coordinator.runtime.ports import PeerUnavailable
from coordinator.runtime.routing.context import NodeContext

TIMEOUT_MS: Final = 5_000


class NotYet(Exception):
    """A leader did not answer, or could not do now what it was asked for; the text says why."""


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
        answer = not_followed(context, command) or await context.replicas[coordinator_id].ask(command, TIMEOUT_MS)
        if isinstance(answer, Outcome):
            raise NotYet(f"{answer.error.name}: {answer.message}")
        return cast(list[KnownStretch], answer)
    response = await call_leader(
        context,
        coordinator_id,
        DescribeStretchesRequest(coordinator_id=coordinator_id, beside_coordinator_ids=beside, timeout_ms=TIMEOUT_MS),
    )
    if not isinstance(response, DescribeStretchesResponse):
        raise TypeError(f"coordinator {coordinator_id} answered {type(response).__name__}")
    if response.error_code != ErrorCode.NONE:
        raise NotYet(f"{ErrorCode(response.error_code).name}: {response.error_message}")
    return known_stretches(response)


async def call_leader(context: NodeContext, coordinator_id: int, request: Message) -> Message:
    """Send a request to the leader of a coordinator, which another node has to be. Raises `NotYet`."""
    leader = context.view.leader(coordinator_id)
    if leader is None:
        raise NotYet(f"coordinator {coordinator_id} has no leader")
    try:
        return await context.peers.call(leader.host, leader.port, request, TIMEOUT_MS)
    except PeerUnavailable as unavailable:
        raise NotYet(f"node {leader.node_id}, which leads coordinator {coordinator_id}, does not answer: {unavailable}") from unavailable
