"""`diskless migration state`, `init`, `reset` and `repair`: single steps of the migration of classic partitions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, NoReturn

import click

from cli.options import INDEX, OFFSET, confirm, dry_run_option, output_option, service_options, yes_option
from cli.output import print_fields, print_rows, say

if TYPE_CHECKING:
    from cli.output import Row
    from cli.service import ServicePlace
    from coordinator.client.calls.migrations import DisklessLogState
    from coordinator.client.client import DisklessClient
    from coordinator.client.model import PartitionId

    Step = Callable[[DisklessClient, PartitionId, DisklessLogState, str], Awaitable[bool]]
    """Takes the client, the partition, its state and its name; returns whether the step was taken: a dry run takes none."""

STATE_COLUMNS = ("topic", "partition", "state", "start_offset", "prefix_start", "suffix_start", "high_watermark", "leader_epoch")
STATES = ("pending", "initialised", "born")


@click.command()
@click.argument("topic", nargs=-1)
@click.option("--state", "wanted", type=click.Choice(STATES), multiple=True, help="Only partitions of this state. Repeatable.")
@service_options
@output_option
def state(topic: Sequence[str], wanted: Sequence[str], service: ServicePlace, output: str) -> None:
    """Show the state of each partition's migration, as its leader knows it.

    TOPIC is a name or an id; none means all. `pending`: a classic partition that takes nothing yet. `initialised`: its records before
    start_offset are in Kafka, from prefix_start on, later ones are diskless. `born`: it was never classic. -1 means not set.

    Examples: `diskless migration state --state pending --bootstrap-server localhost:9192`,
    `diskless migration state orders --bootstrap-server localhost:9192 -o json`
    """
    from cli.service import fail_for, run

    found = run(_states(topic, service))
    rows = [row for row, one in found if one.refusal.code == 0 and (not wanted or one.state in wanted)]
    print_rows(rows, output, STATE_COLUMNS, empty="there are no such partitions")
    fail_for("some partitions could not be asked", [one.refusal for _, one in found])


async def _states(wanted: Sequence[str], service: ServicePlace) -> list[tuple[Row, DisklessLogState]]:
    from cli.service import find_topic, open_client
    from coordinator.client.model import PartitionId

    async with open_client(service) as client:
        if wanted:
            topics = [await find_topic(client, text) for text in wanted]
        else:
            topics = await client.describe_topics()
        named = [(one.name, PartitionId(one.topic_id, each.partition)) for one in topics for each in one.partitions]
        states = await client.admin.describe_diskless_logs([partition for _, partition in named])
    return [(_row(name, partition.partition, one), one) for (name, partition), one in zip(named, states, strict=True)]


def _row(topic: str, partition: int, state: DisklessLogState) -> Row:
    return {"topic": topic, "partition": partition, **{name: getattr(state, name) for name in STATE_COLUMNS[2:]}}


def _take(step: Step, topic: str, partition: int, service: ServicePlace, output: str) -> None:
    """Take a step with one partition, and print where it stands afterwards. Raises `Failed`."""
    from cli.service import ask, find_topic, partition_ids, run

    async def take(client: DisklessClient) -> Row | None:
        found = await find_topic(client, topic)
        [target] = partition_ids(found, [partition])
        if not await step(client, target, await client.admin.describe_diskless_log(*target), f"{found.name}-{partition}"):
            return None
        return _row(found.name, partition, await client.admin.describe_diskless_log(*target))

    row = run(ask(service, take))
    if row is not None:
        print_fields(row, output)


def _refuse(message: str) -> NoReturn:
    from cli.outcome import Failed

    raise Failed(message)


epoch_option = click.option(
    "--leader-epoch",
    "leader_epoch",
    type=INDEX,
    help="Leader epoch of the classic partition; without it, the least that the coordinator takes.",
)


@click.command()
@click.argument("topic")
@click.argument("partition", type=INDEX)
@click.option("--start-offset", type=OFFSET, required=True, help="Where the diskless log begins: the end of the classic log.")
@click.option("--prefix-start", type=OFFSET, required=True, help="Where the classic log begins.")
@epoch_option
@dry_run_option
@yes_option
@service_options
@output_option
def init(
    topic: str,
    partition: int,
    start_offset: int,
    prefix_start: int,
    leader_epoch: int | None,
    dry_run: bool,
    yes: bool,
    service: ServicePlace,
    output: str,
) -> None:
    """Begin the diskless log of a classic partition, without its idempotent producers: `diskless migration start` finds those.

    TOPIC is a name or an id. No producer may write to the classic partition any more, and its log must end at --start-offset. Repeating it
    changes nothing; another start offset is refused. A producer's retry of a batch that the classic log has is written twice.

    Examples: `diskless migration init orders 0 --start-offset 1000 --prefix-start 0 --dry-run --bootstrap-server localhost:9192`,
    `diskless migration init orders 0 --start-offset 1000 --prefix-start 0 --leader-epoch 7 --yes --bootstrap-server localhost:9192`
    """

    async def begin(client: DisklessClient, target: PartitionId, before: DisklessLogState, name: str) -> bool:
        if before.state == "initialised" and before.start_offset == start_offset:
            say(f"{name} begins at offset {start_offset} already")
        elif before.state != "pending":
            _refuse(f"{name} is {before.state} and begins at offset {before.start_offset}; only a pending partition can be initialised")
        if prefix_start > start_offset:
            _refuse(f"the classic log of {name} cannot begin at {prefix_start}, after its end {start_offset}")
        epoch = max(0, before.leader_epoch) if leader_epoch is None else leader_epoch
        say(f"{name} {'would begin' if dry_run else 'begins'} at offset {start_offset}, in leader epoch {epoch}; no producer is remembered")
        if dry_run:
            return False
        confirm("Is the classic partition written to by nobody, and does its log end there?", yes=yes)
        await client.admin.init_diskless_log(
            *target, start_offset=start_offset, prefix_start=prefix_start, leader_epoch=epoch, producers=()
        )
        return True

    _take(begin, topic, partition, service, output)


@click.command()
@click.argument("topic")
@click.argument("partition", type=INDEX)
@epoch_option
@dry_run_option
@yes_option
@service_options
@output_option
def reset(topic: str, partition: int, leader_epoch: int | None, dry_run: bool, yes: bool, service: ServicePlace, output: str) -> None:
    """Make a partition pending again whose diskless log is still empty, so that it can begin at another offset.

    TOPIC is a name or an id. Refused once anything was committed to the diskless log, deleted since or not. End every `start` of the
    topic first: what a leader of a lower epoch than --leader-epoch asks for afterwards is refused, one of that epoch may set it again.

    Examples: `diskless migration reset orders 0 --dry-run --bootstrap-server localhost:9192`,
    `diskless migration reset orders 0 --leader-epoch 8 --yes --bootstrap-server localhost:9192`
    """

    async def unset(client: DisklessClient, target: PartitionId, before: DisklessLogState, name: str) -> bool:
        if before.state == "born":
            _refuse(f"{name} was born diskless: there is nothing to reset")
        if before.high_watermark > before.start_offset:
            _refuse(f"records were committed to {name} from offset {before.start_offset} on; `diskless migration repair` keeps them")
        epoch = before.leader_epoch + 1 if leader_epoch is None else leader_epoch
        say(f"{name} {'would be' if dry_run else 'will be'} pending again, in leader epoch {epoch}")
        if dry_run:
            return False
        confirm("Unset its start offset?", yes=yes)
        await client.admin.reset_diskless_log(*target, leader_epoch=epoch)
        return True

    _take(unset, topic, partition, service, output)


@click.command()
@click.argument("topic")
@click.argument("partition", type=INDEX)
@click.option("--start-offset", type=OFFSET, required=True, help="The lower start offset: the end of what the classic log still has.")
@epoch_option
@dry_run_option
@yes_option
@service_options
@output_option
def repair(
    topic: str, partition: int, start_offset: int, leader_epoch: int | None, dry_run: bool, yes: bool, service: ServicePlace, output: str
) -> None:
    """Lower the start offset of a partition whose classic log lost its end, to what it still has.

    TOPIC is a name or an id. Records that were committed stay at their offsets: between the classic and the diskless part nothing is
    found then. An empty diskless log begins at the lower offset.

    Examples: `diskless migration repair orders 0 --start-offset 990 --dry-run --bootstrap-server localhost:9192`,
    `diskless migration repair orders 0 --start-offset 990 --yes --bootstrap-server localhost:9192`
    """

    async def lower(client: DisklessClient, target: PartitionId, before: DisklessLogState, name: str) -> bool:
        epoch = max(0, before.leader_epoch) if leader_epoch is None else leader_epoch
        planned = await client.admin.repair_diskless_log(*target, start_offset=start_offset, leader_epoch=epoch, dry_run=True)
        will = "would begin" if dry_run else "will begin"
        say(
            f"{name} {will} at offset {planned.start_offset} instead of {planned.previous_start_offset};"
            f" {planned.lost_offsets} offsets before {planned.suffix_start}, where the diskless records begin, have no record"
        )
        if dry_run:
            return False
        confirm("Lower its start offset for good?", yes=yes)
        await client.admin.repair_diskless_log(*target, start_offset=start_offset, leader_epoch=epoch, dry_run=False)
        return True

    _take(lower, topic, partition, service, output)
