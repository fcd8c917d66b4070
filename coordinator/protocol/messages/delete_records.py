"""DeleteRecords: move log starts forward (KIP key 96).

The fields are those of `schemas/DisklessDeleteRecords*.json`.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from kio.static.constants import EntityType
from kio.static.primitive import i16

from coordinator.protocol.messages.entity import INT16, INT32, INT64, STRING, UUID, RequestPart, ResponsePart


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
    timeout_ms: int = field(metadata=INT32, default=60_000)
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
    """How long the request was throttled because of a quota, in milliseconds."""
    topics: tuple[DeleteRecordsTopicResult, ...]
    """Each topic that we wanted to delete records from."""
