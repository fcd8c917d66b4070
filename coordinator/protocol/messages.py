"""The requests and responses of KIP-1164 and this service's extensions.

Made by `python -m codegen` from `coordinator/protocol/schemas/*.json`; do not edit.
"""

from dataclasses import field
from typing import ClassVar

from kio.static.constants import EntityType
from kio.static.primitive import i16

from coordinator.protocol.entity import BOOL, BYTES, INT8, INT16, INT32, INT64, STRING, UUID, RequestPart, ResponsePart, message


@message
class AdoptPartitionStretch(RequestPart):
    """AdoptPartition: a part of the request."""

    __api_key__: ClassVar[i16] = i16(10232)
    coordinator_id: int = field(metadata=INT32)
    """The coordinator that has the stretch."""
    end_offset: int = field(metadata=INT64)
    """The offset after its last one."""
    move_id: int = field(metadata=INT64)
    """The id of the move in which it ended."""
    time_ms: int = field(metadata=INT64)
    """The time of that coordinator's log when it ended."""


@message
class AdoptPartitionBatch(RequestPart):
    """AdoptPartition: a part of the request."""

    __api_key__: ClassVar[i16] = i16(10232)
    producer_id: int = field(metadata=INT64)
    """The producer ID."""
    producer_epoch: int = field(metadata=INT16)
    """The producer epoch."""
    base_sequence: int = field(metadata=INT32)
    """The sequence number of its first record."""
    last_sequence: int = field(metadata=INT32)
    """The sequence number of its last record."""
    base_offset: int = field(metadata=INT64)
    """The offset of its first record."""
    timestamp_ms: int = field(metadata=INT64)
    """The time of the append that was answered; -1 for CreateTime."""


@message
class AdoptPartitionRequest(RequestPart):
    """AdoptPartition: the request."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[i16] = i16(10232)
    coordinator_id: int = field(metadata=INT32)
    """The coordinator that shall adopt the partition."""
    topic_id: bytes = field(metadata=UUID)
    """The unique topic ID."""
    partition_index: int = field(metadata=INT32)
    """The partition index."""
    move_id: int = field(metadata=INT64)
    """The id of the move."""
    name: str = field(metadata=STRING)
    """The topic name."""
    start_offset: int = field(metadata=INT64)
    """The log start offset of the partition, in whichever stretch."""
    end_offset: int = field(metadata=INT64)
    """Where the stretch that was released ends."""
    time_ms: int = field(metadata=INT64)
    """The time of the coordinator's log when it ended."""
    earlier: tuple[AdoptPartitionStretch, ...]
    """The stretches of the partition, the oldest first; the last one is that which was released."""
    producers: tuple[AdoptPartitionBatch, ...]
    """The remembered batches of producers; those of a producer are adjacent, the oldest first."""
    timeout_ms: int = field(metadata=INT32, default=60000)
    """How long to wait in milliseconds before timing out the request."""


@message
class AdoptPartitionResponse(ResponsePart):
    """AdoptPartition: the response."""

    __type__: ClassVar[EntityType] = EntityType.response
    __api_key__: ClassVar[i16] = i16(10232)
    throttle_time_ms: int = field(metadata=INT32, default=0)
    """The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request did not
    violate any quota.
    """
    error_code: int = field(metadata=INT16)
    """The error code, or 0 if there was no error."""
    error_message: str | None = field(metadata=STRING, default=None)
    """The error message, or null if there was no error."""


@message
class BalanceLeadersRequest(RequestPart):
    """BalanceLeaders: the request."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[i16] = i16(10224)
    timeout_ms: int = field(metadata=INT32, default=60000)
    """How long to wait in milliseconds before timing out the request."""


@message
class BalanceLeadersResponse(ResponsePart):
    """BalanceLeaders: the response."""

    __type__: ClassVar[EntityType] = EntityType.response
    __api_key__: ClassVar[i16] = i16(10224)
    throttle_time_ms: int = field(metadata=INT32, default=0)
    """The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request did not
    violate any quota.
    """
    error_code: int = field(metadata=INT16)
    """The error code, or 0 if there was no error."""
    error_message: str | None = field(metadata=STRING, default=None)
    """The error message, or null if there was no error."""


@message
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


@message
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
    """When the file was created, in milliseconds since the epoch, or -1 if unknown. The time in the key counts if there is one."""


@message
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


@message
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


@message
class CreatableConfig(RequestPart):
    """CreatePartitions: a part of the request."""

    __api_key__: ClassVar[i16] = i16(93)
    name: str = field(metadata=STRING)
    """The name of the setting."""
    value: str = field(metadata=STRING)
    """The value of the setting."""


@message
class CreatablePartitions(RequestPart):
    """CreatePartitions: a part of the request."""

    __api_key__: ClassVar[i16] = i16(93)
    topic_id: bytes = field(metadata=UUID)
    """The unique topic ID."""
    name: str = field(metadata=STRING)
    """The topic name."""
    num_partitions: int = field(metadata=INT32)
    """The number of partitions to create for the topic."""
    configs: tuple[CreatableConfig, ...] = field(metadata={"tag": 0}, default=())
    """The settings that a new topic has of its own; an existing topic must have them already."""
    classic_pending: bool = field(metadata={**BOOL, "tag": 1}, default=False)
    """Whether the partitions are classic ones that are to be migrated: they take no batches before their log is initialised."""


@message
class CreatePartitionsRequest(RequestPart):
    """CreatePartitions: the request."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[i16] = i16(93)
    topics: tuple[CreatablePartitions, ...]
    """Each topic where to create partitions."""
    timeout_ms: int = field(metadata=INT32, default=60000)
    """How long to wait in milliseconds before timing out the request."""


@message
class CreatablePartitionsResult(ResponsePart):
    """CreatePartitions: a part of the response."""

    __api_key__: ClassVar[i16] = i16(93)
    topic_id: bytes = field(metadata=UUID)
    """The unique topic ID."""
    error_code: int = field(metadata=INT16)
    """The error code, or 0 if there was no error."""
    error_message: str | None = field(metadata=STRING)
    """The error message, or null if there was no error."""


@message
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


@message
class DeleteRecordsPartition(RequestPart):
    """DeleteRecords: a part of the request."""

    __api_key__: ClassVar[i16] = i16(96)
    partition_index: int = field(metadata=INT32)
    """The partition index."""
    offset: int = field(metadata=INT64)
    """The deletion offset. All records with offsets less than this value will be deleted."""


@message
class DeleteRecordsTopic(RequestPart):
    """DeleteRecords: a part of the request."""

    __api_key__: ClassVar[i16] = i16(96)
    topic_id: bytes = field(metadata=UUID)
    """The unique topic ID."""
    partitions: tuple[DeleteRecordsPartition, ...]
    """Each partition that we want to delete records from."""


@message
class DeleteRecordsRequest(RequestPart):
    """DeleteRecords: the request."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[i16] = i16(96)
    topics: tuple[DeleteRecordsTopic, ...]
    """Each topic that we want to delete records from."""
    timeout_ms: int = field(metadata=INT32, default=60000)
    """How long to wait for the deletion to complete, in milliseconds."""


@message
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


@message
class DeleteRecordsTopicResult(ResponsePart):
    """DeleteRecords: a part of the response."""

    __api_key__: ClassVar[i16] = i16(96)
    topic_id: bytes = field(metadata=UUID)
    """The unique topic ID."""
    partitions: tuple[DeleteRecordsPartitionResult, ...]
    """Each partition that we wanted to delete records from."""


@message
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


@message
class DeletableTopicState(RequestPart):
    """DeleteTopics: a part of the request."""

    __api_key__: ClassVar[i16] = i16(94)
    topic_id: bytes = field(metadata=UUID)
    """The unique topic ID."""


@message
class DeleteTopicsRequest(RequestPart):
    """DeleteTopics: the request."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[i16] = i16(94)
    topics: tuple[DeletableTopicState, ...]
    """Each topic to delete."""
    timeout_ms: int = field(metadata=INT32, default=60000)
    """The length of time in milliseconds to wait for the deletions to complete."""


@message
class DeletableTopicResult(ResponsePart):
    """DeleteTopics: a part of the response."""

    __api_key__: ClassVar[i16] = i16(94)
    topic_id: bytes = field(metadata=UUID)
    """The unique topic ID."""
    error_code: int = field(metadata=INT16)
    """The deletion error, or 0 if the deletion succeeded."""
    error_message: str | None = field(metadata=STRING, default=None)
    """The error message, or null if there was no error."""


@message
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


