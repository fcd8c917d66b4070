"""`diskless producers`: the idempotent producers of topics, as the coordinators remember them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from cli.options import INDEX, output_option, service_options
from cli.output import print_rows, time_text

if TYPE_CHECKING:
    from cli.output import Row
    from cli.service import ServicePlace
    from coordinator.operations.producers import DescribedProducers

COLUMNS = ("topic", "partition", "producer_id", "epoch", "last_sequence", "last_append")


@click.group()
def producers() -> None:
    """Look at the idempotent producers that write to topics."""


@producers.command("list")
@click.argument("topic", nargs=-1)
@click.option("--partition", "partitions", type=INDEX, multiple=True, help="Only this partition. Repeatable.")
@service_options
@output_option
def list_(topic: Sequence[str], partitions: Sequence[int], service: ServicePlace, output: str) -> None:
    """List the idempotent producers of partitions: epoch, last sequence number, and when their newest batch was committed.

    TOPIC is a name or an id; none means all. Producers are remembered as the node that answers knows them, until
    producer.id.expiration.ms after their newest batch; those without idempotence are not known. A producer whose next batch has not the
    next sequence number is refused.

    Example: `diskless producers list orders --bootstrap-server localhost:9192`
    """
    from cli.outcome import Exit, Failed
    from cli.service import run

    described = run(_ask(topic, list(dict.fromkeys(partitions)), service))
    print_rows([row for one in described for row in _rows(one)], output, COLUMNS, empty="no idempotent producer is remembered")
    for one in described:
        if one.outcome.error:
            raise Failed(f"{one.topic}-{one.partition}: {one.outcome.message}", Exit.UNAVAILABLE)


async def _ask(topics: Sequence[str], partitions: Sequence[int], service: ServicePlace) -> list[DescribedProducers]:
    from cli.service import find_topic, open_client, partition_ids

    async with open_client(service) as client:
        found = [await find_topic(client, text) for text in topics] if topics else await client.describe_topics()
        asked = [(one.name, [each.partition for each in partition_ids(one, partitions)]) for one in found]
        return [told for name, chosen in asked for told in await client.admin.describe_producers(name, chosen)]


def _rows(described: DescribedProducers) -> list[Row]:
    return [
        {
            "topic": described.topic,
            "partition": described.partition,
            "producer_id": one.producer_id,
            "epoch": one.epoch,
            "last_sequence": one.last_sequence,
            "last_append": time_text(one.last_append_ms),
        }
        for one in described.producers
    ]
