"""FindBatches: which objects hold the batches from an offset on (KIP key 98).

The fields are those of `schemas/DisklessFindBatches*.json`.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from kio.static.constants import EntityType
from kio.static.primitive import i16

from coordinator.protocol.messages.entity import INT8, INT16, INT32, INT64, STRING, UUID, RequestPart, ResponsePart


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
    timeout_ms: int = field(metadata=INT32, default=60_000)
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
    """How long the request was throttled because of a quota, in milliseconds."""
    topics: tuple[FindBatchesTopicResponse, ...]
    """Each topic in the response."""