@message
class DescribeCoordinatorsRequest(RequestPart):
    """DescribeCoordinators: the request."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[i16] = i16(10201)
    coordinator_ids: tuple[int, ...] = field(metadata=INT32)
    """The coordinators to describe; none means all."""
    timeout_ms: int = field(metadata=INT32, default=60000)
    """How long to wait in milliseconds before timing out the request."""


@message
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
    live_files: int = field(metadata=INT64, default=0)
    """The number of files with live batches."""
    live_file_bytes: int = field(metadata=INT64, default=0)
    """The size of the objects of these files; other coordinators may own parts of them, too."""
    producers: int = field(metadata=INT32, default=0)
    """The number of idempotent producers that are remembered, for each partition that they wrote to."""
    state_bytes: int = field(metadata=INT64, default=-1)
    """The size of the state database of the answering node, or -1 if unknown."""
    commits: int = field(metadata=INT64, default=0)
    """How many files the answering node has committed as the leader since its process started."""
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
    state_locked_since_ms: int = field(metadata=INT64, default=-1)
    """Since when the answering node has met a lock of another connection on its state database, or -1 if it meets none."""
    contradictions: int = field(metadata=INT32, default=0)
    """How many entries of the log the answering node found to contradict the state, or was accused of, since its process started.
    """
    last_contradiction: str | None = field(metadata=STRING, default=None)
    """The newest of them: its offset, the node that found it, and the reason; or null if there was none."""
    verified_end_offset: int = field(metadata=INT64, default=-1)
    """The end offset of the newest committed snapshot that the answering node has proven by loading it, or -1 if none."""
    directory_id: bytes = field(metadata=UUID)
    """The data directory with the replica of the answering node, or all zero if it has none."""
    load_step: str | None = field(metadata=STRING, default=None)
    """What the answering node does to load its replica (database, snapshot or log), or null if it is loaded."""
    load_snapshot: str | None = field(metadata=STRING, default=None)
    """The snapshot from which the replica is loaded, or null if there is none."""
    loaded_bytes: int = field(metadata=INT64, default=-1)
    """How many bytes of the snapshot are loaded, or -1 if there is none."""
    load_bytes: int = field(metadata=INT64, default=-1)
    """The size of the snapshot, or -1 if there is none."""
    loaded_entries: int = field(metadata=INT64, default=-1)
    """How many entries of the end of the log are read, or -1 if none is read yet."""
    load_entries: int = field(metadata=INT64, default=-1)
    """How many entries of the log had to be read when the loading began, or -1 if that is unknown."""


@message
class DescribeCoordinatorsDirectory(ResponsePart):
    """DescribeCoordinators: a part of the response."""

    __api_key__: ClassVar[i16] = i16(10201)
    directory_id: bytes = field(metadata=UUID)
    """The ID of the directory; Kafka's LOST if it could not be read at the start."""
    path: str = field(metadata=STRING)
    """The path of the directory as data.dirs names it."""
    offline_reason: str | None = field(metadata=STRING, default=None)
    """Why the directory is offline, or null if it is online."""
    total_bytes: int = field(metadata=INT64, default=-1)
    """The size of its file system, or -1 if unknown."""
    free_bytes: int = field(metadata=INT64, default=-1)
    """What is free there, or -1 if unknown."""


@message
class DescribeCoordinatorsRecordedDirectory(ResponsePart):
    """DescribeCoordinators: a part of the response."""

    __api_key__: ClassVar[i16] = i16(10201)
    directory_id: bytes = field(metadata=UUID)
    """The ID of the directory; Kafka's UNASSIGNED, MIGRATING or LOST for replicas whose directory is not known."""
    is_online: bool = field(metadata=BOOL)
    """False if the node does not have the directory online, so that the replicas there are offline."""
    coordinator_ids: tuple[int, ...] = field(metadata=INT32)
    """Each coordinator described whose replica of the node is recorded there."""


@message
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
    drain: int = field(metadata=INT8, default=0)
    """Whether the node gives up what it leads: 0 it does not, 1 until its process ends, 2 until it is asked to lead again."""
    directories: tuple[DescribeCoordinatorsRecordedDirectory, ...]
    """Each data directory of the node, as metadata partition 0 has recorded it."""


@message
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
    metadata_topic_id: bytes = field(metadata=UUID)
    """The ID of the metadata topic, or all zero if unknown."""
    is_store_marked: bool = field(metadata=BOOL)
    """True if the service marks its object store by an object services/TOPIC ID.json; false if it has no store that others see."""
    store_problem: str | None = field(metadata=STRING, default=None)
    """Why the node that answers cannot take its object store for that of the service, or null if nothing is known against it."""
    node_id: int = field(metadata=INT32)
    """The node that answers."""
    incarnation_id: bytes = field(metadata=UUID)
    """The random ID of the process that answers, drawn at its start."""
    time_ms: int = field(metadata=INT64)
    """The wall clock of the node that answers."""
    withheld_reason: str | None = field(metadata=STRING, default=None)
    """Why the node that answers stays out of leadership, or null if it does not."""
    placement_rules: str = field(metadata=STRING)
    """The settings by which the node that answers places leaders and standbys, as text. The process that started last counts."""
    reserved_ids: tuple[int, ...] = field(metadata=INT32)
    """The coordinators that the node that answers is reserved for, or empty if it takes any."""
    coordinators: tuple[DescribeCoordinatorsCoordinator, ...]
    """Each coordinator described."""
    directories: tuple[DescribeCoordinatorsDirectory, ...]
    """Each data directory of the node that answers."""
    queued_assignments: int = field(metadata=INT32, default=0)
    """How many replicas of the node that answers are in a data directory that partition 0 has not recorded yet."""
    assignment_wait_ms: int = field(metadata=INT64, default=0)
    """How long the one of these has waited that waits longest."""
    nodes: tuple[DescribeCoordinatorsNode, ...]
    """Each node of the service."""


@message
class DescribeDisklessLogPartition(RequestPart):
    """DescribeDisklessLog: a part of the request."""

    __api_key__: ClassVar[i16] = i16(10217)
    partition_index: int = field(metadata=INT32)
    """The partition index."""


@message
class DescribeDisklessLogTopic(RequestPart):
    """DescribeDisklessLog: a part of the request."""

    __api_key__: ClassVar[i16] = i16(10217)
    topic_id: bytes = field(metadata=UUID)
    """The unique topic ID."""
    partitions: tuple[DescribeDisklessLogPartition, ...]
    """Each partition of the topic."""


@message
class DescribeDisklessLogRequest(RequestPart):
    """DescribeDisklessLog: the request."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[i16] = i16(10217)
    topics: tuple[DescribeDisklessLogTopic, ...]
    """Each topic with partitions to describe."""
    timeout_ms: int = field(metadata=INT32, default=60000)
    """How long to wait in milliseconds before timing out the request."""


@message
class DescribeDisklessLogPartitionResult(ResponsePart):
    """DescribeDisklessLog: a part of the response."""

    __api_key__: ClassVar[i16] = i16(10217)
    partition_index: int = field(metadata=INT32)
    """The partition index."""
    error_code: int = field(metadata=INT16)
    """The error code, or 0 if there was no error."""
    error_message: str | None = field(metadata=STRING, default=None)
    """The error message, or null if there was no error."""
    state: int = field(metadata=INT8, default=-1)
    """0: pending, it is classic and has no B0 yet; 1: initialised with a B0; 2: born diskless."""
    start_offset: int = field(metadata=INT64, default=-1)
    """B0, the first offset of the diskless log; -1 while it is unset."""
    prefix_start: int = field(metadata=INT64, default=-1)
    """The log start offset of the classic log as it was reported; -1 if it was not."""
    suffix_start: int = field(metadata=INT64, default=-1)
    """The log start offset of the diskless log; -1 while there is none."""
    high_watermark: int = field(metadata=INT64, default=-1)
    """The end of the diskless log; -1 while there is none."""
    leader_epoch: int = field(metadata=INT32, default=-1)
    """The highest leader epoch that was recorded; -1 for none."""


@message
class DescribeDisklessLogTopicResult(ResponsePart):
    """DescribeDisklessLog: a part of the response."""

    __api_key__: ClassVar[i16] = i16(10217)
    topic_id: bytes = field(metadata=UUID)
    """The unique topic ID."""
    partitions: tuple[DescribeDisklessLogPartitionResult, ...]
    """Each partition of the topic."""


@message
class DescribeDisklessLogResponse(ResponsePart):
    """DescribeDisklessLog: the response."""

    __type__: ClassVar[EntityType] = EntityType.response
    __api_key__: ClassVar[i16] = i16(10217)
    throttle_time_ms: int = field(metadata=INT32, default=0)
    """The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request did not
    violate any quota.
    """
    topics: tuple[DescribeDisklessLogTopicResult, ...]
    """Each topic of the request."""


@message
class DescribeFileEntry(RequestPart):
    """DescribeFiles: a part of the request."""

    __api_key__: ClassVar[i16] = i16(100)
    object_key: str = field(metadata=STRING)
    """The object key identifying the file in object storage."""


@message
class DescribeFilesRequest(RequestPart):
    """DescribeFiles: the request."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[i16] = i16(100)
    files: tuple[DescribeFileEntry, ...]
    """Each file to describe."""
    timeout_ms: int = field(metadata=INT32, default=60000)
    """How long to wait in milliseconds before timing out the request."""


