"""When a snapshot is due, how far the log may be pruned, and which stored snapshots are of no use any more. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from coordinator.runtime.ports import StoredSnapshot
from coordinator.runtime.snapshots.rules import SnapshotRules
from records.model import SnapshotCommitted

SIZE_FACTOR = 2
"""A log of so many times the size of the snapshot before it is worth another snapshot whatever has changed: barriers grow the log too."""
LOADING_HOLD_MS = 15 * 60 * 1000
"""A replica that is loading holds pruning up for so long at most."""
OBJECTS_KEPT = 2


class Growth(NamedTuple):
    """How much the log of a coordinator has grown since its newest snapshot, or since this process began to read it.

    `changed` are the batches and files written since, new ones among them; `rows` those in that snapshot, 0 when this process has neither
    taken nor proven it: then the bytes alone decide.
    """

    entries: int
    log_bytes: int
    changed: int
    rows: int
    snapshot_bytes: int
    age_ms: int


def why_due(growth: Growth, rules: SnapshotRules) -> str | None:
    """Why a snapshot has to be taken now; None when none is due (KIP-630, "When to snapshot")."""
    if growth.entries <= 0:
        return None
    if rules.interval_ms and growth.age_ms >= rules.interval_ms:
        return f"the newest is {growth.age_ms // 1000} s old (metadata.log.max.snapshot.interval.ms={rules.interval_ms})"
    if growth.log_bytes < rules.bytes_between:
        return None
    ratio = growth.changed / growth.rows if growth.rows else 0.0
    if ratio >= rules.changed_ratio_min:
        return f"{growth.log_bytes} bytes of log and {ratio:.2f} of the state changed since the newest"
    if growth.log_bytes >= SIZE_FACTOR * growth.snapshot_bytes:
        return f"{growth.log_bytes} bytes of log since the newest, which has {growth.snapshot_bytes}"
    return None


class Standing(NamedTuple):
    """How far the replica of another node is that lives: -1 while it is loading."""

    node_id: int
    applied_offset: int
    verified_end_offset: int


class Prune(NamedTuple):
    """How far the log may be pruned now, exclusive (-1: no further), and the reason for people."""

    before_offset: int
    reason: str
    needs_own_proof: bool = False
    """Whether it waits for this node to verify a snapshot, because no other node lives."""


def prune_to(
    snapshots: Sequence[SnapshotCommitted],
    *,
    log_start: int,
    own_verified_end: int,
    others: Sequence[Standing],
    waited_ms: int,
    is_restore_open: bool,
    rules: SnapshotRules,
) -> Prune:
    """How far the log may be pruned: to the older of the two newest committed snapshots, once it is proven and no replica needs more.

    Proven: another node that lives has loaded it or a newer one; this node itself when it is alone. `waited_ms` is how long the log could
    have been pruned to there if no replica lagged. `is_restore_open`: the log begins with a restore of all partitions that is not
    finished, so that this one shows which of them lack their beginning.
    """
    if is_restore_open:
        return Prune(-1, "the restore is not finished (diskless restore finish)")
    if len(snapshots) < OBJECTS_KEPT:
        return Prune(-1, f"{len(snapshots)} of {OBJECTS_KEPT} snapshots are committed")
    target = snapshots[-OBJECTS_KEPT].end_offset
    if target <= log_start:
        return Prune(-1, f"pruned up to the snapshot at {target}")
    verified = max((one.verified_end_offset for one in others), default=own_verified_end)
    if verified < target:
        who = "no other node has" if others else "this node has not"
        return Prune(-1, f"{who} verified the snapshot at {target} yet", needs_own_proof=not others)
    if waited_ms < rules.lag_time_max_ms:
        for one in others:
            if one.applied_offset < 0 and waited_ms < LOADING_HOLD_MS:
                return Prune(-1, f"node {one.node_id} is loading")
            if 0 <= one.applied_offset < target - 1:
                return Prune(-1, f"node {one.node_id} has applied up to {one.applied_offset}, the snapshot ends at {target}")
    return Prune(target, f"the snapshot at {target} is committed and verified")


def useless(stored: Sequence[StoredSnapshot], log_start: int) -> list[str]:
    """The locations of snapshots after which the log is gone: no replica could go on from one. The newest two always stay."""
    newest_first = sorted(stored, key=lambda one: (one.end_offset, one.epoch), reverse=True)
    return [one.location for one in newest_first[OBJECTS_KEPT:] if one.end_offset < log_start]
