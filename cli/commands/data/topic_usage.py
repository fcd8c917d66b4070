"""`diskless topics usage` and `topics files`: the space that topics take, and the objects that hold them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from cli.options import output_option, service_options
from cli.output import print_rows, time_text

if TYPE_CHECKING:
    from cli.looks.usage import PartitionUsage, TopicUsage
    from cli.output import Row
    from cli.service import ServicePlace

USAGE_COLUMNS = ("topic", "records", "batches", "bytes", "objects", "extents_per_gib", "due_bytes", "next_freed")
PARTITION_COLUMNS = ("topic", "partition", "records", "batches", "bytes", "extents", "freed_in_a_day", "next_freed")
FILE_COLUMNS = ("object_key", "partitions", "batches", "bytes", "extents", "newest", "oldest")


@click.command()
@click.argument("topic", nargs=-1)
@click.option("--by-partition", is_flag=True, help="A line for each partition, with what retention frees of it within a day.")
@service_options
@output_option
def usage(topic: Sequence[str], by_partition: bool, service: ServicePlace, output: str) -> None:
    """Show the space that topics take: live batches and their bytes, the objects that hold them, and when retention frees them.

    TOPIC is a name or an id; none means all. `due_bytes` are past retention and go at the next look of the leaders; `next_freed` is when
    the first batch is past retention.ms. An object goes once the batches of all its topics are gone (`diskless files describe`). An
    extent is a piece of an object that one request reads: many extents per GiB make readers of old records slow.

    Examples: `diskless topics usage --bootstrap-server localhost:9192`,
    `diskless topics usage orders --by-partition --bootstrap-server localhost:9192 -o json`
    """
    counted = _counted(topic, service)
    if by_partition:
        rows = [_partition_row(one.topic.name, each) for one in counted for each in one.partitions]
        print_rows(rows, output, PARTITION_COLUMNS, empty="there are no topics")
    else:
        print_rows([_topic_row(one) for one in counted], output, USAGE_COLUMNS, empty="there are no topics")


@click.command()
@click.argument("topic")
@service_options
@output_option
def files(topic: str, service: ServicePlace, output: str) -> None:
    """List the objects that hold live batches of a topic, with its share of each; the largest share first.

    TOPIC is a name or an id. `diskless files describe KEY` says what else is in an object, and what it waits for.

    Example: `diskless topics files orders --bootstrap-server localhost:9192`
    """
    [counted] = _counted([topic], service)
    rows: list[Row] = [
        {
            "object_key": key,
            "partitions": sorted(share.partitions),
            "batches": share.batches,
            "bytes": share.size_bytes,
            "extents": share.extents,
            "oldest": time_text(share.oldest_ms),
            "newest": time_text(share.newest_ms),
        }
        for key, share in sorted(counted.files.items(), key=lambda one: (-one[1].size_bytes, one[0]))
    ]
    print_rows(rows, output, FILE_COLUMNS, empty=f"topic {counted.topic.name} has no batches")


def _counted(wanted: Sequence[str], service: ServicePlace) -> list[TopicUsage]:
    from cli.looks.usage import count_usage
    from cli.progress import doing
    from cli.service import find_topic, open_client, run

    async def count() -> list[TopicUsage]:
        async with open_client(service) as client:
            found = [await find_topic(client, text) for text in wanted] if wanted else await client.describe_topics()
            with doing("counting batches") as work:
                return [await count_usage(client, one, work, service.timeout_s) for one in found]

    return run(count())


def _topic_row(counted: TopicUsage) -> Row:
    from cli.looks.usage import GIB

    of_all = counted.partitions
    size, extents = sum(one.size_bytes for one in of_all), sum(one.extents for one in of_all)
    return {
        "topic": counted.topic.name,
        "partitions": len(of_all),
        "records": sum(one.records for one in of_all),
        "batches": sum(one.batches for one in of_all),
        "bytes": size,
        "objects": len(counted.files),
        "extents": extents,
        "extents_per_gib": round(extents * GIB / size) if size else None,
        "due_bytes": counted.due_bytes,
        "freed_in_a_day": sum(one.freed_in_a_day_bytes for one in of_all),
        "next_freed": time_text(min((one.next_freed_ms for one in of_all if one.next_freed_ms >= 0), default=-1)),
        "last_freed": time_text(max((one.last_freed_ms for one in of_all), default=-1)),
    }


def _partition_row(topic: str, one: PartitionUsage) -> Row:
    return {
        "topic": topic,
        "partition": one.partition,
        "records": one.records,
        "batches": one.batches,
        "bytes": one.size_bytes,
        "extents": one.extents,
        "freed_in_a_day": one.freed_in_a_day_bytes,
        "next_freed": time_text(one.next_freed_ms),
        "last_freed": time_text(one.last_freed_ms),
    }