@message
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


@message
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


@message
class DescribeGatewaysRequest(RequestPart):
    """DescribeGateways: the request."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[i16] = i16(10207)
    timeout_ms: int = field(metadata=INT32, default=60000)
    """How long to wait in milliseconds before timing out the request."""


@message
class DescribeGatewaysBroker(ResponsePart):
    """DescribeGateways: a part of the response."""

    __api_key__: ClassVar[i16] = i16(10207)
    broker_id: int = field(metadata=INT32)
    """The broker."""
    rack: str | None = field(metadata=STRING, default=None)
    """The rack of the broker, or null if it has none."""
    host: str = field(metadata=STRING)
    """Where the broker listens."""
    port: int = field(metadata=INT32)
    """Where the broker listens."""


@message
class DescribeGatewaysCoordinator(ResponsePart):
    """DescribeGateways: a part of the response."""

    __api_key__: ClassVar[i16] = i16(10207)
    coordinator_id: int = field(metadata=INT32)
    """The coordinator, which is a partition of the metadata topic."""
    leader_id: int = field(metadata=INT32, default=-1)
    """The node that leads the coordinator, or -1 if unknown."""
    broker_ids: tuple[int, ...] = field(metadata=INT32)
    """The brokers of all racks that are produce gateways of the coordinator, ascending."""


@message
class DescribeGatewaysResponse(ResponsePart):
    """DescribeGateways: the response."""

    __type__: ClassVar[EntityType] = EntityType.response
    __api_key__: ClassVar[i16] = i16(10207)
    throttle_time_ms: int = field(metadata=INT32, default=0)
    """The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request did not
    violate any quota.
    """
    error_code: int = field(metadata=INT16)
    """The error code, or 0 if there was no error."""
    error_message: str | None = field(metadata=STRING, default=None)
    """The error message, or null if there was no error."""
    node_id: int = field(metadata=INT32)
    """The node that answers."""
    gateways_per_rack: int = field(metadata=INT32, default=0)
    """How many gateways each coordinator should have in each rack; a rack with fewer brokers has fewer."""
    brokers_age_ms: int = field(metadata=INT64, default=-1)
    """How long ago the answering node heard of the brokers from Kafka, or -1 if it never did."""
    brokers: tuple[DescribeGatewaysBroker, ...]
    """The brokers of the Kafka cluster in service."""
    coordinators: tuple[DescribeGatewaysCoordinator, ...]
    """Each coordinator."""


@message
class DescribeNodeRequest(RequestPart):
    """DescribeNode: the request."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[i16] = i16(10214)
    node_id: int = field(metadata=INT32)
    """The node that asks."""
    timeout_ms: int = field(metadata=INT32, default=60000)
    """How long to wait in milliseconds before timing out the request."""


@message
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
    is_store_marked: bool = field(metadata=BOOL)
    """True if the node has found the mark of the service in its object store."""
    time_ms: int = field(metadata=INT64)
    """The wall clock of the node."""
    is_kafka_time_known: bool = field(metadata=BOOL)
    """True if the node has compared its clock with those of Kafka's brokers."""
    kafka_time_ms: int = field(metadata=INT64, default=0)
    """What the brokers' clocks show now, as far as the node knows."""


@message
class DescribeSnapshotsRequest(RequestPart):
    """DescribeSnapshots: the request."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[i16] = i16(10205)
    coordinator_ids: tuple[int, ...] = field(metadata=INT32)
    """The coordinators to describe; none means all."""
    timeout_ms: int = field(metadata=INT32, default=60000)
    """How long to wait in milliseconds before timing out the request."""


@message
class DescribeSnapshotsSnapshot(ResponsePart):
    """DescribeSnapshots: a part of the response."""

    __api_key__: ClassVar[i16] = i16(10205)
    mark_offset: int = field(metadata=INT64)
    """The offset of the mark at which the snapshot was taken."""
    end_offset: int = field(metadata=INT64)
    """The snapshot has the state of the log before this offset."""
    epoch: int = field(metadata=INT32)
    """The leadership epoch of the mark."""
    size_bytes: int = field(metadata=INT64)
    """The size of the snapshot in bytes."""
    sha256: bytes = field(metadata=BYTES)
    """The SHA-256 of the snapshot."""
    digest: bytes = field(metadata=BYTES)
    """The digest of the state in the snapshot."""
    location: str = field(metadata=STRING)
    """The key of the snapshot in the object store."""
    is_verified: bool = field(metadata=BOOL)
    """True if the answering node has proven the snapshot by loading it."""
    is_local: bool = field(metadata=BOOL)
    """True if a copy is in the data directory of the answering node."""


@message
class DescribeSnapshotsCoordinator(ResponsePart):
    """DescribeSnapshots: a part of the response."""

    __api_key__: ClassVar[i16] = i16(10205)
    error_code: int = field(metadata=INT16)
    """The error code, or 0 if there was no error."""
    error_message: str | None = field(metadata=STRING, default=None)
    """The error message, or null if there was no error."""
    coordinator_id: int = field(metadata=INT32)
    """The coordinator, which is a partition of the metadata topic."""
    log_start_offset: int = field(metadata=INT64, default=-1)
    """The first offset that the log of the metadata partition still has, or -1 if unknown."""
    applied_offset: int = field(metadata=INT64, default=-1)
    """The offset of the last applied entry of the answering node, or -1 if none."""
    bytes_since_snapshot: int = field(metadata=INT64, default=-1)
    """The bytes of the entries after the newest committed snapshot, or -1 if unknown."""
    age_ms: int = field(metadata=INT64, default=-1)
    """The time since the answering node applied the newest committed snapshot, as far as its process has seen it, or -1 if none."""
    step: str | None = field(metadata=STRING, default=None)
    """The step of the snapshot that the answering node is taking, or null if it takes none."""
    last_error: str | None = field(metadata=STRING, default=None)
    """Why the last attempt of the answering node to take, verify or prune failed, or null if it did not."""
    prune_target: int = field(metadata=INT64, default=-1)
    """The offset before which the rules allow the log to be pruned now, or -1 if they allow nothing."""
    prune_reason: str | None = field(metadata=STRING, default=None)
    """Why the log is not pruned further, or null if nothing is in the way."""
    snapshots: tuple[DescribeSnapshotsSnapshot, ...]
    """The committed snapshots that the answering node knows, the newest first."""


@message
class DescribeSnapshotsResponse(ResponsePart):
    """DescribeSnapshots: the response."""

    __type__: ClassVar[EntityType] = EntityType.response
    __api_key__: ClassVar[i16] = i16(10205)
    throttle_time_ms: int = field(metadata=INT32, default=0)
    """The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request did not
    violate any quota.
    """
    cluster_id: str | None = field(metadata=STRING)
    """The ID of the Kafka cluster that holds the metadata topic, or null if unknown."""
    topic_id: bytes = field(metadata=UUID)
    """The ID of the metadata topic, or zero if unknown."""
    node_id: int = field(metadata=INT32)
    """The node that answers."""
    coordinators: tuple[DescribeSnapshotsCoordinator, ...]
    """Each coordinator, as the answering node sees it."""


@message
class DescribeStretchesRequest(RequestPart):
    """DescribeStretches: the request."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[i16] = i16(10233)
    coordinator_id: int = field(metadata=INT32)
    """The coordinator that is asked."""
    beside_coordinator_ids: tuple[int, ...] = field(metadata=INT32)
    """The coordinators that its leader's node has to follow, and to have read, before it answers."""
    timeout_ms: int = field(metadata=INT32, default=60000)
    """How long to wait in milliseconds before timing out the request."""


@message
class DescribeStretchesStretch(ResponsePart):
    """DescribeStretches: a part of the response."""

    __api_key__: ClassVar[i16] = i16(10233)
    coordinator_id: int = field(metadata=INT32)
    """The coordinator that has the stretch."""
    end_offset: int = field(metadata=INT64)
    """The offset after its last one."""
    move_id: int = field(metadata=INT64)
    """The id of the move in which it ended."""
    time_ms: int = field(metadata=INT64)
    """The time of that coordinator's log when it ended."""


@message
class DescribeStretchesPartition(ResponsePart):
    """DescribeStretches: a part of the response."""

    __api_key__: ClassVar[i16] = i16(10233)
    topic_id: bytes = field(metadata=UUID)
    """The unique topic ID."""
    partition_index: int = field(metadata=INT32)
    """The partition index."""
    move_id: int = field(metadata=INT64)
    """The id of the move by which it came; -1 when it was created there."""
    base_offset: int = field(metadata=INT64)
    """Where the stretch begins."""
    start_offset: int = field(metadata=INT64)
    """The log start offset of the partition there."""
    earlier: tuple[DescribeStretchesStretch, ...]
    """The stretches before it, the oldest first."""
    released_move_id: int = field(metadata=INT64)
    """The id of the move by which it went; -1 when it is there."""
    to_coordinator_id: int = field(metadata=INT32)
    """The coordinator in which it goes on; -1 when it is there."""


