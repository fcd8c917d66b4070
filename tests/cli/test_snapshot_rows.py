"""The rows of `diskless snapshots` and `log prune`, from the answers of nodes."""

from __future__ import annotations

from cli.looks.snapshots import SnapshotView, known_snapshots, prune_rows, snapshot_rows, standing_rows
from coordinator.client.model import ServiceNode
from coordinator.protocol.messages import DescribeSnapshotsCoordinator, DescribeSnapshotsSnapshot


def snapshot(end: int, *, verified: bool = False, local: bool = False) -> DescribeSnapshotsSnapshot:
    return DescribeSnapshotsSnapshot(
        mark_offset=end - 1,
        end_offset=end,
        epoch=2,
        size_bytes=10 * end,
        sha256=bytes(32),
        digest=bytes(16),
        location=f"snapshots/{end}",
        is_verified=verified,
        is_local=local,
    )


def told(
    coordinator_id: int, *snapshots: DescribeSnapshotsSnapshot, start: int = 0, target: int = -1, reason: str | None = None
) -> DescribeSnapshotsCoordinator:
    return DescribeSnapshotsCoordinator(
        error_code=0,
        coordinator_id=coordinator_id,
        log_start_offset=start,
        applied_offset=99,
        bytes_since_snapshot=5,
        age_ms=61_500,
        prune_target=target,
        prune_reason=reason,
        snapshots=snapshots,
    )


def view(node_id: int, *coordinators: DescribeSnapshotsCoordinator, leads: tuple[int, ...] = (), error: str = "") -> SnapshotView:
    return SnapshotView(
        node=ServiceNode(node_id, "h", 9192, None),
        leads=frozenset(leads),
        cluster_id="c",
        topic_id=bytes(16),
        coordinators=coordinators,
        error=error,
    )


VIEWS = [
    view(1, told(0, snapshot(40, local=True), snapshot(20, local=True), reason="waits"), told(1), leads=(0,)),
    view(2, told(0, snapshot(20, verified=True)), told(1, start=7, target=50, reason="is verified"), leads=(1,)),
    view(3, error="it is gone"),
]


def test_a_snapshot_has_one_row_however_many_nodes_know_it_the_newest_first() -> None:
    rows = snapshot_rows(known_snapshots(VIEWS))
    assert [(row["coordinator"], row["end_offset"], row["verified_by"], row["local_on"]) for row in rows] == [
        (0, 40, [], [1]),
        (0, 20, [2], [1]),
    ]
    assert known_snapshots(VIEWS, [1]) == []


def test_the_leader_of_a_coordinator_comes_first() -> None:
    rows = standing_rows(VIEWS)
    assert [(row["coordinator"], row["node"], row["leads"]) for row in rows] == [
        (0, 1, True),
        (0, 2, False),
        (1, 2, True),
        (1, 1, False),
    ]
    assert (rows[0]["newest_end"], rows[0]["age_s"], rows[0]["prune_to"]) == (40, 61, None)
    assert standing_rows(VIEWS, [1]) == rows[2:]


def test_pruning_is_told_by_leaders_alone() -> None:
    assert prune_rows(VIEWS) == [
        {"coordinator": 0, "leader": 1, "log_start": 0, "prune_to": None, "entries": 0, "reason": "waits"},
        {"coordinator": 1, "leader": 2, "log_start": 7, "prune_to": 50, "entries": 43, "reason": "is verified"},
    ]
    assert [row["coordinator"] for row in prune_rows(VIEWS, [1])] == [1]


def test_what_is_pruned_already_is_not_offered_again() -> None:
    [row] = prune_rows([view(1, told(0, start=50, target=50, reason="r"), leads=(0,))])
    assert (row["prune_to"], row["entries"]) == (None, 0)
