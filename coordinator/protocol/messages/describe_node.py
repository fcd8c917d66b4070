"""DescribeNode: which process a node is, and what its clock shows (internal, key 10214).

The fields are those of `schemas/DisklessDescribeNode*.json`.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from kio.static.constants import EntityType
from kio.static.primitive import i16

from coordinator.protocol.messages.entity import BOOL, INT16, INT32, INT64, UUID, RequestPart, ResponsePart


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeNodeRequest(RequestPart):
    """DescribeNode: the request."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[i16] = i16(10214)
    node_id: int = field(metadata=INT32)
    """The node that asks."""
    timeout_ms: int = field(metadata=INT32, default=60_000)
    """How long to wait in milliseconds before timing out the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeNodeResponse(ResponsePart):
    """DescribeNode: the response."""

    __type__: ClassVar[EntityType] = EntityType.response
    __api_key__: ClassVar[i16] = i16(10214)
    throttle_time_ms: int = field(metadata=INT32, default=0)
    """How long the request was throttled because of a quota, in milliseconds."""
    error_code: int = field(metadata=INT16)
    """The error code, or 0 if there was no error."""
    node_id: int = field(metadata=INT32)
    """The node that answers."""
    incarnation_id: bytes = field(metadata=UUID)
    """The random ID of the process that answers, drawn at its start."""
    is_member: bool = field(metadata=BOOL)
    """True if the node is a member of the group and may lead."""
    time_ms: int = field(metadata=INT64)
    """The wall clock of the node."""
    is_kafka_time_known: bool = field(metadata=BOOL)
    """True if the node has compared its clock with those of Kafka's brokers."""
    kafka_time_ms: int = field(metadata=INT64, default=0)
    """What the brokers' clocks show now, as far as the node knows."""