@message
class DescribeStretchesResponse(ResponsePart):
    """DescribeStretches: the response."""

    __type__: ClassVar[EntityType] = EntityType.response
    __api_key__: ClassVar[i16] = i16(10233)
    throttle_time_ms: int = field(metadata=INT32, default=0)
    """The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request did not
    violate any quota.
    """
    error_code: int = field(metadata=INT16)
    """The error code, or 0 if there was no error."""
    error_message: str | None = field(metadata=STRING, default=None)
    """The error message, or null if there was no error."""
    partitions: tuple[DescribeStretchesPartition, ...]
    """The partitions that came to the coordinator, or went from it, by a move."""


@message
class DescribeTopicsTopic(RequestPart):
    """DescribeTopics: a part of the request."""

    __api_key__: ClassVar[i16] = i16(10200)
    topic_id: bytes = field(metadata=UUID)
    """The unique topic ID, or zero to look the topic up by its name."""
    name: str | None = field(metadata=STRING)
    """The topic name, or null to look the topic up by its ID."""


@message
class DescribeTopicsRequest(RequestPart):
    """DescribeTopics: the request."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[i16] = i16(10200)
    topics: tuple[DescribeTopicsTopic, ...]
    """Each topic to describe; none means all."""
    timeout_ms: int = field(metadata=INT32, default=60000)
    """How long to wait in milliseconds before timing out the request."""


@message
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


@message
class DescribeTopicsConfig(ResponsePart):
    """DescribeTopics: a part of the response."""

    __api_key__: ClassVar[i16] = i16(10200)
    name: str = field(metadata=STRING)
    """The name of the setting."""
    value: str = field(metadata=STRING)
    """The value of the setting."""


@message
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
    configs: tuple[DescribeTopicsConfig, ...]
    """The settings that the topic has of its own; for all others it has the service's."""


@message
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


@message
class DrainNodeRequest(RequestPart):
    """DrainNode: the request."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[i16] = i16(10223)
    node_id: int = field(metadata=INT32)
    """The node."""
    drain: int = field(metadata=INT8)
    """0 to have the node lead again, 1 to drain it until its process ends, 2 to drain it until it is asked to lead again."""
    timeout_ms: int = field(metadata=INT32, default=60000)
    """How long to wait in milliseconds before timing out the request."""


@message
class DrainNodeResponse(ResponsePart):
    """DrainNode: the response."""

    __type__: ClassVar[EntityType] = EntityType.response
    __api_key__: ClassVar[i16] = i16(10223)
    throttle_time_ms: int = field(metadata=INT32, default=0)
    """The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request did not
    violate any quota.
    """
    error_code: int = field(metadata=INT16)
    """The error code, or 0 if there was no error."""
    error_message: str | None = field(metadata=STRING, default=None)
    """The error message, or null if there was no error."""


@message
class EnforceRetentionRequest(RequestPart):
    """EnforceRetention: the request."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[i16] = i16(10209)
    coordinator_ids: tuple[int, ...] = field(metadata=INT32)
    """The coordinators whose partitions are looked at; none means all that the node leads."""
    topic_ids: tuple[bytes, ...] = field(metadata=UUID)
    """The topics whose partitions are looked at; none means all."""
    dry_run: bool = field(metadata=BOOL)
    """Whether nothing is deleted, and only told what would be."""
    timeout_ms: int = field(metadata=INT32, default=60000)
    """How long to wait in milliseconds before timing out the request."""


@message
class EnforceRetentionPartition(ResponsePart):
    """EnforceRetention: a part of the response."""

    __api_key__: ClassVar[i16] = i16(10209)
    topic_id: bytes = field(metadata=UUID)
    """The unique topic ID."""
    partition_index: int = field(metadata=INT32)
    """The partition index."""
    log_start_offset: int = field(metadata=INT64)
    """The log start offset before."""
    new_log_start_offset: int = field(metadata=INT64)
    """The log start offset after the deletion."""
    batches: int = field(metadata=INT64)
    """How many batches go."""
    size_bytes: int = field(metadata=INT64)
    """The bytes of these batches."""


@message
class EnforceRetentionHeldPartition(ResponsePart):
    """EnforceRetention: a part of the response."""

    __api_key__: ClassVar[i16] = i16(10209)
    topic_id: bytes = field(metadata=UUID)
    """The unique topic ID."""
    partition_index: int = field(metadata=INT32)
    """The partition index."""
    max_timestamp: int = field(metadata=INT64)
    """The largest timestamp of the first batch."""
    next_offset: int = field(metadata=INT64)
    """The offset after the first batch."""


@message
class EnforceRetentionResult(ResponsePart):
    """EnforceRetention: a part of the response."""

    __api_key__: ClassVar[i16] = i16(10209)
    error_code: int = field(metadata=INT16)
    """The error code, or 0 if every partition was looked at."""
    error_message: str | None = field(metadata=STRING, default=None)
    """The error message, or null if there was no error."""
    coordinator_id: int = field(metadata=INT32)
    """The coordinator, which is a partition of the metadata topic."""
    partitions: tuple[EnforceRetentionPartition, ...]
    """The partitions that lost batches, or would."""
    held_partitions: tuple[EnforceRetentionHeldPartition, ...]
    """The partitions of which retention by time deletes nothing, because the first batch has a timestamp in the future."""


@message
class EnforceRetentionResponse(ResponsePart):
    """EnforceRetention: the response."""

    __type__: ClassVar[EntityType] = EntityType.response
    __api_key__: ClassVar[i16] = i16(10209)
    throttle_time_ms: int = field(metadata=INT32, default=0)
    """The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request did not
    violate any quota.
    """
    results: tuple[EnforceRetentionResult, ...]
    """The outcome for each coordinator."""


@message
class FenceFilesFile(RequestPart):
    """FenceFiles: a part of the request."""

    __api_key__: ClassVar[i16] = i16(10208)
    object_key: str = field(metadata=STRING)
    """The object key identifying the file in object storage."""
    created_ms: int = field(metadata=INT64, default=-1)
    """When the file was created, in milliseconds since the epoch, or -1 if unknown: then the fence never expires. The time in the
    key counts if there is one.
    """


@message
class FenceFilesRequest(RequestPart):
    """FenceFiles: the request."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[i16] = i16(10208)
    coordinator_id: int = field(metadata=INT32)
    """The coordinator that is asked; its leader answers."""
    files: tuple[FenceFilesFile, ...]
    """Each file that is asked about; at most 1000."""
    only_tell: bool = field(metadata=BOOL)
    """True to ask what is known of the files and to fence none."""
    timeout_ms: int = field(metadata=INT32, default=60000)
    """How long to wait in milliseconds before timing out the request."""


@message
class FenceFilesResult(ResponsePart):
    """FenceFiles: a part of the response."""

    __api_key__: ClassVar[i16] = i16(10208)
    error_code: int = field(metadata=INT16)
    """The error code, or 0 if there was no error."""
    error_message: str | None = field(metadata=STRING, default=None)
    """The error message, or null if there was no error."""
    standing: int = field(metadata=INT8)
    """What the coordinator knows of the file: 0 nothing (with OnlyTell alone), 1 it has live batches, 2 it is known without any, 3
    fenced, 4 removed, 5 handed over. From 3 on it never gets batches of the file.
    """


@message
class FenceFilesResponse(ResponsePart):
    """FenceFiles: the response."""

    __type__: ClassVar[EntityType] = EntityType.response
    __api_key__: ClassVar[i16] = i16(10208)
    throttle_time_ms: int = field(metadata=INT32, default=0)
    """The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request did not
    violate any quota.
    """
    error_code: int = field(metadata=INT16)
    """The error code that all files have, or 0 if some file has none or another one."""
    error_message: str | None = field(metadata=STRING, default=None)
    """The error message of the first file, or null if there is no error code."""
    files: tuple[FenceFilesResult, ...]
    """The answer for each file, in the order of the request."""


@message
class FindBatchesPartition(RequestPart):
    """FindBatches: a part of the request."""

    __api_key__: ClassVar[i16] = i16(98)
    partition_index: int = field(metadata=INT32)
    """The partition index."""
    offset: int = field(metadata=INT64)
    """The offset to start fetching from."""
    max_partition_fetch_bytes: int = field(metadata=INT32)
    """Maximum bytes to fetch for this partition."""


@message
class FindBatchesTopic(RequestPart):
    """FindBatches: a part of the request."""

    __api_key__: ClassVar[i16] = i16(98)
    topic_id: bytes = field(metadata=UUID)
    """The topic ID."""
    partitions: tuple[FindBatchesPartition, ...]
    """Each partition in the request."""


@message
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
    min_bytes: int = field(metadata={**INT32, "tag": 0}, default=1)
    """With MaxWaitMs: how many bytes of batches to wait for, at all partitions together. 0 waits for none."""
    max_wait_ms: int = field(metadata={**INT32, "tag": 1}, default=0)
    """How long to wait in milliseconds for MinBytes of batches before answering with what there is."""


@message
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


@message
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


@message
class FindBatchesTopicResponse(ResponsePart):
    """FindBatches: a part of the response."""

    __api_key__: ClassVar[i16] = i16(98)
    topic_id: bytes = field(metadata=UUID)
    """The topic ID."""
    partitions: tuple[FindBatchesPartitionResponse, ...]
    """Each partition in the response."""


@message
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


@message
class FinishRestoreRequest(RequestPart):
    """FinishRestore: the request."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[i16] = i16(10206)
    restore_id: bytes = field(metadata=UUID)
    """The restore to call finished, or all zero to change nothing and only ask."""
    timeout_ms: int = field(metadata=INT32, default=60000)
    """How long to wait in milliseconds before timing out the request."""
    only_here: bool = field(metadata=BOOL, default=False)
    """Whether to tell of the coordinators that the node follows only, instead of asking other nodes for the rest."""


