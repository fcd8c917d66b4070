"""Settings of topics: which values are lawful, altered together or not at all, and kept as long as the topic."""

from __future__ import annotations

import json

import pytest

from coordinator.core.commands import OK, AlterTopicConfigs, ConfigChange, CreateTopics, DeleteTopics, Outcome, TopicAlteration, WantedTopic
from coordinator.core.deciding.decide import decide_write
from coordinator.core.directory.content import content_of, items_of, restore_content
from coordinator.core.directory.directory import Directory, apply_directory
from coordinator.core.directory.topic_settings import settings_of
from coordinator.core.limits import Limits
from coordinator.core.tables.in_memory import HotState
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.timestamps import too_far_ahead, too_far_behind
from coordinator.kafka.topic_configs import (
    TOPIC_CONFIGS,
    UNLIMITED_RETENTION,
    ConfigOperation,
    Retention,
    default_of,
    illegal_topic_config,
    message_rules,
    retention_of,
)
from records.model import TopicConfigured

LIMITS = Limits()
A, B, UNKNOWN = b"a" * 16, b"b" * 16, b"u" * 16
SET, DELETE, APPEND = ConfigOperation.SET, ConfigOperation.DELETE, ConfigOperation.APPEND


def create(hot: HotState, *topics: WantedTopic) -> list[Outcome]:
    """Decide a creation and apply what it logs."""
    return _apply(hot, CreateTopics(topics=list(topics), eligible={0: 0}))


def topic(topic_id: bytes, name: str, count: int = 1, **settings: str) -> WantedTopic:
    """A topic that is wanted; dots of its settings are written as underscores."""
    own = tuple((key.replace("_", "."), value) for key, value in settings.items())
    return WantedTopic(topic_id=topic_id, name=name, num_partitions=count, settings=own)


def alter(hot: HotState, *changes: tuple[str, int, str | None], name: str = "orders", is_dry_run: bool = False) -> Outcome:
    """Decide an alteration of one topic and apply what it logs."""
    alteration = TopicAlteration(name, tuple(ConfigChange(*one) for one in changes))
    [outcome] = _apply(hot, AlterTopicConfigs(alterations=[alteration], is_dry_run=is_dry_run))
    return outcome


def _apply(hot: HotState, command: CreateTopics | AlterTopicConfigs | DeleteTopics) -> list[Outcome]:
    decision = decide_write(hot, command, LIMITS)
    for record in decision.records:
        hot.apply(record, 5)
    assert isinstance(decision.answer, list)
    return [one for one in decision.answer if isinstance(one, Outcome)]


def with_topic(**settings: str) -> HotState:
    """Topic `orders` (A) exists."""
    hot = HotState()
    assert create(hot, topic(A, "orders", **settings)) == [OK]
    return hot


LAWFUL = [
    ("retention.ms", "-1"),
    ("retention.ms", "0"),
    ("retention.ms", "9223372036854775807"),
    ("retention.bytes", "1"),
    ("cleanup.policy", "delete"),
    ("message.timestamp.after.max.ms", "0"),
    ("message.timestamp.after.max.ms", "9223372036854775807"),
    ("message.timestamp.before.max.ms", "0"),
    ("message.timestamp.type", "CreateTime"),
    ("message.timestamp.type", "LogAppendTime"),
    ("max.message.bytes", "0"),
    ("max.message.bytes", "2147483647"),
]
UNLAWFUL = [
    ("retention.ms", "-2", "from -1 (no limit)"),
    ("retention.ms", "9223372036854775808", "from -1 (no limit)"),
    ("retention.ms", "1_000", "from -1 (no limit)"),
    ("retention.ms", " 1", "from -1 (no limit)"),
    ("retention.ms", "\u0663", "from -1 (no limit)"),
    ("retention.bytes", "1.5", "from -1 (no limit)"),
    ("retention.bytes", "", "from -1 (no limit)"),
    ("retention.bytes", None, "has no value"),
    ("message.timestamp.after.max.ms", "-1", "a whole number from 0 to 9223372036854775807 is allowed"),
    ("message.timestamp.after.max.ms", "1h", "a whole number from 0"),
    ("message.timestamp.before.max.ms", "-1", "a whole number from 0 to 9223372036854775807 is allowed"),
    ("message.timestamp.type", "logappendtime", "CreateTime or LogAppendTime is allowed"),
    ("max.message.bytes", "-1", "a whole number from 0 to 2147483647 is allowed"),
    ("max.message.bytes", "2147483648", "a whole number from 0 to 2147483647 is allowed"),
    ("cleanup.policy", "compact", "nothing compacts"),
    ("cleanup.policy", "compact,delete", "nothing compacts"),
    ("cleanup.policy", "keep", "only 'delete' is allowed"),
    (
        "retention",
        "1",
        "which have cleanup.policy, max.message.bytes, message.timestamp.after.max.ms, message.timestamp.before.max.ms",
    ),
]


