"""Which topics become diskless when they are created."""

from __future__ import annotations

import pytest

from coordinator.kafka.errors import ErrorCode
from gateway.topics.rule import CreationRule

ON, OFF = {"diskless.enable": "true"}, {"diskless.enable": "false"}
CASES = [
    ("requested", "orders", {}, False),
    ("requested", "orders", ON, True),
    ("requested", "orders", {"diskless.enable": " TRUE "}, True),
    ("all", "orders", {}, True),
    ("all", "orders", OFF, False),
    ("all", "orders", {"retention.ms": "5"}, True),
    ("all", "orders", {"cleanup.policy": "delete"}, True),
    ("all", "orders", {"cleanup.policy": "compact"}, False),
    ("all", "orders", {"cleanup.policy": "compact,delete"}, False),
    ("all", "orders", {"segment.bytes": "1000"}, False),
    ("all", "orders", {"retention.ms": "soon"}, False),
    ("all", "orders", {"retention.ms": None}, False),
    ("all", "__consumer_offsets", {}, False),
    ("all", "__diskless_metadata", {}, False),
    ("all", "our-metadata", {}, False),
    ("all", "no/name", {}, False),
    ("a.*|b", "abc", {}, True),
    ("a.*|b", "b", {}, True),
    ("a.*|b", "bc", {}, False),
    ("a.*", "xa", {}, False),
]


@pytest.mark.parametrize(("rule", "name", "settings", "is_diskless"), CASES)
def test_a_topic_becomes_diskless(rule: str, name: str, settings: dict[str, str | None], is_diskless: bool) -> None:
    wanted = CreationRule(rule, "our-metadata").wanted(name, settings)
    assert (wanted.is_diskless, wanted.error) == (is_diskless, ErrorCode.NONE)
    assert "diskless.enable" not in wanted.settings


REFUSED = [
    ({"diskless.enable": "yes"}, ErrorCode.INVALID_CONFIG, "true or false"),
    ({"diskless.enable": None}, ErrorCode.INVALID_CONFIG, "true or false"),
    ({**ON, "cleanup.policy": "compact"}, ErrorCode.INVALID_CONFIG, "nothing compacts"),
    ({**ON, "segment.bytes": "1"}, ErrorCode.INVALID_CONFIG, "'segment.bytes' is not a setting of diskless topics"),
    ({**ON, "retention.ms": "soon"}, ErrorCode.INVALID_CONFIG, "a whole number"),
    ({**ON, "retention.ms": None}, ErrorCode.INVALID_CONFIG, "has no value"),
]


@pytest.mark.parametrize(("settings", "code", "text"), REFUSED)
def test_what_a_diskless_topic_cannot_have_is_refused_with_the_reason(settings: dict[str, str | None], code: ErrorCode, text: str) -> None:
    wanted = CreationRule("requested").wanted("orders", settings)
    assert wanted.error is code
    assert text in (wanted.message or "")


def test_internal_topics_are_never_diskless() -> None:
    wanted = CreationRule("requested").wanted("__consumer_offsets", ON)
    assert wanted.error is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_rule_that_is_no_expression_is_refused() -> None:
    with pytest.raises(ValueError, match="neither 'requested' nor 'all'"):
        CreationRule("(")


@pytest.mark.parametrize(
    ("client_id", "settings", "is_diskless"),
    [
        ("diskless_enable=true", {}, True),
        ("tools,diskless_enable=true", {}, True),
        ("diskless_az=a diskless_enable=true", {}, True),
        ("diskless_enable=true", OFF, False),
        ("diskless_enable=false", ON, True),
        ("diskless_enable=yes", {}, False),
        ("xdiskless_enable=true", {}, False),
        ("diskless_enable=truex", {}, False),
        (None, {}, False),
    ],
)
def test_a_client_id_asks_for_diskless_topics_where_a_tool_knows_no_such_setting(
    client_id: str | None, settings: dict[str, str | None], is_diskless: bool
) -> None:
    assert CreationRule("requested").wanted("orders", settings, client_id).is_diskless is is_diskless


def test_a_client_id_that_asks_for_it_is_told_what_cannot_be() -> None:
    wanted = CreationRule("all").wanted("orders", {"cleanup.policy": "compact"}, "diskless_enable=true")
    assert (wanted.error, "nothing compacts" in (wanted.message or "")) == (ErrorCode.INVALID_CONFIG, True)
    assert not CreationRule("all").wanted("orders", {}, "diskless_enable=false").is_diskless