@message
class FinishRestoreCoordinator(ResponsePart):
    """FinishRestore: a part of the response."""

    __api_key__: ClassVar[i16] = i16(10206)
    coordinator_id: int = field(metadata=INT32)
    """The coordinator."""
    old_end_offset: int = field(metadata=INT64)
    """The first offset of the lost log that is not in the snapshot."""
    file_id_base: int = field(metadata=INT64)
    """The id of a file less the offset of its entry."""
    location: str = field(metadata=STRING)
    """Where the snapshot is stored; empty for a coordinator that began empty."""


@message
class FinishRestoreResponse(ResponsePart):
    """FinishRestore: the response."""

    __type__: ClassVar[EntityType] = EntityType.response
    __api_key__: ClassVar[i16] = i16(10206)
    throttle_time_ms: int = field(metadata=INT32, default=0)
    """The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request did not
    violate any quota.
    """
    error_code: int = field(metadata=INT16)
    """The error code, or 0 if there was no error."""
    error_message: str | None = field(metadata=STRING, default=None)
    """The error message, or null if there was no error."""
    restore_id: bytes = field(metadata=UUID)
    """The restore that the log begins with as the answering node knows it, or all zero if it knows none."""
    is_finished: bool = field(metadata=BOOL)
    """Whether the restore was called finished."""
    old_cluster_id: str = field(metadata=STRING)
    """The id of the Kafka cluster that was lost."""
    old_topic_id: bytes = field(metadata=UUID)
    """The id of the metadata topic that was lost."""
    coordinators: tuple[FinishRestoreCoordinator, ...]
    """Each restored coordinator that the answering node has loaded."""


@message
class SeededBatchState(RequestPart):
    """InitDisklessLog: a part of the request."""

    __api_key__: ClassVar[i16] = i16(10216)
    first_sequence: int = field(metadata=INT32)
    """The sequence of the first record."""
    last_sequence: int = field(metadata=INT32)
    """The sequence of the last record."""
    base_offset: int = field(metadata=INT64)
    """The offset of the first record."""
    last_offset: int = field(metadata=INT64)
    """The offset of the last record."""
    max_timestamp: int = field(metadata=INT64)
    """The append time of a batch of LogAppendTime, which a retry is answered with; -1 for CreateTime."""


@message
class SeededProducerState(RequestPart):
    """InitDisklessLog: a part of the request."""

    __api_key__: ClassVar[i16] = i16(10216)
    producer_id: int = field(metadata=INT64)
    """The producer ID."""
    producer_epoch: int = field(metadata=INT16)
    """The epoch of the producer."""
    batches: tuple[SeededBatchState, ...]
    """Its last batches, up to five, in the order of their offsets."""


@message
class InitDisklessLogPartition(RequestPart):
    """InitDisklessLog: a part of the request."""

    __api_key__: ClassVar[i16] = i16(10216)
    partition_index: int = field(metadata=INT32)
    """The partition index."""
    start_offset: int = field(metadata=INT64)
    """B0: the first offset of the diskless log."""
    prefix_start: int = field(metadata=INT64)
    """The log start offset of the classic log, at most B0."""
    leader_epoch: int = field(metadata=INT32)
    """The leader epoch of the classic partition; one that is lower than a recorded one is fenced."""
    producers: tuple[SeededProducerState, ...]
    """What the classic log remembers of each idempotent producer."""


@message
class InitDisklessLogTopic(RequestPart):
    """InitDisklessLog: a part of the request."""

    __api_key__: ClassVar[i16] = i16(10216)
    topic_id: bytes = field(metadata=UUID)
    """The unique topic ID."""
    partitions: tuple[InitDisklessLogPartition, ...]
    """Each partition of the topic."""


@message
class InitDisklessLogRequest(RequestPart):
    """InitDisklessLog: the request."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[i16] = i16(10216)
    topics: tuple[InitDisklessLogTopic, ...]
    """Each topic with classic partitions that become diskless."""
    timeout_ms: int = field(metadata=INT32, default=60000)
    """How long to wait in milliseconds before timing out the request."""


@message
class InitDisklessLogPartitionResult(ResponsePart):
    """InitDisklessLog: a part of the response."""

    __api_key__: ClassVar[i16] = i16(10216)
    partition_index: int = field(metadata=INT32)
    """The partition index."""
    error_code: int = field(metadata=INT16)
    """The error code, or 0 if there was no error."""
    error_message: str | None = field(metadata=STRING, default=None)
    """The error message, or null if there was no error."""


@message
class InitDisklessLogTopicResult(ResponsePart):
    """InitDisklessLog: a part of the response."""

    __api_key__: ClassVar[i16] = i16(10216)
    topic_id: bytes = field(metadata=UUID)
    """The unique topic ID."""
    partitions: tuple[InitDisklessLogPartitionResult, ...]
    """Each partition of the topic."""


@message
class InitDisklessLogResponse(ResponsePart):
    """InitDisklessLog: the response."""

    __type__: ClassVar[EntityType] = EntityType.response
    __api_key__: ClassVar[i16] = i16(10216)
    throttle_time_ms: int = field(metadata=INT32, default=0)
    """The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request did not
    violate any quota.
    """
    topics: tuple[InitDisklessLogTopicResult, ...]
    """Each topic of the request."""


@message
class ListFilesRequest(RequestPart):
    """ListFiles: the request."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[i16] = i16(10202)
    coordinator_ids: tuple[int, ...] = field(metadata=INT32)
    """The coordinators whose files are listed, as the replicas of this node know them; none means all that the node leads."""
    after_key: str | None = field(metadata=STRING, default=None)
    """List only keys after this one, or null to start with the first."""
    max_files: int = field(metadata=INT32, default=1000)
    """The maximum number of files to look at; all rows of the last key come, a file has one for each coordinator."""
    states: tuple[int, ...] = field(metadata=INT8)
    """List only files in these states; none means all but the states of removed, fenced and handed over files."""
    object_keys: tuple[str, ...] = field(metadata=STRING)
    """List only these files, in any state, at most 1000; none means all after AfterKey."""
    timeout_ms: int = field(metadata=INT32, default=60000)
    """How long to wait in milliseconds before timing out the request."""


@message
class ListFilesFile(ResponsePart):
    """ListFiles: a part of the response."""

    __api_key__: ClassVar[i16] = i16(10202)
    object_key: str = field(metadata=STRING)
    """The object key identifying the file in object storage."""
    coordinator_id: int = field(metadata=INT32)
    """The coordinator that answers for the file."""
    size: int = field(metadata=INT64)
    """The size of the file in bytes, or -1 if only its key is remembered."""
    batch_count: int = field(metadata=INT32)
    """The number of batches accepted from the file."""
    live_batches: int = field(metadata=INT32)
    """The number of batches of the file that are still live."""
    created_ms: int = field(metadata=INT64, default=-1)
    """When the file was created, in milliseconds since the epoch, or -1 if unknown."""
    append_time_ms: int = field(metadata=INT64)
    """When the file was committed, in milliseconds since the epoch, or -1 if only its key is remembered."""
    owner_ids: tuple[int, ...] = field(metadata=INT32)
    """The coordinators that share ownership of the file."""
    uploader_broker_id: int = field(metadata=INT32, default=-1)
    """The broker that uploaded the file, or -1 if unknown."""
    state: int = field(metadata=INT8)
    """What the coordinator makes of the file: 0 live, 1 empty, 2 waiting for owners before it, 3 deletable, 4 fenced, 5 removed, 6
    handed over.
    """
    since_ms: int = field(metadata=INT64, default=-1)
    """When the file was committed, lost its last live batch, or got a state from 4 on, in milliseconds since the epoch; -1 until
    that is written.
    """
    until_ms: int = field(metadata=INT64, default=-1)
    """The time until which an empty file's object, or the memory of a key in a state from 4 on, stays in any case; -1 if there is
    none.
    """
    owners_before: tuple[int, ...] = field(metadata=INT32)
    """The owners that precede the coordinator in the list and must be done with the file first."""


