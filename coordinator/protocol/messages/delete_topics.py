"""DeleteTopics: delete topics with all their batches (KIP key 94).

The fields are those of `schemas/DisklessDeleteTopics*.json`.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from kio.static.constants import EntityType
from kio.static.primitive import i16

from coordinator.protocol.messages.entity import INT16, INT32, STRING, UUID, RequestPart, ResponsePart


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
    timeout_ms: int = field(metadata=INT32, default=60_000)
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
    """How long the request was throttled because of a quota, in milliseconds."""
    responses: tuple[DeletableTopicResult, ...]
    """The results for each topic we tried to delete."""
