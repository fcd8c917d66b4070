"""RemoveTopics: the directory's leader tells an owner to delete topics (internal, key 10211).

The fields are those of `schemas/DisklessRemoveTopics*.json`.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from kio.static.constants import EntityType
from kio.static.primitive import i16

from coordinator.protocol.messages.entity import INT16, INT32, INT64, STRING, UUID, RequestPart, ResponsePart


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
    timeout_ms: int = field(metadata=INT32, default=60_000)
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
    """How long the request was throttled because of a quota, in milliseconds."""
    topics: tuple[RemoveTopicsTopicResult, ...]
    """Results for each topic, in request order."""
