"""`diskless batches`: where the batches of a partition are, and the records in them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from cli.objects import NamedStore, named_store
from cli.options import COUNT, INDEX, OFFSET, output_option, service_options
from cli.output import RowStream, print_rows, say, time_text

if TYPE_CHECKING:
    from cli.output import Row
    from cli.service import ServicePlace
    from coordinator.object_store import ObjectStore
    from coordinator.protocol.find_batches import BatchLocation
    from records.record_batch import StoredRecord

COLUMNS = ("base_offset", "last_offset", "object_key", "byte_offset", "byte_size", "append_time", "max_timestamp", "batch_id")
RECORD_COLUMNS = (("offset", 8), ("timestamp", 13), ("key", 16), ("value", 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The arguments of `batches find`."""

    topic: str
    partition: int
    offset: int | None
    max_bytes: int
    max_batches: int


@click.group()
def batches() -> None:
    """Find the batches of a partition in the object store."""


@batches.command()
@click.argument("topic")
@click.argument("partition", type=INDEX)
@click.option("--offset", type=OFFSET, help="First offset wanted. [default: the log start]")
@click.option("--max-bytes", type=COUNT, default=1024 * 1024, show_default=True, help="Stop once batches of this size were found.")
@click.option("--max-batches", type=INDEX, default=0, show_default=True, help="At most this many; 0: no limit.")
@click.option("--fetch", is_flag=True, help="Read the batches and print their records, as JSON lines unless --output says otherwise.")
@named_store
@service_options
@output_option
@click.pass_context
def find(
    ctx: click.Context,
    topic: str,
    partition: int,
    offset: int | None,
    max_bytes: int,
    max_batches: int,
    fetch: bool,
    store: NamedStore,
    service: ServicePlace,
    output: str,
) -> None:
    """Show which objects hold the batches of a partition from an offset on.

    TOPIC is a name or an id. With --fetch the ranges are read from the object store, checked, and their records printed with the
    offsets that the coordinator assigned. The lines are those that `diskless files pack` reads, which makes the same records of them; a
    table is for people, and shows bytes that are no text with replacement characters.

    Examples: `diskless batches find orders 0 --offset 100 --bootstrap-server localhost:9192`,
    `diskless batches find orders 0 --fetch --object-store-url file:///var/lib/objects --bootstrap-server localhost:9192`
    """
    from cli.service import run

    reading = Reading(topic=topic, partition=partition, offset=offset, max_bytes=max_bytes, max_batches=max_batches)
    if not fetch:
        print_rows([_row(batch) for batch in run(_find(reading, service))[1]], output, COLUMNS, empty="no batches")
        return
    is_default = ctx.get_parameter_source("output") is ParameterSource.DEFAULT
    run(_fetch(reading, service, store.open(), "jsonl" if is_default else output))


async def _find(reading: Reading, service: ServicePlace) -> tuple[str, Sequence[BatchLocation], int]:
    """The topic's name, the batches, and the first offset that is wanted of them."""
    from cli.service import find_partition, find_topic, open_client, partition_ids
    from coordinator.client.model import FetchFrom

    async with open_client(service) as client:
        topic = await find_topic(client, reading.topic)
        [target] = partition_ids(topic, [reading.partition])
        described = find_partition(topic, reading.partition)
        offset = reading.offset
        if offset is None:
            [start] = await client.list_offsets([(target, -4)])
            start.raise_for_error()
            offset = start.offset
        batches: list[BatchLocation] = []
        log_start, end, at = described.log_start_offset, described.high_watermark, offset
        bytes_left, batches_left = reading.max_bytes, reading.max_batches  # no limit of batches is 0
        while True:
            [found] = await client.find_batches(
                [FetchFrom(target, at, bytes_left)], fetch_bytes_max=bytes_left, batches_per_partition_max=batches_left
            )
            found.raise_for_error()
            batches += found.batches
            log_start, end = max(log_start, found.log_start_offset), max(end, found.high_watermark)
            # What a coordinator has of a partition that has moved ends before the partition does.
            if not found.batches or (at := found.batches[-1].last_offset + 1) < found.high_watermark:
                break
            bytes_left -= sum(one.byte_size for one in found.batches)
            if bytes_left <= 0 or 0 < batches_left <= len(found.batches):
                break
            batches_left -= len(found.batches) if batches_left else 0
    say(f"{topic.name}-{reading.partition}: log start {log_start}, high watermark {end}")
    return topic.name, batches, max(offset, log_start)


async def _fetch(reading: Reading, service: ServicePlace, store: ObjectStore, output: str) -> None:
    from cli.objects import store_errors
    from coordinator.client.records.record_lines import record_fields
    from coordinator.client.records.wal_objects import BatchOf, read_batches
    from records.record_batch import TimestampType

    name, found, first = await _find(reading, service)
    batches = [BatchOf(name, reading.partition, location) for location in found]
    with RowStream(output, RECORD_COLUMNS) as stream, store_errors():
        async with aclosing(read_batches(store, batches)) as read:
            async for batch, records in read:
                kind = TimestampType(batch.location.timestamp_type)
                for record in records:
                    if record.offset >= first:
                        stream.write(_shown(record) if stream.is_table else record_fields(name, reading.partition, record, kind))


def _row(batch: BatchLocation) -> Row:
    from records.record_batch import TimestampType

    return {
        "base_offset": batch.base_offset,
        "last_offset": batch.last_offset,
        "object_key": batch.object_key,
        "byte_offset": batch.byte_offset,
        "byte_size": batch.byte_size,
        "append_time": time_text(batch.log_append_timestamp),
        "max_timestamp": time_text(batch.batch_max_timestamp),
        "timestamp_type": "LogAppendTime" if batch.timestamp_type == TimestampType.LOG_APPEND_TIME else "CreateTime",
        "magic": batch.magic,
        "batch_id": batch.batch_id,
    }


def _shown(record: StoredRecord) -> Row:
    """A record as texts, whatever its bytes are."""
    row: dict[str, object] = {"offset": record.offset, "timestamp": record.timestamp_ms}
    for name, value in (("key", record.key), ("value", record.value)):
        row[name] = None if value is None else value.decode(errors="replace")
    return row
