"""ListFiles: the files a node's coordinators know, page by page (extension, key 10202).

The fields are those of `schemas/DisklessListFiles*.json`.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from kio.static.constants import EntityType
from kio.static.primitive import i16

from coordinator.protocol.messages.entity import BOOL, INT16, INT32, INT64, STRING, RequestPart, ResponsePart


@dataclass(frozen=True, slots=True, kw_only=True)
class ListFilesRequest(RequestPart):
    """ListFiles: the request."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[i16] = i16(10202)
    coordinator_ids: tuple[int, ...] = field(metadata=INT32)
    """The coordinators whose files are listed, as the replicas of this node know them; none means all that the node leads."""
    after_key: str | None = field(metadata=STRING, default=None)
    """List only keys after this one, or null to start with the first."""
    max_files: int = field(metadata=INT32, default=1000)
    """The maximum number of files to return; all rows of the last key come, a file has one for each coordinator."""
    timeout_ms: int = field(metadata=INT32, default=60_000)
    """How long to wait in milliseconds before timing out the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListFilesFile(ResponsePart):
    """ListFiles: a part of the response."""

    __api_key__: ClassVar[i16] = i16(10202)
    object_key: str = field(metadata=STRING)
    """The object key identifying the file in object storage."""
    coordinator_id: int = field(metadata=INT32)
    """The coordinator that answers for the file."""
    size: int = field(metadata=INT64)
    """The size of the file in bytes."""
    batch_count: int = field(metadata=INT32)
    """The number of batches accepted from the file."""
    live_batches: int = field(metadata=INT32)
    """The number of batches of the file that are still live."""
    created_ms: int = field(metadata=INT64, default=-1)
    """When the file was created, in milliseconds since the epoch, or -1 if unknown."""
    append_time_ms: int = field(metadata=INT64)
    """When the file was committed, in milliseconds since the epoch."""
    owner_ids: tuple[int, ...] = field(metadata=INT32)
    """The coordinators that share ownership of the file."""
    uploader_broker_id: int = field(metadata=INT32, default=-1)
    """The broker that uploaded the file, or -1 if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListFilesResponse(ResponsePart):
    """ListFiles: the response."""

    __type__: ClassVar[EntityType] = EntityType.response
    __api_key__: ClassVar[i16] = i16(10202)
    throttle_time_ms: int = field(metadata=INT32, default=0)
    """How long the request was throttled because of a quota, in milliseconds."""
    error_code: int = field(metadata=INT16)
    """The error code, or 0 if there was no error."""
    error_message: str | None = field(metadata=STRING, default=None)
    """The error message, or null if there was no error."""
    files: tuple[ListFilesFile, ...]
    """The files, in the order of their keys."""
    more: bool = field(metadata=BOOL)
    """True if there are files after the last one listed."""
