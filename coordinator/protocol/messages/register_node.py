"""RegisterNode: a node tells the directory's leader where it listens (internal, key 10212).

The fields are those of `schemas/DisklessRegisterNode*.json`.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from kio.static.constants import EntityType
from kio.static.primitive import i16

from coordinator.protocol.messages.entity import INT16, INT32, STRING, UUID, RequestPart, ResponsePart


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterNodeEndpoint(RequestPart):
    """RegisterNode: a part of the request."""

    __api_key__: ClassVar[i16] = i16(10212)
    listener: str = field(metadata=STRING)
    """The name of the listener."""
    host: str = field(metadata=STRING)
    """The host name."""
    port: int = field(metadata=INT32)
    """The port."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterNodeRequest(RequestPart):
    """RegisterNode: the request."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[i16] = i16(10212)
    node_id: int = field(metadata=INT32)
    """The node that registers."""
    rack: str | None = field(metadata=STRING, default=None)
    """The rack of the node, or null if it has none."""
    endpoints: tuple[RegisterNodeEndpoint, ...]
    """Where the node listens."""
    schema_level_max: int = field(metadata=INT32)
    """The highest schema level the node can write."""
    incarnation_id: bytes = field(metadata=UUID)
    """The random ID of the process that registers, drawn at its start."""
    replaced_id: bytes = field(metadata=UUID)
    """The process registered under this node ID that is known to have ended, or all zero if none."""
    timeout_ms: int = field(metadata=INT32, default=60_000)
    """How long to wait in milliseconds before timing out the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterNodeResponse(ResponsePart):
    """RegisterNode: the response."""

    __type__: ClassVar[EntityType] = EntityType.response
    __api_key__: ClassVar[i16] = i16(10212)
    throttle_time_ms: int = field(metadata=INT32, default=0)
    """How long the request was throttled because of a quota, in milliseconds."""
    error_code: int = field(metadata=INT16)
    """The error code, or 0 if there was no error."""
    error_message: str | None = field(metadata=STRING, default=None)
    """The error message, or null if there was no error."""