@pytest.mark.parametrize(("name", "value"), LAWFUL)
def test_a_lawful_value_is_logged(name: str, value: str) -> None:
    hot = with_topic()
    assert illegal_topic_config(name, value) is None
    assert alter(hot, (name, SET, value)) == OK
    assert settings_of(hot.directory, A) == {name: value}
    assert hot.touched.content


@pytest.mark.parametrize(("name", "value", "says"), UNLAWFUL)
def test_an_unlawful_value_is_refused_with_the_rule(name: str, value: str | None, says: str) -> None:
    hot = with_topic(retention_ms="5")
    refused = alter(hot, ("retention.bytes" if name == "retention.ms" else "retention.ms", SET, "7"), (name, SET, value))
    assert refused.error is ErrorCode.INVALID_CONFIG
    assert says in (refused.message or "")
    assert "topic orders" in (refused.message or "")
    assert settings_of(hot.directory, A) == {"retention.ms": "5"}


def test_settings_are_changed_and_deleted_one_by_one() -> None:
    hot = with_topic(retention_ms="5")
    assert alter(hot, ("retention.bytes", SET, "7")) == OK
    assert settings_of(hot.directory, A) == {"retention.ms": "5", "retention.bytes": "7"}
    assert alter(hot, ("retention.ms", DELETE, None), ("cleanup.policy", DELETE, None)) == OK
    assert settings_of(hot.directory, A) == {"retention.bytes": "7"}
    assert alter(hot, ("retention.bytes", DELETE, None)) == OK
    assert hot.directory.topic_settings == {}


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        (
            [("retention.ms", SET, "1"), ("retention.ms", DELETE, None)],
            ErrorCode.INVALID_REQUEST,
            "retention.ms is in the request twice",
        ),
        ([("retention.ms", APPEND, "1")], ErrorCode.INVALID_CONFIG, "set or deleted as a whole"),
        ([("retention.ms", 9, "1")], ErrorCode.INVALID_REQUEST, "operation 9 is not one of 0 (set) to 3 (subtract)"),
        ([("segment.ms", DELETE, None)], ErrorCode.INVALID_CONFIG, "is not a setting of diskless topics"),
    ],
)
def test_what_cannot_be_done_changes_nothing(changes: list[tuple[str, int, str | None]], error: ErrorCode, says: str) -> None:
    hot = with_topic()
    refused = alter(hot, *changes)
    assert refused.error is error
    assert says in (refused.message or "")
    assert hot.directory.topic_settings == {}


