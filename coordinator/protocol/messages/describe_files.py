"""DescribeFiles: whether files still have live batches (KIP key 100).

The fields are those of `schemas/DisklessDescribeFiles*.json`.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from kio.static.constants import EntityType
from kio.static.primitive import i16

from coordinator.protocol.messages.entity import BOOL, INT16, INT32, STRING, RequestPart, ResponsePart


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
    timeout_ms: int = field(metadata=INT32, default=60_000)
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
    """How long the request was throttled because of a quota, in milliseconds."""
    files: tuple[DescribeFileResult, ...]
    """Results for each file."""
