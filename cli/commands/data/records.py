"""`diskless records`: show the newest records of a topic, delete those at the beginning of partitions."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing, nullcontext, suppress
from typing import TYPE_CHECKING, NamedTuple

import click
from click.core import ParameterSource

from cli.objects import NamedStore, named_store
from cli.options import INDEX, INT64_MAX, confirm, dry_run_option, output_option, service_options, yes_option
from cli.output import RowStream, print_fields, say, time_text
from cli.times import TIME_FORMS, Time

if TYPE_CHECKING:
    from cli.output import Row
    from cli.service import ServicePlace
    from coordinator.object_store import ObjectStore
    from records.record_batch import StoredRecord

RECORD_COLUMNS = (("part", 4), ("offset", 8), ("time", 24), ("key", 16), ("value", 0))

HIGH_WATERMARK = -1


@click.group()
def records() -> None:
    """Show the newest records of a topic, or delete the oldest."""


@records.command()
@click.argument("topic")
@click.option("--partition", "partitions", type=INDEX, multiple=True, help="Only this partition. Repeatable.")
@click.option("-n", "--records", "count", type=INDEX, default=10, show_default=True, help="So many records of each partition.")
@click.option("--since", "since_ms", type=Time(), metavar="TIME", help=f"Records from this time on instead: {TIME_FORMS}.")
@click.option("--follow", "-f", is_flag=True, help="Go on with new records until Ctrl-C.")
@named_store
@service_options
@output_option
@click.pass_context
def tail(
    ctx: click.Context,
    topic: str,
    partitions: Sequence[int],
    count: int,
    since_ms: int | None,
    follow: bool,
    store: NamedStore,
    service: ServicePlace,
    output: str,
) -> None:
    """Print the newest records of a topic, as JSON lines unless --output says otherwise.

    TOPIC is a name or an id. Records of one partition come in order. With --follow a node is asked once and answers as soon as there
    is more (a long poll).

    Examples: `diskless records tail orders --object-store-url file:///var/lib/objects --bootstrap-server localhost:9192`,
    `diskless records tail orders --since 15m --follow --config coordinator.properties --bootstrap-server localhost:9192`
    """
    from cli.service import run

    is_default = ctx.get_parameter_source("output") is ParameterSource.DEFAULT
    tailing = Tailing(topic, partitions, count, since_ms, follow, "jsonl" if is_default else output)
    with suppress(KeyboardInterrupt) if follow else nullcontext():
        run(_tail(tailing, store.open(), service))


class Tailing(NamedTuple):
    """The arguments of `records tail`."""

    topic: str
    partitions: Sequence[int]
    newest: int
    since_ms: int | None
    follow: bool
    output: str


async def _tail(wanted: Tailing, store: ObjectStore, service: ServicePlace) -> None:
    from cli.objects import store_errors
    from cli.service import find_topic, open_client, partition_ids
    from coordinator.kafka.timestamps import EARLIEST_LOCAL, LATEST

    async with open_client(service, object_store=store) as client:
        topic = await find_topic(client, wanted.topic)
        asked = partition_ids(topic, list(dict.fromkeys(wanted.partitions)))
        places = (EARLIEST_LOCAL, LATEST) if wanted.since_ms is None else (wanted.since_ms, LATEST)
        found = await client.list_offsets([(one, place) for one in asked for place in places])
        for answer in found:
            answer.raise_for_error()
        offsets, ends = {}, {}
        for one, first, end in zip(asked, found[::2], found[1::2], strict=True):
            begin = max(first.offset, end.offset - wanted.newest) if wanted.since_ms is None else first.offset
            offsets[one.partition] = begin if begin >= 0 else end.offset
            ends[one.partition] = end.offset
        early = set(offsets)
        reading = client.read(topic.name, list(offsets), offset=offsets, follow=wanted.follow)
        with RowStream(wanted.output, RECORD_COLUMNS) as stream, store_errors():
            async with aclosing(reading):
                async for record in reading:
                    if not wanted.follow and record.offset >= ends[record.partition]:
                        continue  # it came after the command began
                    if record.partition in early and record.timestamp_ms < (wanted.since_ms or 0):
                        continue  # the coordinator knows the times of batches, not those of the records in them
                    early.discard(record.partition)
                    stream.write(_shown(topic.name, record, is_table=stream.is_table))


def _shown(topic: str, record: StoredRecord, *, is_table: bool) -> Row:
    from coordinator.client.records.record_lines import content_fields

    if not is_table:
        return content_fields(topic, record) | {"time": time_text(record.timestamp_ms)}
    key, value = (None if one is None else one.decode(errors="replace") for one in (record.key, record.value))
    return {"part": record.partition, "offset": record.offset, "time": time_text(record.timestamp_ms), "key": key, "value": value}


@records.command()
@click.argument("topic")
@click.argument("partition", type=INDEX)
@click.option(
    "--before-offset",
    "offset",
    type=click.IntRange(-1, INT64_MAX),
    required=True,
    help="The new log start: records before it are deleted. -1: the high watermark, which deletes all records.",
)
@dry_run_option
@yes_option
@service_options
@output_option
def delete(topic: str, partition: int, offset: int, dry_run: bool, yes: bool, service: ServicePlace, output: str) -> None:
    """Delete the records of a partition before an offset.

    TOPIC is a name or an id. An offset at or below the log start changes nothing; one above the high watermark is refused
    (status 3), and so is one in the classic part of a migrated partition, whose records Kafka deletes (kafka-delete-records.sh). The
    deletion cannot be undone.

    Examples: `diskless records delete orders 0 --before-offset 1000 --dry-run --bootstrap-server localhost:9192`,
    `diskless records delete orders 0 --before-offset -1 --yes --bootstrap-server localhost:9192`
    """
    from cli.service import run

    run(_delete(topic, partition, offset, dry_run, yes, service, output))


async def _delete(topic: str, partition: int, offset: int, dry_run: bool, yes: bool, service: ServicePlace, output: str) -> None:
    from cli.outcome import Exit, Failed
    from cli.service import find_topic, open_client, partition_ids

    async with open_client(service) as client:
        found = await find_topic(client, topic)
        [target] = partition_ids(found, [partition])
        bounds = await client.list_offsets([(target, -4), (target, -1), (target, -2)])
        for bound in bounds:
            bound.raise_for_error()
        start, end, earliest = (bound.offset for bound in bounds)
        wanted = end if offset == HIGH_WATERMARK else offset
        if wanted > end:
            raise Failed(f"offset {wanted} is above the high watermark {end} of {found.name}-{partition}", Exit.NOT_FOUND)
        gone = max(0, wanted - start)
        say(f"{found.name}-{partition} holds offsets {start} to {end} (exclusive); {gone} records {'would go' if dry_run else 'will go'}")
        if earliest < start:
            say(f"offsets {earliest} to {start - 1} are before its diskless part: only Kafka can delete those of the classic topic")
        if dry_run:
            return
        if gone:
            confirm("Delete them for good?", yes=yes)
        [answer] = await client.admin.delete_records([(target, wanted)])
        answer.raise_for_error()
    print_fields({"topic": found.name, "partition": partition, "low_watermark": answer.low_watermark}, output)
