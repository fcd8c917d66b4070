"""Requests to the leader of a coordinator on another node."""

from __future__ import annotations

from typing import Final, TypeVar

from coordinator.protocol.codec import Message
from coordinator.runtime.ports import PeerUnavailable
from coordinator.runtime.routing.context import NodeContext

LEADER_TIMEOUT_MS: Final = 5_000

M = TypeVar("M", bound=Message)


class NotYet(Exception):
    """A leader did not answer, or could not do now what it was asked for; the text says why."""


async def call_leader(context: NodeContext, coordinator_id: int, request: Message, answer_type: type[M]) -> M:
    """Send a request to the leader of a coordinator, which another node has to be. Raises `NotYet`."""
    leader = context.view.leader(coordinator_id)
    if leader is None:
        raise NotYet(f"coordinator {coordinator_id} has no leader now")
    where = f"node {leader.node_id}, which leads coordinator {coordinator_id}"
    try:
        response = await context.peers.call(leader.host, leader.port, request, LEADER_TIMEOUT_MS)
    except PeerUnavailable as unavailable:
        raise NotYet(f"{where}, did not answer: {unavailable}") from unavailable
    if not isinstance(response, answer_type):
        raise TypeError(f"{where}, answered {type(response).__name__}")
    return response