@message
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
    last_key: str | None = field(metadata=STRING, default=None)
    """The last key that was looked at, after which the next page begins, or null if none was."""
    more: bool = field(metadata=BOOL)
    """True if there are files after that key."""


@message
class ListOffsetsPartition(RequestPart):
    """ListOffsets: a part of the request."""

    __api_key__: ClassVar[i16] = i16(97)
    partition_index: int = field(metadata=INT32)
    """The partition index."""
    timestamp: int = field(metadata=INT64)
    """The timestamp to query. Use -2 for earliest, -1 for latest, -3 for max timestamp, -4 for earliest local, -5 for latest
    tiered.
    """


@message
class ListOffsetsTopic(RequestPart):
    """ListOffsets: a part of the request."""

    __api_key__: ClassVar[i16] = i16(97)
    topic_id: bytes = field(metadata=UUID)
    """The unique topic ID."""
    partitions: tuple[ListOffsetsPartition, ...]
    """Each partition in the request."""


@message
class ListOffsetsRequest(RequestPart):
    """ListOffsets: the request."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[i16] = i16(97)
    topics: tuple[ListOffsetsTopic, ...]
    """Each topic in the request."""
    timeout_ms: int = field(metadata=INT32, default=60000)
    """How long to wait in milliseconds before timing out the request."""


@message
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


@message
class ListOffsetsTopicResponse(ResponsePart):
    """ListOffsets: a part of the response."""

    __api_key__: ClassVar[i16] = i16(97)
    topic_id: bytes = field(metadata=UUID)
    """The unique topic ID."""
    partitions: tuple[ListOffsetsPartitionResponse, ...]
    """Each partition in the response."""


@message
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


@message
class ListTopicsRequest(RequestPart):
    """ListTopics: the request."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[i16] = i16(10221)
    since_offset: int = field(metadata=INT64, default=-1)
    """The offset of an earlier answer, to list only what changed since then, or -1 to list all topics."""
    is_current: bool = field(metadata=BOOL, default=True)
    """Whether the answer must contain everything that was logged before the request arrived."""
    timeout_ms: int = field(metadata=INT32, default=60000)
    """How long to wait in milliseconds before timing out the request."""


@message
class ListTopicsRange(ResponsePart):
    """ListTopics: a part of the response."""

    __api_key__: ClassVar[i16] = i16(10221)
    coordinator_id: int = field(metadata=INT32)
    """The coordinator that owns the partitions."""
    num_partitions: int = field(metadata=INT32)
    """The number of partitions in the range."""
    classic_pending: bool = field(metadata=BOOL)
    """Whether the partitions were created to be migrated from classic ones."""


@message
class ListTopicsConfig(ResponsePart):
    """ListTopics: a part of the response."""

    __api_key__: ClassVar[i16] = i16(10221)
    name: str = field(metadata=STRING)
    """The name of the setting."""
    value: str = field(metadata=STRING)
    """The value of the setting."""


@message
class ListTopicsTopic(ResponsePart):
    """ListTopics: a part of the response."""

    __api_key__: ClassVar[i16] = i16(10221)
    topic_id: bytes = field(metadata=UUID)
    """The unique topic ID."""
    name: str = field(metadata=STRING)
    """The topic name."""
    ranges: tuple[ListTopicsRange, ...]
    """The partitions, in ascending ranges of one coordinator each."""
    configs: tuple[ListTopicsConfig, ...]
    """The settings that the topic has of its own; for all others it has the service's."""


@message
class ListTopicsResponse(ResponsePart):
    """ListTopics: the response."""

    __type__: ClassVar[EntityType] = EntityType.response
    __api_key__: ClassVar[i16] = i16(10221)
    throttle_time_ms: int = field(metadata=INT32, default=0)
    """The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request did not
    violate any quota.
    """
    error_code: int = field(metadata=INT16)
    """The error code, or 0 if there was no error."""
    error_message: str | None = field(metadata=STRING, default=None)
    """The error message, or null if there was no error."""
    offset: int = field(metadata=INT64, default=-1)
    """The offset of the directory's log that the listing contains, for the next request's SinceOffset."""
    is_whole: bool = field(metadata=BOOL, default=True)
    """Whether all topics are listed, and not only what changed since the request's offset."""
    topics: tuple[ListTopicsTopic, ...]
    """Each topic, by name."""
    deleted_topic_ids: tuple[bytes, ...] = field(metadata=UUID)
    """The topics that were deleted since the request's offset; none when all topics are listed."""


@message
class MovePartitionsPartition(RequestPart):
    """MovePartitions: a part of the request."""

    __api_key__: ClassVar[i16] = i16(10230)
    topic_id: bytes = field(metadata=UUID)
    """The unique topic ID."""
    partition_index: int = field(metadata=INT32)
    """The partition index."""
    to_coordinator_id: int = field(metadata=INT32)
    """The coordinator in which the partition is to go on."""


@message
class MovePartitionsRequest(RequestPart):
    """MovePartitions: the request."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[i16] = i16(10230)
    partitions: tuple[MovePartitionsPartition, ...]
    """The partitions to move; with none the moves that are under way are told."""
    only_check: bool = field(metadata=BOOL)
    """Whether the moves are only checked, and not ordered."""
    timeout_ms: int = field(metadata=INT32, default=60000)
    """How long to wait in milliseconds before timing out the request."""


@message
class MovePartitionsPartitionResult(ResponsePart):
    """MovePartitions: a part of the response."""

    __api_key__: ClassVar[i16] = i16(10230)
    topic_id: bytes = field(metadata=UUID)
    """The unique topic ID."""
    partition_index: int = field(metadata=INT32)
    """The partition index."""
    error_code: int = field(metadata=INT16)
    """The error code, or 0 if there was no error."""
    error_message: str | None = field(metadata=STRING, default=None)
    """The error message, or null if there was no error."""


@message
class MovePartitionsMove(ResponsePart):
    """MovePartitions: a part of the response."""

    __api_key__: ClassVar[i16] = i16(10230)
    topic_id: bytes = field(metadata=UUID)
    """The unique topic ID."""
    partition_index: int = field(metadata=INT32)
    """The partition index."""
    move_id: int = field(metadata=INT64)
    """The id of the move."""
    from_coordinator_id: int = field(metadata=INT32)
    """The coordinator that has the partition."""
    to_coordinator_id: int = field(metadata=INT32)
    """The coordinator in which the partition is to go on."""
    age_ms: int = field(metadata=INT64)
    """For how many milliseconds the node that leads the directory has known of the move."""
    waits_for: str | None = field(metadata=STRING)
    """Why the last attempt at its next step failed, or null if none has."""


@message
class MovePartitionsResponse(ResponsePart):
    """MovePartitions: the response."""

    __type__: ClassVar[EntityType] = EntityType.response
    __api_key__: ClassVar[i16] = i16(10230)
    throttle_time_ms: int = field(metadata=INT32, default=0)
    """The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request did not
    violate any quota.
    """
    error_code: int = field(metadata=INT16)
    """The error code, or 0 if there was no error."""
    error_message: str | None = field(metadata=STRING, default=None)
    """The error message, or null if there was no error."""
    partitions: tuple[MovePartitionsPartitionResult, ...]
    """Results for each partition, in request order."""
    under_way: tuple[MovePartitionsMove, ...]
    """The moves that are under way."""


@message
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
    classic_pending: bool = field(metadata={**BOOL, "tag": 0}, default=False)
    """Whether they are classic partitions that are to be migrated."""


@message
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


@message
class PlacePartitionsTopicResult(ResponsePart):
    """PlacePartitions: a part of the response."""

    __api_key__: ClassVar[i16] = i16(10210)
    topic_id: bytes = field(metadata=UUID)
    """The unique topic ID."""
    error_code: int = field(metadata=INT16)
    """The error code, or 0 if there was no error."""
    error_message: str | None = field(metadata=STRING, default=None)
    """The error message, or null if there was no error."""


@message
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


@message
class RegisterNodeEndpoint(RequestPart):
    """RegisterNode: a part of the request."""

    __api_key__: ClassVar[i16] = i16(10212)
    listener: str = field(metadata=STRING)
    """The name of the listener."""
    host: str = field(metadata=STRING)
    """The host name."""
    port: int = field(metadata=INT32)
    """The port."""


@message
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
    log_dirs: tuple[bytes, ...] = field(metadata=UUID)
    """The IDs of the data directories of the node that are online, ascending."""
    is_any_dir_offline: bool = field(metadata=BOOL)
    """True if a data directory of the node is offline."""
    timeout_ms: int = field(metadata=INT32, default=60000)
    """How long to wait in milliseconds before timing out the request."""


@message
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


@message
class ReleasePartitionRequest(RequestPart):
    """ReleasePartition: the request."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[i16] = i16(10231)
    coordinator_id: int = field(metadata=INT32)
    """The coordinator that shall release the partition."""
    topic_id: bytes = field(metadata=UUID)
    """The unique topic ID."""
    partition_index: int = field(metadata=INT32)
    """The partition index."""
    move_id: int = field(metadata=INT64)
    """The id of the move."""
    to_coordinator_id: int = field(metadata=INT32)
    """The coordinator in which the partition goes on."""
    timeout_ms: int = field(metadata=INT32, default=60000)
    """How long to wait in milliseconds before timing out the request."""


