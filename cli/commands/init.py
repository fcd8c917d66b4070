"""`diskless init`: the metadata topic, created with the settings that keep acknowledged entries, or checked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli.options import config_option, dry_run_option, kafka_options, kafka_server_option, output_option, timeout_option, topic_option
from cli.outcome import Exit, Failed
from cli.output import Row, print_fields, say

if TYPE_CHECKING:
    from cli.kafka import KafkaPlace
    from coordinator.adapters.kafka.cluster import KafkaCluster
    from coordinator.runtime.ports import TopicFacts
    from coordinator.runtime.topic_rules import Finding, TopicExpectations

LOOK_EVERY_S = 0.1
REQUEST_TIMEOUT_MAX_S = 10.0


@click.command()
@kafka_server_option("--bootstrap-server", "--kafka-bootstrap-server", name="bootstrap_server")
@config_option
@kafka_options
@topic_option
@click.option("--partitions", type=click.IntRange(1, 10_000), help="Coordinators. [default: diskless.metadata.topic.num.partitions]")
@click.option("--replication-factor", type=click.IntRange(1, 32_767), help="Copies. [default: diskless.metadata.topic.replication.factor]")
@click.option(
    "--min-insync-replicas",
    type=click.IntRange(1, 32_767),
    help="Copies needed for an acknowledgement. [default: diskless.metadata.topic.min.insync.replicas]",
)
@dry_run_option
@timeout_option
@output_option
def init(
    bootstrap_server: str | None,
    config_file: Path | None,
    command_config: Path | None,
    command_properties: Sequence[str],
    topic: str | None,
    partitions: int | None,
    replication_factor: int | None,
    min_insync_replicas: int | None,
    dry_run: bool,
    timeout_s: float,
    output: str,
) -> None:
    """Create the metadata topic, or check the one that exists.

    Running it again changes nothing: a topic that exists is only checked. Status 1 when its settings could lose acknowledged
    entries; each finding comes with its remedy.

    Examples: `diskless init --bootstrap-server kafka:9092`,
    `diskless init --bootstrap-server localhost:9092 --partitions 2 --replication-factor 1 --min-insync-replicas 1`
    """
    from cli.kafka import find_kafka_place
    from coordinator.config import KEYS
    from coordinator.runtime.topic_rules import TopicExpectations

    place = find_kafka_place(bootstrap_server, config_file, topic, command_config, command_properties)

    def wanted(given: int | None, name: str) -> int:
        key = KEYS[f"diskless.metadata.topic.{name}"]
        return given or (int(getattr(place.settings, key.attribute)) if place.settings is not None else int(key.default or 0))

    factor = wanted(replication_factor, "replication.factor")
    try:
        expectations = TopicExpectations(
            replication_factor=factor,
            min_insync_replicas=wanted(min_insync_replicas, "min.insync.replicas"),
            is_development=factor == 1,
        )
    except ValueError as error:
        raise Failed(f"{error}; lower --min-insync-replicas or raise --replication-factor", Exit.USAGE) from error
    asyncio.run(_init(place, wanted(partitions, "num.partitions"), expectations, dry_run=dry_run, timeout_s=timeout_s, output=output))


async def _init(
    place: KafkaPlace, partitions: int, expectations: TopicExpectations, *, dry_run: bool, timeout_s: float, output: str
) -> None:
    from cli.kafka import kafka_errors
    from coordinator.runtime.ports import TopicMissing
    from coordinator.runtime.topic_rules import may_lead, wanted_config

    config = wanted_config(expectations)
    end_s = time.monotonic() + timeout_s
    cluster = place.open(min(timeout_s, REQUEST_TIMEOUT_MAX_S))
    try:
        with kafka_errors():
            try:
                facts, action = await cluster.describe_topic(), "exists"
            except TopicMissing:
                if dry_run:
                    _print_plan(place.topic, partitions, expectations, config, output)
                    return
                await cluster.create_topic(partitions=partitions, replication_factor=expectations.replication_factor, config=config)
                facts, action = await _wait_for_topic(cluster, place.topic, partitions, end_s), "created"
    finally:
        await cluster.close()
    findings = _check(facts, partitions, expectations)
    print_fields(_summary(facts, action), output)
    for finding in findings:
        say(f"{finding.severity.value}: {finding.key} is {finding.value}: {finding.reason}; {finding.remedy}")
    if not may_lead(findings):
        raise Failed(f"topic {place.topic} may lose acknowledged entries; no coordinator will lead on it until that is put right")


def _print_plan(topic: str, partitions: int, expectations: TopicExpectations, config: dict[str, str], output: str) -> None:
    say(f"dry run: topic {topic} does not exist and would be created")
    fields: Row = {
        "topic": topic,
        "action": "would create",
        "partitions": partitions,
        "replication_factor": expectations.replication_factor,
        "config": config,
    }
    print_fields(fields, output)


async def _wait_for_topic(cluster: KafkaCluster, topic: str, partitions: int, end_s: float) -> TopicFacts:
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
            raise Failed(f"topic {topic} was created, but not every partition has a leader yet; run init again", Exit.TIMEOUT)
        await asyncio.sleep(LOOK_EVERY_S)


def _check(facts: TopicFacts, partitions: int, expectations: TopicExpectations) -> list[Finding]:
    from coordinator.runtime.topic_rules import Finding, ReplicaSets, Severity, check_topic

    replicas = [ReplicaSets(partition=p.partition, replicas=p.replicas, in_sync=p.in_sync) for p in facts.partitions]
    findings = list(check_topic(topic=facts.topic, config=facts.config, partitions=replicas, expectations=expectations))
    if len(facts.partitions) != partitions:
        findings.append(
            Finding(
                key="number of partitions",
                value=str(len(facts.partitions)),
                severity=Severity.WARN,
                reason=f"{partitions} were asked for",
                remedy="a topic is never made smaller; to add coordinators use kafka-topics.sh --alter --partitions",
            )
        )
    return findings


def _summary(facts: TopicFacts, action: str) -> Row:
    from coordinator.kafka.names import topic_id_text

    keys = (
        "cleanup.policy",
        "retention.ms",
        "retention.bytes",
        "min.insync.replicas",
        "unclean.leader.election.enable",
        "message.timestamp.type",
    )
    return {
        "topic": facts.topic,
        "action": action,
        "topic_id": topic_id_text(facts.topic_id),
        "cluster_id": facts.cluster_id,
        "partitions": len(facts.partitions),
        "replication_factor": min((len(item.replicas) for item in facts.partitions), default=0),
        "config": {key: facts.config[key] for key in keys if key in facts.config},
    }
