"""The metadata topic as commands make it: the options that say how, its creation, and what is wrong with one that exists."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from cli.options import F
from cli.outcome import Exit, Failed
from cli.output import say
from coordinator.kafka.coordinators import COORDINATORS_MAX

if TYPE_CHECKING:
    from cli.kafka.cluster import KafkaPlace
    from coordinator.adapters.kafka.cluster import KafkaAdmin
    from coordinator.core.topic_rules import TopicExpectations
    from coordinator.runtime.ports import TopicFacts

LOOK_EVERY_S = 0.1
REQUEST_TIMEOUT_MAX_S = 10.0

PARTITION_COUNT = click.IntRange(1, COORDINATORS_MAX)


def copies_options(function: F) -> F:
    """Add the options that say how many copies the topic has."""
    options: tuple[Callable[[F], F], ...] = (
        click.option(
            "--min-insync-replicas",
            type=click.IntRange(1, 32_767),
            help="Replicas that must have an entry before it is acknowledged. [default: diskless.metadata.topic.min.insync.replicas]",
        ),
        click.option(
            "--replication-factor",
            type=click.IntRange(1, 32_767),
            help="Replicas of each metadata partition. [default: diskless.metadata.topic.replication.factor]",
        ),
    )
    for option in options:
        function = option(function)
    return function


def wanted(place: KafkaPlace, given: int | None, name: str) -> int:
    """A number of `diskless.metadata.topic`: the one given, else that of the settings file, else the default."""
    from coordinator.config import KEYS

    key = KEYS[f"diskless.metadata.topic.{name}"]
    return given or (int(getattr(place.settings, key.attribute)) if place.settings is not None else int(key.default or 0))


def expected_topic(place: KafkaPlace, replication_factor: int | None, min_insync_replicas: int | None) -> TopicExpectations:
    """Return what the topic must be like. Raises `Failed`."""
    from coordinator.core.topic_rules import TopicExpectations

    factor = wanted(place, replication_factor, "replication.factor")
    try:
        return TopicExpectations(
            replication_factor=factor,
            min_insync_replicas=wanted(place, min_insync_replicas, "min.insync.replicas"),
            is_development=factor == 1,
        )
    except ValueError as error:
        raise Failed(f"{error}; lower --min-insync-replicas or raise --replication-factor", Exit.USAGE) from error


async def create_topic(cluster: KafkaAdmin, topic: str, partitions: int, expectations: TopicExpectations, end_s: float) -> TopicFacts:
    """Create the topic and wait until every partition has a leader. Raises `Failed` and Kafka's errors."""
    from coordinator.core.topic_rules import wanted_config

    config = wanted_config(expectations)
    await cluster.create_topic(partitions=partitions, replication_factor=expectations.replication_factor, config=config)
    return await _wait_for_topic(cluster, topic, partitions, end_s)


async def _wait_for_topic(cluster: KafkaAdmin, topic: str, partitions: int, end_s: float) -> TopicFacts:
    """The brokers learn of a new topic a moment after the controller created it."""
    from coordinator.runtime.ports import TopicMissing

    while True:
        try:
            facts = await cluster.describe_topic()
            if len(facts.partitions) >= partitions and all(item.leader is not None for item in facts.partitions):
                return facts
        except TopicMissing:
            pass
        if time.monotonic() > end_s:
            raise Failed(f"topic {topic} was created, but not every partition has a leader yet; run the command again", Exit.TIMEOUT)
        await asyncio.sleep(LOOK_EVERY_S)


def tell_findings(facts: TopicFacts, partitions: int, expectations: TopicExpectations) -> bool:
    """Say what is wrong with a topic on standard error; returns whether coordinators may lead on it all the same."""
    from coordinator.core.topic_rules import Finding, ReplicaSets, Severity, check_topic, may_lead

    replicas = [ReplicaSets(partition=p.partition, replicas=p.replicas, in_sync=p.in_sync) for p in facts.partitions]
    findings = list(check_topic(topic=facts.topic, config=facts.config, partitions=replicas, expectations=expectations))
    if len(facts.partitions) != partitions:
        findings.append(
            Finding(
                key="number of partitions",
                value=str(len(facts.partitions)),
                severity=Severity.WARN,
                reason=f"{partitions} were asked for",
                remedy="a topic is never made smaller; `diskless coordinator grow` adds coordinators",
            )
        )
    for finding in findings:
        say(f"{finding.severity.value}: {finding.key} is {finding.value}: {finding.reason}; {finding.remedy}")
    return may_lead(findings)
