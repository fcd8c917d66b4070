"""Data directories between the wire and what a node knows of them: three of Kafka's own requests (KIP-113, KIP-858).

The messages are kio's. The topic is the metadata topic, and a replica is the state of one of its partitions on one node.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from kio.schema.errors import ErrorCode as KioError

from coordinator.kafka.errors import ErrorCode
from coordinator.operations.declaration import ALTER, CLUSTER_ACTION, DESCRIBE, AnsweredBy, Lane
from coordinator.operations.kafka_versions import kafka_operation, schema_module
from coordinator.protocol.api_keys import ApiKey
from coordinator.protocol.codec import Message

if TYPE_CHECKING:
    from kio.schema.alter_replica_log_dirs.v2 import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse
    from kio.schema.assign_replicas_to_dirs.v0 import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
    from kio.schema.describe_log_dirs.v4 import DescribeLogDirsRequest, DescribeLogDirsResponse

_ASSIGN_VERSION: Final = 0
_ALTER_VERSION: Final = 2
_DESCRIBE_VERSION: Final = 4
"""The versions in which this program asks."""


# ---- AssignReplicasToDirs: a node to the leader of the directory


class AssignedReplica(NamedTuple):
    """A metadata partition whose replica is in a directory of the node that asks."""

    directory_id: bytes
    topic_id: bytes
    partition: int


def assign_request(node_id: int, node_epoch: int, replicas: Iterable[AssignedReplica]) -> Message:
    """Return the request of a node."""
    module = schema_module("assign_replicas_to_dirs", _ASSIGN_VERSION, "request")
    directories = tuple(
        module.DirectoryData(
            id_=_uuid(directory_id),
            topics=tuple(
                module.TopicData(
                    topic_id=_uuid(topic_id), partitions=tuple(module.PartitionData(partition_index=one) for one in partitions)
                )
                for topic_id, partitions in topics.items()
            ),
        )
        for directory_id, topics in _by_directory((one, one.partition) for one in replicas).items()
    )
    return cast(Message, module.AssignReplicasToDirsRequest(broker_id=node_id, broker_epoch=node_epoch, directories=directories))


def assigned_replicas(request: Message) -> tuple[int, int, list[AssignedReplica]]:
    """(node, its epoch, replicas) of a request."""
    asked = cast("AssignReplicasToDirsRequest", request)
    replicas = [
        AssignedReplica(_bytes(directory.id_), _bytes(topic.topic_id), one.partition_index)
        for directory in asked.directories
        for topic in directory.topics
        for one in topic.partitions
    ]
    return int(asked.broker_id), int(asked.broker_epoch), replicas


def assign_response(error: ErrorCode, answered: Sequence[tuple[AssignedReplica, ErrorCode]] = ()) -> Message:
    """Kafka's response; an error of the whole request has no answers."""
    module = schema_module("assign_replicas_to_dirs", _ASSIGN_VERSION, "response")
    directories = tuple(
        module.DirectoryData(
            id_=_uuid(directory_id),
            topics=tuple(module.TopicData(topic_id=_uuid(one), partitions=tuple(told)) for one, told in topics.items()),
        )
        for directory_id, topics in _by_directory(
            (one, module.PartitionData(partition_index=one.partition, error_code=KioError(int(code)))) for one, code in answered
        ).items()
    )
    return cast(
        Message, module.AssignReplicasToDirsResponse(throttle_time=timedelta(0), error_code=KioError(int(error)), directories=directories)
    )


def assign_outcomes(response: Message) -> tuple[ErrorCode, dict[AssignedReplica, ErrorCode]]:
    """The error of the whole request, and of each replica."""
    told = cast("AssignReplicasToDirsResponse", response)
    replicas = {
        AssignedReplica(_bytes(directory.id_), _bytes(topic.topic_id), one.partition_index): ErrorCode(int(one.error_code.value))
        for directory in told.directories
        for topic in directory.topics
        for one in topic.partitions
    }
    return ErrorCode(int(told.error_code.value)), replicas


def _by_directory(items: Iterable[tuple[AssignedReplica, object]]) -> dict[bytes, dict[bytes, list[object]]]:
    found: dict[bytes, dict[bytes, list[object]]] = {}
    for one, item in items:
        found.setdefault(one.directory_id, {}).setdefault(one.topic_id, []).append(item)
    return found


# ---- AlterReplicaLogDirs: move replicas of the node that is asked


class WantedPlace(NamedTuple):
    """The directory into which a replica of the node that is asked is to move."""

    path: str
    topic: str
    partition: int


def alter_request(wanted: Iterable[WantedPlace]) -> Message:
    """Return the request of an operator."""
    module = schema_module("alter_replica_log_dirs", _ALTER_VERSION, "request")
    dirs: dict[str, dict[str, list[int]]] = {}
    for one in wanted:
        dirs.setdefault(one.path, {}).setdefault(one.topic, []).append(one.partition)
    asked = tuple(
        module.AlterReplicaLogDir(
            path=path,
            topics=tuple(module.AlterReplicaLogDirTopic(name=name, partitions=tuple(partitions)) for name, partitions in topics.items()),
        )
        for path, topics in dirs.items()
    )
    return cast(Message, module.AlterReplicaLogDirsRequest(dirs=asked))


def wanted_places(request: Message) -> list[WantedPlace]:
    """The moves that a request of any version asks for."""
    asked = cast("AlterReplicaLogDirsRequest", request)
    return [
        WantedPlace(one.path, str(topic.name), partition) for one in asked.dirs for topic in one.topics for partition in topic.partitions
    ]


