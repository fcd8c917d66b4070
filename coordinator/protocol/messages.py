"""The requests and responses of KIP-1164 and this service's extensions.

Made by `python -m codegen` from `coordinator/protocol/schemas/*.json`; do not edit.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from kio.static.constants import EntityType
from kio.static.primitive import i16

from coordinator.protocol.entity import BOOL, BYTES, INT8, INT16, INT32, INT64, STRING, UUID, RequestPart, ResponsePart


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitBatch(RequestPart):
    """CommitFile: a part of the request."""

    __api_key__: ClassVar[i16] = i16(95)
    magic: int = field(metadata=INT8)
    """The record batch magic byte."""
    request_id: int = field(metadata=INT32)
    """The ID of the original produce request this batch belongs to."""
    topic_id: bytes = field(metadata=UUID)
    """The unique ID of the topic this batch belongs to."""
    partition_index: int = field(metadata=INT32)
    """The partition index this batch belongs to."""
    byte_offset: int = field(metadata=INT32)
    """The byte offset of this batch within the file."""
    size: int = field(metadata=INT32)
    """The size of the batch in bytes."""
    base_offset: int = field(metadata=INT64)
    """The base offset of the record batch."""
    last_offset: int = field(metadata=INT64)
    """The last offset of the record batch."""
    batch_max_timestamp: int = field(metadata=INT64)
    """The maximum timestamp in the batch."""
    timestamp_type: int = field(metadata=INT8)
    """The timestamp type (0 = CreateTime, 1 = LogAppendTime)."""
    producer_id: int = field(metadata=INT64)
    """The producer ID, or -1 if not set."""
    producer_epoch: int = field(metadata=INT16)
    """The producer epoch, or -1 if not set."""
    base_sequence: int = field(metadata=INT32)
    """The base sequence number, or -1 if not set."""
    last_sequence: int = field(metadata=INT32)
    """The last sequence number, or -1 if not set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitFileRequest(RequestPart):
    """CommitFile: the request."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[i16] = i16(95)
    object_key: str = field(metadata=STRING)
    """The object key identifying the file in object storage."""
    object_format: int = field(metadata=INT8)
    """The format of the object (e.g. 1 = WRITE_AHEAD_MULTI_SEGMENT)."""
    file_size: int = field(metadata=INT64)
    """The total size of the file in bytes."""
    owner_ids: tuple[int, ...] = field(metadata=INT32)
    """The list of Diskless Coordinator IDs that share ownership of this file."""
    batches: tuple[CommitBatch, ...]
    """The batches contained in the file to commit."""
    timeout_ms: int = field(metadata=INT32, default=60000)
    """How long to wait in milliseconds before timing out the request."""
    uploader_broker_id: int = field(metadata={**INT32, "tag": 0}, default=-1)
    """The broker that uploaded the file, or -1 if unknown."""
    created_ms: int = field(metadata={**INT64, "tag": 1}, default=-1)
    """When the file was created, in milliseconds since the epoch, or -1 if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitBatchResult(ResponsePart):
    """CommitFile: a part of the response."""

    __api_key__: ClassVar[i16] = i16(95)
    error_code: int = field(metadata=INT16)
    """The error code, or 0 if there was no error."""
    error_message: str | None = field(metadata=STRING, default=None)
    """The error message, or null if there was no error."""
    assigned_base_offset: int = field(metadata=INT64)
    """The base offset assigned by the coordinator, or -1 on error."""
    log_append_time: int = field(metadata=INT64)
    """The log append timestamp, or -1 if not applicable."""
    log_start_offset: int = field(metadata=INT64)
    """The log start offset of the partition, or -1 on error."""
    is_duplicate: bool = field(metadata=BOOL)
    """True if this batch was a duplicate of an already committed batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitFileResponse(ResponsePart):
    """CommitFile: the response."""

    __type__: ClassVar[EntityType] = EntityType.response
    __api_key__: ClassVar[i16] = i16(95)
    throttle_time_ms: int = field(metadata=INT32, default=0)
    """The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request did not
    violate any quota.
    """
    batches: tuple[CommitBatchResult, ...]
    """Results for each batch, in the same order as the request batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatablePartitions(RequestPart):
    """CreatePartitions: a part of the request."""

    __api_key__: ClassVar[i16] = i16(93)
    topic_id: bytes = field(metadata=UUID)
    """The unique topic ID."""
    name: str = field(metadata=STRING)
    """The topic name."""
    num_partitions: int = field(metadata=INT32)
    """The number of partitions to create for the topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePartitionsRequest(RequestPart):
    """CreatePartitions: the request."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[i16] = i16(93)
    topics: tuple[CreatablePartitions, ...]
    """Each topic where to create partitions."""
    timeout_ms: int = field(metadata=INT32, default=60000)
    """How long to wait in milliseconds before timing out the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatablePartitionsResult(ResponsePart):
    """CreatePartitions: a part of the response."""

    __api_key__: ClassVar[i16] = i16(93)
    topic_id: bytes = field(metadata=UUID)
    """The unique topic ID."""
    error_code: int = field(metadata=INT16)
    """The error code, or 0 if there was no error."""
    error_message: str | None = field(metadata=STRING)
    """The error message, or null if there was no error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePartitionsResponse(ResponsePart):
    """CreatePartitions: the response."""

    __type__: ClassVar[EntityType] = EntityType.response
    __api_key__: ClassVar[i16] = i16(93)
    throttle_time_ms: int = field(metadata=INT32, default=0)
    """The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request did not
    violate any quota.
    """
    topics: tuple[CreatablePartitionsResult, ...]
    """Results for each topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecordsPartition(RequestPart):
    """DeleteRecords: a part of the request."""

    __api_key__: ClassVar[i16] = i16(96)
    partition_index: int = field(metadata=INT32)
    """The partition index."""
    offset: int = field(metadata=INT64)
    """The deletion offset. All records with offsets less than this value will be deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecordsTopic(RequestPart):
    """DeleteRecords: a part of the request."""

    __api_key__: ClassVar[i16] = i16(96)
    topic_id: bytes = field(metadata=UUID)
    """The unique topic ID."""
    partitions: tuple[DeleteRecordsPartition, ...]
    """Each partition that we want to delete records from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecordsRequest(RequestPart):
    """DeleteRecords: the request."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[i16] = i16(96)
    topics: tuple[DeleteRecordsTopic, ...]
    """Each topic that we want to delete records from."""
    timeout_ms: int = field(metadata=INT32, default=60000)
    """How long to wait for the deletion to complete, in milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecordsPartitionResult(ResponsePart):
    """DeleteRecords: a part of the response."""

    __api_key__: ClassVar[i16] = i16(96)
    partition_index: int = field(metadata=INT32)
    """The partition index."""
    low_watermark: int = field(metadata=INT64)
    """The partition low water mark."""
    error_code: int = field(metadata=INT16)
    """The deletion error code, or 0 if the deletion succeeded."""
    error_message: str | None = field(metadata=STRING, default=None)
    """The error message, or null if there was no error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecordsTopicResult(ResponsePart):
    """DeleteRecords: a part of the response."""

    __api_key__: ClassVar[i16] = i16(96)
    topic_id: bytes = field(metadata=UUID)
    """The unique topic ID."""
    partitions: tuple[DeleteRecordsPartitionResult, ...]
    """Each partition that we wanted to delete records from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecordsResponse(ResponsePart):
    """DeleteRecords: the response."""

    __type__: ClassVar[EntityType] = EntityType.response
    __api_key__: ClassVar[i16] = i16(96)
    throttle_time_ms: int = field(metadata=INT32, default=0)
    """The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request did not
    violate any quota.
    """
    topics: tuple[DeleteRecordsTopicResult, ...]
    """Each topic that we wanted to delete records from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletableTopicState(RequestPart):
    """DeleteTopics: a part of the request."""

    __api_key__: ClassVar[i16] = i16(94)
    topic_id: bytes = field(metadata=UUID)
    """The unique topic ID."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicsRequest(RequestPart):
    """DeleteTopics: the request."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[i16] = i16(94)
    topics: tuple[DeletableTopicState, ...]
    """Each topic to delete."""
    timeout_ms: int = field(metadata=INT32, default=60000)
    """The length of time in milliseconds to wait for the deletions to complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletableTopicResult(ResponsePart):
    """DeleteTopics: a part of the response."""

    __api_key__: ClassVar[i16] = i16(94)
    topic_id: bytes = field(metadata=UUID)
    """The unique topic ID."""
    error_code: int = field(metadata=INT16)
    """The deletion error, or 0 if the deletion succeeded."""
    error_message: str | None = field(metadata=STRING, default=None)
    """The error message, or null if there was no error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicsResponse(ResponsePart):
    """DeleteTopics: the response."""

    __type__: ClassVar[EntityType] = EntityType.response
    __api_key__: ClassVar[i16] = i16(94)
    throttle_time_ms: int = field(metadata=INT32, default=0)
    """The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request did not
    violate any quota.
    """
    responses: tuple[DeletableTopicResult, ...]
    """The results for each topic we tried to delete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeCoordinatorsRequest(RequestPart):
    """DescribeCoordinators: the request."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[i16] = i16(10201)
    coordinator_ids: tuple[int, ...] = field(metadata=INT32)
    """The coordinators to describe; none means all."""
    timeout_ms: int = field(metadata=INT32, default=60000)
    """How long to wait in milliseconds before timing out the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeCoordinatorsCoordinator(ResponsePart):
    """DescribeCoordinators: a part of the response."""

    __api_key__: ClassVar[i16] = i16(10201)
    error_code: int = field(metadata=INT16)
    """The error code, or 0 if there was no error."""
    error_message: str | None = field(metadata=STRING, default=None)
    """The error message, or null if there was no error."""
    coordinator_id: int = field(metadata=INT32)
    """The coordinator, which is a partition of the metadata topic."""
    state: str = field(metadata=STRING)
    """What the answering node is for this coordinator, in words."""
    leader_id: int = field(metadata=INT32, default=-1)
    """The node that leads the coordinator, or -1 if unknown."""
    leader_epoch: int = field(metadata=INT32, default=-1)
    """The leadership epoch, or -1 if unknown."""
    term: int = field(metadata=INT64, default=0)
    """The random number of the leadership term, or 0 if unknown."""
    host: str = field(metadata=STRING)
    """Where the leader listens."""
    port: int = field(metadata=INT32, default=-1)
    """Where the leader listens, or -1 if unknown."""
    applied_offset: int = field(metadata=INT64, default=-1)
    """The offset of the last applied entry of the answering node, or -1 if none."""
    log_end_offset: int = field(metadata=INT64, default=-1)
    """The end offset of the metadata partition, or -1 if unknown."""
    live_partitions: int = field(metadata=INT32, default=0)
    """The number of live user partitions."""
    digest: bytes = field(metadata=BYTES)
    """The digest of the state at the applied offset, or empty if not computed."""
    is_local: bool = field(metadata=BOOL)
    """True if the answering node leads this coordinator."""
    failures: int = field(metadata=INT32, default=0)
    """How often the replica of the answering node failed since its process started."""
    last_failure: str | None = field(metadata=STRING, default=None)
    """Why it failed last, or null if it did not."""
    evidence: str | None = field(metadata=STRING, default=None)
    """The file name of the state database that was set aside last, or null if none was."""
    contradictions: int = field(metadata=INT32, default=0)
    """How many entries of the log the answering node found to contradict the state, or was accused of, since its process started.
    """
    last_contradiction: str | None = field(metadata=STRING, default=None)
    """The newest of them: its offset, the node that found it, and the reason; or null if there was none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeCoordinatorsNode(ResponsePart):
    """DescribeCoordinators: a part of the response."""

    __api_key__: ClassVar[i16] = i16(10201)
    node_id: int = field(metadata=INT32)
    """The node."""
    rack: str | None = field(metadata=STRING, default=None)
    """The rack of the node, or null if it has none."""
    host: str = field(metadata=STRING)
    """Where the node listens."""
    port: int = field(metadata=INT32)
    """Where the node listens."""
    incarnation_id: bytes = field(metadata=UUID)
    """The process that is registered as this node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeCoordinatorsResponse(ResponsePart):
    """DescribeCoordinators: the response."""

    __type__: ClassVar[EntityType] = EntityType.response
    __api_key__: ClassVar[i16] = i16(10201)
    throttle_time_ms: int = field(metadata=INT32, default=0)
    """The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request did not
    violate any quota.
    """
    error_code: int = field(metadata=INT16)
    """The error code, or 0 if there was no error."""
    error_message: str | None = field(metadata=STRING, default=None)
    """The error message, or null if there was no error."""
    cluster_id: str | None = field(metadata=STRING)
    """The ID of the Kafka cluster that holds the metadata topic, or null if unknown."""
    node_id: int = field(metadata=INT32)
    """The node that answers."""
    incarnation_id: bytes = field(metadata=UUID)
    """The random ID of the process that answers, drawn at its start."""
    time_ms: int = field(metadata=INT64)
    """The wall clock of the node that answers."""
    withheld_reason: str | None = field(metadata=STRING, default=None)
    """Why the node that answers stays out of leadership, or null if it does not."""
    coordinators: tuple[DescribeCoordinatorsCoordinator, ...]
    """Each coordinator described."""
    nodes: tuple[DescribeCoordinatorsNode, ...]
    """Each node of the service."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeFileEntry(RequestPart):
    """DescribeFiles: a part of the request."""

    __api_key__: ClassVar[i16] = i16(100)
    object_key: str = field(metadata=STRING)
    """The object key identifying the file in object storage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeFilesRequest(RequestPart):
    """DescribeFiles: the request."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[i16] = i16(100)
    files: tuple[DescribeFileEntry, ...]
    """Each file to describe."""
    timeout_ms: int = field(metadata=INT32, default=60000)
    """How long to wait in milliseconds before timing out the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeFileResult(ResponsePart):
    """DescribeFiles: a part of the response."""

    __api_key__: ClassVar[i16] = i16(100)
    object_key: str = field(metadata=STRING)
    """The object key identifying the file in object storage."""
    error_code: int = field(metadata=INT16)
    """The error code, or 0 if there was no error."""
    error_message: str | None = field(metadata=STRING, default=None)
    """The error message, or null if there was no error."""
    has_live_batches: bool = field(metadata=BOOL)
    """True if the file still has live batches tracked by this coordinator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeFilesResponse(ResponsePart):
    """DescribeFiles: the response."""

    __type__: ClassVar[EntityType] = EntityType.response
    __api_key__: ClassVar[i16] = i16(100)
    throttle_time_ms: int = field(metadata=INT32, default=0)
    """The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request did not
    violate any quota.
    """
    files: tuple[DescribeFileResult, ...]
    """Results for each file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeNodeRequest(RequestPart):
    """DescribeNode: the request."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[i16] = i16(10214)
    node_id: int = field(metadata=INT32)
    """The node that asks."""
    timeout_ms: int = field(metadata=INT32, default=60000)
    """How long to wait in milliseconds before timing out the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeNodeResponse(ResponsePart):
    """DescribeNode: the response."""

    __type__: ClassVar[EntityType] = EntityType.response
    __api_key__: ClassVar[i16] = i16(10214)
    throttle_time_ms: int = field(metadata=INT32, default=0)
    """The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request did not
    violate any quota.
    """
    error_code: int = field(metadata=INT16)
    """The error code, or 0 if there was no error."""
    node_id: int = field(metadata=INT32)
    """The node that answers."""
    incarnation_id: bytes = field(metadata=UUID)
    """The random ID of the process that answers, drawn at its start."""
    is_member: bool = field(metadata=BOOL)
    """True if the node is a member of the group and may lead."""
    time_ms: int = field(metadata=INT64)
    """The wall clock of the node."""
    is_kafka_time_known: bool = field(metadata=BOOL)
    """True if the node has compared its clock with those of Kafka's brokers."""
    kafka_time_ms: int = field(metadata=INT64, default=0)
    """What the brokers' clocks show now, as far as the node knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTopicsTopic(RequestPart):
    """DescribeTopics: a part of the request."""

    __api_key__: ClassVar[i16] = i16(10200)
    topic_id: bytes = field(metadata=UUID)
    """The unique topic ID, or zero to look the topic up by its name."""
    name: str | None = field(metadata=STRING)
    """The topic name, or null to look the topic up by its ID."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTopicsRequest(RequestPart):
    """DescribeTopics: the request."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[i16] = i16(10200)
    topics: tuple[DescribeTopicsTopic, ...]
    """Each topic to describe; none means all."""
    timeout_ms: int = field(metadata=INT32, default=60000)
    """How long to wait in milliseconds before timing out the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTopicsPartitionResult(ResponsePart):
    """DescribeTopics: a part of the response."""

    __api_key__: ClassVar[i16] = i16(10200)
    error_code: int = field(metadata=INT16)
    """The error code, or 0 if there was no error."""
    partition_index: int = field(metadata=INT32)
    """The partition index."""
    coordinator_id: int = field(metadata=INT32)
    """The coordinator that owns the partition."""
    leader_id: int = field(metadata=INT32, default=-1)
    """The node that leads this coordinator, or -1 if unknown."""
    log_start_offset: int = field(metadata=INT64, default=-1)
    """The log start offset of the partition, or -1 if unknown."""
    high_watermark: int = field(metadata=INT64, default=-1)
    """The high watermark of the partition, or -1 if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTopicsTopicResult(ResponsePart):
    """DescribeTopics: a part of the response."""

    __api_key__: ClassVar[i16] = i16(10200)
    error_code: int = field(metadata=INT16)
    """The error code, or 0 if there was no error."""
    error_message: str | None = field(metadata=STRING, default=None)
    """The error message, or null if there was no error."""
    topic_id: bytes = field(metadata=UUID)
    """The unique topic ID."""
    name: str | None = field(metadata=STRING)
    """The topic name, or null if it is unknown."""
    partitions: tuple[DescribeTopicsPartitionResult, ...]
    """Each partition of the topic; with the error UNKNOWN_TOPIC_ID those that a deleted topic had, for repeated commits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTopicsResponse(ResponsePart):
    """DescribeTopics: the response."""

    __type__: ClassVar[EntityType] = EntityType.response
    __api_key__: ClassVar[i16] = i16(10200)
    throttle_time_ms: int = field(metadata=INT32, default=0)
    """The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request did not
    violate any quota.
    """
    topics: tuple[DescribeTopicsTopicResult, ...]
    """Each topic described."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindBatchesPartition(RequestPart):
    """FindBatches: a part of the request."""

    __api_key__: ClassVar[i16] = i16(98)
    partition_index: int = field(metadata=INT32)
    """The partition index."""
    offset: int = field(metadata=INT64)
    """The offset to start fetching from."""
    max_partition_fetch_bytes: int = field(metadata=INT32)
    """Maximum bytes to fetch for this partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindBatchesTopic(RequestPart):
    """FindBatches: a part of the request."""

    __api_key__: ClassVar[i16] = i16(98)
    topic_id: bytes = field(metadata=UUID)
    """The topic ID."""
    partitions: tuple[FindBatchesPartition, ...]
    """Each partition in the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindBatchesRequest(RequestPart):
    """FindBatches: the request."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[i16] = i16(98)
    fetch_max_bytes: int = field(metadata=INT32)
    """Maximum bytes to fetch across all partitions."""
    max_batches_per_partition: int = field(metadata=INT32)
    """Maximum number of batches per partition to return."""
    topics: tuple[FindBatchesTopic, ...]
    """Each topic in the request."""
    timeout_ms: int = field(metadata=INT32, default=60000)
    """How long to wait in milliseconds before timing out the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindBatchesBatchInfo(ResponsePart):
    """FindBatches: a part of the response."""

    __api_key__: ClassVar[i16] = i16(98)
    batch_id: int = field(metadata=INT64)
    """The batch ID."""
    object_key: str = field(metadata=STRING)
    """The object key in object storage containing this batch."""
    magic: int = field(metadata=INT8)
    """The record batch magic byte."""
    byte_offset: int = field(metadata=INT64)
    """The byte offset of the batch within the object."""
    byte_size: int = field(metadata=INT64)
    """The size of the batch in bytes."""
    base_offset: int = field(metadata=INT64)
    """The base offset of the record batch."""
    last_offset: int = field(metadata=INT64)
    """The last offset of the record batch."""
    log_append_timestamp: int = field(metadata=INT64)
    """The log append timestamp."""
    batch_max_timestamp: int = field(metadata=INT64)
    """The maximum timestamp in the batch."""
    timestamp_type: int = field(metadata=INT8)
    """The timestamp type (0 = CreateTime, 1 = LogAppendTime)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindBatchesPartitionResponse(ResponsePart):
    """FindBatches: a part of the response."""

    __api_key__: ClassVar[i16] = i16(98)
    partition_index: int = field(metadata=INT32)
    """The partition index."""
    error_code: int = field(metadata=INT16)
    """The partition error code, or 0 if there was no error."""
    log_start_offset: int = field(metadata=INT64, default=-1)
    """The log start offset of the partition, or -1 if unknown."""
    high_watermark: int = field(metadata=INT64, default=-1)
    """The high watermark of the partition, or -1 if unknown."""
    batches: tuple[FindBatchesBatchInfo, ...]
    """The batches found for this partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindBatchesTopicResponse(ResponsePart):
    """FindBatches: a part of the response."""

    __api_key__: ClassVar[i16] = i16(98)
    topic_id: bytes = field(metadata=UUID)
    """The topic ID."""
    partitions: tuple[FindBatchesPartitionResponse, ...]
    """Each partition in the response."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindBatchesResponse(ResponsePart):
    """FindBatches: the response."""

    __type__: ClassVar[EntityType] = EntityType.response
    __api_key__: ClassVar[i16] = i16(98)
    throttle_time_ms: int = field(metadata=INT32, default=0)
    """The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request did not
    violate any quota.
    """
    topics: tuple[FindBatchesTopicResponse, ...]
    """Each topic in the response."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListFilesRequest(RequestPart):
    """ListFiles: the request."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[i16] = i16(10202)
    coordinator_ids: tuple[int, ...] = field(metadata=INT32)
    """The coordinators whose files are listed, as the replicas of this node know them; none means all that the node leads."""
    after_key: str | None = field(metadata=STRING, default=None)
    """List only keys after this one, or null to start with the first."""
    max_files: int = field(metadata=INT32, default=1000)
    """The maximum number of files to return; all rows of the last key come, a file has one for each coordinator."""
    timeout_ms: int = field(metadata=INT32, default=60000)
    """How long to wait in milliseconds before timing out the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListFilesFile(ResponsePart):
    """ListFiles: a part of the response."""

    __api_key__: ClassVar[i16] = i16(10202)
    object_key: str = field(metadata=STRING)
    """The object key identifying the file in object storage."""
    coordinator_id: int = field(metadata=INT32)
    """The coordinator that answers for the file."""
    size: int = field(metadata=INT64)
    """The size of the file in bytes."""
    batch_count: int = field(metadata=INT32)
    """The number of batches accepted from the file."""
    live_batches: int = field(metadata=INT32)
    """The number of batches of the file that are still live."""
    created_ms: int = field(metadata=INT64, default=-1)
    """When the file was created, in milliseconds since the epoch, or -1 if unknown."""
    append_time_ms: int = field(metadata=INT64)
    """When the file was committed, in milliseconds since the epoch."""
    owner_ids: tuple[int, ...] = field(metadata=INT32)
    """The coordinators that share ownership of the file."""
    uploader_broker_id: int = field(metadata=INT32, default=-1)
    """The broker that uploaded the file, or -1 if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListFilesResponse(ResponsePart):
    """ListFiles: the response."""

    __type__: ClassVar[EntityType] = EntityType.response
    __api_key__: ClassVar[i16] = i16(10202)
    throttle_time_ms: int = field(metadata=INT32, default=0)
    """The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request did not
    violate any quota.
    """
    error_code: int = field(metadata=INT16)
    """The error code, or 0 if there was no error."""
    error_message: str | None = field(metadata=STRING, default=None)
    """The error message, or null if there was no error."""
    files: tuple[ListFilesFile, ...]
    """The files, in the order of their keys."""
    more: bool = field(metadata=BOOL)
    """True if there are files after the last one listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsPartition(RequestPart):
    """ListOffsets: a part of the request."""

    __api_key__: ClassVar[i16] = i16(97)
    partition_index: int = field(metadata=INT32)
    """The partition index."""
    timestamp: int = field(metadata=INT64)
    """The timestamp to query. Use -2 for earliest, -1 for latest, -3 for max timestamp, -4 for earliest local, -5 for latest
    tiered.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsTopic(RequestPart):
    """ListOffsets: a part of the request."""

    __api_key__: ClassVar[i16] = i16(97)
    topic_id: bytes = field(metadata=UUID)
    """The unique topic ID."""
    partitions: tuple[ListOffsetsPartition, ...]
    """Each partition in the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsRequest(RequestPart):
    """ListOffsets: the request."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[i16] = i16(97)
    topics: tuple[ListOffsetsTopic, ...]
    """Each topic in the request."""
    timeout_ms: int = field(metadata=INT32, default=60000)
    """How long to wait in milliseconds before timing out the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsPartitionResponse(ResponsePart):
    """ListOffsets: a part of the response."""

    __api_key__: ClassVar[i16] = i16(97)
    partition_index: int = field(metadata=INT32)
    """The partition index."""
    error_code: int = field(metadata=INT16)
    """The partition error code, or 0 if there was no error."""
    error_message: str | None = field(metadata=STRING, default=None)
    """The error message, or null if there was no error."""
    timestamp: int = field(metadata=INT64, default=-1)
    """The timestamp associated with the returned offset."""
    offset: int = field(metadata=INT64, default=-1)
    """The returned offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsTopicResponse(ResponsePart):
    """ListOffsets: a part of the response."""

    __api_key__: ClassVar[i16] = i16(97)
    topic_id: bytes = field(metadata=UUID)
    """The unique topic ID."""
    partitions: tuple[ListOffsetsPartitionResponse, ...]
    """Each partition in the response."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsResponse(ResponsePart):
    """ListOffsets: the response."""

    __type__: ClassVar[EntityType] = EntityType.response
    __api_key__: ClassVar[i16] = i16(97)
    throttle_time_ms: int = field(metadata=INT32, default=0)
    """The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request did not
    violate any quota.
    """
    topics: tuple[ListOffsetsTopicResponse, ...]
    """Each topic in the response."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacePartitionsTopic(RequestPart):
    """PlacePartitions: a part of the request."""

    __api_key__: ClassVar[i16] = i16(10210)
    topic_id: bytes = field(metadata=UUID)
    """The unique topic ID."""
    name: str = field(metadata=STRING)
    """The topic name."""
    first_partition: int = field(metadata=INT32)
    """The first partition of the range."""
    num_partitions: int = field(metadata=INT32)
    """The number of partitions in the range."""
    order_offset: int = field(metadata=INT64)
    """The offset in metadata partition 0 that ordered this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacePartitionsRequest(RequestPart):
    """PlacePartitions: the request."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[i16] = i16(10210)
    coordinator_id: int = field(metadata=INT32)
    """The coordinator that shall own the partitions."""
    topics: tuple[PlacePartitionsTopic, ...]
    """Each range of partitions to create."""
    timeout_ms: int = field(metadata=INT32, default=60000)
    """How long to wait in milliseconds before timing out the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacePartitionsTopicResult(ResponsePart):
    """PlacePartitions: a part of the response."""

    __api_key__: ClassVar[i16] = i16(10210)
    topic_id: bytes = field(metadata=UUID)
    """The unique topic ID."""
    error_code: int = field(metadata=INT16)
    """The error code, or 0 if there was no error."""
    error_message: str | None = field(metadata=STRING, default=None)
    """The error message, or null if there was no error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacePartitionsResponse(ResponsePart):
    """PlacePartitions: the response."""

    __type__: ClassVar[EntityType] = EntityType.response
    __api_key__: ClassVar[i16] = i16(10210)
    throttle_time_ms: int = field(metadata=INT32, default=0)
    """The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request did not
    violate any quota.
    """
    topics: tuple[PlacePartitionsTopicResult, ...]
    """Results for each range, in request order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterNodeEndpoint(RequestPart):
    """RegisterNode: a part of the request."""

    __api_key__: ClassVar[i16] = i16(10212)
    listener: str = field(metadata=STRING)
    """The name of the listener."""
    host: str = field(metadata=STRING)
    """The host name."""
    port: int = field(metadata=INT32)
    """The port."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterNodeRequest(RequestPart):
    """RegisterNode: the request."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[i16] = i16(10212)
    node_id: int = field(metadata=INT32)
    """The node that registers."""
    rack: str | None = field(metadata=STRING, default=None)
    """The rack of the node, or null if it has none."""
    endpoints: tuple[RegisterNodeEndpoint, ...]
    """Where the node listens."""
    schema_level_max: int = field(metadata=INT32)
    """The highest schema level the node can write."""
    incarnation_id: bytes = field(metadata=UUID)
    """The random ID of the process that registers, drawn at its start."""
    replaced_id: bytes = field(metadata=UUID)
    """The process registered under this node ID that is known to have ended, or all zero if none."""
    timeout_ms: int = field(metadata=INT32, default=60000)
    """How long to wait in milliseconds before timing out the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterNodeResponse(ResponsePart):
    """RegisterNode: the response."""

    __type__: ClassVar[EntityType] = EntityType.response
    __api_key__: ClassVar[i16] = i16(10212)
    throttle_time_ms: int = field(metadata=INT32, default=0)
    """The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request did not
    violate any quota.
    """
    error_code: int = field(metadata=INT16)
    """The error code, or 0 if there was no error."""
    error_message: str | None = field(metadata=STRING, default=None)
    """The error message, or null if there was no error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveTopicsTopic(RequestPart):
    """RemoveTopics: a part of the request."""

    __api_key__: ClassVar[i16] = i16(10211)
    topic_id: bytes = field(metadata=UUID)
    """The unique topic ID."""
    order_offset: int = field(metadata=INT64)
    """The offset in metadata partition 0 that ordered this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveTopicsRequest(RequestPart):
    """RemoveTopics: the request."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[i16] = i16(10211)
    coordinator_id: int = field(metadata=INT32)
    """The coordinator that shall delete the topics."""
    topics: tuple[RemoveTopicsTopic, ...]
    """Each topic to delete."""
    timeout_ms: int = field(metadata=INT32, default=60000)
    """How long to wait in milliseconds before timing out the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveTopicsTopicResult(ResponsePart):
    """RemoveTopics: a part of the response."""

    __api_key__: ClassVar[i16] = i16(10211)
    topic_id: bytes = field(metadata=UUID)
    """The unique topic ID."""
    error_code: int = field(metadata=INT16)
    """The error code, or 0 if there was no error."""
    error_message: str | None = field(metadata=STRING, default=None)
    """The error message, or null if there was no error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveTopicsResponse(ResponsePart):
    """RemoveTopics: the response."""

    __type__: ClassVar[EntityType] = EntityType.response
    __api_key__: ClassVar[i16] = i16(10211)
    throttle_time_ms: int = field(metadata=INT32, default=0)
    """The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request did not
    violate any quota.
    """
    topics: tuple[RemoveTopicsTopicResult, ...]
    """Results for each topic, in request order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportContradictionRequest(RequestPart):
    """ReportContradiction: the request."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[i16] = i16(10213)
    coordinator_id: int = field(metadata=INT32)
    """The coordinator whose log has the entry."""
    node_id: int = field(metadata=INT32)
    """The node that read the entry as a contradiction."""
    offset: int = field(metadata=INT64)
    """The offset of the entry."""
    epoch: int = field(metadata=INT32)
    """The leader epoch of the entry."""
    term: int = field(metadata=INT64)
    """The term of the entry."""
    reason: str = field(metadata=STRING)
    """What the node expected, and what the entry says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportContradictionResponse(ResponsePart):
    """ReportContradiction: the response."""

    __type__: ClassVar[EntityType] = EntityType.response
    __api_key__: ClassVar[i16] = i16(10213)
    throttle_time_ms: int = field(metadata=INT32, default=0)
    """The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request did not
    violate any quota.
    """
    error_code: int = field(metadata=INT16)
    """The error code, or 0 if there was no error."""
    error_message: str | None = field(metadata=STRING, default=None)
    """The error message, or null if there was no error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateSchemaLevelRequest(RequestPart):
    """UpdateSchemaLevel: the request."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[i16] = i16(10203)
    level: int = field(metadata=INT32, default=0)
    """The schema level to raise to, or 0 to change nothing and only be told."""
    gone_node_ids: tuple[int, ...] = field(metadata=INT32)
    """Nodes that do not come back, and therefore need not support the level."""
    timeout_ms: int = field(metadata=INT32, default=60000)
    """How long to wait in milliseconds before timing out the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateSchemaLevelNode(ResponsePart):
    """UpdateSchemaLevel: a part of the response."""

    __api_key__: ClassVar[i16] = i16(10203)
    node_id: int = field(metadata=INT32)
    """The node."""
    schema_level_max: int = field(metadata=INT32)
    """The highest schema level the node supports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateSchemaLevelResponse(ResponsePart):
    """UpdateSchemaLevel: the response."""

    __type__: ClassVar[EntityType] = EntityType.response
    __api_key__: ClassVar[i16] = i16(10203)
    throttle_time_ms: int = field(metadata=INT32, default=0)
    """The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request did not
    violate any quota.
    """
    error_code: int = field(metadata=INT16)
    """The error code, or 0 if there was no error."""
    error_message: str | None = field(metadata=STRING, default=None)
    """The error message, or null if there was no error."""
    level: int = field(metadata=INT32, default=-1)
    """The schema level in force as the answering node knows it, or -1 if it knows none."""
    nodes: tuple[UpdateSchemaLevelNode, ...]
    """Each registered node."""
