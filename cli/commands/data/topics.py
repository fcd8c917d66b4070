"""`diskless topics`: create, grow, delete and look at diskless topics."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from cli.commands.data.topic_usage import files, usage
from cli.options import (
    COUNT,
    confirm,
    dry_run_option,
    kafka_options,
    output_option,
    server_option,
    service_options,
    timeout_option,
    yes_option,
)
from cli.output import print_fields, print_rows, say

if TYPE_CHECKING:
    from cli.kafka.shadows import ShadowTopics
    from cli.service import ServicePlace
    from coordinator.client.client import DisklessClient
    from coordinator.client.model import TopicDescription

PARTITION_COLUMNS = ("topic", "topic_id", "settings", "partition", "coordinator", "leader", "log_start_offset", "high_watermark")

settings_option = click.option(
    "--config",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting of the topic, as Kafka names it: retention.ms, retention.bytes, max.message.bytes, message.timestamp.type,"
    " message.timestamp.before.max.ms, message.timestamp.after.max.ms. Repeatable.",
)

shadow_option = click.option(
    "--kafka-bootstrap-server",
    "kafka_server",
    metavar="HOST:PORT[,..]",
    help="Kafka brokers, to do the same to the topic's shadow there, by which gateways show it to Kafka's clients.",
)


@click.group()
def topics() -> None:
    """Create, grow, delete and look at diskless topics."""


topics.add_command(usage)
topics.add_command(files)


@topics.command()
@click.argument("name")
@click.option("--partitions", type=COUNT, default=1, show_default=True, help="Partitions the topic shall have.")
@click.option("--topic-id", help="Id in Kafka's text form, 22 characters; without it a new random one.")
@settings_option
@click.option(
    "--classic-pending", is_flag=True, help="Create partitions that are to be migrated from classic ones: they take no batches before that."
)
@click.option("--if-not-exists", is_flag=True, help="Succeed when a topic of this name exists already, and leave it as it is.")
@server_option
@shadow_option
@kafka_options
@timeout_option
@output_option
def create(
    name: str,
    partitions: int,
    topic_id: str | None,
    settings: Sequence[str],
    classic_pending: bool,
    if_not_exists: bool,
    service: ServicePlace,
    kafka_server: str | None,
    command_config: Path | None,
    command_properties: Sequence[str],
    output: str,
) -> None:
    """Create a topic.

    Status 0 once every coordinator that owns a partition has it; it has its settings from the first moment. With the --topic-id of
    an earlier attempt it may be repeated safely; after a time-out (status 6) the creation goes on. With --kafka-bootstrap-server the shadow
    comes first, and the topic gets its id: repeating finishes what was cut off.

    Examples: `diskless topics create orders --partitions 12 --bootstrap-server localhost:9192`,
    `diskless topics create orders --config retention.ms=604800000 --if-not-exists --bootstrap-server localhost:9192 -o json`
    """
    from cli.outcome import Exit, Failed
    from cli.service import run
    from coordinator.kafka.names import parse_topic_id

    own = _parsed(settings)
    if kafka_server is not None and (topic_id is not None or classic_pending):
        raise Failed("--kafka-bootstrap-server: Kafka gives the id of a new topic; leave out --topic-id and --classic-pending", Exit.USAGE)
    try:
        wanted = new_topic_id() if topic_id is None else parse_topic_id(topic_id)
    except ValueError as error:
        raise Failed(f"--topic-id: {error}", Exit.USAGE) from error
    with _shadows(kafka_server, command_config, command_properties, service.timeout_s) as shadows:
        if shadows is not None:
            wanted = _made_shadow(shadows, name, partitions, own, service, if_not_exists=if_not_exists)
    created = run(_create(name, wanted, partitions, own, classic_pending, if_not_exists, service))
    print_fields({**_summary(created), "partitions": len(created.partitions)}, output)


def _shadows(
    kafka_server: str | None, command_config: Path | None, command_properties: Sequence[str], timeout_s: float
) -> AbstractContextManager[ShadowTopics | None]:
    """The shadows of the Kafka that was given; None without one."""
    if kafka_server is None:
        return nullcontext()
    from cli.kafka.cluster import find_kafka_place
    from cli.kafka.shadows import ShadowTopics

    return ShadowTopics(find_kafka_place(kafka_server, None, None, command_config, command_properties), timeout_s)


def _made_shadow(
    shadows: ShadowTopics, name: str, partitions: int, settings: Mapping[str, str], service: ServicePlace, *, if_not_exists: bool
) -> bytes:
    """Create the shadow of a topic; return its id. What the service would refuse is refused before Kafka is asked for anything."""
    from cli.outcome import Exit, Failed
    from cli.service import ask, run
    from coordinator.kafka.names import illegal_topic_name, why_classic
    from coordinator.kafka.topic_configs import illegal_topic_config

    faults = [illegal_topic_name(name), why_classic(name), *(illegal_topic_config(key, value) for key, value in settings.items())]
    for fault in faults:
        if fault is not None:
            raise Failed(fault, Exit.USAGE)
    listed = next((one for one in run(ask(service, lambda client: client.describe_topics())) if one.name == name), None)
    if listed is None:
        return shadows.create(name, partitions)
    there = shadows.find(name)
    if if_not_exists:
        return new_topic_id()  # with which the service says that the topic exists, and leaves it as it is
    if there is None or there.topic_id != listed.topic_id:
        raise Failed(f"topic {name} exists without a shadow in Kafka: Kafka gives new topics ids of its own; delete it first")
    if len(listed.partitions) != partitions:
        text = f"topic {name} exists with {len(listed.partitions)} partitions; `diskless topics alter` changes their number"
        raise Failed(text)
    return listed.topic_id


def _parsed(settings: Sequence[str]) -> dict[str, str]:
    """Settings by key. Raises Failed for a text without a key or an equals sign, and for a key that is given twice."""
    from cli.outcome import Exit, Failed

    parsed: dict[str, str] = {}
    for text in settings:
        key, sign, value = text.partition("=")
        if not sign or not key:
            raise Failed(f"--config {text}: write it as KEY=VALUE", Exit.USAGE)
        if key in parsed:
            raise Failed(f"--config {key} is given twice", Exit.USAGE)
        parsed[key] = value
    return parsed


async def _create(
    name: str,
    topic_id: bytes,
    partitions: int,
    settings: Mapping[str, str],
    classic_pending: bool,
    if_not_exists: bool,
    service: ServicePlace,
) -> TopicDescription:
    from cli.service import find_topic, open_client
    from coordinator.client.errors import AlreadyExists

    async with open_client(service) as client:
        try:
            await _place(client, name, partitions, topic_id, settings, classic_pending=classic_pending)
        except AlreadyExists:
            if not if_not_exists:
                raise
            say(f"topic {name} exists already")
        return await find_topic(client, name)


async def _place(
    client: DisklessClient,
    name: str,
    partitions: int,
    topic_id: bytes,
    settings: Mapping[str, str] | None = None,
    *,
    classic_pending: bool = False,
) -> None:
    """Create or grow a topic, and print the service's note on its placement."""

    placed = await client.admin.create_topic(name, partitions, topic_id=topic_id, settings=settings, classic_pending=classic_pending)
    if placed.note:
        say(f"topic {name}: {placed.note}")


