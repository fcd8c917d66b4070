"""In which data directory of its node a replica is, as metadata partition 0 knows it (KIP-858)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from coordinator.core.commands import OK, AssignReplicasToDirs, Outcome
from coordinator.core.directory.directory import Directory
from coordinator.kafka.directory_ids import LOST, UNASSIGNED, directory_id_text, is_online, is_reserved
from coordinator.kafka.errors import ErrorCode
from records.model import DirectoryAssignment, NodeRegistered, Record, ReplicasAssignedToDirs

ASSIGNMENTS_MAX = 2250
"""Replicas in one request, as in Kafka."""
_EPOCH_MASK = (1 << 63) - 1


class KnownDirectory(NamedTuple):
    """A data directory of a node, whether the node has it online, and its replicas there; the id may be one that names no directory."""

    directory_id: bytes
    is_online: bool
    partitions: list[int]


def node_epoch(incarnation_id: bytes) -> int:
    """Return the epoch of a node's process in Kafka's messages, where it is a number: 63 bits of the incarnation id.

    Epochs are compared for equality only.
    """
    return int.from_bytes(incarnation_id[:8], "big") & _EPOCH_MASK


def assigning(node_id: int, epoch: int, replicas: Iterable[tuple[bytes, int]]) -> AssignReplicasToDirs:
    """Return the command of a node that has replicas, metadata partitions, in directories."""
    partitions: dict[bytes, list[int]] = {}
    for directory_id, partition in replicas:
        partitions.setdefault(directory_id, []).append(partition)
    assignments = tuple((directory_id, tuple(found)) for directory_id, found in partitions.items())
    return AssignReplicasToDirs(node_id=node_id, node_epoch=epoch, assignments=assignments)


def recorded_directories(
    directory: Directory, node: NodeRegistered, partitions: Iterable[int], followed: Collection[int] = ()
) -> list[KnownDirectory]:
    """Return the directories that a node has online, and those with its replicas of partitions; replicas in another are offline.

    A replica that the node has let go of may be among them. UNASSIGNED has those of `followed` that were not recorded yet.
    """
    found: dict[bytes, list[int]] = {one: [] for one in node.log_dirs}
    for partition in partitions:
        recorded = directory.replica_dirs.get((node.node_id, partition))
        if recorded is not None or partition in followed:
            found.setdefault(UNASSIGNED if recorded is None else recorded, []).append(partition)
    return [KnownDirectory(one, is_online(one, node.log_dirs), replicas) for one, replicas in found.items()]


def decide_assign(directory: Directory, command: AssignReplicasToDirs) -> tuple[list[Record], Outcome]:
    """Log the directories of replicas as far as they are new, if the process that tells is the one that is registered."""
    node = directory.nodes.get(command.node_id)
    if node is None:
        message = f"node {command.node_id} is not registered; it has to register before it tells of its directories"
        return [], Outcome(error=ErrorCode.BROKER_ID_NOT_REGISTERED, message=message)
    if node_epoch(node.incarnation_id) != command.node_epoch:
        message = f"node {command.node_id} is registered by another process than the one that tells of its directories"
        return [], Outcome(error=ErrorCode.STALE_BROKER_EPOCH, message=message)
    wrong = [one for one, _ in command.assignments if is_reserved(one) and one != LOST]
    if wrong:
        message = f"{directory_id_text(wrong[0])} is reserved by Kafka and names no directory: draw another directory.id"
        return [], Outcome(error=ErrorCode.INVALID_REQUEST, message=message)
    count = sum(len(partitions) for _, partitions in command.assignments)
    if count > ASSIGNMENTS_MAX:
        message = f"{count} replicas are assigned to directories; {ASSIGNMENTS_MAX} are allowed in one request: send several"
        return [], Outcome(error=ErrorCode.INVALID_REQUEST, message=message)
    new = [
        DirectoryAssignment(directory_id=directory_id, partitions=changed)
        for directory_id, partitions in command.assignments
        if (changed := [one for one in partitions if directory.replica_dirs.get((node.node_id, one)) != directory_id])
    ]
    if not new:
        return [], OK
    return [ReplicasAssignedToDirs(node_id=node.node_id, incarnation_id=node.incarnation_id, assignments=new)], OK
