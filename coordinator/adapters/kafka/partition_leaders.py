"""Where the partitions of a topic are led, and questions to their leaders over connections of this process's own.

A question names the epoch of the leadership that was told, so a broker that leads no more, or knows of a newer leader, refuses it; then the
brokers are asked anew who leads. Blocks: used in worker threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

import kio.schema.metadata.v12 as metadata
from confluent_kafka import KafkaError, KafkaException
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName

from coordinator.adapters.kafka.bootstrap import Bootstrap, rest_s
from coordinator.adapters.kafka.broker import Answer, BrokerConnection, connect, refused
from coordinator.protocol.codec import Message

LEADER_PAUSE_S: Final = 0.1
LEADER_IS_COMING: Final = frozenset(
    {
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError._TRANSPORT,
    }
)
"""Answers while a partition moves to another broker: asked again until the end."""
TOPIC_MISSING: Final = frozenset({ErrorCode.unknown_topic_or_partition, ErrorCode.unknown_topic_id})

Found = TypeVar("Found")


class NoSuchTopic(Exception):
    """Kafka has no topic of that name."""


class Leadership(NamedTuple):
    """A leader of a partition, and the number of its leadership."""

    host: str
    port: int
    epoch: int


@dataclass(frozen=True, slots=True)
class LedTopic:
    """A topic as the brokers tell of it. `leaders` has None where a partition has no leader at the moment."""

    topic_id: bytes
    leaders: tuple[Leadership | None, ...]


def leaders_of(answer: metadata.MetadataResponse, topic: metadata.response.MetadataResponseTopic) -> dict[int, Leadership]:
    """Return the leaders of the partitions of a topic that have one."""
    brokers = {int(one.node_id): (one.host, int(one.port)) for one in answer.brokers}
    return {
        int(one.partition_index): Leadership(*brokers[int(one.leader_id)], int(one.leader_epoch))
        for one in topic.partitions
        if int(one.leader_id) in brokers
    }


class PartitionLeaders:
    """Asks the leaders of the partitions of one topic."""

    def __init__(self, topic: str, properties: Mapping[str, Any], timeout_s: float) -> None:
        """`properties` are librdkafka's. Raises `KafkaException` for security that own connections do not know."""
        self.topic = topic
        self._bootstrap = Bootstrap.of(properties)
        self._timeout_s = timeout_s

    def describe(self) -> LedTopic:
        """Ask where the partitions are led. Raises `NoSuchTopic`, `KafkaException`."""
        return self._describe(time.monotonic() + self._timeout_s)

    def _describe(self, end_s: float) -> LedTopic:
        named = metadata.request.MetadataRequestTopic(topic_id=None, name=TopicName(self.topic))
        request = metadata.MetadataRequest(topics=(named,), allow_auto_topic_creation=False, include_topic_authorized_operations=False)
        return self._bootstrap.ask(request, metadata.MetadataResponse, self._read, end_s)

    def _read(self, answer: metadata.MetadataResponse) -> LedTopic:
        if len(answer.topics) != 1:
            raise refused(KafkaError._BAD_MSG, f"the broker gave {len(answer.topics)} answers to a question about one topic")
        [topic] = answer.topics
        if topic.error_code in TOPIC_MISSING:
            raise NoSuchTopic(f"Kafka has no topic {self.topic}")
        if topic.error_code is not ErrorCode.none:
            raise refused(int(topic.error_code.value), f"topic {self.topic}: the broker answers {topic.error_code.name}")
        led = leaders_of(answer, topic)
        topic_id = topic.topic_id.bytes if topic.topic_id is not None else bytes(16)
        return LedTopic(topic_id, tuple(led.get(index) for index in range(len(topic.partitions))))

    def ask_any(self, request: Message, answer_type: type[Answer]) -> Answer:
        """Return any broker's answer. Raises `KafkaException`."""
        return self._bootstrap.ask(request, answer_type, lambda answer: answer, time.monotonic() + self._timeout_s)

    def ask(self, partition: int, question: Callable[[BrokerConnection, Leadership], Found]) -> Found:
        """Return what a question to the partition's leader gives, asked again while it moves.

        Raises `NoSuchTopic`, `KafkaException`.
        """
        end_s = time.monotonic() + self._timeout_s
        while True:
            try:
                leader = self._leader(partition, end_s)
                security, client_id = self._bootstrap.security, self._bootstrap.client_id
                with connect(leader.host, leader.port, security=security, client_id=client_id, timeout_s=rest_s(end_s)) as connection:
                    return question(connection, leader)
            except KafkaException as error:
                if error.args[0].code() not in LEADER_IS_COMING or time.monotonic() + LEADER_PAUSE_S >= end_s:
                    raise
            time.sleep(LEADER_PAUSE_S)

    def _leader(self, partition: int, end_s: float) -> Leadership:
        leaders = self._describe(end_s).leaders
        if partition >= len(leaders):
            raise refused(KafkaError.UNKNOWN_TOPIC_OR_PART, f"topic {self.topic} has {len(leaders)} partitions and none {partition}")
        leader = leaders[partition]
        if leader is None:
            raise refused(KafkaError.LEADER_NOT_AVAILABLE, f"{self.topic}-{partition} has no leader; look at its brokers")
        return leader

    def ask_each_broker(self, question: Callable[[BrokerConnection], Found]) -> list[Found]:
        """Return what a question gives at each broker in service; no right to the topic is needed for it. Raises `KafkaException`."""
        end_s = time.monotonic() + self._timeout_s
        request = metadata.MetadataRequest(topics=(), allow_auto_topic_creation=False, include_topic_authorized_operations=False)
        bootstrap = self._bootstrap
        brokers = bootstrap.ask(request, metadata.MetadataResponse, lambda answer: answer.brokers, end_s)
        answers = []
        for host, port in sorted((one.host, int(one.port)) for one in brokers):
            with connect(host, port, security=bootstrap.security, client_id=bootstrap.client_id, timeout_s=rest_s(end_s)) as connection:
                answers.append(question(connection))
        return answers
