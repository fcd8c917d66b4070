"""Settings of snapshots and of the log's beginning; names and defaults are those of KIP-630 where it has them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from coordinator.config.keys import INT64_MAX, boolean, integer, items, number, text

DAY_MS = 86_400_000


_PREFIX = re.compile(r"[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*")


_HOST_PORT = re.compile(r"[^\s:/\[\]]+:[0-9]{1,5}")


def host_and_port(address: str) -> tuple[str, int]:
    """Take an address of `snapshots.peers` apart."""
    host, _, port = address.rpartition(":")
    return host, int(port)


def _is_prefix(value: str) -> bool:
    return len(value) <= 200 and _PREFIX.fullmatch(value) is not None and not {".", ".."} & set(value.split("/"))


@dataclass(frozen=True, kw_only=True)
class SnapshotSettings:
    """When snapshots are taken, where they are kept, and when the log's beginning is deleted."""

    snapshots_enable: bool = boolean(
        "snapshots.enable",
        True,
        why="""Whether this node takes snapshots of the partitions it leads, keeps them in the object store, and deletes the log's
        beginning that they replace. It needs to write, read, list and delete objects below snapshots.prefix. With false the log of
        the partitions it leads only grows, and so does the time of a cold start. memory:// as the object store means false.""",
    )
    snapshots_prefix: str = text(
        "snapshots.prefix",
        "snapshots",
        allowed=_is_prefix,
        bounds="a relative path without a slash at its ends, of at most 200 ASCII letters, digits, . _ -",
        why="""Where snapshots are in the object store, the same for all nodes: PREFIX/CLUSTER ID/TOPIC ID/PARTITION/ holds those of one
        metadata partition. Snapshots that were taken under another prefix stay in use under it. Rules of the store that expire
        objects must leave this prefix alone: the service removes what it does not need.""",
    )
    snapshots_peers: tuple[str, ...] = items(
        "snapshots.peers",
        "",
        allowed=lambda value: _HOST_PORT.fullmatch(value) is not None,
        bounds="host:port, comma separated",
        why="""Other nodes of the service, which a node without data asks for the snapshots in their data directories when the object
        store has none that is good. It knows them from the directory, too, but the directory itself may have to be loaded from a
        snapshot: then only these can be asked. Names that several nodes have, like a headless service, are enough.""",
    )
    metadata_log_max_record_bytes_between_snapshots: int = integer(
        "metadata.log.max.record.bytes.between.snapshots",
        20 * 1024 * 1024,
        low=1_024,
        high=INT64_MAX,
        why="""Bytes of entries in a metadata partition's log since the newest snapshot from which on the leader takes another one, if
        metadata.snapshot.min.changed_records.ratio allows it; at twice the size of the newest snapshot, if that is more than this, it
        takes one whatever the ratio. Smaller means a shorter log and faster starts, and more snapshots to write and to upload.""",
    )
    metadata_snapshot_min_changed_records_ratio: float = number(
        "metadata.snapshot.min.changed_records.ratio",
        0.5,
        low=0.0,
        high=1.0,
        why="""Share of changed records in the newest snapshot below which the bytes of new entries alone cause no other one. Batches and
        files that were written since count as changed, new ones too. It keeps a large state that changes slowly from being written again
        and again; 0 looks at the bytes only.""",
    )
    metadata_log_max_snapshot_interval_ms: int = integer(
        "metadata.log.max.snapshot.interval.ms",
        3_600_000,
        low=0,
        high=365 * DAY_MS,
        why="""A snapshot is taken when the newest one is older than this and the log has any entry since. 0 takes none because of the
        time. After a loss of all of Kafka, restore has what the newest snapshot has: this bounds what is missing then.""",
    )
    metadata_start_offset_lag_time_max_ms: int = integer(
        "metadata.start.offset.lag.time.max.ms",
        7 * DAY_MS,
        low=60_000,
        high=365 * DAY_MS,
        why="""How long a node that has not applied the log up to a snapshot keeps the entries before it from being deleted. A node
        that comes back later loads the snapshot instead of these entries; nothing is lost.""",
    )
