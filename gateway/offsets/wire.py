"""The three requests in all their versions (kio's classes), as plain partitions, and their answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode as KafkaError

from coordinator.adapters.server.contract import IncomingRequest
from coordinator.kafka.errors import ErrorCode
from coordinator.protocol.codec import encode
from gateway.kafka_apis import KafkaApi, made

UNKNOWN: Final = -1
NO_EPOCH: Final = -1
LEADER_EPOCH: Final = 0


class Asked(NamedTuple):
    """A partition of a request. `value` is a timestamp, an offset or a leader epoch, by the request."""

    topic: str
    partition: int
    current_epoch: int
    value: int


class Told(NamedTuple):
    """What a partition is answered. DeleteRecords has `offset` alone, OffsetForLeaderEpoch no timestamp."""

    error: ErrorCode
    timestamp: int = UNKNOWN
    offset: int = UNKNOWN
    epoch: int = NO_EPOCH


class Wire(NamedTuple):
    """How a request and its answer are written; names are those of kio's classes and fields."""

    api: KafkaApi
    topic: str
    """The field with a topic's name."""
    partition: str
    value: str
    answer_topic: str
    answer_partition: str
    told: Callable[[Told], dict[str, Any]]
    """The fields of a partition's answer besides index and error; those that a version lacks are left out."""

    def read(self, request: IncomingRequest) -> tuple[list[Asked], int | None]:
        """Decode a request; returns its partitions, and its timeout in milliseconds if it has one. Raises MalformedMessage."""
        message = self.api.read_request(request)
        asked = []
        for topic in message.topics:
            for one in topic.partitions:
                epoch = getattr(one, "current_leader_epoch", NO_EPOCH)
                asked.append(Asked(getattr(topic, self.topic), getattr(one, self.partition), epoch, getattr(one, self.value)))
        timeout = getattr(message, "timeout", None)
        return asked, None if timeout is None else int(timeout.total_seconds() * 1000)

    def write(self, version: int, asked: Sequence[Asked], told: Sequence[Told]) -> bytes:
        """Encode an answer: the partitions of a topic that follow each other stand together."""
        parts = self.api.answer_parts(version)
        topic_type, partition_type = getattr(parts, self.answer_topic), getattr(parts, self.answer_partition)
        topics: list[tuple[str, list[Any]]] = []
        for one, answer in zip(asked, told, strict=True):
            if not topics or topics[-1][0] != one.topic:
                topics.append((one.topic, []))
            code = KafkaError(int(answer.error))
            topics[-1][1].append(made(partition_type, **{self.partition: one.partition}, error_code=code, **self.told(answer)))
        rows = tuple(topic_type(**{self.topic: name}, partitions=tuple(partitions)) for name, partitions in topics)
        return encode(made(self.api.answer_type(version), topics=rows, throttle_time=timedelta(0)))


LIST_OFFSETS: Final = Wire(
    KafkaApi.LIST_OFFSETS,
    "name",
    "partition_index",
    "timestamp",
    "ListOffsetsTopicResponse",
    "ListOffsetsPartitionResponse",
    lambda one: {"timestamp": one.timestamp, "offset": one.offset, "leader_epoch": one.epoch},
)
DELETE_RECORDS: Final = Wire(
    KafkaApi.DELETE_RECORDS,
    "name",
    "partition_index",
    "offset",
    "DeleteRecordsTopicResult",
    "DeleteRecordsPartitionResult",
    lambda one: {"low_watermark": one.offset},
)
OFFSET_FOR_LEADER_EPOCH: Final = Wire(
    KafkaApi.OFFSET_FOR_LEADER_EPOCH,
    "topic",
    "partition",
    "leader_epoch",
    "OffsetForLeaderTopicResult",
    "EpochEndOffset",
    lambda one: {"leader_epoch": one.epoch, "end_offset": one.offset},
)