@topics.command()
@click.argument("topic")
@click.option("--partitions", type=COUNT, help="Partitions the topic shall have; never fewer than it has.")
@settings_option
@click.option("--delete-config", "deleted", multiple=True, metavar="KEY", help="A setting that the service shall decide. Repeatable.")
@server_option
@shadow_option
@kafka_options
@timeout_option
def alter(
    topic: str,
    partitions: int | None,
    settings: Sequence[str],
    deleted: Sequence[str],
    service: ServicePlace,
    kafka_server: str | None,
    command_config: Path | None,
    command_properties: Sequence[str],
) -> None:
    """Change the settings of a topic, or give it more partitions.

    TOPIC is a name or an id. All settings are changed, or none, and before the topic grows; shorter retention deletes batches at the
    next look of their leaders (log.retention.check.interval.ms). A number of partitions below the present one changes nothing.

    Examples: `diskless topics alter orders --partitions 24 --bootstrap-server localhost:9192`,
    `diskless topics alter orders --config retention.ms=86400000 --delete-config retention.bytes --bootstrap-server localhost:9192`
    """
    from cli.outcome import Exit, Failed
    from cli.service import run

    changes: dict[str, str | None] = {**_parsed(settings)}
    twice = sorted(key for key in deleted if key in changes)
    if twice:
        raise Failed(f"--delete-config {twice[0]}: --config sets it; choose one", Exit.USAGE)
    changes |= dict.fromkeys(deleted)
    if partitions is None and not changes:
        raise Failed("nothing to change; give --partitions, --config or --delete-config", Exit.USAGE)
    with _shadows(kafka_server, command_config, command_properties, service.timeout_s) as shadows:
        altered = run(_alter(topic, partitions, changes, service, shadows))
    say(f"topic {altered.name} has {len(altered.partitions)} partitions and settings of its own: {_settings(altered) or 'none'}")


async def _alter(
    topic: str, partitions: int | None, changes: Mapping[str, str | None], service: ServicePlace, shadows: ShadowTopics | None
) -> TopicDescription:
    import asyncio

    from cli.service import find_topic, open_client

    async with open_client(service) as client:
        found = await find_topic(client, topic)
        if changes:
            await client.admin.alter_topic(found.name, changes)
        if partitions is not None:
            if shadows is not None:  # first, so that no gateway shows partitions that Kafka does not have
                await asyncio.to_thread(shadows.grow, found.name, found.topic_id, partitions)
            await _place(client, found.name, partitions, found.topic_id)
        return await find_topic(client, found.name)


