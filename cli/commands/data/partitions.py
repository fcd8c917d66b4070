"""`diskless partitions`: move partitions of topics between coordinators."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from cli.options import INDEX, dry_run_option, output_option, server_option, timeout_option
from cli.output import print_rows, say

if TYPE_CHECKING:
    from cli.looks.balance import PlacedPartition, PlannedMove
    from cli.output import Row
    from coordinator.client.calls.moves import MoveUnderWay
    from coordinator.client.client import DisklessClient
    from coordinator.client.model import TopicDescription

COLUMNS = ("topic", "partition", "from", "to", "state")
MOVING_COLUMNS = (*COLUMNS, "seconds", "waits_for")
LOOK_S = 0.1


@click.group()
def partitions() -> None:
    """Move partitions of topics between coordinators."""


@partitions.command()
@click.argument("partition", nargs=-1, metavar="[TOPIC:PARTITION]...")
@click.option("--to", "to_coordinator", type=INDEX, help="The coordinator (metadata partition) in which they go on.")
@click.option("--balance", "is_balancing", is_flag=True, help="Move as many as it takes for coordinators to have equally many.")
@dry_run_option
@server_option
@timeout_option
@output_option
def move(
    partition: Sequence[str],
    to_coordinator: int | None,
    is_balancing: bool,
    dry_run: bool,
    bootstrap_server: str,
    timeout_s: float,
    output: str,
) -> None:
    """Move partitions to other coordinators, one after the other.

    A partition goes on in the other coordinator with its offsets, its producers and its records; writers wait for some milliseconds, and
    readers notice nothing. Batches that were committed before stay with the coordinator that had them, until they are deleted. With
    --balance partitions go from the coordinators that have most to those that have fewest, for instance to new ones. An order is carried
    out even if this command is interrupted; repeating it is safe.

    Example: `diskless partitions move orders:3 --to 5 --bootstrap-server localhost:9192`
    """
    from cli.outcome import Exit, Failed
    from cli.service import run

    if is_balancing == bool(partition) or (to_coordinator is None) != is_balancing:
        raise click.UsageError("name partitions as TOPIC:PARTITION with --to, or give --balance alone")
    rows, failure = run(_move(partition, to_coordinator, bootstrap_server, timeout_s, is_dry_run=dry_run))
    print_rows(rows, output, COLUMNS, empty="no partition has to move")
    if failure is not None:
        raise Failed(failure, Exit.FAILURE)


@partitions.command()
@server_option
@timeout_option
@output_option
def moves(bootstrap_server: str, timeout_s: float, output: str) -> None:
    """List the moves that are under way, for how many seconds each is, and why the last attempt at its next step failed.

    Example: `diskless partitions moves --bootstrap-server localhost:9192`
    """
    from cli.service import open_client, run

    async def ask() -> list[Row]:
        async with open_client(bootstrap_server, timeout_s) as client:
            names = {one.topic_id: one.name for one in await client.describe_topics()}
            return [_row(names, one) for one in (await client.admin.move_partitions([])).under_way]

    print_rows(run(ask()), output, MOVING_COLUMNS, empty="no partition is moving")


def _row(names: dict[bytes, str], one: MoveUnderWay) -> Row:
    return {
        "topic": names.get(one.partition.topic_id, one.partition.topic_id.hex()),
        "partition": one.partition.partition,
        "from": one.from_coordinator,
        "to": one.to_coordinator,
        "state": "moving",
        "seconds": round(one.age_ms / 1000, 1),
        "waits_for": one.waits_for,
    }


async def _move(
    named: Sequence[str], to_coordinator: int | None, bootstrap_server: str, timeout_s: float, *, is_dry_run: bool
) -> tuple[list[Row], str | None]:
    """The moves with what became of each, and why the first that failed did, after which none is ordered."""
    from cli.service import open_client
    from coordinator.client.calls.moves import PartitionMove
    from coordinator.client.model import PartitionId
    from coordinator.kafka.errors import ErrorCode

    async with open_client(bootstrap_server, timeout_s) as client:
        topics = await client.describe_topics()
        ids = {one.name: one.topic_id for one in topics}
        planned = await _planned(client, topics, named, to_coordinator)
        rows: list[Row] = []
        for placed, to in planned:
            row: dict[str, object] = {
                "topic": placed.topic,
                "partition": placed.partition,
                "from": placed.coordinator,
                "to": to,
                "state": "planned",
            }
            rows.append(row)
            partition = PartitionId(ids[placed.topic], placed.partition)
            ordered = await client.admin.move_partitions([PartitionMove(partition, to)], only_check=is_dry_run)
            [refusal] = ordered.refusals
            if refusal.code is not ErrorCode.NONE:
                row["state"] = "refused"
                return rows, refusal.message
            if is_dry_run:
                continue
            while any(one.partition == partition for one in ordered.under_way):
                await asyncio.sleep(LOOK_S)
                ordered = await client.admin.move_partitions([])
            row["state"] = "moved"
            say(f"{placed.topic}:{placed.partition} is in coordinator {to}")
        return rows, None


async def _planned(
    client: DisklessClient, topics: Sequence[TopicDescription], named: Sequence[str], to_coordinator: int | None
) -> list[PlannedMove]:
    from cli.looks.balance import PlacedPartition, PlannedMove
    from cli.outcome import Exit, Failed

    placed = {
        (topic.name, one.partition): PlacedPartition(
            topic.name, one.partition, one.coordinator_id, max(0, one.high_watermark - max(0, one.log_start_offset))
        )
        for topic in topics
        for one in topic.partitions
    }
    if to_coordinator is None:
        coordinators = [one.coordinator_id for one in (await client.admin.describe_coordinators()).coordinators]
        return await _balanced(client, {one.name: one.topic_id for one in topics}, list(placed.values()), coordinators)
    planned = []
    for text in named:
        topic, _, number = text.rpartition(":")
        found = placed.get((topic, int(number))) if number.isdecimal() and len(number) < 10 else None
        if found is None:
            raise Failed(
                f"there is no partition {text!r}; name one as TOPIC:PARTITION (`diskless topics describe` shows them)", Exit.NOT_FOUND
            )
        planned.append(PlannedMove(found, to_coordinator))
    return planned


async def _balanced(
    client: DisklessClient, ids: Mapping[str, bytes], placed: Sequence[PlacedPartition], coordinators: Sequence[int]
) -> list[PlannedMove]:
    """The moves of a balance that may be ordered: in the place of those that are refused, as of a partition that was there, others."""
    from cli.looks.balance import balance
    from coordinator.client.calls.moves import PartitionMove
    from coordinator.client.model import PartitionId
    from coordinator.kafka.errors import ErrorCode

    barred: set[tuple[str, int, int]] = set()
    while True:
        planned = balance(placed, coordinators, barred)
        wanted = [PartitionMove(PartitionId(ids[one.topic], one.partition), to) for one, to in planned]
        checked = await client.admin.move_partitions(wanted, only_check=True)
        refused = {
            (one.topic, one.partition, to)
            for (one, to), refusal in zip(planned, checked.refusals, strict=True)
            if refusal.code is not ErrorCode.NONE
        }
        if not refused:
            return planned
        barred |= refused
