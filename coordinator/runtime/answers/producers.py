"""Answers Kafka's request about idempotent producers of partitions, DescribeProducers, from this node's replicas (may be stale)."""

from __future__ import annotations

from coordinator.core.commands import Outcome
from coordinator.core.view import ShardView
from coordinator.kafka.errors import ErrorCode
from coordinator.operations.producers import DescribedProducers, ProducerFacts, asked_partitions, producers_response
from coordinator.protocol.codec import Message
from coordinator.runtime.failures import NotReadable
from coordinator.runtime.node.node import Node

_NO_TOPIC = bytes(16)


async def describe_producers(node: Node, version: int, request: Message) -> Message:
    """Answer DescribeProducers: what is remembered of each producer, until `producer.id.expiration.ms` after its newest batch."""
    return producers_response(version, [_described(node, name, partition) for name, partition in asked_partitions(request)])


def _described(node: Node, name: str, partition: int) -> DescribedProducers:
    directory = node.view.directory
    placement = None if directory is None else directory.placements.get(directory.names.get(name, _NO_TOPIC))
    coordinator_id = None if placement is None else placement.coordinator_of(partition)
    if placement is None or coordinator_id is None:
        message = f"this node knows no partition {partition} of a topic {name}"
        return DescribedProducers(name, partition, Outcome(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message=message))
    replica = node.replicas.get(coordinator_id)
    try:
        if replica is None:
            raise NotReadable(coordinator_id)
        found = replica.look(ShardView.producers, placement.topic_id, partition)
    except NotReadable as error:
        outcome = Outcome(error=ErrorCode.COORDINATOR_NOT_AVAILABLE, message=f"{error}; ask another node, or retry")
        return DescribedProducers(name, partition, outcome)
    return DescribedProducers(name, partition, producers=[ProducerFacts(*one) for one in found])
