"""`diskless monitor archive`: keep the decoded metadata log in a Delta table."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli.objects import NamedStore, named_store_with_snapshots
from cli.options import FiniteRange, kafka_place, log_level_option
from cli.outcome import Exit, Failed
from cli.progress import doing
from cli.spark.session import spark_options
from cli.spark.stopping import stop_signals

if TYPE_CHECKING:
    from cli.kafka.cluster import KafkaPlace


@click.command()
@click.option("--to", required=True, metavar="FOLDER|URL", help="The Delta table: a folder, or s3://bucket/path, gs://.., az://..")
@click.option(
    "--storage-option", "storage_options", multiple=True, metavar="KEY=VALUE", help="One option of the table's store. Repeatable."
)
@kafka_place("--kafka-bootstrap-server", "--bootstrap-server")
@named_store_with_snapshots
@click.option("--once", is_flag=True, help="Archive everything that is in the log now, then end.")
@click.option(
    "--trigger-interval",
    "trigger_interval_s",
    type=FiniteRange(0.1, 86_400),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="A commit of the table at most this often; more of them make more and smaller files.",
)
@click.option(
    "--max-entries",
    type=click.IntRange(100, 1_000_000),
    default=5000,
    show_default=True,
    help="At most this many entries in a commit: they are in memory at once.",
)
@click.option(
    "--compact-every",
    "compact_every_s",
    type=FiniteRange(0),
    metavar="SECONDS",
    help="Join small files this often; with --once in the end. [default: never]",
)
@click.option(
    "--vacuum-hours",
    type=click.IntRange(0, 1_000_000),
    help="With a compaction, delete files that no version younger than this needs. [default: keep them]",
)
@click.option(
    "--skip-pruned", is_flag=True, help="Begin where the log begins, though entries before it are deleted and not in the archive."
)
@spark_options
@log_level_option
def archive(
    to: str,
    storage_options: Sequence[str],
    kafka: KafkaPlace,
    store: NamedStore,
    once: bool,
    trigger_interval_s: float,
    max_entries: int,
    compact_every_s: float | None,
    vacuum_hours: int | None,
    skip_pruned: bool,
    master: str | None,
    spark_properties: tuple[str, ...],
    log_level: str,
) -> None:
    """Keep the decoded metadata log as a Delta table, for questions in SQL.

    One row for each run of a committed file, and one for each other record, as JSON; void and unreadable entries, too. Entries of
    a transaction leave rows when that is over: `applied`, or `aborted`. SIGTERM or Ctrl-C stop it after the running commit;
    started again it goes on where the table ends, and nothing is in it twice.
    Coordinators delete the log's beginning, up to a snapshot: where entries are deleted that are not in the archive, it takes what lives
    of their files from the newest good snapshot of the object store (--config, or --object-store-url). Without one it ends with status
    1, unless --skip-pruned says that they may be missing.
    Status 3 when the topic does not exist, or is not the one in the table; 1 when something failed.

    Examples: `diskless monitor archive --to ./archive --kafka-bootstrap-server localhost:9092`,
    `diskless monitor archive --to s3://bucket/archive --config coordinator.properties --once --compact-every 0 --vacuum-hours 168`
    """
    from cli.spark.batch import log_place, spark_errors, topic_errors
    from cli.spark.session import find_engine
    from coordinator.app.process.logs import set_up_logging
    from coordinator.config import SourceError, parse_properties_flags

    try:
        options = parse_properties_flags(storage_options)
    except SourceError as error:
        raise Failed(str(error).replace("--property", "--storage-option"), Exit.USAGE) from error
    with tempfile.TemporaryDirectory(prefix="diskless-archive-") as scratch, spark_errors():
        engine = find_engine(Path(scratch), master=master, spark_properties=spark_properties)
        set_up_logging(log_level)
        with _failures():
            from cli.spark.snapshots import snapshots_if_there
            from spark_jobs.archive.job import ArchiveOptions, run_archive

            wanted = ArchiveOptions(
                place=log_place(kafka),
                to=to,
                engine=engine,
                storage_options=options,
                once=once,
                trigger_interval_s=trigger_interval_s,
                max_entries_per_batch=max_entries,
                compact_every_s=compact_every_s,
                vacuum_hours=vacuum_hours,
                skip_pruned=skip_pruned,
                snapshots=snapshots_if_there(store),
            )
            with doing(f"archiving entries of {kafka.topic}") as work, stop_signals() as stopping, topic_errors():
                run_archive(replace(wanted, on_archived=work.step), stopping, stopping.on_ready)


@contextmanager
def _failures() -> Iterator[None]:
    """Turn what can go wrong with the table into `Failed`."""
    try:
        from spark_jobs.archive.job import LongTransactionError, TopicReplacedError
        from spark_jobs.log_begin import LogPrunedError
        from spark_jobs.streaming import QueryFailedError
        from tables.errors import OtherContentError, TableError
    except ModuleNotFoundError as error:
        raise Failed(f"the archive needs {error.name}, which is not installed: pip install 'diskless-coordinator[spark]'") from error
    try:
        yield
    except (OtherContentError, TopicReplacedError) as error:
        raise Failed(str(error), Exit.NOT_FOUND) from error
    except (TableError, LongTransactionError, LogPrunedError, QueryFailedError) as error:
        raise Failed(str(error)) from error
