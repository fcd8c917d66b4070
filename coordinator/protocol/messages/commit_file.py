"""CommitFile: commit the batches of one uploaded file (KIP key 95).

The fields are those of `schemas/DisklessCommitFile*.json`.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from kio.static.constants import EntityType
from kio.static.primitive import i16

from coordinator.protocol.messages.entity import BOOL, INT8, INT16, INT32, INT64, STRING, UUID, RequestPart, ResponsePart


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
    timeout_ms: int = field(metadata=INT32, default=60_000)
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
    """How long the request was throttled because of a quota, in milliseconds."""
    batches: tuple[CommitBatchResult, ...]
    """Results for each batch, in the same order as the request batches."""
