"""Nodes that give up what they lead because an operator wants it: for the life of a process, or for good.

The registration of a node carries it, so every node sees it, and it outlives the node's restart or ends with that.
"""

from __future__ import annotations

from dataclasses import replace

from coordinator.core.commands import OK, DrainNode, Outcome
from coordinator.core.directory.directory import Directory, working_nodes
from coordinator.core.drains import Drain
from coordinator.kafka.errors import ErrorCode
from records.model import NodeRegistered, Record


def is_draining(directory: Directory, node_id: int, incarnation_id: bytes) -> bool:
    """Whether a process gives up what it leads."""
    known = directory.nodes.get(node_id)
    if known is None:
        return False
    return known.drain == Drain.LASTING or (known.drain == Drain.PROCESS and known.incarnation_id == incarnation_id)


def with_drain_of(known: NodeRegistered | None, node: NodeRegistered) -> NodeRegistered:
    """Return the registration of a node with the drain that it keeps of the former one."""
    keeps = known is not None and (known.drain == Drain.LASTING or known.incarnation_id == node.incarnation_id)
    return replace(node, drain=known.drain) if known is not None and keeps else node


def decide_drain(directory: Directory, command: DrainNode) -> tuple[list[Record], Outcome]:
    """Decide to begin or to end a drain; what is so already is a success. The last member of the group that leads is not drained."""
    known = directory.nodes.get(command.node_id)
    if command.drain not in list(map(int, Drain)):
        message = f"drain {command.drain}: it is one of {', '.join(str(int(one)) for one in Drain)}"
        return [], Outcome(error=ErrorCode.INVALID_REQUEST, message=message)
    if known is None:
        nodes = ", ".join(map(str, sorted(directory.nodes))) or "none"
        message = f"node {command.node_id} is not registered; these are: {nodes}"
        return [], Outcome(error=ErrorCode.BROKER_ID_NOT_REGISTERED, message=message)
    if known.drain == command.drain:
        return [], OK
    others = [one for one in working_nodes(directory) if one.node_id in command.members - {command.node_id} and one.drain == Drain.NONE]
    if command.drain != Drain.NONE and not others:
        message = (
            f"node {command.node_id} is the last one that leads: no other member of the group is without a drain. Start another node, or"
            " end the drain of one, and try again"
        )
        return [], Outcome(error=ErrorCode.INVALID_REQUEST, message=message)
    return [replace(known, drain=command.drain)], OK
