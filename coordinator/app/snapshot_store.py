"""The snapshots of a node as its settings have them: the limits, and the object store that holds the durable copies."""

from __future__ import annotations

from coordinator.adapters.objectstore.snapshots import ObjectStoreSnapshots
from coordinator.config.sections.snapshots import host_and_port
from coordinator.config.settings import Settings
from coordinator.object_store import ObjectStore
from coordinator.runtime.ports import DurableSnapshots, PeerAddress
from coordinator.runtime.snapshots.rules import SnapshotRules


def snapshot_rules(settings: Settings) -> SnapshotRules:
    """Return the limits for snapshots, and why there are none if so."""
    return SnapshotRules(
        bytes_between=settings.metadata_log_max_record_bytes_between_snapshots,
        changed_ratio_min=settings.metadata_snapshot_min_changed_records_ratio,
        interval_ms=settings.metadata_log_max_snapshot_interval_ms,
        lag_time_max_ms=settings.metadata_start_offset_lag_time_max_ms,
        off_because=_off_because(settings),
    )


def snapshot_peers(settings: Settings) -> tuple[PeerAddress, ...]:
    """Return the nodes that the settings name."""
    return tuple(PeerAddress(None, *host_and_port(address)) for address in settings.snapshots_peers)


def durable_snapshots(settings: Settings, store: ObjectStore | None) -> DurableSnapshots | None:
    """Return the durable copies in the node's object store; None when the node takes no snapshots."""
    if store is None or _off_because(settings):
        return None
    return ObjectStoreSnapshots(store, prefix=settings.snapshots_prefix)


def _off_because(settings: Settings) -> str:
    if not settings.snapshots_enable:
        return "snapshots.enable is false; set it true on every node to take snapshots"
    if settings.object_store_url.scheme == "memory":
        return "object.store.url is memory://, which no other process sees; name a store that lasts to take snapshots"
    return ""