@message
class ReleasePartitionStretch(ResponsePart):
    """ReleasePartition: a part of the response."""

    __api_key__: ClassVar[i16] = i16(10231)
    coordinator_id: int = field(metadata=INT32)
    """The coordinator that has the stretch."""
    end_offset: int = field(metadata=INT64)
    """The offset after its last one."""
    move_id: int = field(metadata=INT64)
    """The id of the move in which it ended."""
    time_ms: int = field(metadata=INT64)
    """The time of that coordinator's log when it ended."""


@message
class ReleasePartitionBatch(ResponsePart):
    """ReleasePartition: a part of the response."""

    __api_key__: ClassVar[i16] = i16(10231)
    producer_id: int = field(metadata=INT64)
    """The producer ID."""
    producer_epoch: int = field(metadata=INT16)
    """The producer epoch."""
    base_sequence: int = field(metadata=INT32)
    """The sequence number of its first record."""
    last_sequence: int = field(metadata=INT32)
    """The sequence number of its last record."""
    base_offset: int = field(metadata=INT64)
    """The offset of its first record."""
    timestamp_ms: int = field(metadata=INT64)
    """The time of the append that was answered; -1 for CreateTime."""


@message
class ReleasePartitionResponse(ResponsePart):
    """ReleasePartition: the response."""

    __type__: ClassVar[EntityType] = EntityType.response
    __api_key__: ClassVar[i16] = i16(10231)
    throttle_time_ms: int = field(metadata=INT32, default=0)
    """The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request did not
    violate any quota.
    """
    error_code: int = field(metadata=INT16)
    """The error code, or 0 if there was no error."""
    error_message: str | None = field(metadata=STRING, default=None)
    """The error message, or null if there was no error."""
    name: str = field(metadata=STRING)
    """The topic name."""
    start_offset: int = field(metadata=INT64)
    """The log start offset of the partition, in whichever stretch."""
    end_offset: int = field(metadata=INT64)
    """Where the stretch that was released ends."""
    time_ms: int = field(metadata=INT64)
    """The time of the coordinator's log when it ended."""
    earlier: tuple[ReleasePartitionStretch, ...]
    """The stretches of the partition, the oldest first; the last one is that which was released."""
    producers: tuple[ReleasePartitionBatch, ...]
    """The remembered batches of producers; those of a producer are adjacent, the oldest first."""


@message
class RemoveTopicsTopic(RequestPart):
    """RemoveTopics: a part of the request."""

    __api_key__: ClassVar[i16] = i16(10211)
    topic_id: bytes = field(metadata=UUID)
    """The unique topic ID."""
    order_offset: int = field(metadata=INT64)
    """The offset in metadata partition 0 that ordered this."""


@message
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


@message
class RemoveTopicsTopicResult(ResponsePart):
    """RemoveTopics: a part of the response."""

    __api_key__: ClassVar[i16] = i16(10211)
    topic_id: bytes = field(metadata=UUID)
    """The unique topic ID."""
    error_code: int = field(metadata=INT16)
    """The error code, or 0 if there was no error."""
    error_message: str | None = field(metadata=STRING, default=None)
    """The error message, or null if there was no error."""


@message
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


@message
class RepairDisklessLogPartition(RequestPart):
    """RepairDisklessLog: a part of the request."""

    __api_key__: ClassVar[i16] = i16(10219)
    partition_index: int = field(metadata=INT32)
    """The partition index."""
    start_offset: int = field(metadata=INT64)
    """The lower B0: the end of what the classic log still has."""
    leader_epoch: int = field(metadata=INT32)
    """The leader epoch of the classic partition; one that is lower than a recorded one is fenced."""


@message
class RepairDisklessLogTopic(RequestPart):
    """RepairDisklessLog: a part of the request."""

    __api_key__: ClassVar[i16] = i16(10219)
    topic_id: bytes = field(metadata=UUID)
    """The unique topic ID."""
    partitions: tuple[RepairDisklessLogPartition, ...]
    """Each partition of the topic."""


@message
class RepairDisklessLogRequest(RequestPart):
    """RepairDisklessLog: the request."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[i16] = i16(10219)
    topics: tuple[RepairDisklessLogTopic, ...]
    """Each topic with partitions whose B0 is lowered."""
    dry_run: bool = field(metadata=BOOL)
    """Whether to say what would change, and to change nothing."""
    timeout_ms: int = field(metadata=INT32, default=60000)
    """How long to wait in milliseconds before timing out the request."""


@message
class RepairDisklessLogPartitionResult(ResponsePart):
    """RepairDisklessLog: a part of the response."""

    __api_key__: ClassVar[i16] = i16(10219)
    partition_index: int = field(metadata=INT32)
    """The partition index."""
    error_code: int = field(metadata=INT16)
    """The error code, or 0 if there was no error."""
    error_message: str | None = field(metadata=STRING, default=None)
    """The error message, or null if there was no error."""
    previous_start_offset: int = field(metadata=INT64, default=-1)
    """B0 before."""
    start_offset: int = field(metadata=INT64, default=-1)
    """B0, the first offset of the diskless log; -1 while it is unset."""
    prefix_start: int = field(metadata=INT64, default=-1)
    """The log start offset of the classic log as it was reported; -1 if it was not."""
    suffix_start: int = field(metadata=INT64, default=-1)
    """The log start offset of the diskless log; -1 while there is none."""
    high_watermark: int = field(metadata=INT64, default=-1)
    """The end of the diskless log; -1 while there is none."""


@message
class RepairDisklessLogTopicResult(ResponsePart):
    """RepairDisklessLog: a part of the response."""

    __api_key__: ClassVar[i16] = i16(10219)
    topic_id: bytes = field(metadata=UUID)
    """The unique topic ID."""
    partitions: tuple[RepairDisklessLogPartitionResult, ...]
    """Each partition of the topic."""


@message
class RepairDisklessLogResponse(ResponsePart):
    """RepairDisklessLog: the response."""

    __type__: ClassVar[EntityType] = EntityType.response
    __api_key__: ClassVar[i16] = i16(10219)
    throttle_time_ms: int = field(metadata=INT32, default=0)
    """The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request did not
    violate any quota.
    """
    topics: tuple[RepairDisklessLogTopicResult, ...]
    """Each topic of the request."""


@message
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


@message
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


@message
class ReportPrefixStartPartition(RequestPart):
    """ReportPrefixStart: a part of the request."""

    __api_key__: ClassVar[i16] = i16(10220)
    partition_index: int = field(metadata=INT32)
    """The partition index."""
    prefix_start: int = field(metadata=INT64)
    """The log start offset of the classic log, at most B0; one that is lower than the recorded one changes nothing."""
    leader_epoch: int = field(metadata=INT32)
    """The leader epoch of the classic partition; one that is lower than a recorded one is fenced."""


@message
class ReportPrefixStartTopic(RequestPart):
    """ReportPrefixStart: a part of the request."""

    __api_key__: ClassVar[i16] = i16(10220)
    topic_id: bytes = field(metadata=UUID)
    """The unique topic ID."""
    partitions: tuple[ReportPrefixStartPartition, ...]
    """Each partition of the topic."""


@message
class ReportPrefixStartRequest(RequestPart):
    """ReportPrefixStart: the request."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[i16] = i16(10220)
    topics: tuple[ReportPrefixStartTopic, ...]
    """Each topic with partitions whose classic log begins later."""
    timeout_ms: int = field(metadata=INT32, default=60000)
    """How long to wait in milliseconds before timing out the request."""


@message
class ReportPrefixStartPartitionResult(ResponsePart):
    """ReportPrefixStart: a part of the response."""

    __api_key__: ClassVar[i16] = i16(10220)
    partition_index: int = field(metadata=INT32)
    """The partition index."""
    error_code: int = field(metadata=INT16)
    """The error code, or 0 if there was no error."""
    error_message: str | None = field(metadata=STRING, default=None)
    """The error message, or null if there was no error."""


@message
class ReportPrefixStartTopicResult(ResponsePart):
    """ReportPrefixStart: a part of the response."""

    __api_key__: ClassVar[i16] = i16(10220)
    topic_id: bytes = field(metadata=UUID)
    """The unique topic ID."""
    partitions: tuple[ReportPrefixStartPartitionResult, ...]
    """Each partition of the topic."""


