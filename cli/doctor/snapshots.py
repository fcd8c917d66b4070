"""The conclusions of `diskless doctor` about snapshots: bad or different ones, attempts that fail, logs that only grow, open restores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cli.doctor.diagnosis import Diagnosis, Health
from cli.looks.snapshots import SnapshotView
from coordinator.client.calls.directory import RestoreDescription
from coordinator.protocol.messages import DescribeSnapshotsCoordinator

CHECK = "snapshots"
BYTES_FACTOR = 4
AGE_FACTOR = 3
"""A snapshot is due at a quarter and a third of what is found too much here: taking one needs time, and a failure is tried again."""


def diagnose_snapshots(views: Sequence[SnapshotView], bytes_between: int, interval_ms: int) -> list[Diagnosis]:
    """Findings about the snapshots of every coordinator. The limits are those of the settings; an interval of 0 sets none."""
    told = [(view, one) for view in views for one in view.coordinators if not one.error_code]
    led = [(view, one) for view, one in told if one.coordinator_id in view.leads]
    found = [*_different(told)]
    for view, one in told:
        if one.last_error:
            found.append(
                _warning(
                    f"coordinator {one.coordinator_id} on node {view.node.node_id}: the last attempt failed: {one.last_error}",
                    "it is tried again; the step says what is needed: the object store, room in the data directory, or Kafka",
                )
            )
    for _, one in led:
        found += _overdue(one, bytes_between, interval_ms)
    return found or [Diagnosis(health=Health.OK, check=CHECK, finding=_summary([one for _, one in led]))]


def diagnose_restore(restored: RestoreDescription) -> list[Diagnosis]:
    """A restore that no operator has called finished."""
    if not restored.is_restored or restored.is_finished:
        return []
    return [
        Diagnosis(
            health=Health.WARNING,
            check="restore",
            finding=f"the service was restored from the snapshots of cluster {restored.old_cluster_id}, and that is not called finished",
            remedy="look at what it lost (diskless restore report), then run diskless restore finish",
        )
    ]


def _overdue(one: DescribeSnapshotsCoordinator, bytes_between: int, interval_ms: int) -> Iterable[Diagnosis]:
    """Find a snapshot that should have been taken by now, by the word of the leader of its coordinator."""
    newest = one.snapshots[0] if one.snapshots else None
    bytes_max = BYTES_FACTOR * max(bytes_between, 0 if newest is None else newest.size_bytes)
    entries = one.applied_offset + 1 - (0 if newest is None else newest.end_offset)
    why = f"; {one.prune_reason}" if one.prune_reason and newest is None else ""
    if one.bytes_since_snapshot > bytes_max:
        yield _warning(
            f"coordinator {one.coordinator_id}: {one.bytes_since_snapshot} bytes ({entries} entries) of log since the newest snapshot{why}",
            "the log only grows, and a cold start reads all of it: see snapshots.enable, the object store and the log of the leader",
        )
    elif newest is not None and interval_ms and one.age_ms > AGE_FACTOR * interval_ms and entries > 1:
        yield _warning(
            f"coordinator {one.coordinator_id}: the newest snapshot is {one.age_ms // 1000} s old, and {entries} entries came since",
            "one is due every metadata.log.max.snapshot.interval.ms: see the log of the leader; `diskless snapshots take` takes one now",
        )


def _different(told: Sequence[tuple[SnapshotView, DescribeSnapshotsCoordinator]]) -> Iterable[Diagnosis]:
    """Nodes that know one snapshot with different digests: they have read different logs."""
    digests: dict[tuple[int, int, int], dict[bytes, list[int]]] = {}
    for view, coordinator in told:
        for one in coordinator.snapshots:
            known = digests.setdefault((coordinator.coordinator_id, one.end_offset, one.epoch), {})
            known.setdefault(one.digest, []).append(view.node.node_id)
    for (coordinator_id, end_offset, _), known in sorted(digests.items()):
        if len(known) > 1:
            who = " and ".join(f"{', '.join(map(str, nodes))} ({digest.hex()[:8]})" for digest, nodes in known.items())
            yield Diagnosis(
                health=Health.ERROR,
                check=CHECK,
                finding=f"coordinator {coordinator_id}: nodes {who} know different snapshots up to offset {end_offset}",
                remedy="their replicas have read different logs: keep the state databases as evidence, and rebuild the one that differs",
            )


def _summary(led: Sequence[DescribeSnapshotsCoordinator]) -> str:
    if not led:
        return "no leader answers; the findings on leaders say more"
    known = [one for one in led if one.log_start_offset >= 0]
    entries = sum(one.applied_offset + 1 - one.log_start_offset for one in known)
    ages = [one.age_ms for one in led if one.age_ms >= 0]
    oldest = f", the oldest newest one is {max(ages) // 1000} s old" if ages else ""
    with_one = sum(bool(one.snapshots) for one in led)
    return f"{with_one} of {len(led)} coordinators have a snapshot{oldest}; the logs hold {entries} entries that are not pruned"


def _warning(finding: str, remedy: str) -> Diagnosis:
    return Diagnosis(health=Health.WARNING, check=CHECK, finding=finding, remedy=remedy)
