"""`diskless groups`: the consumer groups of Kafka that read diskless topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from cli.options import kafka_place, output_option, server_option, timeout_option
from cli.output import print_rows

if TYPE_CHECKING:
    from cli.kafka.cluster import KafkaPlace
    from cli.kafka.reader_groups import GroupOffset, ReaderGroups
    from cli.output import Row
    from cli.service import ServicePlace

COLUMNS = ("group", "topic", "partition", "current_offset", "log_end_offset", "lag", "consumer_id", "host", "state")


@click.group()
def groups() -> None:
    """Look at the consumer groups of Kafka that read diskless topics."""


@groups.command()
@click.argument("group", nargs=-1)
@server_option
@kafka_place("--kafka-bootstrap-server", has_topic=False)
@timeout_option
@output_option
def lag(group: Sequence[str], kafka: KafkaPlace, service: ServicePlace, output: str) -> None:
    """Show how far groups are behind the ends of diskless topics, by partition, as `kafka-consumer-groups.sh` does.

    GROUP is the id of a group; none means all that have read a diskless topic. Offsets of groups are asked of Kafka's brokers, ends of
    the coordinators: every acknowledged record counts. Status 3 when none of the groups that are named has read one.

    Example: `diskless groups lag readers --kafka-bootstrap-server localhost:9092 --bootstrap-server localhost:9192`
    """
    from cli.kafka.reader_groups import ReaderGroups
    from cli.outcome import Exit, Failed
    from cli.service import run

    with ReaderGroups(kafka, service.timeout_s) as readers:
        rows = run(_rows(readers, group, service))
    print_rows(rows, output, COLUMNS, empty="no group has read a diskless topic")
    if group and not rows:
        raise Failed(f"group {', '.join(group)} has read no diskless topic", Exit.NOT_FOUND)


async def _rows(readers: ReaderGroups, groups: Sequence[str], service: ServicePlace) -> list[Row]:
    import asyncio

    from cli.service import open_client
    from coordinator.client.model import PartitionId
    from coordinator.kafka.timestamps import LATEST

    async with open_client(service) as client:
        ids = {one.name: one.topic_id for one in await client.admin.list_topics()}
        found = await asyncio.to_thread(readers.offsets, groups, ids)
        places = list(dict.fromkeys(PartitionId(ids[one.topic], one.partition) for one in found))
        answers = await client.list_offsets([(one, LATEST) for one in places]) if places else []
    ends = {place: answer.offset for place, answer in zip(places, answers, strict=True) if not answer.error}
    return [_row(one, ends.get(PartitionId(ids[one.topic], one.partition))) for one in found]


def _row(one: GroupOffset, end: int | None) -> Row:
    return {
        "group": one.group,
        "topic": one.topic,
        "partition": one.partition,
        "current_offset": one.offset if one.offset >= 0 else None,
        "log_end_offset": end,
        "lag": end - one.offset if end is not None and one.offset >= 0 else None,
        "consumer_id": one.member,
        "host": one.host,
        "state": one.state,
    }
