"""`diskless init`: the metadata topic, created with the settings that keep acknowledged entries, or checked."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import click

from cli.kafka.metadata_topic import (
    PARTITION_COUNT,
    REQUEST_TIMEOUT_MAX_S,
    copies_options,
    create_topic,
    expected_topic,
    tell_findings,
    wanted,
)
from cli.options import dry_run_option, kafka_place, output_option, timeout_option
from cli.outcome import Failed
from cli.output import Row, print_fields, say
from cli.progress import doing

if TYPE_CHECKING:
    from cli.kafka.cluster import KafkaPlace
    from coordinator.core.topic_rules import TopicExpectations
    from coordinator.runtime.ports import TopicFacts


@click.command()
@kafka_place("--bootstrap-server", "--kafka-bootstrap-server")
@click.option("--partitions", type=PARTITION_COUNT, help="Metadata partitions. [default: diskless.metadata.topic.num.partitions]")
@copies_options
@dry_run_option
@timeout_option
@output_option
def init(
    kafka: KafkaPlace,
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
    expectations = expected_topic(kafka, replication_factor, min_insync_replicas)
    count = wanted(kafka, partitions, "num.partitions")
    with doing("asking Kafka"):
        asyncio.run(_init(kafka, count, expectations, dry_run=dry_run, timeout_s=timeout_s, output=output))


async def _init(
    place: KafkaPlace, partitions: int, expectations: TopicExpectations, *, dry_run: bool, timeout_s: float, output: str
) -> None:
    from cli.kafka.cluster import kafka_errors
    from coordinator.core.topic_rules import wanted_config
    from coordinator.runtime.ports import TopicMissing

    end_s = time.monotonic() + timeout_s
    cluster = place.open(min(timeout_s, REQUEST_TIMEOUT_MAX_S))
    try:
        with kafka_errors():
            try:
                facts, action = await cluster.describe_topic(), "exists"
            except TopicMissing:
                if dry_run:
                    _print_plan(place.topic, partitions, expectations, wanted_config(expectations), output)
                    return
                facts, action = await create_topic(cluster, place.topic, partitions, expectations, end_s), "created"
    finally:
        await cluster.close()
    print_fields(_summary(facts, action), output)
    if not tell_findings(facts, partitions, expectations):
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
