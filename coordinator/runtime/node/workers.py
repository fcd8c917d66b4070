"""The work of a node beside commits: snapshots, retention, files that are no longer needed, and how current its replicas are."""

from __future__ import annotations

import asyncio
from functools import partial

from coordinator.core.directory.directory import DIRECTORY_PARTITION
from coordinator.runtime.directories.port import StateDirectory
from coordinator.runtime.files.asking import OwnersAsked
from coordinator.runtime.files.cleaner import FileCleaner
from coordinator.runtime.files.objects import ObjectRemover
from coordinator.runtime.files.orphan_scan import OrphanScan
from coordinator.runtime.files.pace import BackgroundPace
from coordinator.runtime.files.store_marking import StoreMarking
from coordinator.runtime.node.config import NodeConfig, NodePorts
from coordinator.runtime.node.metadata_topic import MetadataTopic
from coordinator.runtime.replica.freshness import Freshness, keep_asking
from coordinator.runtime.replica.replica import Replica
from coordinator.runtime.retention.classic_starts import ClassicStarts
from coordinator.runtime.retention.enforcer import RetentionEnforcer
from coordinator.runtime.retention.released import ReleasedStretches
from coordinator.runtime.routing.context import NodeContext
from coordinator.runtime.snapshots.keeper import SnapshotKeeper


class Workers:
    """See the module's text; one per node."""

    def __init__(self, context: NodeContext, *, config: NodeConfig, ports: NodePorts, topic: MetadataTopic) -> None:
        self.snapshots = SnapshotKeeper(
            context,
            durable=ports.snapshots,
            rules=config.snapshots,
            background=ports.background,
            rest=ports.rest,
            telemetry=ports.telemetry,
        )
        self.retention = RetentionEnforcer(context, rules=config.retention)
        self.released = ReleasedStretches(
            context, interval_ms=config.retention.check_interval_ms, retention_of=self.retention.retention_now
        )
        self.owners_asked = OwnersAsked(context)
        self.pace = BackgroundPace(context.replicas, config.pace)
        self.files = FileCleaner(
            context, asked=self.owners_asked, remover=_remover(context, config, ports), rules=config.files, pace=self.pace
        )
        self.marking = StoreMarking(context, store=ports.objects, wal_prefix=config.orphans.prefix, service=topic.service)
        self.orphans = OrphanScan(
            rules=config.orphans,
            store=ports.objects,
            owners=self.owners_asked,
            coordinator_count=topic.count_partitions,
            is_leading=partial(context.replicas.is_leading, DIRECTORY_PARTITION),
            restoration=context.view.restoration,
            service=topic.service,
            marking=self.marking,
            rng=context.rng,
            clock_ms=context.clock_ms,
        )
        self._context = context
        self._config = config
        self._classic_logs = ports.classic_logs
        self._kept_fresh: set[int] = set()

    def start(self) -> None:
        """Begin what does not wait for a replica."""
        spawn = self._context.spawn
        spawn(self.retention.keep(), "retention")
        spawn(self.released.keep(), "released-stretches")
        if self._classic_logs is not None:
            interval_ms = self._config.retention.check_interval_ms
            spawn(ClassicStarts(self._context, logs=self._classic_logs, interval_ms=interval_ms).keep(), "classic-starts")
        spawn(self.marking.keep(), "store-mark")
        spawn(self.orphans.keep(), "orphan-scan")

    def loaded(self, replica: Replica, home: StateDirectory) -> None:
        """A replica is loaded in a data directory: look after it from now on."""
        self.snapshots.loaded(replica.identity, home.stores, home.snapshots(replica.partition))
        self._keep_fresh(replica.partition)
        self.files.loaded(replica.partition)

    def _keep_fresh(self, partition: int) -> None:
        """Compare the replicas of a partition with the end of its log while the partition is followed."""
        if partition not in self._kept_fresh:
            self._kept_fresh.add(partition)
            asking = keep_asking(self._context.cluster, partition, partial(self._freshness, partition), self._config.files.read_lag_max_s)
            self._context.spawn(asking, f"log-end-{partition}")

    def _freshness(self, partition: int) -> Freshness | None:
        """The freshness of the replica of a partition; None ends the comparing."""
        replica = self._context.replicas.get(partition)
        if replica is None:
            self._kept_fresh.discard(partition)
        return None if replica is None else replica.freshness


def _remover(context: NodeContext, config: NodeConfig, ports: NodePorts) -> ObjectRemover | None:
    """The remover of objects; None on a node that deletes none."""
    if ports.objects is None:
        return None
    return ObjectRemover(
        ports.objects, kept_prefix=config.files.kept_prefix, rng=context.rng, monotonic_s=lambda: asyncio.get_running_loop().time()
    )