@topics.command()
@click.argument("topic", nargs=-1, required=True)
@dry_run_option
@yes_option
@server_option
@shadow_option
@kafka_options
@timeout_option
def delete(
    topic: Sequence[str],
    dry_run: bool,
    yes: bool,
    service: ServicePlace,
    kafka_server: str | None,
    command_config: Path | None,
    command_properties: Sequence[str],
) -> None:
    """Delete topics with all their data.

    TOPIC is a name or an id. The deletion cannot be undone: an id that was deleted never comes back. Status 0 once every
    coordinator has logged it; the objects in the store follow later, on their own.

    Examples: `diskless topics delete orders --dry-run --bootstrap-server localhost:9192`,
    `diskless topics delete orders returns --yes --bootstrap-server localhost:9192`
    """
    from cli.service import run

    with _shadows(kafka_server, command_config, command_properties, service.timeout_s) as shadows:
        run(_delete(topic, dry_run, yes, service, shadows))


async def _delete(wanted: Sequence[str], dry_run: bool, yes: bool, service: ServicePlace, shadows: ShadowTopics | None) -> None:
    import asyncio

    from cli.service import find_topic, open_client

    async with open_client(service) as client:
        found = [await find_topic(client, text) for text in wanted]
        for topic in found:
            records = sum(max(0, p.high_watermark - p.log_start_offset) for p in topic.partitions)
            verb = "would be deleted" if dry_run else "will be deleted"
            say(f"topic {topic.name} ({_id(topic)}): {len(topic.partitions)} partitions with {records} records {verb}")
        if dry_run:
            return
        confirm("Delete for good?", yes=yes)
        for topic in found:
            await client.admin.delete_topic(topic.topic_id)
            say(f"topic {topic.name} is deleted")
            if shadows is not None:
                was_there = await asyncio.to_thread(shadows.delete, topic.name, topic.topic_id)
                say(f"its shadow in Kafka is {'deleted' if was_there else 'not there'}")


@topics.command("list")
@service_options
@output_option
def list_(service: ServicePlace, output: str) -> None:
    """List the diskless topics.

    Example: `diskless topics list --bootstrap-server localhost:9192 -o json`
    """
    from cli.service import ask, run
    from coordinator.kafka.names import topic_id_text

    listed = run(ask(service, lambda client: client.admin.list_topics()))
    rows = [{"topic": one.name, "topic_id": topic_id_text(one.topic_id), "partitions": one.num_partitions} for one in listed]
    print_rows(rows, output, ("topic", "topic_id", "partitions"), empty="there are no topics")


@topics.command()
@click.argument("topic", nargs=-1)
@service_options
@output_option
def describe(topic: Sequence[str], service: ServicePlace, output: str) -> None:
    """Show placement, leaders and offsets of topics, by partition, and the settings that topics have of their own.

    TOPIC is a name or an id; none means all. The leader and the offsets are those that the answering node knows, and may be a moment old;
    `diskless offsets list` is exact. A leader that does not answer is named as such.

    Example: `diskless topics describe orders --bootstrap-server localhost:9192`
    """
    from cli.service import run

    rows = run(_described(topic, service))
    if output == "table":
        from cli.looks.service import leader_text

        rows = [
            row | {"leader": leader_text(cast(int, row["leader"]), answers=bool(row["leader_answers"])) if row["leader"] != -1 else None}
            for row in rows
        ]
    print_rows(rows, output, PARTITION_COLUMNS, empty="there are no topics")


async def _described(wanted: Sequence[str], service: ServicePlace) -> list[dict[str, object]]:
    """A row for each partition, with whether its leader answers."""
    from cli.looks.service import answering
    from cli.service import open_client

    async with open_client(service) as client:
        found = await _found(client, wanted)
        leaders = {one.leader_id for topic in found for one in topic.partitions if one.leader_id >= 0}
        heard = await answering(client, leaders, service.timeout_s)
    return [row | {"leader_answers": row["leader"] in heard} for topic in found for row in _partition_rows(topic)]


async def _found(client: DisklessClient, wanted: Sequence[str]) -> Sequence[TopicDescription]:
    from cli.service import find_topic

    return [await find_topic(client, text) for text in wanted] if wanted else await client.describe_topics()


def _partition_rows(topic: TopicDescription) -> list[dict[str, object]]:
    return [
        {
            **_summary(topic),
            "partition": one.partition,
            "coordinator": one.coordinator_id,
            "leader": one.leader_id,
            "log_start_offset": one.log_start_offset,
            "high_watermark": one.high_watermark,
        }
        for one in topic.partitions
    ]


def _summary(topic: TopicDescription) -> dict[str, object]:
    return {"topic": topic.name, "topic_id": _id(topic), "settings": _settings(topic)}


def _settings(topic: TopicDescription) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(topic.settings.items()))


def _id(topic: TopicDescription) -> str:
    from coordinator.kafka.names import topic_id_text

    return topic_id_text(topic.topic_id)


def new_topic_id() -> bytes:
    """Make a random topic id as Kafka does: a version 4 uuid whose text does not look like an option."""
    import uuid

    from coordinator.kafka.names import topic_id_text

    while True:
        topic_id = uuid.UUID(bytes=os.urandom(16), version=4).bytes
        if not topic_id_text(topic_id).startswith("-"):
            return topic_id
