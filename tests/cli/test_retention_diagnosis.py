"""What doctor and `retention enforce` tell of partitions that timestamps in the future keep from retention."""

from __future__ import annotations

from cli.doctor.diagnosis import Health
from cli.doctor.retention import diagnose_retention
from coordinator.client.calls.retention import EnforcedRetention, HeldPartition
from coordinator.client.errors import Refusal
from coordinator.client.model import PartitionId
from coordinator.kafka.errors import ErrorCode

NAMES = {b"a" * 16: "orders", b"b" * 16: "clicks"}
NOW_MS = 1_700_000_000_000


def looked_at(coordinator_id: int, *held: HeldPartition, refusal: Refusal | None = None) -> EnforcedRetention:
    return EnforcedRetention(refusal=refusal or Refusal(ErrorCode.NONE, ""), coordinator_id=coordinator_id, held=held)


def test_each_partition_is_named_with_what_frees_it() -> None:
    later = HeldPartition(PartitionId(b"a" * 16, 10), NOW_MS * 1000, 7)
    earlier = HeldPartition(PartitionId(b"a" * 16, 2), NOW_MS, 1)
    other = HeldPartition(PartitionId(b"b" * 16, 3), NOW_MS, 5)
    found = diagnose_retention([looked_at(0, later, other), looked_at(1, earlier)], NAMES)
    assert [(one.health, one.check) for one in found] == [(Health.WARNING, "retention")] * 3
    assert [one.finding.split(":")[0] for one in found] == ["clicks-3", "orders-2", "orders-10"]
    assert "timestamp 1700000000000000 ms, in the future" in found[2].finding
    assert "timestamp 2023-11-14T22:13:20.000Z, in the future" in found[1].finding
    assert "diskless records delete orders 10 --before-offset 7" in found[2].remedy


def test_nothing_held_is_well_and_what_was_not_looked_at_is_told() -> None:
    assert [one.health for one in diagnose_retention([looked_at(0)], NAMES)] == [Health.OK]
    refusal = Refusal(ErrorCode.REQUEST_TIMED_OUT, "not in time")
    [found] = diagnose_retention([looked_at(0), looked_at(1, refusal=refusal)], NAMES)
    assert (found.health, found.finding) == (Health.SKIPPED, "coordinator 1 cannot be looked at: not in time")
