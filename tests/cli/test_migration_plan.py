"""A plan of a migration says what is to do for each partition, and refuses what cannot be done with cause and remedy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from cli.migration.plan import EVERYBODY, SUPER_USERS, MigrationPlan, readers_text, settings_of, summary, unmigrated
from cli.outcome import Exit, Failed
from coordinator.adapters.kafka.classic.fence import TopicAcls
from coordinator.adapters.kafka.classic.topic import ClassicTopicFacts
from coordinator.client.calls.migrations import DisklessLogState
from coordinator.client.migration.classic import ClassicState, ClassicTransaction

PENDING = DisklessLogState(state="pending")
BORN = DisklessLogState(state="born", start_offset=0)


def begun(start_offset: int) -> DisklessLogState:
    return DisklessLogState(state="initialised", start_offset=start_offset, leader_epoch=1)


def log(end: int, *, transactions: tuple[ClassicTransaction, ...] = ()) -> ClassicState:
    return ClassicState(leader_epoch=3, log_start_offset=2, high_watermark=end, log_end_offset=end, open_transactions=transactions)


def plan(
    classic: Sequence[ClassicState],
    known: Sequence[DisklessLogState] = (),
    *,
    is_compacted: bool = False,
    retention: Mapping[str, str] | None = None,
    settings: Mapping[str, str] | None = None,
) -> MigrationPlan:
    facts = ClassicTopicFacts(
        topic_id=bytes(16),
        partitions=len(classic),
        is_compacted=is_compacted,
        retention=retention or {},
        own=frozenset({"retention.bytes"}),
    )
    return MigrationPlan(name="orders", topic=facts, classic=tuple(classic), known=tuple(known), settings=settings or {})


@pytest.mark.parametrize(
    ("made", "is_created", "to_do"),
    [
        (plan([log(7), log(9)]), False, ["migrate", "migrate"]),
        (plan([log(7), log(9)], [PENDING, PENDING]), True, ["migrate", "migrate"]),
        (plan([log(7), log(9)], [begun(7), PENDING]), True, ["nothing", "migrate"]),
        (plan([log(7), log(9)], [begun(7)]), False, ["nothing", "migrate"]),
        (plan([log(8), log(9)], [begun(7), PENDING]), True, ["nothing", "migrate"]),
    ],
    ids=["new", "begun", "killed", "grown", "written-past"],
)
def test_partitions_that_have_their_start_are_left_as_they_are(made: MigrationPlan, is_created: bool, to_do: list[str]) -> None:
    made.check()
    assert made.is_created is is_created
    assert [row["to_do"] for row in made.rows()] == to_do
    assert f"{to_do.count('migrate')} of 2 partitions to migrate" in summary(made, readers=None, still_s=3.0)[0]


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (plan([log(7)], is_compacted=True), "is compacted .* set cleanup.policy=delete first"),
        (plan([log(7)], [PENDING, PENDING]), "the service has 2 partitions of topic orders, Kafka has 1"),
        (plan([log(7), log(9)], [begun(7), BORN]), "was created as a diskless topic"),
        (plan([log(7), log(9)], [begun(7), begun(9)]), "is migrated already, all 2 partitions of it"),
        (plan([log(7), log(9)], [begun(8), PENDING]), "orders-0: the diskless log begins at 8, the classic log ends at 7; look at"),
        (
            plan([log(7), log(9, transactions=(ClassicTransaction(4, 8), ClassicTransaction(5, 8)))]),
            r"orders-1: the transaction of producer 4, open since offset 8 and 1 more; let its application end it",
        ),
    ],
    ids=["compacted", "fewer", "born", "migrated", "lost-end", "transactions"],
)
def test_what_is_in_the_way_is_refused(made: MigrationPlan, text: str) -> None:
    with pytest.raises(Failed, match=text):
        made.check()


def test_the_retention_in_force_in_kafka_is_carried_over_and_told() -> None:
    made = plan([log(7)], retention={"retention.ms": "604800000", "retention.bytes": "-5"})
    assert settings_of(made) == {"retention.ms": "604800000", "retention.bytes": "-1"}
    text = summary(made, readers=None, still_s=3.0)[3]
    assert "as in Kafka, retention.ms=604800000 (default of the brokers), retention.bytes=-1, of each part by itself" in text
    assert "`diskless topics alter orders --config ..` changes that for the diskless part" in text
    for settings, told in (({"retention.ms": "5"}, "retention.ms=5;"), ({}, "no setting of its own: the defaults of the service count;")):
        assert told in summary(plan([log(7)], [PENDING], settings=settings), readers=None, still_s=3.0)[3]


@pytest.mark.parametrize(
    ("acls", "readers", "text"),
    [
        (TopicAcls(False, False, 2), None, "2 ACLs of others, which go on to say who reads it"),
        (TopicAcls(False, False, 0), EVERYBODY, "7 more allow everybody all but to write"),
        (TopicAcls(True, True, 0), None, "7 more allow everybody all but to write"),
        (TopicAcls(False, False, 0), SUPER_USERS, "super users alone read it"),
    ],
)
def test_what_changes_for_readers_is_told(acls: TopicAcls, readers: str | None, text: str) -> None:
    assert text in readers_text("orders", acls, readers)


@pytest.mark.parametrize("is_closed", [False, True])
def test_the_first_acl_of_a_topic_needs_a_word_about_its_readers(is_closed: bool) -> None:
    with pytest.raises(Failed, match="would lock its readers out: keep them with --readers everybody") as failed:
        readers_text("orders", TopicAcls(is_closed, False, 0), None)
    assert failed.value.status is Exit.USAGE


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
