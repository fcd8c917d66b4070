"""FetchSnapshot between the wire and what the service knows: Kafka's own request (KIP-630), by which nodes give each other snapshots.

The messages are kio's. Versions 0 and 1 differ in fields that replicas of KRaft need and nodes here leave at their defaults.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from kio.schema.errors import ErrorCode as KioError

from coordinator.kafka.errors import ErrorCode
from coordinator.operations.declaration import CLUSTER_ACTION, Lane
from coordinator.operations.kafka_versions import kafka_operation, schema_module
from coordinator.protocol.api_keys import ApiKey
from coordinator.protocol.codec import Message

if TYPE_CHECKING:
    from kio.schema.fetch_snapshot.v1 import FetchSnapshotRequest, FetchSnapshotResponse

_VERSION: Final = 1
"""The version in which nodes ask each other."""


class SnapshotQuestion(NamedTuple):
    """One piece of the snapshot of one partition, as the request asks for it."""

    topic: str
    partition: int
    end_offset: int
    epoch: int
    position: int


class SnapshotAnswer(NamedTuple):
    """The answer to one question: an error, or bytes from the position on and the size of the whole.

    `leader` is the node that leads the partition, and its epoch; nodes answer each other without being leaders, and ignore it.
    """

    error: ErrorCode
    size: int = 0
    data: bytes = b""
    leader: tuple[int, int] = (-1, -1)


def fetch_snapshot_request(cluster_id: str, node_id: int, question: SnapshotQuestion, max_bytes: int) -> Message:
    """Return the request of one node to another."""
    module = schema_module("fetch_snapshot", _VERSION, "request")
    partition = module.PartitionSnapshot(
        partition=question.partition,
        current_leader_epoch=-1,
        snapshot_id=module.SnapshotId(end_offset=question.end_offset, epoch=question.epoch),
        position=question.position,
    )
    topic = module.TopicSnapshot(name=question.topic, partitions=(partition,))
    return cast(Message, module.FetchSnapshotRequest(cluster_id=cluster_id, replica_id=node_id, max_bytes=max_bytes, topics=(topic,)))


def snapshot_questions(request: Message) -> tuple[str | None, int, list[SnapshotQuestion]]:
    """(cluster id if told, bytes allowed in all, questions) of a request of any version."""
    asked = cast("FetchSnapshotRequest", request)
    questions = [
        SnapshotQuestion(str(topic.name), one.partition, one.snapshot_id.end_offset, one.snapshot_id.epoch, one.position)
        for topic in asked.topics
        for one in topic.partitions
    ]
    return asked.cluster_id, asked.max_bytes, questions


def fetch_snapshot_response(version: int, error: ErrorCode, answered: Sequence[tuple[SnapshotQuestion, SnapshotAnswer]] = ()) -> Message:
    """Kafka's response of a version; an error of the whole request has no answers."""
    module = schema_module("fetch_snapshot", version, "response")
    topics: dict[str, list[object]] = {}
    for asked, answer in answered:
        partition = module.PartitionSnapshot(
            index=asked.partition,
            error_code=KioError(int(answer.error)),
            snapshot_id=module.SnapshotId(end_offset=asked.end_offset, epoch=asked.epoch),
            current_leader=module.LeaderIdAndEpoch(leader_id=answer.leader[0], leader_epoch=answer.leader[1]),
            size=answer.size,
            position=asked.position,
            unaligned_records=answer.data,
        )
        topics.setdefault(asked.topic, []).append(partition)
    described = tuple(module.TopicSnapshot(name=name, partitions=tuple(partitions)) for name, partitions in topics.items())
    return cast(Message, module.FetchSnapshotResponse(throttle_time=timedelta(0), error_code=KioError(int(error)), topics=described))


def snapshot_answer(response: Message) -> SnapshotAnswer:
    """The answer to the one question of a request. Raises ValueError when the response answers none, or another position."""
    answered = cast("FetchSnapshotResponse", response)
    if answered.error_code is not KioError.none:
        return SnapshotAnswer(ErrorCode(int(answered.error_code.value)))
    partitions = [one for topic in answered.topics for one in topic.partitions]
    if len(partitions) != 1:
        raise ValueError(f"{len(partitions)} answers to one question")
    [one] = partitions
    return SnapshotAnswer(ErrorCode(int(one.error_code.value)), one.size, bytes(one.unaligned_records))


FETCH_SNAPSHOT: Final = kafka_operation(
    ApiKey.FETCH_SNAPSHOT,
    0,
    _VERSION,
    acl=CLUSTER_ACTION,
    refuse=lambda version, _, outcome: fetch_snapshot_response(version, outcome.error),
    lane=Lane.UNORDERED,
    is_internal=True,
    is_unbounded=True,
)
