"""`diskless monitor orphans`: what lies in the bucket, compared with the files that the log knows."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli.objects import snapshots_prefix_option, store_options
from cli.options import FiniteRange, kafka_options, kafka_server_option, output_option, topic_option
from cli.outcome import Exit, Failed
from cli.output import print_fields, print_rows, say
from cli.spark.session import outcome_folder_option, spark_options

if TYPE_CHECKING:
    from coordinator.object_store import ObjectStore
    from spark_jobs.orphans.inventory import ObjectWriter
    from spark_jobs.orphans.job import Facts

LISTS = ("by_age", "by_reason", "by_folder", "missing")
LISTED_BEFORE_PROGRESS = 1_000_000


@click.command()
@click.option(
    "--inventory",
    "inventory_path",
    type=click.Path(path_type=Path, exists=True),
    help="Inventory instead of a listing: a file or folder of Parquet, CSV (.gz) or JSON lines with key, size and last_modified.",
)
@click.option(
    "--inventory-format", type=click.Choice(("parquet", "csv", "json")), help="Format of the inventory, where its name does not tell it."
)
@click.option(
    "--inventory-columns",
    metavar="NAME[,..]",
    help="Columns of a CSV file without a header line; S3 Inventory: Bucket,Key,Size,LastModifiedDate.",
)
@click.option("--url-encoded", is_flag=True, help="Keys of the inventory are URL-encoded, as in S3 Inventory's CSV files.")
@click.option("--strip-prefix", default="", metavar="PREFIX", help="Cut this off the inventory's keys: the path of the store's URL.")
@store_options
@snapshots_prefix_option
@click.option("--prefix", help="Only objects below it. [default: object.store.wal.prefix]")
@click.option(
    "--max-age",
    "max_age_s",
    type=FiniteRange(0),
    metavar="SECONDS",
    help="Age limit of commits. [default: file.commit.max.age.ms of --config, else 900]",
)
@click.option(
    "--grace",
    "grace_s",
    type=FiniteRange(0),
    default=3600.0,
    show_default=True,
    metavar="SECONDS",
    help="How much older than --max-age an orphan must be.",
)
@kafka_server_option("--kafka-bootstrap-server", name="kafka_server")
@kafka_options
@topic_option
@click.option("--write", "write_to", type=click.Path(path_type=Path), metavar="FOLDER", help="Write the orphans into this new folder.")
@click.option("--write-format", type=click.Choice(("parquet", "csv")), default="parquet", show_default=True, help="How to write them.")
@outcome_folder_option("the summary")
@spark_options
@output_option
def orphans(
    inventory_path: Path | None,
    inventory_format: str | None,
    inventory_columns: str | None,
    url_encoded: bool,
    strip_prefix: str,
    store_url: str | None,
    store_options: Sequence[str],
    config_file: Path | None,
    snapshots_prefix: str | None,
    prefix: str | None,
    max_age_s: float | None,
    grace_s: float,
    kafka_server: str | None,
    command_config: Path | None,
    command_properties: Sequence[str],
    topic: str | None,
    write_to: Path | None,
    write_format: str,
    folder: Path | None,
    master: str | None,
    spark_properties: tuple[str, ...],
    output: str,
) -> None:
    """Find objects in the bucket that no coordinator knows, and live files that are missing in it.

    The bucket is listed, or an inventory file says what is in it. Orphans are older than the age limit of commits plus --grace;
    nothing is deleted. A file with live batches that is not in the bucket is lost data: status 5 (with an inventory, only files
    that are older than its newest object by as much are looked for). The whole log is read; where coordinators have deleted its
    beginning, the newest good snapshot of the object store replaces it. Status 1 when there is none: the log does not name all files.

    Examples: `diskless monitor orphans --config coordinator.properties --write ./orphans`,
    `diskless monitor orphans --inventory inventory.parquet --kafka-bootstrap-server localhost:9092 -o json`
    """
    from cli.kafka.cluster import find_kafka_place
    from cli.objects import open_object_store, snapshots_prefix_of, wal_prefix
    from cli.spark.batch import batch_session, log_place, note_result, topic_watch, while_pruned
    from cli.spark.snapshots import REMEDY, SnapshotStore
    from coordinator.object_store import KEY_BYTES_MAX, KEY_PATTERN
    from coordinator.runtime.files.keys import kept_prefixes

    place = find_kafka_place(kafka_server, config_file, topic, command_config, command_properties)
    if write_to is not None and write_to.exists():
        raise Failed(f"{write_to} exists; name a new folder", Exit.USAGE)
    store = open_object_store(store_url, store_options, config_file) if inventory_path is None else None
    prefix = wal_prefix(config_file) if prefix is None else prefix
    snapshots = SnapshotStore(url=store_url, options=store_options, config_file=config_file, prefix=snapshots_prefix)
    max_age_ms = round(max_age_s * 1000) if max_age_s is not None else _age_limit_ms(config_file)
    with topic_watch(place) as watch, tempfile.TemporaryDirectory(prefix="diskless-listing-") as scratch:
        facts = watch.facts()
        ends_before = watch.ends(range(facts.partitions))
        now_ms = time.time_ns() // 1_000_000
        listing = Path(scratch) / "listing.parquet"
        if store is not None:
            _list_bucket(store, prefix, listing)
        with batch_session("diskless-orphans", master, spark_properties) as session:
            from spark_jobs.orphans.inventory import Inventory, InventoryError
            from spark_jobs.orphans.job import LogBeginsLateError, LogUnusableError, OrphanSearch, Question, newest

            inventory = Inventory(
                path=inventory_path or listing,
                format=inventory_format if inventory_path is not None else "parquet",
                columns=inventory_columns.split(",") if inventory_columns else (),
                strip_prefix=strip_prefix,
                is_url_encoded=url_encoded,
            )
            margin_ms = max_age_ms + round(grace_s * 1000)

            def work(log_starts: Mapping[int, int], is_again: bool) -> Facts:
                objects = inventory.read(session)
                question = Question(
                    log_starts=log_starts,
                    # Read after the listing: what was committed meanwhile is known, and no orphan.
                    ends=watch.ends(range(facts.partitions)),
                    ends_before=ends_before,
                    now_ms=now_ms,
                    threshold_ms=now_ms - margin_ms,
                    # An inventory is made over hours and does not say when: it is taken to be complete up to some time before its
                    # newest object.
                    taken_ms=now_ms if inventory_path is None else newest(objects) - margin_ms,
                    prefix=prefix,
                    key_pattern=KEY_PATTERN,
                    key_bytes_max=KEY_BYTES_MAX,
                    kept_prefixes=tuple(kept_prefixes(f"{snapshots_prefix_of(snapshots_prefix, config_file)}/")),
                )
                starts = snapshots.starts(watch, facts, log_starts, Path(scratch), newest_first=True)
                return OrphanSearch(session, log_place(place), question, starts).run(objects, write_to, write_format)

            try:
                found = while_pruned(watch, facts.partitions, work)
            except InventoryError as error:
                raise Failed(str(error), Exit.USAGE) from error
            except LogBeginsLateError as error:
                raise Failed(f"{error}. {REMEDY}") from error
            except LogUnusableError as error:
                raise Failed(str(error)) from error
    if folder is not None:
        note_result(folder, "last_orphans", json.dumps(found))
    _print(found, output)
    if found["missing_files"]:
        count = found["missing_files"]
        files = "1 file with live batches is" if count == 1 else f"{count} files with live batches are"
        raise Failed(f"{files} not in the bucket: their data is lost", Exit.AUDIT)


def _age_limit_ms(config_file: Path | None) -> int:
    from cli.configuration import read_service_settings
    from coordinator.config import KEYS

    if config_file is not None:
        return read_service_settings(config_file).file_commit_max_age_ms
    return int(KEYS["file.commit.max.age.ms"].default or 0)


def _list_bucket(store: ObjectStore, prefix: str, into: Path) -> None:
    """List a bucket into a file, which may be larger than memory. Raises `Failed`."""
    import asyncio

    from cli.objects import store_errors
    from spark_jobs.orphans.inventory import ObjectWriter

    with store_errors(), ObjectWriter(into) as writer:
        asyncio.run(_list(store, prefix, writer))


async def _list(store: ObjectStore, prefix: str, writer: ObjectWriter) -> None:
    told = 0
    async for chunk in store.list(prefix):
        writer.write([(one.key, one.size_bytes, one.modified_ms) for one in chunk])
        if writer.objects - told >= LISTED_BEFORE_PROGRESS:
            told = writer.objects
            say(f"{told} objects listed")


def _print(found: Facts, output: str) -> None:
    if output != "table":
        print_fields(found, output)
        return
    print_fields({name: value for name, value in found.items() if name not in LISTS}, output)
    for name in LISTS:
        rows = found[name]
        if rows:
            click.echo()
            print_rows(rows, output, tuple(rows[0]))
