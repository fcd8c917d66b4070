"""A plan of a migration refuses what cannot be done with cause and remedy, and names what is left to do."""

from __future__ import annotations

import pytest

from coordinator.client.calls.migrations import DisklessLogState
from migration.classic import ClassicTransaction, MigrationRefused
from migration.plan import MigrationPlan, unmigrated
from tests.migration.plans import BORN, PENDING, begun, log, plan


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (plan([log(7)], is_compacted=True), "is compacted .* set cleanup.policy=delete first"),
        (plan([log(7)], [PENDING, PENDING]), "the service has 2 partitions of topic orders, Kafka has 1"),
        (plan([log(7), log(9)], [begun(7), BORN]), "was created as a diskless topic"),
        (
            plan([log(7), log(9)], [begun(7), begun(9)], in_kafka={"max.message.bytes": "0"}, own=("max.message.bytes",)),
            "is migrated already, all 2 partitions of it",
        ),
        (plan([log(7), log(9)], [begun(8), PENDING]), "orders-0: the diskless log begins at 8, the classic log ends at 7; look at"),
        (
            plan([log(7), log(9, transactions=(ClassicTransaction(4, 8), ClassicTransaction(5, 8)))]),
            r"orders-1: the transaction of producer 4, open since offset 8 and 1 more; let its application end it",
        ),
    ],
    ids=["compacted", "fewer", "born", "migrated", "lost-end", "transactions"],
)
def test_what_is_in_the_way_is_refused(made: MigrationPlan, text: str) -> None:
    with pytest.raises(MigrationRefused, match=text):
        made.check()


@pytest.mark.parametrize(
    ("logs", "text"),
    [
        ([begun(7), begun(9), BORN], ""),
        ([begun(7), PENDING, begun(9)], "partition 1 has no diskless log"),
        ([begun(7), PENDING], "partitions 1, 2 have no diskless log"),
        ([], "none of its partitions has a diskless log"),
    ],
)
def test_partitions_without_a_diskless_log_are_named(logs: list[DisklessLogState], text: str) -> None:
    assert unmigrated(logs, 3) == text
