"""`diskless offsets`: offsets of partitions by time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from cli.options import INDEX, output_option, service_options
from cli.output import print_rows, time_text
from cli.times import TIME_FORMS, Time

if TYPE_CHECKING:
    from cli.output import Row
    from cli.service import ServicePlace
    from coordinator.client.model import PartitionId, TopicDescription

NAMED_TIMES = {"latest": -1, "earliest": -2, "max-timestamp": -3, "earliest-local": -4, "latest-tiered": -5}
COLUMNS = ("topic", "partition", "time", "offset", "error")


@click.group()
def offsets() -> None:
    """Look up offsets of partitions by time."""


@offsets.command("list")
@click.argument("topic", nargs=-1)
@click.option("--partition", "partitions", type=INDEX, multiple=True, help="Only this partition. Repeatable.")
@click.option(
    "--time",
    "time",
    type=Time(NAMED_TIMES),
    default="latest",
    show_default=True,
    metavar="TIME",
    help=f"{', '.join(NAMED_TIMES)}; or the first offset at or after a time: {TIME_FORMS}.",
)
@service_options
@output_option
def list_(topic: Sequence[str], partitions: Sequence[int], time: int, service: ServicePlace, output: str) -> None:
    """List offsets of topics at a time; exact, every acknowledged commit counts.

    TOPIC is a name or an id; none means all. Of a migrated partition times are looked up in its diskless part only; `earliest` is the
    start of the classic part as Kafka told it last.

    Examples: `diskless offsets list orders --bootstrap-server localhost:9192`,
    `diskless offsets list orders --time 2026-11-28T02:00 --partition 0 --bootstrap-server localhost:9192 -o json`
    """
    from cli.service import run

    run(_list(topic, partitions, time, service, output))


async def _list(wanted: Sequence[str], partitions: Sequence[int], time: int, service: ServicePlace, output: str) -> None:
    from cli.service import fail_for, find_topic, open_client, partition_ids

    partitions = list(dict.fromkeys(partitions))
    async with open_client(service) as client:
        if wanted:
            named = [await find_topic(client, text) for text in dict.fromkeys(wanted)]
            found = list({topic.topic_id: topic for topic in named}.values())  # one may be named by its name and by its id
            asked = [one for topic in found for one in partition_ids(topic, partitions)]
        else:
            found = list(await client.describe_topics())
            asked = _those_there(found, partitions)
        names = {topic.topic_id: topic.name for topic in found}
        answers = await client.list_offsets([(one, time) for one in asked])
    rows: list[Row] = [
        {
            "topic": names[one.topic_id],
            "partition": one.partition,
            "timestamp": answer.timestamp_ms,
            "time": time_text(answer.timestamp_ms),
            "offset": answer.offset,
            "error": answer.error.name if answer.error else "",
        }
        for one, answer in zip(asked, answers, strict=True)
    ]
    print_rows(rows, output, COLUMNS if any(row["error"] for row in rows) else COLUMNS[:-1], empty="there are no topics")
    fail_for("offsets", [answer.refusal for answer in answers])


def _those_there(topics: Sequence[TopicDescription], partitions: Sequence[int]) -> list[PartitionId]:
    """The given partitions of the topics that have them, or all. Raises `Failed` for a partition that no topic has."""
    from cli.outcome import Exit, Failed
    from coordinator.client.model import PartitionId

    there = [(topic.topic_id, {one.partition: None for one in topic.partitions}) for topic in topics]
    for partition in partitions:
        if not any(partition in has for _, has in there):
            most = f"the largest topic has {max(len(has) for _, has in there)}" if there else "there are no topics"
            raise Failed(f"no topic has partition {partition}; {most}; `diskless topics list` shows them", Exit.NOT_FOUND)
    return [PartitionId(topic_id, partition) for topic_id, has in there for partition in partitions or has if partition in has]
