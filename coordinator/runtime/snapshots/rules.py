"""When a partition's snapshots are taken and its log is pruned: the configured limits."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRules:
    """Limits for taking and keeping snapshots; the defaults are those of the settings."""

    bytes_between: int = 20 * 1024 * 1024
    """Bytes of log entries since the newest snapshot from which on the next one is considered."""
    changed_ratio_min: float = 0.5
    """Share of changed records in the newest snapshot below which those bytes alone cause no other one."""
    interval_ms: int = 3_600_000
    """Time after which a snapshot is taken if there is any new entry; 0 takes none because of the time."""
    lag_time_max_ms: int = 7 * 86_400_000
    """How long a replica that lags holds the log's beginning for itself."""
    off_because: str = ""
    """Why this node takes no snapshots and prunes nothing, as a sentence; empty when it does."""
