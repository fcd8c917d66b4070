"""`diskless records`: delete records from the beginning of partitions."""

from __future__ import annotations

import click

from cli.options import INDEX, INT64_MAX, confirm, dry_run_option, output_option, server_option, timeout_option, yes_option
from cli.output import print_fields, say

HIGH_WATERMARK = -1


@click.group()
def records() -> None:
    """Delete records from the beginning of partitions."""


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
@server_option
@timeout_option
@output_option
def delete(topic: str, partition: int, offset: int, dry_run: bool, yes: bool, bootstrap_server: str, timeout_s: float, output: str) -> None:
    """Delete the records of a partition before an offset.

    TOPIC is a name or an id. An offset at or below the log start changes nothing; one above the high watermark is refused
    (status 3), and so is one in the classic part of a migrated partition, whose records Kafka deletes (kafka-delete-records.sh). The
    deletion cannot be undone.

    Examples: `diskless records delete orders 0 --before-offset 1000 --dry-run --bootstrap-server localhost:9192`,
    `diskless records delete orders 0 --before-offset -1 --yes --bootstrap-server localhost:9192`
    """
    from cli.service import run

    run(_delete(topic, partition, offset, dry_run, yes, bootstrap_server, timeout_s, output))


async def _delete(
    topic: str, partition: int, offset: int, dry_run: bool, yes: bool, bootstrap_server: str, timeout_s: float, output: str
) -> None:
    from cli.outcome import Exit, Failed
    from cli.service import find_topic, open_client, partition_ids

    async with open_client(bootstrap_server, timeout_s) as client:
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
