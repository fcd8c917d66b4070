"""Answers Kafka's requests about settings of topics: IncrementalAlterConfigs, DescribeConfigs.

Kafka's tools send them to any node. The leader of partition 0 alters settings, other nodes pass the request on to it; each node
describes what its replica of partition 0 has.
"""

from __future__ import annotations

import logging
from typing import Final, cast

from coordinator.core.commands import OK, AlterTopicConfigs, Outcome
from coordinator.core.directory.directory import DIRECTORY_PARTITION
from coordinator.core.directory.topic_settings import settings_of
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.topic_configs import TOPIC_CONFIGS, UNLIMITED_RETENTION, TopicConfig, default_of
from coordinator.operations.topic_configs import (
    BUILT_IN,
    OF_SERVICE,
    OF_TOPIC,
    TOPIC_RESOURCE,
    Alterations,
    AskedConfigs,
    DescribedConfig,
    DescribedConfigs,
    alter_response,
    asked_alterations,
    asked_configs,
    describe_response,
    no_topic,
)
from coordinator.protocol.codec import Message
from coordinator.runtime.node.node import Node
from coordinator.runtime.ports import PeerUnavailable

LOG = logging.getLogger("coordinator.dispatch")

ALTER_TIMEOUT_MS: Final = 10_000
DESCRIBE_TIMEOUT_MS: Final = 2_000


async def alter_configs(node: Node, version: int, request: Message) -> Message:
    """Answer IncrementalAlterConfigs: what was altered is in the log."""
    asked = asked_alterations(request)
    if node.replicas.is_leading(DIRECTORY_PARTITION):
        return _response(version, asked, await _alter(node, asked))
    leader = node.view.leader(DIRECTORY_PARTITION)
    # A node that is about to lead passes nothing on: then no two nodes pass a request to each other.
    if leader is None or leader.node_id == node.config.node_id or node.replicas.is_loading(DIRECTORY_PARTITION):
        return _response(version, asked, [node.router.not_led(DIRECTORY_PARTITION)] * len(asked.resources))
    try:
        return await node.context.peers.call(leader.host, leader.port, request, ALTER_TIMEOUT_MS)
    except PeerUnavailable as unavailable:
        message = f"node {leader.node_id}, which leads the directory of topics, does not answer ({unavailable}); repeating is safe"
        return _response(version, asked, [Outcome(error=ErrorCode.REQUEST_TIMED_OUT, message=message)] * len(asked.resources))


def _response(version: int, asked: Alterations, outcomes: list[Outcome]) -> Message:
    return alter_response(version, [(kind, one.topic, outcome) for (kind, one), outcome in zip(asked.resources, outcomes, strict=True)])


async def _alter(node: Node, asked: Alterations) -> list[Outcome]:
    """The outcome of each resource, here where partition 0 is led."""
    command = AlterTopicConfigs(
        alterations=[one for resource_type, one in asked.resources if resource_type == TOPIC_RESOURCE], is_dry_run=asked.is_dry_run
    )
    decided = iter(cast(list[Outcome], await node.replicas[DIRECTORY_PARTITION].ask(command, ALTER_TIMEOUT_MS)))
    return [
        next(decided) if resource_type == TOPIC_RESOURCE else no_topic(resource_type, one.topic) for resource_type, one in asked.resources
    ]


async def describe_configs(node: Node, version: int, request: Message) -> Message:
    """Answer DescribeConfigs from a directory that is brought up to date first, if that is possible in time."""
    if not await node.router.directory_is_current(DESCRIBE_TIMEOUT_MS):
        LOG.info("settings of topics are described from a directory that may be stale")
    return describe_response(version, request, [_described(node, one) for one in asked_configs(request)])


def _described(node: Node, asked: AskedConfigs) -> DescribedConfigs:
    if asked.resource_type != TOPIC_RESOURCE:
        return DescribedConfigs(asked, no_topic(asked.resource_type, asked.name))
    directory = node.view.directory
    topic_id = None if directory is None else directory.names.get(asked.name)
    if directory is None or topic_id is None:
        message = f"topic {asked.name!r} is not known; create it, or list the topics to see which there are"
        return DescribedConfigs(asked, Outcome(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message=message))
    settings = settings_of(directory, topic_id)
    known = [one for one in TOPIC_CONFIGS.values() if asked.keys is None or one.name in asked.keys]
    return DescribedConfigs(asked, OK, [_config(node, one, settings.get(one.name)) for one in known])


def _config(node: Node, config: TopicConfig, own: str | None) -> DescribedConfig:
    default = default_of(config.name, node.config.retention.default)
    source = BUILT_IN if default == default_of(config.name, UNLIMITED_RETENTION) else OF_SERVICE
    synonyms = [(config.service_key or config.name, default, source)]
    if own is not None:
        synonyms.insert(0, (config.name, own, OF_TOPIC))
    _, value, value_source = synonyms[0]
    return DescribedConfig(config.name, value, value_source, config.config_type, config.about, synonyms)