def test_topics_are_altered_apart_and_each_once() -> None:
    hot = with_topic()
    create(hot, topic(B, "returns"))
    changes = (ConfigChange("retention.ms", SET, "1"),)
    named = ["orders", "returns", "orders", "nobody"]
    told = _apply(hot, AlterTopicConfigs(alterations=[TopicAlteration(name, changes) for name in named]))
    assert [one.error for one in told] == [
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NONE,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert hot.directory.topic_settings == {B: {"retention.ms": "1"}}


def test_a_dry_run_and_an_alteration_that_is_no_news_log_nothing() -> None:
    hot = with_topic(retention_ms="5")
    hot.take_touched()
    assert alter(hot, ("retention.ms", SET, "6"), is_dry_run=True) == OK
    assert alter(hot, ("retention.ms", SET, "x"), is_dry_run=True).error is ErrorCode.INVALID_CONFIG
    assert alter(hot, ("retention.ms", SET, "5")) == OK
    assert not hot.touched.content


def test_a_creation_that_is_repeated_has_the_same_settings() -> None:
    hot = with_topic(retention_ms="5")
    assert create(hot, topic(A, "orders", retention_ms="5")) == [OK]
    assert create(hot, topic(A, "orders", 3)) == [OK]
    assert settings_of(hot.directory, A) == {"retention.ms": "5"}
    [refused] = create(hot, topic(A, "orders", 4, retention_ms="6"))
    assert refused.error is ErrorCode.INVALID_REQUEST
    assert "exists with other settings (retention.ms=5)" in (refused.message or "")
    assert hot.directory.placements[A].num_partitions == 3


def test_a_topic_with_an_unlawful_setting_is_not_created() -> None:
    hot = HotState()
    told = create(hot, topic(A, "orders", retention_ms="soon"), topic(B, "returns", retention_ms="1"))
    assert [one.error for one in told] == [ErrorCode.INVALID_CONFIG, ErrorCode.NONE]
    twice = WantedTopic(topic_id=A, name="orders", num_partitions=1, settings=(("retention.ms", "1"), ("retention.ms", "2")))
    assert [one.error for one in create(hot, twice)] == [ErrorCode.INVALID_REQUEST]
    assert list(hot.directory.placements) == [B]
    assert hot.directory.topic_settings == {B: {"retention.ms": "1"}}


def test_settings_go_with_their_topic_and_are_none_of_an_unknown_one() -> None:
    hot = with_topic(retention_ms="5")
    _apply(hot, DeleteTopics(topic_ids=[A]))
    assert hot.directory.topic_settings == {}
    directory = hot.directory.copy()
    assert apply_directory(directory, TopicConfigured(topic_id=UNKNOWN, names=["retention.ms"], values=["1"]), 9)
    assert apply_directory(directory, TopicConfigured(topic_id=A, names=["retention.ms"], values=["1"]), 9)
    assert directory.topic_settings == {}


def test_settings_are_part_of_what_is_stored_and_counted() -> None:
    hot = with_topic(retention_ms="5", retention_bytes="-1")
    content = content_of(hot.directory, (), None, {})
    read = Directory()
    restore_content(read, json.dumps(content))
    assert read.topic_settings == hot.directory.topic_settings == hot.copy().directory.topic_settings
    counted = {(what, key): says for what, key, says in items_of(content)}
    assert counted["topic settings", A.hex()] == {"settings": {"retention.ms": "5", "retention.bytes": "-1"}}


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({}, Retention(10, 20)),
        ({"retention.ms": "-1"}, Retention(-1, 20)),
        ({"retention.ms": "5", "retention.bytes": "0"}, Retention(5, 0)),
        ({"retention.ms": "soon"}, Retention(10, 20)),
    ],
)
def test_what_a_topic_does_not_set_is_the_services(settings: dict[str, str], kept: Retention) -> None:
    assert retention_of(settings, Retention(10, 20)) == kept


def test_every_setting_has_a_default() -> None:
    for name in TOPIC_CONFIGS:
        assert illegal_topic_config(name, default_of(name, UNLIMITED_RETENTION)) is None
    assert retention_of({}, UNLIMITED_RETENTION).is_unlimited


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({}, (1_048_588, False, 2**63 - 1, 3_600_000)),
        ({"message.timestamp.after.max.ms": "0", "message.timestamp.before.max.ms": "5"}, (1_048_588, False, 5, 0)),
        ({"message.timestamp.type": "LogAppendTime", "max.message.bytes": "100"}, (100, True, 2**63 - 1, 3_600_000)),
        ({"message.timestamp.after.max.ms": "-1", "max.message.bytes": "many", "message.timestamp.type": "x"}, message_rules({})),
    ],
)
def test_what_a_topic_demands_of_batches(settings: dict[str, str], says: tuple[int, bool, int, int]) -> None:
    assert message_rules(settings) == says


@pytest.mark.parametrize(("timestamp_ms", "is_taken"), [(-1, True), (1_000, True), (1_010, True), (1_011, False), (2**63 - 1, False)])
def test_a_timestamp_too_far_ahead_is_not_taken(timestamp_ms: int, is_taken: bool) -> None:
    assert (too_far_ahead(timestamp_ms, 1_000, 10) is None) == is_taken


@pytest.mark.parametrize(("timestamp_ms", "is_taken"), [(-1, True), (1_000, True), (990, True), (989, False), (-2, False)])
def test_a_timestamp_too_far_behind_is_not_taken(timestamp_ms: int, is_taken: bool) -> None:
    assert (too_far_behind(timestamp_ms, 1_000, 10) is None) == is_taken
