"""Requests about settings of topics on the wire: kio makes and reads the same bytes, and what is said survives in every version."""

from __future__ import annotations

import pytest

from coordinator.core.commands import OK, ConfigChange, Outcome, TopicAlteration
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.topic_configs import ConfigOperation, ConfigType
from coordinator.operations.kafka_versions import schema_module
from coordinator.operations.topic_configs import (
    DESCRIBE_CONFIGS,
    INCREMENTAL_ALTER_CONFIGS,
    OF_SERVICE,
    OF_TOPIC,
    TOPIC_RESOURCE,
    AskedConfigs,
    DescribedConfig,
    DescribedConfigs,
    alter_outcomes,
    alter_request,
    alter_response,
    asked_alterations,
    asked_configs,
    describe_response,
)
from coordinator.protocol.api_keys import ApiKey
from coordinator.protocol.codec import Message
from tests.operations.kio_codec import same_as_kio

ALTERATIONS = [
    TopicAlteration("orders", (ConfigChange("retention.ms", ConfigOperation.SET, "5"),)),
    TopicAlteration("returns", (ConfigChange("retention.bytes", ConfigOperation.DELETE, None),)),
]
SYNONYMS = [("retention.ms", "5", OF_TOPIC), ("log.retention.ms", "7", OF_SERVICE)]
CONFIG = DescribedConfig("retention.ms", "5", OF_TOPIC, ConfigType.LONG, "How long.", SYNONYMS)


def asking(version: int, *resources: tuple[int, str, tuple[str, ...] | None], synonyms: bool = False, **texts: bool) -> Message:
    """A DescribeConfigs request."""
    module = schema_module("describe_configs", version, "request")
    asked = tuple(
        module.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys) for kind, name, keys in resources
    )
    message: Message = module.DescribeConfigsRequest(resources=asked, include_synonyms=synonyms, **texts)
    return message


@pytest.mark.parametrize("is_dry_run", [False, True])
def test_alterations_survive(is_dry_run: bool) -> None:
    told = asked_alterations(same_as_kio(alter_request(ALTERATIONS, is_dry_run=is_dry_run)))
    assert told == ([(TOPIC_RESOURCE, one) for one in ALTERATIONS], is_dry_run)


@pytest.mark.parametrize("version", INCREMENTAL_ALTER_CONFIGS.versions)
def test_what_became_of_alterations_survives(version: int) -> None:
    outcomes = [OK, Outcome(error=ErrorCode.INVALID_CONFIG, message="why")]
    answered = [(TOPIC_RESOURCE, name, outcome) for name, outcome in zip(("orders", "returns"), outcomes, strict=True)]
    assert alter_outcomes(same_as_kio(alter_response(version, answered))) == outcomes


@pytest.mark.parametrize("version", DESCRIBE_CONFIGS.versions)
def test_resources_that_are_asked_for_are_told(version: int) -> None:
    request = asking(version, (2, "orders", None), (2, "returns", ()), (4, "1", ("retention.ms",)))
    assert asked_configs(same_as_kio(request)) == [
        AskedConfigs(2, "orders", None),
        AskedConfigs(2, "returns", None),
        AskedConfigs(4, "1", frozenset({"retention.ms"})),
    ]


@pytest.mark.parametrize("is_more", [False, True])
@pytest.mark.parametrize("version", DESCRIBE_CONFIGS.versions)
def test_settings_are_described_with_what_the_request_wants(version: int, is_more: bool) -> None:
    texts = {"include_documentation": is_more} if version >= 3 else {}
    request = asking(version, (2, "orders", None), (2, "gone", None), synonyms=is_more, **texts)
    unknown = Outcome(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message="why")
    orders, gone = asked_configs(request)
    described = [DescribedConfigs(orders, OK, [CONFIG]), DescribedConfigs(gone, unknown)]
    response = same_as_kio(describe_response(version, request, described))
    [first, second] = response.results  # type: ignore[attr-defined]
    assert (second.error_code.value, second.error_message, second.resource_name, second.configs) == (3, "why", "gone", ())
    [config] = first.configs
    assert (config.name, config.value, config.config_source, config.read_only) == ("retention.ms", "5", OF_TOPIC, False)
    assert [(one.name, one.value, one.source) for one in config.synonyms] == (SYNONYMS if is_more else [])
    if version >= 3:
        assert (config.config_type, config.documentation) == (ConfigType.LONG, "How long." if is_more else None)


def test_the_numbers_are_those_of_kafka() -> None:
    assert (ApiKey.INCREMENTAL_ALTER_CONFIGS, ApiKey.DESCRIBE_CONFIGS) == (44, 32)
    assert (list(INCREMENTAL_ALTER_CONFIGS.versions), list(DESCRIBE_CONFIGS.versions)) == ([0, 1], [1, 2, 3, 4])
