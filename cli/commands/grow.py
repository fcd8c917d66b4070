"""`diskless coordinator grow`: more coordinators for a running service, by more partitions of the metadata topic."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import click

from cli.options import COUNT, confirm, dry_run_option, kafka_place, server_option, timeout_option, yes_option
from cli.outcome import Exit, Failed
from cli.output import say

if TYPE_CHECKING:
    from cli.kafka.cluster import KafkaPlace
    from cli.service import ServicePlace
    from coordinator.client.client import DisklessClient

REQUEST_TIMEOUT_MAX_S = 10.0
LOOK_EVERY_S = 0.2


@click.command()
@click.argument("count", type=COUNT)
@server_option
@kafka_place("--kafka-bootstrap-server")
@dry_run_option
@yes_option
@timeout_option
def grow(count: int, kafka: KafkaPlace, dry_run: bool, yes: bool, service: ServicePlace) -> None:
    """Have COUNT coordinators: give the metadata topic so many partitions, and wait until each has a leader.

    Partitions of topics stay where they are until `diskless partitions move` moves them; topics that are created or grow afterwards use
    the new coordinators first. It cannot be undone. Running it again goes on where it was ended. The login needs ALTER on the metadata
    topic.

    Example: `diskless coordinator grow 16 --yes --kafka-bootstrap-server localhost:9092 --bootstrap-server localhost:9192`
    """
    from cli.service import run

    run(_grow(kafka, count, service, is_dry=dry_run, yes=yes), f"waiting for {count} coordinators")


async def _grow(kafka: KafkaPlace, count: int, service: ServicePlace, *, is_dry: bool, yes: bool) -> None:
    from cli.kafka.cluster import kafka_errors
    from cli.service import open_client
    from coordinator.kafka.coordinators import COORDINATORS_MAX

    if count > COORDINATORS_MAX:
        raise Failed(f"{count} coordinators: a service has at most {COORDINATORS_MAX}", Exit.USAGE)
    end_s = time.monotonic() + service.timeout_s
    async with open_client(service) as client:
        cluster = await asyncio.to_thread(kafka.open, min(service.timeout_s, REQUEST_TIMEOUT_MAX_S))
        try:
            with kafka_errors():
                facts = await cluster.describe_topic()
                had = len(facts.partitions)
                await _check_same_topic(client, facts.topic_id, kafka.topic)
                if had > count:
                    raise Failed(f"the service has {had} coordinators, and a topic is never made smaller", Exit.USAGE)
                if is_dry:
                    say(f"topic {kafka.topic} would get {count - had} more partitions than the {had} that it has")
                    return
                if had < count:
                    confirm(f"Give topic {kafka.topic} {count} instead of {had} partitions for good?", yes=yes)
                    await cluster.grow_topic(count)
        finally:
            await cluster.close()
        await _wait_until_led(client, count, end_s)
    say(f"{count} coordinators are led; topics that are created or grow use them, others stay where they are")


async def _check_same_topic(client: DisklessClient, topic_id: bytes, topic: str) -> None:
    """Raise `Failed` when the nodes have another topic than the one that would grow."""
    known = (await client.admin.describe_coordinators()).metadata_topic_id
    if any(known) and known != topic_id:
        raise Failed(
            f"the nodes have another topic than {topic} of this Kafka: name theirs by --metadata-topic, or their brokers", Exit.USAGE
        )


async def _wait_until_led(client: DisklessClient, count: int, end_s: float) -> None:
    """Wait until every node that answers knows all coordinators, and each of them has a leader. Raises `Failed`."""
    from cli.looks.service import by_coordinator, leader_of, look

    while True:
        views = await look(client, max(0.1, end_s - time.monotonic()))
        led = {one for one, group in by_coordinator(views).items() if leader_of(group) is not None}
        missing = sorted(set(range(count)) - led)
        if not missing:
            return
        if time.monotonic() >= end_s:
            what = f"the topic has {count} partitions; without a leader yet: coordinators {', '.join(map(str, missing))}"
            raise Failed(
                f"{what}. Nodes look every topic.check.interval.ms; `diskless coordinator status` goes on showing it", Exit.TIMEOUT
            )
        await asyncio.sleep(LOOK_EVERY_S)
