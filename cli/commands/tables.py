"""`diskless tables`: copy diskless topics into Delta and Iceberg tables, and look how far that is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from cli.objects import NamedStore, named_store, store_errors
from cli.options import log_level_option, output_option, service_options
from cli.outcome import Exit, Failed
from cli.output import print_rows
from cli.times import Duration

if TYPE_CHECKING:
    from cli.options import F
    from cli.output import Row
    from cli.service import ServicePlace
    from coordinator.client.client import DisklessClient
    from coordinator.config.values import HttpAddress
    from coordinator.object_store import ObjectStore
    from tables.export.delta import DeltaTarget
    from tables.export.iceberg import IcebergTarget
    from tables.export.job import ExportOptions
    from tables.export.source import TopicSource
    from tables.export.standing import ExportStanding
    from tables.export.target import ExportedTopic, ExportTarget, Position
    from tables.reading.span import ReadOptions

COLUMNS = ("topic", "partition", "next_offset", "log_start_offset", "log_end_offset", "lag", "lost", "hours_left")
DELTA, ICEBERG = "delta", "iceberg"


@click.group()
def tables() -> None:
    """Copy diskless topics into Delta and Iceberg tables; look how far that is."""


def target_options(function: F) -> F:
    """Add the options that name a table."""
    for option in (
        click.option(
            "--value",
            "value_type",
            type=click.Choice(["binary", "utf8"]),
            default="binary",
            show_default=True,
            help="Type of the column `value`; with utf8 the export ends at a value that is none.",
        ),
        click.option(
            "--table-option",
            "table_options",
            multiple=True,
            metavar="KEY=VALUE",
            help="One option of a Delta table's store, or of an Iceberg catalog; secrets belong into the environment. Repeatable.",
        ),
        click.option(
            "--to",
            required=True,
            metavar="delta:URL|iceberg:NAME",
            help="The table: delta:s3://bucket/path, gs://.., az://.., a folder; iceberg:CATALOG.NAMESPACE.TABLE.",
        ),
    ):
        function = option(function)
    return function


@tables.command()
@click.argument("topic")
@target_options
@click.option("--once", is_flag=True, help="Export everything that is in the log now, then end.")
@click.option(
    "--every",
    "every_s",
    type=Duration(1.0),
    default=60.0,
    show_default="1m",
    metavar="DURATION",
    help="A commit of the table at least so often while records come; a longer time makes fewer and larger files.",
)
@click.option(
    "--commit-mib",
    type=click.IntRange(1, 4096),
    default=128,
    show_default=True,
    help="A commit as soon as so many MiB of columns are in memory.",
)
@click.option("--maintain", is_flag=True, help="Once a day join small files of the table, and delete those older than 7 days.")
@click.option(
    "--on-data-loss",
    type=click.Choice(["fail", "continue"]),
    default="fail",
    show_default=True,
    help="When retention deleted records before they were exported: end, or go on without them.",
)
@click.option(
    "--on-damage",
    type=click.Choice(["fail", "skip"]),
    default="fail",
    show_default=True,
    help="When a batch in the object store is damaged: end, or leave it out.",
)
@click.option("--metrics-port", type=click.IntRange(0, 65_535), help="Serve /metrics and /ready here; 0 takes a free port.")
@click.option("--metrics-host", default="127.0.0.1", show_default=True, help="Address to serve them on.")
@named_store
@service_options
@log_level_option
def export(
    topic: str,
    to: str,
    table_options: Sequence[str],
    value_type: str,
    once: bool,
    every_s: float,
    commit_mib: int,
    maintain: bool,
    on_data_loss: str,
    on_damage: str,
    metrics_port: int | None,
    metrics_host: str,
    store: NamedStore,
    service: ServicePlace,
    log_level: str,
) -> None:
    """Copy a diskless topic into a table, each record once, and go on as records come.

    TOPIC is a name or an id. The columns are those of Spark's Kafka source, with headers, and `date`, by which the table is partitioned.
    The position moves in the commits of the table: killed at any time and started again, the export goes on where the table ends.
    SIGTERM or Ctrl-C stop it after the running commit, with status 0; with --once it is 1 when records are left. One export writes a
    table: a second one ends with status 1. Status 3 when the topic does not exist, or is not the one in the table.

    It reads the objects itself: it needs READ on the topic, and may read the object store. Credentials of store and table come from the
    environment. `delta:` needs the extra `delta` of this package, `iceberg:` the extra `iceberg`; PyIceberg's own configuration
    (PYICEBERG_CATALOG__NAME__URI) and --table-option say where a catalog is.

    Examples: `diskless tables export orders --to delta:s3://lake/orders --config node.properties --bootstrap-server localhost:9192`,
    `diskless tables export orders --to delta:./orders --once --object-store-url file:///objects --bootstrap-server localhost:9192`
    """
    from cli.service import run
    from coordinator.app.process.logs import set_up_logging
    from coordinator.config.values import HttpAddress

    wanted = _Wanted(topic, to, table_options, value_type)
    address = None if metrics_port is None else HttpAddress(metrics_host, metrics_port)
    opened = store.open()
    with _failures(wanted.kind):
        from tables.export.columns import READ
        from tables.export.job import ExportOptions
        from tables.reading.span import Damage

        options = ExportOptions(
            once=once,
            every_s=every_s,
            commit_bytes=commit_mib << 20,
            is_maintaining=maintain,
            fail_on_data_loss=on_data_loss == "fail",
        )
        reading = replace(
            READ,
            batch_bytes=min(READ.batch_bytes, options.commit_bytes),
            fail_on_data_loss=options.fail_on_data_loss,
            on_damage=Damage(on_damage),
        )
        set_up_logging(log_level)
        export_work = _export(wanted, opened, options, reading, address, service)
        is_done = run(export_work, f"copying records of {topic}")
    if once and not is_done:
        raise Failed("the export was stopped before the table had all records; start it again")


@tables.command()
@click.argument("topic")
@target_options
@service_options
@output_option
def status(topic: str, to: str, table_options: Sequence[str], value_type: str, service: ServicePlace, output: str) -> None:
    """Show how far the export of a topic is: its lag, and the hours until retention overtakes it.

    TOPIC is a name or an id. `lag` are records that can still be exported, `lost` those that were deleted before; `hours_left` is when
    `retention.ms` takes the next record, and empty when it takes none (`retention.bytes` may delete earlier). Status 5 when records are
    lost, 3 when there is no such table.

    Example: `diskless tables status orders --to delta:s3://lake/orders --bootstrap-server localhost:9192`
    """
    from cli.service import run

    wanted = _Wanted(topic, to, table_options, value_type)
    with _failures(wanted.kind):
        name, found = run(_status(wanted, service))
    print_rows([_row(name, one) for one in found], output, COLUMNS, empty="the topic has no partitions")
    lost = sum(one.lost for one in found)
    if lost:
        text = f"{lost} records were deleted before they were exported; `--on-data-loss continue` goes on without them"
        raise Failed(text, Exit.AUDIT)


class _Wanted:
    """The topic and the table as the command line names them."""

    def __init__(self, topic: str, to: str, table_options: Sequence[str], value_type: str) -> None:
        """Raises `Failed`."""
        from coordinator.config import SourceError, parse_properties_flags

        self.topic, self.value_type = topic, value_type
        self.kind, _, self.place = to.partition(":")
        if self.kind not in (DELTA, ICEBERG) or not self.place:
            raise Failed(f"--to {to}: expected delta:URL or iceberg:CATALOG.NAMESPACE.TABLE", Exit.USAGE)
        try:
            parts = urlsplit(self.place)
            self.options: Mapping[str, str] = parse_properties_flags(table_options)
        except ValueError as error:
            raise Failed(f"--to: the URL of the table is none: {error}", Exit.USAGE) from error
        except SourceError as error:
            raise Failed(str(error).replace("--property", "--table-option"), Exit.USAGE) from error
        if parts.password or (parts.scheme and parts.query):
            raise Failed("--to: the URL has a password or a query, which logs would show; put secrets into the environment", Exit.USAGE)

    def open(self, topic: ExportedTopic, begin: Position) -> ExportTarget:
        """Open the table, or make it. Raises `TableError`."""
        return self._kind().open(self.place, topic, self.options, begin)

    def find(self, topic: ExportedTopic) -> ExportTarget | None:
        """Open the table; None when there is none. Raises `TableError`."""
        return self._kind().find(self.place, topic, self.options)

    def _kind(self) -> type[DeltaTarget | IcebergTarget]:
        """Return the kind of table; only the library that is asked for is imported."""
        if self.kind == ICEBERG:
            from tables.export.iceberg import IcebergTarget

            return IcebergTarget
        from tables.export.delta import DeltaTarget

        return DeltaTarget


async def _export(
    wanted: _Wanted, store: ObjectStore, options: ExportOptions, reading: ReadOptions, address: HttpAddress | None, service: ServicePlace
) -> bool:
    import asyncio

    from cli.service import open_client
    from coordinator.client.errors import NotAuthorized
    from tables.export.job import Export
    from tables.export.metrics import ExportState
    from tables.export.process import run_export

    async with open_client(service, object_store=store) as client:
        with suppress(NotAuthorized):  # who may only read topics learns of another store by the objects that it does not have
            await client.check_store()
        source, topic = await _source(wanted, client, store, reading)
        begin = {one.partition: one.start for one in await source.bounds()}
        target = await asyncio.to_thread(wanted.open, topic, begin)
        state = ExportState(topic.name, source.counts)

        def on_ready(metrics: str) -> None:
            click.echo(f"exporting topic={topic.name} to={wanted.kind}:{wanted.place} metrics={metrics or '-'}")

        return await run_export(Export(source, target, topic.schema, options, state), state, address, on_ready)


async def _source(wanted: _Wanted, client: DisklessClient, store: ObjectStore, options: ReadOptions) -> tuple[TopicSource, ExportedTopic]:
    from cli.service import find_topic
    from tables.export.columns import ValueType
    from tables.export.source import TopicSource, exported_topic
    from tables.reading.span import ReadCounts

    found = await find_topic(client, wanted.topic)
    source = TopicSource(client=client, store=store, topic=found, options=options, counts=ReadCounts())
    return source, await exported_topic(client, found, ValueType(wanted.value_type))


async def _status(wanted: _Wanted, service: ServicePlace) -> tuple[str, list[ExportStanding]]:
    import asyncio

    from cli.service import find_topic, open_client
    from tables.export.columns import ValueType
    from tables.export.source import exported_topic, partition_bounds, seconds_left
    from tables.export.standing import standings
    from tables.export.target import next_offsets

    async with open_client(service) as client:
        found = await find_topic(client, wanted.topic)
        topic = await exported_topic(client, found, ValueType(wanted.value_type))
        target = await asyncio.to_thread(wanted.find, topic)
        if target is None:
            raise Failed(f"{wanted.kind}:{wanted.place} is no table; `diskless tables export` makes it", Exit.NOT_FOUND)
        position = await asyncio.to_thread(target.position, [one.partition for one in found.partitions])
        bounds = await partition_bounds(client, found)
        known = next_offsets(position, [one.partition for one in bounds])
        return topic.name, standings(known, bounds, await seconds_left(client, found, known, bounds))


def _row(topic: str, one: ExportStanding) -> Row:
    return {
        "topic": topic,
        "partition": one.partition,
        "next_offset": one.next_offset,
        "log_start_offset": one.log_start_offset,
        "log_end_offset": one.log_end_offset,
        "lag": one.lag,
        "lost": one.lost,
        "hours_left": None if one.seconds_left is None else round(one.seconds_left / 3600, 2),
    }


@contextmanager
def _failures(kind: str) -> Iterator[None]:
    """Turn what can go wrong with reading and with the table into `Failed`."""
    try:
        from tables.errors import OtherContentError, TableError
        from tables.export.source import TopicGoneError
        from tables.reading.span import BelowMigration, OffsetsDeleted

        with store_errors():
            yield
    except ModuleNotFoundError as error:
        raise Failed(f"{kind}: needs {error.name}, which is not installed: pip install 'diskless-coordinator[{kind}]'") from error
    except (OtherContentError, TopicGoneError) as error:
        raise Failed(str(error), Exit.NOT_FOUND) from error
    except (TableError, BelowMigration) as error:
        raise Failed(str(error)) from error
    except OffsetsDeleted as error:
        raise Failed(f"{error} (--on-data-loss continue)") from error
