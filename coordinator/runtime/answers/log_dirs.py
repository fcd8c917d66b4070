"""Answers Kafka's requests about data directories: which there are, what is in them, what moves, and what partition 0 is to record."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final, cast

from coordinator.core.commands import Outcome
from coordinator.core.directory.directory import DIRECTORY_PARTITION
from coordinator.core.directory.replica_dirs import assigning
from coordinator.kafka.errors import ErrorCode
from coordinator.operations.log_dirs import (
    AssignedReplica,
    DescribedDirectory,
    DescribedReplica,
    WantedPlace,
    alter_response,
    assign_response,
    assigned_replicas,
    describe_response,
    described_partitions,
    wanted_places,
)
from coordinator.protocol.codec import Message
from coordinator.runtime.directories.port import DirectoryStatus, MoveRefused, ReplicaPlace
from coordinator.runtime.node.node import Node

LOG = logging.getLogger("coordinator.directories")

ASSIGN_TIMEOUT_MS: Final = 5_000


async def assign_replicas_to_dirs(node: Node, _: int, request: Message) -> Message:
    """Answer AssignReplicasToDirs as the leader of partition 0: what is recorded is in the log."""
    facts, replica = node.topic.facts, node.replicas.get(DIRECTORY_PARTITION)
    if facts is None or replica is None or not node.replicas.is_leading(DIRECTORY_PARTITION):
        return assign_response(node.router.not_led(DIRECTORY_PARTITION).error)
    node_id, epoch, asked = assigned_replicas(request)
    errors = [_assignment_error(one, facts.topic_id, len(facts.partitions)) for one in asked]
    lawful = ((one.directory_id, one.partition) for one, error in zip(asked, errors, strict=True) if error is ErrorCode.NONE)
    command = assigning(node_id, epoch, lawful)
    outcome = cast(Outcome, await replica.ask(command, ASSIGN_TIMEOUT_MS))
    if outcome.error is not ErrorCode.NONE:
        LOG.info("directories of replicas are not recorded node=%d reason=%r", node_id, outcome.message)
        return assign_response(outcome.error)
    return assign_response(ErrorCode.NONE, list(zip(asked, errors, strict=True)))


def _assignment_error(one: AssignedReplica, topic_id: bytes, partition_count: int) -> ErrorCode:
    if one.topic_id != topic_id:
        return ErrorCode.UNKNOWN_TOPIC_ID
    return ErrorCode.NONE if 0 <= one.partition < partition_count else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def alter_replica_log_dirs(node: Node, version: int, request: Message) -> Message:
    """Answer AlterReplicaLogDirs: each move that is lawful has begun. Kafka's response has no room for reasons, so they are logged."""
    return alter_response(version, [(one, _begin_move(node, one)) for one in wanted_places(request)])


def _begin_move(node: Node, wanted: WantedPlace) -> ErrorCode:
    if wanted.topic != node.config.topic or not node.replicas.follows(wanted.partition):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    directories = node.keeper.directories
    place = next((one for one in directories.places() if one.partition == wanted.partition), None)
    target = next((one for one in directories.directories() if one.path == wanted.path), None)
    if target is None:
        return ErrorCode.LOG_DIR_NOT_FOUND
    if target.offline_reason is not None:
        return ErrorCode.KAFKA_STORAGE_ERROR
    # As in Kafka, asking for the present directory, or the one of a move under way, is a success.
    if place is not None and target.directory_id == (place.moving_to or place.directory_id):
        return ErrorCode.NONE
    try:
        directories.move(wanted.partition, wanted.path)
    except MoveRefused as refused:
        LOG.warning("replica is not moved partition=%d path=%s reason=%r", wanted.partition, wanted.path, str(refused))
        return ErrorCode.REPLICA_NOT_AVAILABLE
    return ErrorCode.NONE


async def describe_log_dirs(node: Node, version: int, request: Message) -> Message:
    """Answer DescribeLogDirs with the data directories of this node and its replicas in them."""
    asked = described_partitions(request)
    partitions = None if asked is None else asked.get(node.config.topic, frozenset())
    directories = node.keeper.directories
    places = [one for one in directories.places() if partitions is None or one.partition in partitions]
    described = [_described(one, places, node.config.topic) for one in directories.directories()]
    return describe_response(version, ErrorCode.NONE, described)


def _described(directory: DirectoryStatus, places: Sequence[ReplicaPlace], topic: str) -> DescribedDirectory:
    if directory.offline_reason is not None:
        return DescribedDirectory(directory.path, ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, [])
    here = [
        DescribedReplica(topic, one.partition, one.size_bytes, 0, False) for one in places if one.directory_id == directory.directory_id
    ]
    coming = [
        DescribedReplica(topic, one.partition, 0, one.applied_offset - one.moving_applied_offset, True)
        for one in places
        if one.moving_to == directory.directory_id
    ]
    return DescribedDirectory(directory.path, ErrorCode.NONE, directory.total_bytes, directory.free_bytes, [*here, *coming])
