"""The arguments of a replica: the log that it follows, its settings, and the ports through which it reaches the outside world."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

from coordinator.core.limits import Limits
from coordinator.core.yielding import Rest
from coordinator.runtime.pauses import Pauses
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
class ReplicaRules:
    """The settings of a replica."""

    limits: Limits
    flush_interval_ms: int
    flush_batches_max: int
    flush_backlog_max: int
    read_lag_max_s: float
    pauses: Pauses


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaPorts:
    """The outside world of one replica."""

    topic: str
    loop: asyncio.AbstractEventLoop
    clock_ms: Callable[[], int]
    log_ahead_ms: Callable[[int], int]
    """How much too late a time of `clock_ms` is for the log."""
    rng: random.Random
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
