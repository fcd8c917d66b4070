"""What doctor says of snapshots: each kind of trouble is found and given a remedy; a healthy service has none."""

from __future__ import annotations

from dataclasses import replace

from cli.doctor.diagnosis import CHECK_ORDER, Diagnosis, Health
from cli.doctor.snapshots import CHECK, diagnose_snapshots
from cli.looks.snapshots import SnapshotView
from coordinator.client.model import ServiceNode
from coordinator.protocol.messages import DescribeSnapshotsCoordinator, DescribeSnapshotsSnapshot

MIB = 1 << 20
HOUR_MS = 3_600_000
SNAPSHOT = DescribeSnapshotsSnapshot(
    mark_offset=39,
    end_offset=40,
    epoch=2,
    size_bytes=MIB,
    sha256=bytes(32),
    digest=bytes(16),
    location="snapshots/40",
    is_verified=True,
    is_local=True,
)
TOLD = DescribeSnapshotsCoordinator(
    error_code=0,
    coordinator_id=0,
    log_start_offset=20,
    applied_offset=99,
    bytes_since_snapshot=MIB,
    age_ms=HOUR_MS,
    prune_reason="pruned up to the snapshot at 20",
    snapshots=(SNAPSHOT,),
)


def view(node_id: int, *told: DescribeSnapshotsCoordinator, leads: bool = False) -> SnapshotView:
    led = frozenset(one.coordinator_id for one in told) if leads else frozenset[int]()
    return SnapshotView(node=ServiceNode(node_id, "h", 9192, None), leads=led, coordinators=told)


def diagnose(*views: SnapshotView, interval_ms: int = HOUR_MS) -> list[Diagnosis]:
    found = diagnose_snapshots(views, 20 * MIB, interval_ms)
    assert all(one.remedy for one in found if one.health is not Health.OK)
    return found


def finding(told: DescribeSnapshotsCoordinator, *, interval_ms: int = HOUR_MS) -> str:
    """The only finding when a leader says this, which is a warning."""
    [found] = diagnose(view(1, told, leads=True), interval_ms=interval_ms)
    assert found.health is Health.WARNING
    return found.finding


def test_a_healthy_service_has_nothing_to_mend() -> None:
    assert CHECK in CHECK_ORDER
    [found] = diagnose(view(1, TOLD, leads=True), view(2, TOLD))
    assert (found.health, found.check) == (Health.OK, CHECK)
    assert "1 of 1 coordinators have a snapshot, the oldest newest one is 3600 s old" in found.finding
    assert "80 entries that are not pruned" in found.finding


def test_an_attempt_that_failed_is_told_with_its_node() -> None:
    failed = replace(TOLD, last_error="upload: the store refused")
    assert finding(failed) == "coordinator 0 on node 1: the last attempt failed: upload: the store refused"
    [found] = diagnose(view(1, TOLD, leads=True), view(2, failed))
    assert "on node 2" in found.finding


def test_a_log_that_only_grows_is_told_with_the_reason() -> None:
    without = replace(TOLD, snapshots=(), age_ms=-1, bytes_since_snapshot=81 * MIB, prune_reason="snapshots.enable is false")
    assert "bytes (100 entries) of log since the newest snapshot; snapshots.enable is false" in finding(without)
    large = replace(TOLD, snapshots=(replace(SNAPSHOT, size_bytes=100 * MIB),), bytes_since_snapshot=300 * MIB)
    assert [one.health for one in diagnose(view(1, large, leads=True))] == [Health.OK]
    assert "(60 entries)" in finding(replace(large, bytes_since_snapshot=401 * MIB))


def test_a_snapshot_that_is_old_while_entries_came() -> None:
    old = replace(TOLD, age_ms=4 * HOUR_MS)
    assert "is 14400 s old, and 60 entries came since" in finding(old)
    assert [one.health for one in diagnose(view(1, old, leads=True), interval_ms=0)] == [Health.OK]
    quiet = replace(old, applied_offset=40)  # the record of the snapshot itself
    assert [one.health for one in diagnose(view(1, quiet, leads=True))] == [Health.OK]


def test_only_the_leader_is_asked_what_is_overdue() -> None:
    behind = replace(TOLD, age_ms=4 * HOUR_MS, bytes_since_snapshot=999 * MIB)
    assert [one.health for one in diagnose(view(1, TOLD, leads=True), view(2, behind))] == [Health.OK]


def test_digests_that_differ_are_an_error() -> None:
    other = replace(TOLD, snapshots=(replace(SNAPSHOT, digest=b"\xff" * 16),))
    [found] = diagnose(view(1, TOLD, leads=True), view(2, other))
    assert found.health is Health.ERROR
    assert "nodes 1 (00000000) and 2 (ffffffff) know different snapshots up to offset 40" in found.finding


def test_without_a_leader_it_says_so() -> None:
    [found] = diagnose(view(1, TOLD))
    assert "no leader answers" in found.finding
