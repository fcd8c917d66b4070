"""ReportContradiction: a node tells a leader that an entry of its term contradicts the log (internal, key 10213).

The fields are those of `schemas/DisklessReportContradiction*.json`.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from kio.static.constants import EntityType
from kio.static.primitive import i16

from coordinator.protocol.messages.entity import INT16, INT32, INT64, STRING, RequestPart, ResponsePart


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportContradictionRequest(RequestPart):
    """ReportContradiction: the request."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[i16] = i16(10213)
    coordinator_id: int = field(metadata=INT32)
    """The coordinator whose log has the entry."""
    node_id: int = field(metadata=INT32)
    """The node that read the entry as a contradiction."""
    offset: int = field(metadata=INT64)
    """The offset of the entry."""
    epoch: int = field(metadata=INT32)
    """The leader epoch of the entry."""
    term: int = field(metadata=INT64)
    """The term of the entry."""
    reason: str = field(metadata=STRING)
    """What the node expected, and what the entry says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportContradictionResponse(ResponsePart):
    """ReportContradiction: the response."""

    __type__: ClassVar[EntityType] = EntityType.response
    __api_key__: ClassVar[i16] = i16(10213)
    throttle_time_ms: int = field(metadata=INT32, default=0)
    """How long the request was throttled because of a quota, in milliseconds."""
    error_code: int = field(metadata=INT16)
    """The error code, or 0 if there was no error."""
    error_message: str | None = field(metadata=STRING, default=None)
    """The error message, or null if there was no error."""
