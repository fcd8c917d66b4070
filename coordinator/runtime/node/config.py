"""The arguments of a node at its start: its configuration, and the ports through which it reaches the outside world."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field

from coordinator.core.assignor.member import AssignorRules
from coordinator.core.commands import RegisterNode
from coordinator.core.limits import Limits
from coordinator.core.topic_rules import TopicExpectations
from coordinator.core.yielding import Rest, no_rest
from coordinator.object_store import ObjectStore
from coordinator.runtime.directories.port import OpenDirectories
from coordinator.runtime.files.pace import PaceRules
from coordinator.runtime.files.rules import NO_FILES_DELETED, NO_SCANS, FileRules, ScanRules
from coordinator.runtime.pauses import Pauses
from coordinator.runtime.ports import (
    ClassicLogs,
    Cluster,
    DurableSnapshots,
    LogListener,
    LogReader,
    Membership,
    PeerAddress,
    Peers,
    TermProducers,
)
from coordinator.runtime.retention.rules import RetentionRules
from coordinator.runtime.snapshots.rules import SnapshotRules
from coordinator.runtime.telemetry import Telemetry
from records.levels import LEVEL_LATEST
from records.model import Endpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """Configuration of a node; times in milliseconds."""

    node_id: int
    rack: str
    endpoints: list[Endpoint]
    topic: str
    topic_partitions: int
    topic_auto_create: bool
    expectations: TopicExpectations
    limits: Limits
    flush_interval_ms: int
    flush_batches_max: int
    flush_backlog_max: int
    topic_check_interval_ms: int
    load_timeout_ms: int
    shutdown_timeout_ms: int
    incarnation_id: bytes
    session_timeout_ms: int = 6_000
    clock_skew_max_ms: int = 5_000
    log_dir_failure_timeout_ms: int = 30_000
    spare_percent_max: int = 10
    """State databases of replicas that this node follows no longer take so much of a disk at most, and leave as much of it free."""
    schema_level_max: int = LEVEL_LATEST
    pauses: Pauses = field(default_factory=Pauses)
    snapshots: SnapshotRules = field(default_factory=SnapshotRules)
    files: FileRules = NO_FILES_DELETED
    rules: AssignorRules = field(default_factory=AssignorRules)
    """What the group aims at, as far as this node goes; that of the process that started last counts."""
    only: frozenset[int] | None = None
    """The coordinators that this node is reserved for; None for any."""
    retention: RetentionRules = field(default_factory=RetentionRules)
    pace: PaceRules = field(default_factory=PaceRules)
    orphans: ScanRules = NO_SCANS
    state_found_in: str = ""
    """A data directory that held state databases before the start: there was a metadata topic. Empty for none."""
    snapshot_peers: tuple[PeerAddress, ...] = ()
    """Nodes to ask for snapshots as long as the directory is not loaded, which may have to come from one itself."""

    def registration(self) -> RegisterNode:
        """The node as it enters itself into the directory."""
        return RegisterNode(
            node_id=self.node_id,
            rack=self.rack,
            endpoints=self.endpoints,
            schema_level_max=self.schema_level_max,
            incarnation_id=self.incarnation_id,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePorts:
    """The outside world of a node; factories for ports that need the topic or the node first."""

    cluster: Cluster
    membership: Membership
    open_reader: Callable[[LogListener], LogReader]
    open_producers: Callable[[int], TermProducers]
    open_directories: Callable[[str], OpenDirectories]
    """Opens the data directories for a cluster; blocks, and raises `FatalError`."""
    peers: Peers
    writer: Executor
    background: Executor
    """Runs work that may last seconds: writing and verifying snapshots."""
    telemetry: Telemetry
    classic_logs: ClassicLogs | None = None
    """The classic topics of which this node follows the starts of migrated partitions; None when it follows none."""
    snapshots: DurableSnapshots | None = None
    """None when this node takes no snapshots; `SnapshotRules.off_because` says why."""
    objects: ObjectStore | None = None
    """The store of committed files; None when this node deletes none."""
    rest: Rest = no_rest
    """Called by the writer between pieces of its work, so that the event loop gets the interpreter."""
    on_writing: Callable[[int, int], None] = lambda partition, batches: None
    """Called with a metadata partition and a number of batches when a write of them begins, with 0 when none of it will be."""
    on_written: Callable[[], None] = lambda: None
    """Called when a flush is in the database and its objects are gone."""
