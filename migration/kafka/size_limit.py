"""The `max.message.bytes` of a classic topic: 0 makes it the shadow of a diskless one, to which no client can write past the gateways.

Brokers apply the settings of topics and ACLs in the order in which the cluster took them. So a broker that goes by an ACL which was changed
after the setting goes by the setting, too. Blocks: used in worker threads.
"""

from __future__ import annotations

import time
from typing import Final, NamedTuple

import kio.schema.describe_configs.v4 as describe_configs
import kio.schema.incremental_alter_configs.v1 as alter_configs
from kio.schema.errors import ErrorCode
from kio.static.primitive import i8

from coordinator.adapters.kafka.broker import BrokerConnection, refused
from coordinator.adapters.kafka.partition_leaders import PartitionLeaders
from coordinator.kafka.topic_configs import MAX_MESSAGE_BYTES, SHADOW_SETTINGS, ConfigOperation
from migration.classic import MigrationRefused
from migration.kafka.fence import LOOK_EVERY_S, TOPIC

SHADOW_BYTES: Final = SHADOW_SETTINGS[MAX_MESSAGE_BYTES]
OF_THE_TOPIC: Final = 1
"""Kafka's number for a setting that a topic has of its own."""


class SizeLimit(NamedTuple):
    """The limit that a topic has of its own, if any, and the one that it has otherwise."""

    own: str | None
    default: str


def read_limit(config: describe_configs.response.DescribeConfigsResourceResult) -> SizeLimit:
    """Return the limit that a broker describes with its synonyms."""
    others = [one.value or "" for one in config.synonyms if one.source != OF_THE_TOPIC]
    return SizeLimit(config.value if config.config_source == OF_THE_TOPIC else None, others[0] if others else "")


def describe_topic(topic: str, *names: str) -> describe_configs.DescribeConfigsRequest:
    """Make a question for settings of a topic."""
    asked = describe_configs.request.DescribeConfigsResource(resource_type=TOPIC, resource_name=topic, configuration_keys=names)
    return describe_configs.DescribeConfigsRequest(resources=(asked,), include_synonyms=True)


def described(
    answer: describe_configs.DescribeConfigsResponse, topic: str
) -> tuple[describe_configs.response.DescribeConfigsResourceResult, ...]:
    """Return the settings of an answer about one topic. Raises `KafkaException`."""
    [found] = answer.results
    if found.error_code is not ErrorCode.none:
        raise refused(int(found.error_code.value), f"settings of topic {topic}: {found.error_message or found.error_code.name}")
    return found.configs


def limit_at_each_broker(leaders: PartitionLeaders) -> list[SizeLimit]:
    """Return by which limit each broker goes. Raises `KafkaException`."""

    def look(broker: BrokerConnection) -> SizeLimit:
        request = describe_topic(leaders.topic, MAX_MESSAGE_BYTES)
        [config] = described(broker.ask(request, describe_configs.DescribeConfigsResponse), leaders.topic)
        return read_limit(config)

    return leaders.ask_each_broker(look)


def set_limit(leaders: PartitionLeaders, value: str | None, timeout_s: float, *, dry_run: bool = False) -> None:
    """Give a topic a limit of its own, or none, and wait until every broker goes by it. Raises `MigrationRefused`, `KafkaException`."""
    operation = ConfigOperation.DELETE if value is None else ConfigOperation.SET
    change = alter_configs.request.AlterableConfig(name=MAX_MESSAGE_BYTES, config_operation=i8(operation), value=value)
    resource = alter_configs.request.AlterConfigsResource(resource_type=TOPIC, resource_name=leaders.topic, configs=(change,))
    request = alter_configs.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=dry_run)
    [done] = leaders.ask_any(request, alter_configs.IncrementalAlterConfigsResponse).responses
    if done.error_code is ErrorCode.topic_authorization_failed:
        raise MigrationRefused(
            f"{MAX_MESSAGE_BYTES} of topic {leaders.topic} cannot be changed: allow the principal ALTER_CONFIGS on the topic, and try again"
        )
    if done.error_code is not ErrorCode.none:
        raise refused(
            int(done.error_code.value), f"{MAX_MESSAGE_BYTES} of topic {leaders.topic}: {done.error_message or done.error_code.name}"
        )
    end_s = time.monotonic() + timeout_s
    while not dry_run and any(one.own != value for one in limit_at_each_broker(leaders)):
        if time.monotonic() >= end_s:
            text = f"some brokers do not yet go by {MAX_MESSAGE_BYTES} of topic {leaders.topic} after {timeout_s:g} s; try again"
            raise MigrationRefused(text)
        time.sleep(LOOK_EVERY_S)