@message
class ReportPrefixStartResponse(ResponsePart):
    """ReportPrefixStart: the response."""

    __type__: ClassVar[EntityType] = EntityType.response
    __api_key__: ClassVar[i16] = i16(10220)
    throttle_time_ms: int = field(metadata=INT32, default=0)
    """The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request did not
    violate any quota.
    """
    topics: tuple[ReportPrefixStartTopicResult, ...]
    """Each topic of the request."""


@message
class ResetDisklessLogPartition(RequestPart):
    """ResetDisklessLog: a part of the request."""

    __api_key__: ClassVar[i16] = i16(10218)
    partition_index: int = field(metadata=INT32)
    """The partition index."""
    leader_epoch: int = field(metadata=INT32)
    """The leader epoch of the classic partition; one that is lower than a recorded one is fenced."""


@message
class ResetDisklessLogTopic(RequestPart):
    """ResetDisklessLog: a part of the request."""

    __api_key__: ClassVar[i16] = i16(10218)
    topic_id: bytes = field(metadata=UUID)
    """The unique topic ID."""
    partitions: tuple[ResetDisklessLogPartition, ...]
    """Each partition of the topic."""


@message
class ResetDisklessLogRequest(RequestPart):
    """ResetDisklessLog: the request."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[i16] = i16(10218)
    topics: tuple[ResetDisklessLogTopic, ...]
    """Each topic with partitions whose B0 is unset again."""
    timeout_ms: int = field(metadata=INT32, default=60000)
    """How long to wait in milliseconds before timing out the request."""


@message
class ResetDisklessLogPartitionResult(ResponsePart):
    """ResetDisklessLog: a part of the response."""

    __api_key__: ClassVar[i16] = i16(10218)
    partition_index: int = field(metadata=INT32)
    """The partition index."""
    error_code: int = field(metadata=INT16)
    """The error code, or 0 if there was no error."""
    error_message: str | None = field(metadata=STRING, default=None)
    """The error message, or null if there was no error."""


@message
class ResetDisklessLogTopicResult(ResponsePart):
    """ResetDisklessLog: a part of the response."""

    __api_key__: ClassVar[i16] = i16(10218)
    topic_id: bytes = field(metadata=UUID)
    """The unique topic ID."""
    partitions: tuple[ResetDisklessLogPartitionResult, ...]
    """Each partition of the topic."""


@message
class ResetDisklessLogResponse(ResponsePart):
    """ResetDisklessLog: the response."""

    __type__: ClassVar[EntityType] = EntityType.response
    __api_key__: ClassVar[i16] = i16(10218)
    throttle_time_ms: int = field(metadata=INT32, default=0)
    """The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request did not
    violate any quota.
    """
    topics: tuple[ResetDisklessLogTopicResult, ...]
    """Each topic of the request."""


@message
class ScanOrphansRequest(RequestPart):
    """ScanOrphans: the request."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[i16] = i16(10215)
    action: int = field(metadata=INT8, default=0)
    """What to do: 0 tells how far the scan is, 1 begins one, 2 finds the orphans after a key and changes nothing."""
    is_forced: bool = field(metadata=BOOL)
    """True to begin a scan although a restore is not finished."""
    after_key: str | None = field(metadata=STRING, default=None)
    """With action 2: the object key after which to look, or null to begin with the first."""
    timeout_ms: int = field(metadata=INT32, default=60000)
    """How long to wait in milliseconds before timing out the request."""


@message
class ScanOrphansObject(ResponsePart):
    """ScanOrphans: a part of the response."""

    __api_key__: ClassVar[i16] = i16(10215)
    object_key: str = field(metadata=STRING)
    """The key of the object."""
    size_bytes: int = field(metadata=INT64)
    """The size of the object in bytes."""
    time_ms: int = field(metadata=INT64)
    """When the object was created or uploaded, whichever was later."""
    reason: str = field(metadata=STRING)
    """Why it is an orphan: never committed, or what coordinators remember of it."""


@message
class ScanOrphansResponse(ResponsePart):
    """ScanOrphans: the response."""

    __type__: ClassVar[EntityType] = EntityType.response
    __api_key__: ClassVar[i16] = i16(10215)
    throttle_time_ms: int = field(metadata=INT32, default=0)
    """The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request did not
    violate any quota.
    """
    error_code: int = field(metadata=INT16)
    """The error code, or 0 if there was no error."""
    error_message: str | None = field(metadata=STRING, default=None)
    """The error message, or null if there was no error."""
    older_than_ms: int = field(metadata=INT64, default=-1)
    """Objects created or uploaded at this time or later are not looked at now, or -1 if the node scans nothing."""
    is_running: bool = field(metadata=BOOL)
    """True while the node works on a scan."""
    started_ms: int = field(metadata=INT64, default=-1)
    """When the unfinished scan began, or -1 if there is none."""
    finished_ms: int = field(metadata=INT64, default=-1)
    """When the last scan finished, or -1 if none has."""
    last_error: str | None = field(metadata=STRING, default=None)
    """Why the last attempt ended early, or null if it did not."""
    after_key: str | None = field(metadata=STRING, default=None)
    """The last object key that was looked at, or null if none was."""
    is_end: bool = field(metadata=BOOL)
    """With action 2: true if there is no object after that key."""
    examined: int = field(metadata=INT64, default=0)
    """The objects that were looked at: with action 2 by this request, else by the scan."""
    young: int = field(metadata=INT64, default=0)
    """Those of them that are too young to be orphans."""
    known: int = field(metadata=INT64, default=0)
    """Those of them that a coordinator has."""
    skipped: int = field(metadata=INT64, default=0)
    """Those of them that are not WAL files: they lie where the service keeps objects of its own."""
    unusual: int = field(metadata=INT64, default=0)
    """Those of them whose keys no file can have, such as markers of folders; nothing deletes them."""
    unusual_keys: tuple[str, ...] = field(metadata=STRING)
    """The first of these keys."""
    orphans: int = field(metadata=INT64, default=0)
    """Those of them that are orphans."""
    orphan_bytes: int = field(metadata=INT64, default=0)
    """The size of the orphans in bytes."""
    deleted: int = field(metadata=INT64, default=0)
    """The orphans that were deleted."""
    deleted_bytes: int = field(metadata=INT64, default=0)
    """The size of the deleted orphans in bytes."""
    found: tuple[ScanOrphansObject, ...]
    """With action 2: the orphans, in the order of their keys."""


@message
class TakeSnapshotRequest(RequestPart):
    """TakeSnapshot: the request."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[i16] = i16(10204)
    coordinator_ids: tuple[int, ...] = field(metadata=INT32)
    """The coordinators of which a snapshot is taken; none means all that the node leads."""
    timeout_ms: int = field(metadata=INT32, default=60000)
    """How long to wait in milliseconds before timing out the request."""


@message
class TakeSnapshotResult(ResponsePart):
    """TakeSnapshot: a part of the response."""

    __api_key__: ClassVar[i16] = i16(10204)
    error_code: int = field(metadata=INT16)
    """The error code, or 0 if there was no error."""
    error_message: str | None = field(metadata=STRING, default=None)
    """The error message, or null if there was no error."""
    coordinator_id: int = field(metadata=INT32)
    """The coordinator, which is a partition of the metadata topic."""
    end_offset: int = field(metadata=INT64, default=-1)
    """The snapshot has the state of the log before this offset, or -1 if none was committed."""
    size_bytes: int = field(metadata=INT64, default=-1)
    """The size of the snapshot in bytes, or -1 if none was committed."""


@message
class TakeSnapshotResponse(ResponsePart):
    """TakeSnapshot: the response."""

    __type__: ClassVar[EntityType] = EntityType.response
    __api_key__: ClassVar[i16] = i16(10204)
    throttle_time_ms: int = field(metadata=INT32, default=0)
    """The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request did not
    violate any quota.
    """
    results: tuple[TakeSnapshotResult, ...]
    """The outcome for each coordinator."""


@message
class UpdateSchemaLevelRequest(RequestPart):
    """UpdateSchemaLevel: the request."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[i16] = i16(10203)
    level: int = field(metadata=INT32, default=0)
    """The schema level to raise to, or 0 to change nothing and only ask."""
    gone_node_ids: tuple[int, ...] = field(metadata=INT32)
    """Nodes that do not come back, and therefore need not support the level."""
    timeout_ms: int = field(metadata=INT32, default=60000)
    """How long to wait in milliseconds before timing out the request."""


@message
class UpdateSchemaLevelNode(ResponsePart):
    """UpdateSchemaLevel: a part of the response."""

    __api_key__: ClassVar[i16] = i16(10203)
    node_id: int = field(metadata=INT32)
    """The node."""
    schema_level_max: int = field(metadata=INT32)
    """The highest schema level the node supports."""


@message
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
