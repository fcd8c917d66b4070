"""A plan of a migration is shown with what is to do for each partition, and what changes for readers and in retention."""

from __future__ import annotations

import pytest

from cli.migration.plan import EVERYBODY, SUPER_USERS, plan_rows, readers_text, summary
from cli.outcome import Exit, Failed
from migration.classic import MigrationRefused
from migration.kafka.fence import TopicAcls
from migration.plan import MigrationPlan, settings_of
from tests.migration.plans import PENDING, begun, log, plan


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
    assert [row["to_do"] for row in plan_rows(made)] == to_do
    assert f"{to_do.count('migrate')} of 2 partitions to migrate" in summary(made, readers=None, still_s=3.0)[0]


def test_the_settings_in_force_in_kafka_are_carried_over_and_told() -> None:
    defaults = {"max.message.bytes": "1048588", "message.timestamp.type": "CreateTime", "message.timestamp.after.max.ms": "3600000"}
    made = plan([log(7)], in_kafka={"retention.ms": "604800000", "retention.bytes": "-5", **defaults})
    assert settings_of(made) == {"retention.ms": "604800000", "retention.bytes": "-1"}
    others = {"max.message.bytes": "2000000", "message.timestamp.type": "LogAppendTime"}
    assert settings_of(plan([log(7)], in_kafka={**defaults, **others})) == others
    text = summary(made, readers=None, still_s=3.0)[3]
    assert "as in Kafka, retention.ms=604800000 (default of the brokers), retention.bytes=-1, retention of each part by itself" in text
    assert "`diskless topics alter orders --config ..` changes that for the diskless part" in text
    for settings, told in (({"retention.ms": "5"}, "retention.ms=5;"), ({}, "no setting of its own: the defaults of the service count;")):
        assert told in summary(plan([log(7)], [PENDING], settings=settings), readers=None, still_s=3.0)[3]


def test_a_migration_that_was_cut_off_before_its_last_steps_is_finished() -> None:
    shadow = {"in_kafka": {"max.message.bytes": "0"}, "own": ("max.message.bytes",)}
    for made in (plan([log(7)], [begun(7)]), plan([log(7)], [begun(7)], **shadow, is_closed=True)):
        made.check()
        assert [row["to_do"] for row in plan_rows(made)] == ["finish"]
    with pytest.raises(MigrationRefused, match="is migrated already"):
        plan([log(7)], [begun(7)], **shadow).check()
    with pytest.raises(MigrationRefused, match=r"takes no records .* which the service does not know"):
        plan([log(7)], **shadow).check()
    plan([log(7)], [PENDING], **shadow).check()


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
