"""`diskless migration start` and `abort`: whole topics of a real Kafka become diskless, or stay classic."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from cli.migration.classic_topic import open_both, places
from cli.migration.plan import EVERYBODY, PLAN_COLUMNS, WITHOUT_ACLS
from cli.options import (
    FiniteRange,
    confirm,
    dry_run_option,
    output_option,
    timeout_option,
    yes_option,
)
from cli.output import print_rows, say

if TYPE_CHECKING:
    from cli.kafka.cluster import KafkaPlace
    from cli.output import Row
    from cli.service import ServicePlace
    from coordinator.client.calls.migrations import DisklessLogState
    from coordinator.client.client import DisklessClient
    from coordinator.client.model import TopicDescription
    from migration.driver import MigratedPartition, MigrationDriver
    from migration.kafka.topic import ClassicTopicFacts, KafkaClassicTopic
    from migration.plan import MigrationPlan

REPORT_COLUMNS = ("partition", "result", "start_offset", "prefix_start", "leader_epoch", "producers", "batches", "problem")
ABORT_COLUMNS = ("partition", "state", "start_offset", "result")
PARTITIONS_AT_ONCE: Final = 24
EPOCHS_AHEAD: Final = 1 << 20
"""An abort records epochs that no leader of Kafka reaches: what was planned before is fenced, and Kafka is not asked for its own."""
WRITTEN_PAST: Final = "written past its start"
NOT_MIGRATED: Final = "not migrated"


stopped_option = click.option(
    "--writers-stopped", is_flag=True, help="All writers of the topic are stopped, and stay so. Without it an ACL of Kafka stops them."
)


@click.command()
@click.argument("topic")
@stopped_option
@click.option(
    "--readers",
    type=click.Choice(WITHOUT_ACLS),
    help="Who reads the topic when it has no ACL: everybody (allow.everyone.if.no.acl.found=true on the brokers), whom ACLs then allow all "
    "but to write; or super users alone.",
)
@click.option(
    "--still",
    "still_s",
    type=FiniteRange(0.1, 3600),
    default=3.0,
    show_default=True,
    metavar="SECONDS",
    help="How long a log must not move before its end counts.",
)
@click.option(
    "--drain-timeout",
    "drain_timeout_s",
    type=FiniteRange(0.1, 86_400),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="How long a log may take to come to rest once its writers are stopped.",
)
@dry_run_option
@yes_option
@places
@timeout_option
@output_option
def start(
    topic: str,
    writers_stopped: bool,
    readers: str | None,
    still_s: float,
    drain_timeout_s: float,
    dry_run: bool,
    yes: bool,
    service: ServicePlace,
    kafka: KafkaPlace,
    output: str,
) -> None:
    """Make all partitions of a classic topic diskless from the ends of their logs on.

    Everything that can be in the way is looked for before anything is changed; then the plan is printed. An ACL denies everybody to
    write to the classic topic, except Kafka's super users; with --writers-stopped you have stopped its writers yourself. The diskless topic
    gets the settings that are in force in Kafka. Once every partition is diskless the classic topic takes no records any more
    (max.message.bytes=0), the ACL goes, and whoever may write does so through a gateway. Status 0 once that is done, and classic logs
    still end where diskless ones begin. It may be killed and run again at any time: it goes on where it was.

    Examples: `diskless migration start orders --dry-run --bootstrap-server localhost:9192 --kafka-bootstrap-server kafka:9092`,
    `diskless migration start orders --writers-stopped --bootstrap-server localhost:9192 --kafka-bootstrap-server kafka:9092`
    """
    from cli.service import run

    run(_start(topic, kafka, service, still_s, drain_timeout_s, writers_stopped, readers, dry_run, yes, output))


async def _start(
    name: str,
    place: KafkaPlace,
    service: ServicePlace,
    still_s: float,
    drain_timeout_s: float,
    is_confirmed: bool,
    readers: str | None,
    dry_run: bool,
    yes: bool,
    output: str,
) -> None:
    from cli.migration.plan import plan_rows, readers_text, summary
    from migration.driver import MigrationDriver
    from migration.plan import check_writers, make_plan, settings_of

    keep = readers == EVERYBODY
    async with open_both(name, place, service, is_confirmed=is_confirmed, keep_readers=keep) as (client, topic):
        plan = await make_plan(client, topic, place.topic)
        plan.check()
        await check_writers(topic, plan, still_s, is_confirmed=is_confirmed)
        told = None if is_confirmed else readers_text(name, await topic.fence.acls(), readers)
        for line in summary(plan, readers=told, still_s=still_s):
            say(line)
        if dry_run:
            print_rows(plan_rows(plan), output, PLAN_COLUMNS)
            say("dry run: nothing was changed")
            return
        confirm("Migrate for good?", yes=yes)
        if not plan.is_created:
            await client.admin.create_topic(
                name,
                len(plan.classic),
                topic_id=plan.topic.topic_id,
                settings=None if plan.known else settings_of(plan),
                classic_pending=True,
            )
        driver = MigrationDriver(client.admin, still_s=still_s, drain_timeout_s=drain_timeout_s)
        rows = await _migrate_all(driver, topic, plan)
        if all(row["result"] != NOT_MIGRATED for row in rows):
            await _finish(client, topic, plan, rows, drain_timeout_s)
    print_rows(rows, output, REPORT_COLUMNS)
    _end(name, rows)


async def _migrate_all(driver: MigrationDriver, topic: KafkaClassicTopic, plan: MigrationPlan) -> list[Row]:
    """Migrate the partitions side by side, and tell of each as it ends; one that cannot be migrated does not hold up the others."""
    from confluent_kafka import KafkaException

    from coordinator.client.errors import ServiceError
    from coordinator.printable import plain
    from migration.classic import MigrationRefused, WrittenPastBoundary

    slots = asyncio.Semaphore(PARTITIONS_AT_ONCE)

    async def migrate(index: int) -> Row:
        partition = topic.partition(plan.topic.topic_id, index)
        planned_epoch = plan.known[index].leader_epoch if index < len(plan.known) else -1
        try:
            async with slots:
                migrated = await driver.migrate(partition, planned_epoch=planned_epoch)
        except (MigrationRefused, ServiceError, KafkaException) as error:
            say(str(error))
            result = WRITTEN_PAST if isinstance(error, WrittenPastBoundary) else NOT_MIGRATED
            return {"partition": index, "result": result, "problem": plain(str(error))}
        say(f"{partition.name}: diskless from offset {migrated.start_offset} on")
        return _report_row(migrated)

    return list(await asyncio.gather(*(migrate(index) for index in range(len(plan.classic)))))


async def _finish(client: DisklessClient, topic: KafkaClassicTopic, plan: MigrationPlan, rows: list[Row], drain_timeout_s: float) -> None:
    """Make the classic topic the shadow of the diskless one, and let its writers write; what stands past a start is told in the rows."""
    from coordinator.client.model import PartitionId
    from coordinator.printable import plain
    from migration.classic import WrittenPastBoundary
    from migration.finishing import finish

    partitions = [PartitionId(plan.topic.topic_id, index) for index in range(len(rows))]
    starts = [one.start_offset for one in await client.admin.describe_diskless_logs(partitions)]
    errors = await finish(topic, plan.topic.topic_id, starts, drain_timeout_s=drain_timeout_s)
    for index, (row, error) in enumerate(zip(list(rows), errors, strict=True)):
        if error is not None:
            result = WRITTEN_PAST if isinstance(error, WrittenPastBoundary) else NOT_MIGRATED
            rows[index] = {**row, "result": result, "problem": plain(str(error))}


def _report_row(migrated: MigratedPartition) -> Row:
    unread = migrated.producers_unread
    note = f"older batches of producers {', '.join(map(str, unread))} were not looked for: too far back" if unread else None
    return {
        "partition": migrated.partition,
        "result": "diskless before" if migrated.was_initialised else "diskless",
        "start_offset": migrated.start_offset,
        "prefix_start": migrated.prefix_start,
        "leader_epoch": migrated.leader_epoch,
        "producers": migrated.producers,
        "batches": migrated.batches,
        "problem": note,
    }


def _end(name: str, rows: Sequence[Row]) -> None:
    """Say how the migration of a topic ended. Raises `Failed` when it is not whole."""
    from cli.migration.plan import count_text
    from cli.outcome import Failed

    past = [row for row in rows if row["result"] == WRITTEN_PAST]
    missing = [row for row in rows if row["result"] == NOT_MIGRATED]
    if past:
        raise Failed(
            f"topic {name}: {count_text(len(past), 'partition')} written to past the start of the diskless log: {past[0]['problem']}"
        )
    if missing:
        raise Failed(
            f"topic {name}: {count_text(len(missing), 'partition')} of {len(rows)} are not migrated, and take no writes: "
            f"{missing[0]['problem']}; then start again, or let the writers write again with `diskless migration abort`"
        )
    say(
        f"topic {name} is diskless, and its classic topic takes no records any more; its writers and readers go on through gateways. "
        "Prove it with `diskless migration verify`"
    )


@click.command()
@click.argument("topic")
@stopped_option
@dry_run_option
@yes_option
@places
@timeout_option
@output_option
def abort(topic: str, writers_stopped: bool, dry_run: bool, yes: bool, service: ServicePlace, kafka: KafkaPlace, output: str) -> None:
    """Take a migration back whose diskless logs are still empty, and let the writers write to the classic topic again.

    End every `start` of the topic first, and whatever else migrates it; one that goes on is refused. Partitions that have their start
    lose it. Then the ACLs of `start` are taken away, which needs ALTER on the cluster and no right to the topic; with --writers-stopped
    there were none. A topic that takes no records any more gets its max.message.bytes back, which needs ALTER_CONFIGS on it. Nothing is
    changed when a partition has diskless records. The topic stays known to the service as one to be migrated: `start` may begin again.

    Example: `diskless migration abort orders --bootstrap-server localhost:9192 --kafka-bootstrap-server kafka:9092`
    """
    from cli.service import run

    run(_abort(topic, kafka, service, writers_stopped, dry_run, yes, output))


async def _abort(name: str, place: KafkaPlace, service: ServicePlace, is_confirmed: bool, dry_run: bool, yes: bool, output: str) -> None:
    from cli.outcome import Exit, Failed
    from migration.plan import known_logs, known_topic

    async with open_both(name, place, service, is_confirmed=is_confirmed) as (client, topic):
        known = await known_topic(client, name, None)
        if known is None:
            raise Failed(f"no migration of topic {name} was begun: the service does not know it", Exit.NOT_FOUND)
        logs = await known_logs(client, known)
        _check_empty(name, logs)
        to_reset = [index for index, log in enumerate(logs) if log.state == "initialised"]
        say(f"topic {name}: writers may write again, and {len(to_reset)} of {len(logs)} partitions lose the start of their diskless log")
        if not dry_run:
            confirm("Has every `start` of this topic ended, and is the migration to be aborted?", yes=yes)
            logs = await known_logs(client, known)
            _check_empty(name, logs)
            await take_back(client, topic, known, logs)
    rows = [
        {
            "partition": index,
            "state": log.state,
            "start_offset": log.start_offset if index in to_reset else None,
            "result": ("would be " if dry_run else "") + ("reset" if index in to_reset else "left pending"),
        }
        for index, log in enumerate(logs)
    ]
    print_rows(rows, output, ABORT_COLUMNS)
    if dry_run:
        say("dry run: nothing was changed")
    else:
        say(f"topic {name} is classic; `diskless migration start` may begin again")


async def take_back(client: DisklessClient, topic: KafkaClassicTopic, known: TopicDescription, logs: Sequence[DisklessLogState]) -> None:
    """Make all partitions of a topic pending, which were empty when their `logs` were read, and let its writers write to the classic topic.

    Pending ones are reset too: a step that a driver has under way for one of them has a lower epoch, and is fenced then. Writers come last,
    so a record of theirs is never in both logs. Raises `Failed`, `MigrationRefused`, `KafkaException`.
    """
    from cli.outcome import Failed
    from coordinator.client.errors import ServiceError
    from coordinator.kafka.topic_configs import MAX_MESSAGE_BYTES, MESSAGE_BYTES_MAX
    from migration.plan import known_logs

    bytes_max = known.settings.get(MAX_MESSAGE_BYTES, str(MESSAGE_BYTES_MAX))
    await topic.fence.acls()  # whoever may not take them away changes nothing
    facts = await _seen(topic)
    if facts is not None and facts.is_shadow:
        await topic.take_records(facts, bytes_max, dry_run=True)
    try:
        for index, log in enumerate(logs):
            epoch = max(0, log.leader_epoch) + EPOCHS_AHEAD
            await client.admin.reset_diskless_log(known.topic_id, index, leader_epoch=epoch)
        _check_pending(known.name, await known_logs(client, known))
    except (ServiceError, Failed) as error:
        text = f"topic {known.name} is not taken back, and the classic topic takes records as little as before: {error}"
        raise Failed(f"{text}; partitions that are pending now become diskless again by `diskless migration start`") from error
    await topic.fence.open()
    facts = facts or await topic.describe()
    if facts.is_shadow:
        await topic.take_records(facts, bytes_max)


async def _seen(topic: KafkaClassicTopic) -> ClassicTopicFacts | None:
    """Return what Kafka tells of the topic; None when the ACLs of `start` keep it from this principal."""
    from confluent_kafka import KafkaError, KafkaException

    try:
        return await topic.describe()
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise
        return None


def _check_empty(name: str, logs: Sequence[DisklessLogState]) -> None:
    """Raise `Failed` when a diskless log cannot be given up."""
    from cli.outcome import Failed

    for index, log in enumerate(logs):
        if log.state == "born":
            raise Failed(f"topic {name} was created as a diskless topic: there is no migration to take back")
        if log.state == "initialised" and log.high_watermark > log.start_offset:
            records = log.high_watermark - log.start_offset
            raise Failed(
                f"{name}-{index} has {records} diskless records from offset {log.start_offset} on, which would be lost: the migration "
                "cannot be taken back any more"
            )


def _check_pending(name: str, logs: Sequence[DisklessLogState]) -> None:
    """Raise `Failed` when a partition got a start again after it was reset."""
    from cli.outcome import Failed

    for index, log in enumerate(logs):
        if log.state != "pending":
            raise Failed(
                f"{name}-{index} was given the start {log.start_offset} again while the migration was taken back, so another `diskless "
                "migration start` of the topic goes on: end it"
            )
