"""What doctor says of migrations."""

from __future__ import annotations

from cli.doctor.diagnosis import Health
from cli.doctor.migrations import diagnose_migrations


def test_topics_with_pending_partitions_are_told_with_the_way_on_and_back() -> None:
    states = [("b", "pending"), ("a", "born"), ("b", "initialised"), ("b", "pending"), ("c", "pending")]
    found = diagnose_migrations(states)
    assert [one.finding for one in found] == [
        "topic b: 2 of 3 partitions are not diskless yet, and take nothing",
        "topic c: 1 of 1 partitions are not diskless yet, and take nothing",
    ]
    assert all(one.health is Health.WARNING and "migration start" in one.remedy and "migration abort" in one.remedy for one in found)


def test_nothing_is_wrong_without_pending_partitions() -> None:
    for states in ([], [("a", "born"), ("a", "initialised")]):
        assert [one.health for one in diagnose_migrations(states)] == [Health.OK]