def alter_response(version: int, answered: Sequence[tuple[WantedPlace, ErrorCode]]) -> Message:
    """Kafka's response of a version."""
    module = schema_module("alter_replica_log_dirs", version, "response")
    topics: dict[str, list[object]] = {}
    for one, code in answered:
        result = module.AlterReplicaLogDirPartitionResult(partition_index=one.partition, error_code=KioError(int(code)))
        topics.setdefault(one.topic, []).append(result)
    results = tuple(module.AlterReplicaLogDirTopicResult(topic_name=name, partitions=tuple(told)) for name, told in topics.items())
    return cast(Message, module.AlterReplicaLogDirsResponse(throttle_time=timedelta(0), results=results))


def alter_outcomes(response: Message) -> dict[int, ErrorCode]:
    """The error of each metadata partition."""
    told = cast("AlterReplicaLogDirsResponse", response)
    return {one.partition_index: ErrorCode(int(one.error_code.value)) for topic in told.results for one in topic.partitions}


# ---- DescribeLogDirs: the directories of the node that is asked


class DescribedReplica(NamedTuple):
    """A replica in a directory; `is_future`: the copy that a move is making. The lag of a copy is what the replica is ahead of it."""

    topic: str
    partition: int
    size_bytes: int
    offset_lag: int
    is_future: bool


class DescribedDirectory(NamedTuple):
    """A directory of a node; sizes are -1 when they are unknown."""

    path: str
    error: ErrorCode
    total_bytes: int
    usable_bytes: int
    replicas: Sequence[DescribedReplica]


def describe_request() -> Message:
    """Return the request for everything that a node has."""
    module = schema_module("describe_log_dirs", _DESCRIBE_VERSION, "request")
    return cast(Message, module.DescribeLogDirsRequest(topics=None))


def described_partitions(request: Message) -> Mapping[str, frozenset[int]] | None:
    """The topics and partitions that a request of any version asks for; None for all."""
    topics = cast("DescribeLogDirsRequest", request).topics
    return None if topics is None else {str(one.topic): frozenset(one.partitions) for one in topics}


def describe_response(version: int, error: ErrorCode, directories: Iterable[DescribedDirectory] = ()) -> Message:
    """Kafka's response of a version; what older versions lack is left out."""
    module = schema_module("describe_log_dirs", version, "response")
    results = []
    for directory in directories:
        topics: dict[str, list[object]] = {}
        for one in directory.replicas:
            replica = module.DescribeLogDirsPartition(
                partition_index=one.partition, partition_size=one.size_bytes, offset_lag=one.offset_lag, is_future_key=one.is_future
            )
            topics.setdefault(one.topic, []).append(replica)
        described = tuple(module.DescribeLogDirsTopic(name=name, partitions=tuple(replicas)) for name, replicas in topics.items())
        sizes = {"total_bytes": directory.total_bytes, "usable_bytes": directory.usable_bytes} if version >= 4 else {}
        code = KioError(int(directory.error))
        results.append(module.DescribeLogDirsResult(error_code=code, log_dir=directory.path, topics=described, **sizes))
    errors = {"error_code": KioError(int(error))} if version >= 3 else {}
    return cast(Message, module.DescribeLogDirsResponse(throttle_time=timedelta(0), results=tuple(results), **errors))


def described_directories(response: Message) -> tuple[ErrorCode, list[DescribedDirectory]]:
    """The error of the whole request, and the directories."""
    told = cast("DescribeLogDirsResponse", response)
    directories = [
        DescribedDirectory(
            one.log_dir,
            ErrorCode(int(one.error_code.value)),
            int(one.total_bytes),
            int(one.usable_bytes),
            [
                DescribedReplica(str(topic.name), each.partition_index, int(each.partition_size), int(each.offset_lag), each.is_future_key)
                for topic in one.topics
                for each in topic.partitions
            ],
        )
        for one in told.results
    ]
    return ErrorCode(int(told.error_code.value)), directories


# kio has no value for the uuid of 16 zero bytes but None.
def _uuid(value: bytes) -> uuid.UUID | None:
    return uuid.UUID(bytes=value) if any(value) else None


def _bytes(value: uuid.UUID | None) -> bytes:
    return bytes(16) if value is None else value.bytes


ASSIGN_REPLICAS_TO_DIRS: Final = kafka_operation(
    ApiKey.ASSIGN_REPLICAS_TO_DIRS,
    0,
    _ASSIGN_VERSION,
    acl=CLUSTER_ACTION,
    refuse=lambda _, __, outcome: assign_response(outcome.error),
    answered_by=AnsweredBy.DIRECTORY,
    lane=Lane.UNORDERED,
    is_internal=True,
)
ALTER_REPLICA_LOG_DIRS: Final = kafka_operation(
    ApiKey.ALTER_REPLICA_LOG_DIRS,
    1,
    _ALTER_VERSION,
    acl=ALTER,
    refuse=lambda version, request, outcome: alter_response(version, [(one, outcome.error) for one in wanted_places(request)]),
    lane=Lane.ALONE,
)
DESCRIBE_LOG_DIRS: Final = kafka_operation(
    ApiKey.DESCRIBE_LOG_DIRS, 1, 5, acl=DESCRIBE, refuse=lambda version, _, outcome: describe_response(version, outcome.error)
)
