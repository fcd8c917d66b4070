"""`diskless retention`: delete what is past its topic's retention now, or look what would be deleted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from cli.options import dry_run_option, output_option, service_options
from cli.output import print_rows, say

if TYPE_CHECKING:
    from cli.output import Row
    from cli.service import ServicePlace
    from coordinator.client.calls.retention import EnforcedRetention

COLUMNS = ("topic", "partition", "coordinator", "log_start_offset", "new_log_start_offset", "batches", "size")


@click.group()
def retention() -> None:
    """Delete batches that are past their topic's retention."""


@retention.command()
@click.argument("topic", nargs=-1)
@dry_run_option
@service_options
@output_option
def enforce(topic: Sequence[str], dry_run: bool, service: ServicePlace, output: str) -> None:
    """Have the leaders delete batches that are past retention.ms or retention.bytes, and print what went of each partition.

    TOPIC is a name or an id; none means all. Leaders do so by themselves every log.retention.check.interval.ms. The deletion cannot be
    undone; the objects in the store follow later, on their own. What a partition had before it moved to another coordinator follows an
    interval later. Partitions that a timestamp in the future keeps from retention are named on standard error.

    Examples: `diskless retention enforce --dry-run --bootstrap-server localhost:9192`,
    `diskless retention enforce orders --bootstrap-server localhost:9192 -o json`
    """
    from cli.doctor.retention import held_partitions
    from cli.service import fail_for, run

    enforced, names = run(_enforce(topic, dry_run, service))
    rows = [row for one in enforced for row in _rows(one, names)]
    print_rows(sorted(rows, key=lambda row: (row["topic"], row["partition"])), output, COLUMNS, empty="nothing is past its retention")
    if rows and dry_run:
        say("nothing was deleted: this was a dry run")
    for one in held_partitions(enforced, names):
        say(f"{one.finding}; {one.remedy}")
    fail_for("retention was not enforced everywhere", [one.refusal for one in enforced])


async def _enforce(wanted: Sequence[str], dry_run: bool, service: ServicePlace) -> tuple[list[EnforcedRetention], Mapping[bytes, str]]:
    from cli.service import find_topic, open_client

    async with open_client(service) as client:
        topics = [await find_topic(client, text) for text in wanted]
        topic_ids = [one.topic_id for one in topics]
        coordinator_ids = sorted({each.coordinator_id for one in topics for each in one.partitions})
        enforced = await client.admin.enforce_retention(coordinator_ids, topic_ids=topic_ids, is_dry_run=dry_run)
        return enforced, {one.topic_id: one.name for one in await client.admin.list_topics()}


def _rows(enforced: EnforcedRetention, names: Mapping[bytes, str]) -> list[Row]:
    from coordinator.kafka.names import topic_id_text

    return [
        {
            "topic": names.get(one.partition.topic_id, topic_id_text(one.partition.topic_id)),
            "partition": one.partition.partition,
            "coordinator": enforced.coordinator_id,
            "log_start_offset": one.log_start_offset,
            "new_log_start_offset": one.new_log_start_offset,
            "batches": one.batches,
            "size": one.size_bytes,
        }
        for one in enforced.expired
    ]
