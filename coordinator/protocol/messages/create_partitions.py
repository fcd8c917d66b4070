"""CreatePartitions: create the partitions of topics (KIP key 93); `num_partitions` is the total wanted.

The fields are those of `schemas/DisklessCreatePartitions*.json`.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from kio.static.constants import EntityType
from kio.static.primitive import i16

from coordinator.protocol.messages.entity import INT16, INT32, STRING, UUID, RequestPart, ResponsePart


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
    timeout_ms: int = field(metadata=INT32, default=60_000)
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
    """How long the request was throttled because of a quota, in milliseconds."""
    topics: tuple[CreatablePartitionsResult, ...]
    """Results for each topic."""
