"""ListOffsets: offsets by timestamp (KIP key 97).

The fields are those of `schemas/DisklessListOffsets*.json`.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from kio.static.constants import EntityType
from kio.static.primitive import i16

from coordinator.protocol.messages.entity import INT16, INT32, INT64, STRING, UUID, RequestPart, ResponsePart


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsPartition(RequestPart):
    """ListOffsets: a part of the request."""

    __api_key__: ClassVar[i16] = i16(97)
    partition_index: int = field(metadata=INT32)
    """The partition index."""
    timestamp: int = field(metadata=INT64)
    """The timestamp to query. Use -2 for earliest, -1 for latest, -3 for max timestamp, -4 for earliest local, -5 for latest tiered."""


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
    timeout_ms: int = field(metadata=INT32, default=60_000)
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
    """How long the request was throttled because of a quota, in milliseconds."""
    topics: tuple[ListOffsetsTopicResponse, ...]
    """Each topic in the response."""
