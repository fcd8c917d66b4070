"""Idempotent producers of partitions between the wire and the core: Kafka's own request DescribeProducers. The messages are kio's.

Partitions are named by the names of their topics. Nothing is told of transactions, which diskless topics do not have.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from kio.schema.errors import ErrorCode as KioError

from coordinator.core.commands import OK, Outcome
from coordinator.kafka.errors import ErrorCode
from coordinator.operations.declaration import DESCRIBE
from coordinator.operations.kafka_versions import kafka_operation, schema_module
from coordinator.protocol.api_keys import ApiKey
from coordinator.protocol.codec import Message

if TYPE_CHECKING:
    from kio.schema.describe_producers.v0 import DescribeProducersRequest, DescribeProducersResponse

_VERSION: Final = 0


class ProducerFacts(NamedTuple):
    """What a partition remembers of an idempotent producer; the time is that of the append of its newest batch."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_append_ms: int


class DescribedProducers(NamedTuple):
    """The producers of a partition of a topic, or why there is no answer."""

    topic: str
    partition: int
    outcome: Outcome = OK
    producers: Sequence[ProducerFacts] = ()


def producers_request(topic: str, partitions: Sequence[int]) -> Message:
    """Return the request for the producers of partitions of a topic."""
    module = schema_module("describe_producers", _VERSION, "request")
    asked = module.TopicRequest(name=topic, partition_indexes=tuple(partitions))
    return cast(Message, module.DescribeProducersRequest(topics=(asked,)))


def asked_partitions(request: Message) -> list[tuple[str, int]]:
    """Return the partitions of a request, by the names of their topics, in its order."""
    asked = cast("DescribeProducersRequest", request)
    return [(str(topic.name), int(partition)) for topic in asked.topics for partition in topic.partition_indexes]


def producers_response(version: int, described: Iterable[DescribedProducers]) -> Message:
    """Return Kafka's response; partitions of one topic come one after the other."""
    module = schema_module("describe_producers", version, "response")
    topics = tuple(
        module.TopicResponse(
            name=name,
            partitions=tuple(
                module.PartitionResponse(
                    partition_index=one.partition,
                    error_code=KioError(int(one.outcome.error)),
                    error_message=one.outcome.message,
                    active_producers=tuple(
                        module.ProducerState(
                            producer_id=each.producer_id,
                            producer_epoch=each.epoch,
                            last_sequence=each.last_sequence,
                            last_timestamp=each.last_append_ms,
                            coordinator_epoch=-1,
                            current_txn_start_offset=-1,
                        )
                        for each in one.producers
                    ),
                )
                for one in of_topic
            ),
        )
        for name, of_topic in groupby(described, key=lambda one: one.topic)
    )
    return cast(Message, module.DescribeProducersResponse(throttle_time=timedelta(0), topics=topics))


def described_producers(response: Message) -> list[DescribedProducers]:
    """Return the producers of each partition of a response, in its order."""
    return [
        DescribedProducers(
            str(topic.name),
            int(one.partition_index),
            Outcome(error=ErrorCode(int(one.error_code.value)), message=one.error_message),
            [
                ProducerFacts(int(each.producer_id), int(each.producer_epoch), int(each.last_sequence), int(each.last_timestamp))
                for each in one.active_producers
            ],
        )
        for topic in cast("DescribeProducersResponse", response).topics
        for one in topic.partitions
    ]


def _refuse(version: int, request: Message, outcome: Outcome) -> Message:
    return producers_response(version, [DescribedProducers(name, partition, outcome) for name, partition in asked_partitions(request)])


DESCRIBE_PRODUCERS: Final = kafka_operation(ApiKey.DESCRIBE_PRODUCERS, 0, 0, acl=DESCRIBE, refuse=_refuse, is_unbounded=True)
