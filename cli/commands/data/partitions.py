"""`diskless partitions`: move partitions of topics between coordinators."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from cli.options import INDEX, dry_run_option, output_option, service_options
from cli.output import print_rows, say

if TYPE_CHECKING:
    from cli.looks.balance import PlacedPartition, PlannedMove
    from cli.outcome import Failed
    from cli.output import Row
    from cli.service import ServicePlace
    from coordinator.client.calls.moves import MoveUnderWay
    from coordinator.client.client import DisklessClient
    from coordinator.client.model import TopicDescription

COLUMNS = ("topic", "partition", "from", "to", "state")
MOVING_COLUMNS = (*COLUMNS, "seconds", "waits_for")
LOOK_S = 0.1
DIGITS_MAX = 10


@click.group()
def partitions() -> None:
    """Move partitions of topics between coordinators."""


@partitions.command()
@click.argument("partition", nargs=-1, metavar="[TOPIC:PARTITION]...")
@click.option("--to", "to_coordinator", type=INDEX, help="The coordinator (metadata partition) in which they go on.")
@click.option("--balance", "is_balancing", is_flag=True, help="Move as many as it takes for coordinators to have equally many.")
@dry_run_option
@service_options
@output_option
def move(
    partition: Sequence[str], to_coordinator: int | None, is_balancing: bool, dry_run: bool, service: ServicePlace, output: str
) -> None:
    """Move partitions to other coordinators, one after the other.

    A partition goes on in the other coordinator with its offsets, its producers and its records; writers wait for some milliseconds, and
    readers notice nothing. Batches that were committed before stay with the coordinator that had them, until they are deleted. With
    --balance partitions go from the coordinators that have most to those that have fewest, for instance to new ones. An order is carried
    out even if this command is interrupted, or ends with status 6 because a move took longer than --timeout; repeating it is safe.

    Example: `diskless partitions move orders:3 --to 5 --bootstrap-server localhost:9192`
    """
    from cli.service import run

    if is_balancing == bool(partition) or (to_coordinator is None) != is_balancing:
        raise click.UsageError("name partitions as TOPIC:PARTITION with --to, or give --balance alone")
    rows, failure = run(_move(partition, to_coordinator, service, is_dry_run=dry_run))
    print_rows(rows, output, COLUMNS, empty="no partition has to move")
    if failure is not None:
        raise failure


@partitions.command()
@service_options
@output_option
def moves(service: ServicePlace, output: str) -> None:
    """List the moves that are under way, for how many seconds each is, and why the last attempt at its next step failed.

    Example: `diskless partitions moves --bootstrap-server localhost:9192`
    """
    from cli.service import open_client, run

    async def ask() -> list[Row]:
        async with open_client(service) as client:
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
    named: Sequence[str], to_coordinator: int | None, service: ServicePlace, *, is_dry_run: bool
) -> tuple[list[Row], Failed | None]:
    """The moves with what became of each, and why the first that failed did, after which none is ordered.

    A balance goes on when a topic is deleted meanwhile: nobody has asked for that move in particular.
    """
    from cli.outcome import Exit, Failed
    from cli.service import open_client
    from coordinator.client.calls.moves import PartitionMove
    from coordinator.client.model import PartitionId
    from coordinator.kafka.errors import ErrorCode

    async with open_client(service) as client:
        if to_coordinator is None:
            ids, planned = await _balanced(client)
        else:
            ids, planned = await _named(client, named, to_coordinator)
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
            end_s = asyncio.get_running_loop().time() + service.timeout_s
            ordered = await client.admin.move_partitions([PartitionMove(partition, to)], only_check=is_dry_run)
            [refusal] = ordered.refusals
            while not is_dry_run:
                under_way = next((one for one in ordered.under_way if one.partition == partition), None)
                if refusal.code is not ErrorCode.NONE or under_way is None:
                    break
                if asyncio.get_running_loop().time() > end_s:
                    row["state"] = "moving"
                    return rows, Failed(_still_moving(placed, under_way, service.timeout_s), Exit.TIMEOUT)
                await asyncio.sleep(LOOK_S)
                # A topic that is deleted meanwhile ends its moves.
                ordered = await client.admin.move_partitions([PartitionMove(partition, to)], only_check=True)
                [refusal] = ordered.refusals
            if to_coordinator is None and refusal.code is ErrorCode.UNKNOWN_TOPIC_ID:
                row["state"] = "deleted"
                say(f"{placed.topic}:{placed.partition} does not move: its topic was deleted")
                continue
            if refusal.code is not ErrorCode.NONE:
                row["state"] = "refused"
                return rows, Failed(refusal.message or refusal.code.name, Exit.FAILURE)
            if not is_dry_run:
                row["state"] = "moved"
                say(f"{placed.topic}:{placed.partition} is in coordinator {to}")
        return rows, None


def _still_moving(placed: PlacedPartition, move: MoveUnderWay, timeout_s: float) -> str:
    waits = f", and waits: {move.waits_for}" if move.waits_for else ""
    return (
        f"{placed.topic}:{placed.partition} is on its way to coordinator {move.to_coordinator} for longer than {timeout_s:g} s{waits};"
        " it gets there without this command, and `diskless partitions moves` shows when"
    )


def _placed(topics: Iterable[TopicDescription]) -> list[PlacedPartition]:
    from cli.looks.balance import PlacedPartition

    return [
        PlacedPartition(topic.name, one.partition, one.coordinator_id, max(0, one.high_watermark - max(0, one.log_start_offset)))
        for topic in topics
        for one in topic.partitions
    ]


async def _named(client: DisklessClient, named: Sequence[str], to_coordinator: int) -> tuple[dict[str, bytes], list[PlannedMove]]:
    """The ids of topics by their names, and the moves of partitions as an operator names them. Raises `Failed`."""
    from cli.looks.balance import PlannedMove
    from cli.outcome import Exit, Failed
    from cli.service import find_partition, find_topic

    topics: dict[str, TopicDescription] = {}
    moves: list[PlannedMove] = []
    for text in named:
        topic, _, number = text.rpartition(":")
        if not topic or not (number.isascii() and number.isdecimal() and len(number) <= DIGITS_MAX):
            raise Failed(f"{text!r} names no partition; write TOPIC:PARTITION, as in orders:3", Exit.USAGE)
        if topic not in topics:
            topics[topic] = await find_topic(client, topic)
        only = replace(topics[topic], partitions=(find_partition(topics[topic], int(number)),))
        moves += [PlannedMove(one, to_coordinator) for one in _placed([only])]
    return {one.name: one.topic_id for one in topics.values()}, moves


async def _balanced(client: DisklessClient) -> tuple[dict[str, bytes], list[PlannedMove]]:
    """The ids of topics by their names, and the moves of a balance that may be ordered.

    In the place of moves that are refused, as of a partition that was there, are others.
    """
    from cli.looks.balance import balance
    from coordinator.client.calls.moves import PartitionMove
    from coordinator.client.model import PartitionId
    from coordinator.kafka.errors import ErrorCode

    topics = await client.describe_topics()
    ids = {one.name: one.topic_id for one in topics}
    placed = _placed(topics)
    coordinators = [one.coordinator_id for one in (await client.admin.describe_coordinators()).coordinators]
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
            return ids, planned
        barred |= refused
