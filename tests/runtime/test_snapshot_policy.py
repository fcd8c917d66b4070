"""When a snapshot is due, how far the log is pruned, and what is removed: tables."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coordinator.core.tables.stored_rows import PACKED
from coordinator.runtime.ports import StoredSnapshot
from coordinator.runtime.snapshots.policy import LOADING_HOLD_MS, Growth, Prune, Standing, prune_to, useless, why_due
from coordinator.runtime.snapshots.row_count import RowCount
from coordinator.runtime.snapshots.rules import SnapshotRules
from records.model import SnapshotCommitted
from records.snapshot import TableRows

RULES = SnapshotRules(bytes_between=1000, changed_ratio_min=0.5, interval_ms=60_000, lag_time_max_ms=100_000_000)
QUIET = Growth(entries=0, log_bytes=0, changed=0, rows=100, snapshot_bytes=5000, age_ms=0)


@pytest.mark.parametrize(
    ("growth", "reason"),
    [
        (QUIET, None),
        (QUIET._replace(age_ms=10**9), None),
        (QUIET._replace(entries=-1, age_ms=10**9), None),
        (QUIET._replace(entries=1, age_ms=59_999), None),
        (QUIET._replace(entries=1, age_ms=60_000), "the newest is 60 s old"),
        (QUIET._replace(entries=9, log_bytes=999, changed=100), None),
        (QUIET._replace(entries=9, log_bytes=1000, changed=49), None),
        (QUIET._replace(entries=9, log_bytes=1000, changed=50), "0.50 of the state changed"),
        (QUIET._replace(entries=9, log_bytes=9_999, changed=100, rows=0), None),
        (QUIET._replace(entries=9, log_bytes=1000, rows=0, snapshot_bytes=0), "1000 bytes of log since the newest, which has 0"),
        (QUIET._replace(entries=9, log_bytes=9_999), None),
        (QUIET._replace(entries=9, log_bytes=10_000), "10000 bytes of log since the newest, which has 5000"),
    ],
)
def test_when_a_snapshot_is_due(growth: Growth, reason: str | None) -> None:
    found = why_due(growth, RULES)
    assert (found is None) if reason is None else (found is not None and reason in found)


def test_batches_and_other_rows_of_a_snapshot_are_counted_once_all_were_passed_on() -> None:
    topics = TableRows("topic", {"topic_id": [bytes(16), b""], "name": ["a", "b"]})
    runs = TableRows("run", {"id": [1, 2], "batches": [bytes(3 * PACKED.itemsize), bytes(4 * PACKED.itemsize)]})
    count = RowCount()
    passing = count.counted([topics, runs])
    assert next(passing) is topics
    assert count.rows == 0
    assert list(passing) == [runs]
    assert count.rows == 2 + 7


def test_no_interval_takes_none_because_of_time() -> None:
    assert why_due(QUIET._replace(entries=1, age_ms=10**12), replace(RULES, interval_ms=0)) is None


def snapshots(*ends: int) -> tuple[SnapshotCommitted, ...]:
    return tuple(
        SnapshotCommitted(mark_offset=end - 1, end_offset=end, epoch=1, size_bytes=1, sha256=bytes(32), digest=bytes(16), location=str(end))
        for end in ends
    )


AT_END = Standing(2, 500, 200)


@pytest.mark.parametrize(
    ("ends", "others", "own", "waited_ms", "before", "reason"),
    [
        ((), (), 0, 0, -1, "0 of 2 snapshots"),
        ((100,), (AT_END,), 0, 0, -1, "1 of 2 snapshots"),
        ((100, 200), (AT_END,), -1, 0, 100, "committed and verified"),
        ((50, 100, 200), (AT_END,), -1, 0, 100, "committed and verified"),
        ((10, 20), (AT_END,), 20, 0, -1, "pruned up to"),
        ((100, 200), (Standing(2, 500, 99),), 200, 0, -1, "no other node has verified the snapshot at 100"),
        ((100, 200), (Standing(2, 500, 99), Standing(3, 500, 100)), -1, 0, 100, "verified"),
        ((100, 200), (), -1, 0, -1, "this node has not verified"),
        ((100, 200), (), 200, 0, 100, "verified"),
        ((100, 200), (AT_END, Standing(3, 98, -1)), -1, 0, -1, "node 3 has applied up to 98"),
        ((100, 200), (AT_END, Standing(3, 99, -1)), -1, 0, 100, "verified"),
        ((100, 200), (AT_END, Standing(3, 98, -1)), -1, RULES.lag_time_max_ms, 100, "verified"),
        ((100, 200), (AT_END, Standing(3, -1, -1)), -1, LOADING_HOLD_MS - 1, -1, "node 3 is loading"),
        ((100, 200), (AT_END, Standing(3, -1, -1)), -1, LOADING_HOLD_MS, 100, "verified"),
        ((100, 200), (Standing(3, -1, -1),), 200, RULES.lag_time_max_ms, -1, "no other node has verified"),
    ],
)
def test_how_far_the_log_is_pruned(
    ends: tuple[int, ...], others: tuple[Standing, ...], own: int, waited_ms: int, before: int, reason: str
) -> None:
    found = prune_to(
        snapshots(*ends), log_start=10, own_verified_end=own, others=others, waited_ms=waited_ms, is_restore_open=False, rules=RULES
    )
    assert found.before_offset == before
    assert reason in found.reason
    assert found.needs_own_proof == (reason == "this node has not verified")


def test_a_log_whose_restore_is_not_finished_is_not_pruned() -> None:
    others = [Standing(2, 300, 200)]
    found = prune_to(snapshots(100, 200), log_start=10, own_verified_end=200, others=others, waited_ms=0, is_restore_open=True, rules=RULES)
    assert found == Prune(-1, "the restore is not finished (diskless restore finish)")


@pytest.mark.parametrize(
    ("ends", "log_start", "gone"),
    [
        ((), 100, []),
        ((50, 60), 100, []),
        ((50, 100, 200), 100, [50]),
        ((50, 60, 99, 100, 200), 100, [50, 60, 99]),
        ((100, 200, 300), 100, []),
        ((10, 20, 30), 100, [10]),
    ],
)
def test_only_snapshots_that_no_replica_could_use_are_removed(ends: tuple[int, ...], log_start: int, gone: list[int]) -> None:
    stored = [StoredSnapshot(str(end), end, 1, 1, 0) for end in ends]
    assert sorted(map(int, useless(stored, log_start))) == gone
