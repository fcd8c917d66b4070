"""DescribeCoordinators: leaders, epochs and progress of the coordinators, and the nodes (extension, key 10201).

The fields are those of `schemas/DisklessDescribeCoordinators*.json`.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from kio.static.constants import EntityType
from kio.static.primitive import i16

from coordinator.protocol.messages.entity import BOOL, BYTES, INT16, INT32, INT64, STRING, UUID, RequestPart, ResponsePart


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeCoordinatorsRequest(RequestPart):
    """DescribeCoordinators: the request."""

    __type__: ClassVar[EntityType] = EntityType.request
    __api_key__: ClassVar[i16] = i16(10201)
    coordinator_ids: tuple[int, ...] = field(metadata=INT32)
    """The coordinators to describe; none means all."""
    timeout_ms: int = field(metadata=INT32, default=60_000)
    """How long to wait in milliseconds before timing out the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeCoordinatorsCoordinator(ResponsePart):
    """DescribeCoordinators: a part of the response."""

    __api_key__: ClassVar[i16] = i16(10201)
    error_code: int = field(metadata=INT16)
    """The error code, or 0 if there was no error."""
    error_message: str | None = field(metadata=STRING, default=None)
    """The error message, or null if there was no error."""
    coordinator_id: int = field(metadata=INT32)
    """The coordinator, which is a partition of the metadata topic."""
    state: str = field(metadata=STRING)
    """What the answering node is for this coordinator, in words."""
    leader_id: int = field(metadata=INT32, default=-1)
    """The node that leads the coordinator, or -1 if unknown."""
    leader_epoch: int = field(metadata=INT32, default=-1)
    """The leadership epoch, or -1 if unknown."""
    term: int = field(metadata=INT64, default=0)
    """The random number of the leadership term, or 0 if unknown."""
    host: str = field(metadata=STRING)
    """Where the leader listens."""
    port: int = field(metadata=INT32, default=-1)
    """Where the leader listens, or -1 if unknown."""
    applied_offset: int = field(metadata=INT64, default=-1)
    """The offset of the last applied entry of the answering node, or -1 if none."""
    log_end_offset: int = field(metadata=INT64, default=-1)
    """The end offset of the metadata partition, or -1 if unknown."""
    live_partitions: int = field(metadata=INT32, default=0)
    """The number of live user partitions."""
    digest: bytes = field(metadata=BYTES)
    """The digest of the state at the applied offset, or empty if not computed."""
    is_local: bool = field(metadata=BOOL)
    """True if the answering node leads this coordinator."""
    failures: int = field(metadata=INT32, default=0)
    """How often the replica of the answering node failed since its process started."""
    last_failure: str | None = field(metadata=STRING, default=None)
    """Why it failed last, or null if it did not."""
    evidence: str | None = field(metadata=STRING, default=None)
    """The file name of the state database that was set aside last, or null if none was."""
    contradictions: int = field(metadata=INT32, default=0)
    """How many entries of the log the answering node found to contradict the state, or was accused of, since its process started."""
    last_contradiction: str | None = field(metadata=STRING, default=None)
    """The newest of them: its offset, the node that found it, and the reason; or null if there was none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeCoordinatorsNode(ResponsePart):
    """DescribeCoordinators: a part of the response."""

    __api_key__: ClassVar[i16] = i16(10201)
    node_id: int = field(metadata=INT32)
    """The node."""
    rack: str | None = field(metadata=STRING, default=None)
    """The rack of the node, or null if it has none."""
    host: str = field(metadata=STRING)
    """Where the node listens."""
    port: int = field(metadata=INT32)
    """Where the node listens."""
    incarnation_id: bytes = field(metadata=UUID)
    """The process that is registered as this node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeCoordinatorsResponse(ResponsePart):
    """DescribeCoordinators: the response."""

    __type__: ClassVar[EntityType] = EntityType.response
    __api_key__: ClassVar[i16] = i16(10201)
    throttle_time_ms: int = field(metadata=INT32, default=0)
    """How long the request was throttled because of a quota, in milliseconds."""
    error_code: int = field(metadata=INT16)
    """The error code, or 0 if there was no error."""
    error_message: str | None = field(metadata=STRING, default=None)
    """The error message, or null if there was no error."""
    cluster_id: str | None = field(metadata=STRING)
    """The ID of the Kafka cluster that holds the metadata topic, or null if unknown."""
    node_id: int = field(metadata=INT32)
    """The node that answers."""
    incarnation_id: bytes = field(metadata=UUID)
    """The random ID of the process that answers, drawn at its start."""
    time_ms: int = field(metadata=INT64)
    """The wall clock of the node that answers."""
    withheld_reason: str | None = field(metadata=STRING, default=None)
    """Why the node that answers stays out of leadership, or null if it does not."""
    coordinators: tuple[DescribeCoordinatorsCoordinator, ...]
    """Each coordinator described."""
    nodes: tuple[DescribeCoordinatorsNode, ...]
    """Each node of the service."""
