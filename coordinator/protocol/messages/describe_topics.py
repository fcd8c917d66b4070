"""DescribeTopics: placement, leaders and offsets of topics (extension, key 10200).

The fields are those of `schemas/DisklessDescribeTopics*.json`.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from kio.static.constants import EntityType
from kio.static.primitive import i16

from coordinator.protocol.messages.entity import INT16, INT32, INT64, STRING, UUID, RequestPart, ResponsePart


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
    timeout_ms: int = field(metadata=INT32, default=60_000)
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
    """How long the request was throttled because of a quota, in milliseconds."""
    topics: tuple[DescribeTopicsTopicResult, ...]
    """Each topic described."""
