"""UpdateSchemaLevel: ask for the schema level of the log, or raise it (extension, key 10203).

The fields are those of `schemas/DisklessUpdateSchemaLevel*.json`.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from kio.static.constants import EntityType
from kio.static.primitive import i16

from coordinator.protocol.messages.entity import INT16, INT32, STRING, RequestPart, ResponsePart


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateSchemaLevelRequest(RequestPart):
    """UpdateSchemaLevel: the request."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[i16] = i16(10203)
    level: int = field(metadata=INT32, default=0)
    """The schema level to raise to, or 0 to change nothing and only be told."""
    gone_node_ids: tuple[int, ...] = field(metadata=INT32)
    """Nodes that do not come back, and therefore need not support the level."""
    timeout_ms: int = field(metadata=INT32, default=60_000)
    """How long to wait in milliseconds before timing out the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateSchemaLevelNode(ResponsePart):
    """UpdateSchemaLevel: a part of the response."""

    __api_key__: ClassVar[i16] = i16(10203)
    node_id: int = field(metadata=INT32)
    """The node."""
    schema_level_max: int = field(metadata=INT32)
    """The highest schema level the node supports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateSchemaLevelResponse(ResponsePart):
    """UpdateSchemaLevel: the response."""

    __type__: ClassVar[EntityType] = EntityType.response
    __api_key__: ClassVar[i16] = i16(10203)
    throttle_time_ms: int = field(metadata=INT32, default=0)
    """How long the request was throttled because of a quota, in milliseconds."""
    error_code: int = field(metadata=INT16)
    """The error code, or 0 if there was no error."""
    error_message: str | None = field(metadata=STRING, default=None)
    """The error message, or null if there was no error."""
    level: int = field(metadata=INT32, default=-1)
    """The schema level in force as the answering node knows it, or -1 if it knows none."""
    nodes: tuple[UpdateSchemaLevelNode, ...]
    """Each registered node."""
