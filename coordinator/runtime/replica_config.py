"""The arguments of a replica: the log that it follows, and the ports through which it reaches the outside world."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

from coordinator.core.yielding import Rest
from coordinator.runtime.ports import (
    Cluster,
    DurableSnapshots,
    LocalSnapshots,
    LogReader,
    Membership,
    PeerAddress,
    Peers,
    StateStores,
    TermProducers,
)
from coordinator.runtime.telemetry import Telemetry
from records.model import Endpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaIdentity:
    """The log of a replica, and the node that it belongs to."""

    cluster_id: str
    topic_id: bytes
    partition: int
    partition_count: int
    node_id: int
    rack: str
    endpoints: list[Endpoint]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaPorts:
    """The outside world of one replica."""

    topic: str
    reader: LogReader
    producers: TermProducers
    membership: Membership
    cluster: Cluster
    stores: StateStores
    snapshots: DurableSnapshots | None
    local_snapshots: LocalSnapshots
    peers: Peers
    peer_addresses: Callable[[], tuple[Sequence[PeerAddress], bool]]
    """The other nodes that this one knows: from its settings and the directory; and whether these are all: the directory is loaded."""
    writer: Executor
    rest: Rest
    on_writing: Callable[[int, int], None]
    on_written: Callable[[], None]
    telemetry: Telemetry
