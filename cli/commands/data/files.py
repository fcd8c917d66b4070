"""`diskless files`: make WAL files, commit them, look at those that are known."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli.objects import NamedStore, named_store
from cli.options import COUNT, INDEX, LIMIT, OFFSET, RegularFile, output_option, service_options
from cli.output import print_rows, say, time_text
from coordinator.kafka.timestamps import AFTER_MAX_MS

if TYPE_CHECKING:
    from cli.output import Row
    from cli.service import ServicePlace
    from coordinator.client.calls.files import ListedFile
    from coordinator.client.client import DisklessClient
    from coordinator.client.model import CommitOutcome, TopicDescription
    from coordinator.client.records.wal_file import WalFile
    from coordinator.core.file_state import FileState
    from coordinator.object_store import ObjectStore

PAGE_SIZE = 1_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
COMMIT_COLUMNS = ("topic", "partition", "base_offset", "last_offset", "append_time", "duplicate", "error", "message")
LIST_COLUMNS = (
    "object_key",
    "coordinator",
    "state",
    "since",
    "until",
    "size",
    "batch_count",
    "live_batches",
    "owner_ids",
    "uploader_broker_id",
)
DESCRIBE_COLUMNS = ("object_key", "coordinator", "state", "since", "waits_for", "earliest", "error")
STATES = ("live", "empty", "waiting", "deletable", "fenced", "removed", "handed-over")
"""The names of `coordinator.core.file_state.FileState`, in its order."""


@click.group()
def files() -> None:
    """Make WAL files, commit them, look at those that are known."""


@files.command()
@click.option("-o", "--out", "out", type=RegularFile(), required=True, help="The file to write, NAME.wal.")
@click.option("--compression", type=click.Choice(CODECS), default="none", show_default=True, help="Codec of the batches.")
@click.option("--max-batch-bytes", type=COUNT, default=1024 * 1024, show_default=True, help="Batch size before compression.")
@click.option(
    "--timestamp-after-max-ms",
    "after_max_ms",
    type=OFFSET,
    default=AFTER_MAX_MS,
    show_default=True,
    help="Refuse timestamps further ahead of this machine's clock: message.timestamp.after.max.ms of the topic.",
)
@click.option("--force", is_flag=True, help="Overwrite files that exist.")
def pack(out: Path, compression: str, max_batch_bytes: int, after_max_ms: int, force: bool) -> None:
    """Pack records from standard input into a WAL file and its manifest, NAME.wal.json.

    A record is one JSON line: topic and partition, and as wanted key, value (or key_base64, value_base64), headers as a list of pairs
    (`[["name", "value"], ["name", {"base64": "/w=="}]]`), timestamp (-1 for none), timestamp_type (CreateTime, or LogAppendTime for records
    that get the time of their commit), and producer_id, producer_epoch, sequence of an idempotent producer. The lines of
    `diskless batches find --fetch` give the same records again; their offset is not taken over.

    Example: `echo '{"topic": "orders", "partition": 0, "value": "hello"}' | diskless files pack -o orders.wal`
    """
    from cli.outcome import Exit, Failed
    from coordinator.client.records.record_lines import InputError, parse_lines
    from coordinator.client.records.wal_file import WalFileBuilder, WalFileError, write_wal_file
    from coordinator.client.records.wal_manifest import manifest_path
    from records.compression import Compression

    existing = [str(path) for path in (out, manifest_path(out)) if path.exists()]
    if existing and not force:
        raise Failed(f"{' and '.join(existing)} exists; choose another name or pass --force", Exit.USAGE)
    now_ms = _now_ms()
    builder = WalFileBuilder(max_batch_bytes=max_batch_bytes, compression=Compression[compression.upper()])
    count = 0
    try:
        for line in parse_lines(sys.stdin, now_ms=now_ms, after_max_ms=after_max_ms):
            builder.add(line.partition, line.record, line.producer, timestamp_type=line.timestamp_type)
            count += 1
        data, manifest = builder.build(created_ms=now_ms)
        write_wal_file(out, data, manifest, overwrite=force)
    except (InputError, WalFileError, UnicodeDecodeError) as error:
        raise Failed(str(error)) from error
    except FileExistsError as error:
        # Another process made it while this one read its input.
        raise Failed(f"{error.filename} exists; choose another name or pass --force", Exit.USAGE) from error
    except OSError as error:
        raise Failed(f"cannot write {out}: {error}") from error
    say(f"{out}: {count} records in {len(manifest.batches)} batches, {len(data)} bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Committing:
    """The arguments of `files commit`."""

    file: Path
    topic_map: Mapping[str, str]
    prefix: str
    new_key: bool
    output: str


@files.command()
@click.argument("file", type=RegularFile())
@click.option(
    "--topic-map",
    "topic_map",
    multiple=True,
    metavar="MANIFEST=TOPIC",
    help="Commit the batches of this topic of the manifest to another topic, a name or an id. Repeatable.",
)
@click.option(
    "--key-prefix",
    "prefix",
    help="What the object key starts with; ends with '/'. Without it object.store.wal.prefix of --config, else wal/.",
)
@click.option("--new-key", is_flag=True, help="Commit again under a new key: records committed before appear twice.")
@named_store
@service_options
@output_option
def commit(
    file: Path, topic_map: Sequence[str], prefix: str | None, new_key: bool, store: NamedStore, service: ServicePlace, output: str
) -> None:
    """Upload a WAL file and commit it; print the result of each batch.

    FILE has its manifest beside it, as `diskless files pack` writes them; every batch is checked first: batches of transactions, and
    timestamps further ahead than message.timestamp.after.max.ms of the topic, are refused before anything is uploaded. The object key is
    kept in FILE.commit.json, so running the command again after a failure or a time-out never commits twice: it answers what the first
    commit answered. Status 1 when a batch was rejected.

    Examples: `diskless files commit orders.wal --object-store-url file:///var/lib/objects --bootstrap-server localhost:9192`,
    `diskless files commit orders.wal --config coordinator.properties --topic-map orders=orders-copy -o json`
    """
    from cli.outcome import Exit, Failed
    from cli.service import run
    from cli.upload import check_prefix
    from coordinator.client.records.wal_file import WalFileError, read_wal_file
    from coordinator.config import SourceError, parse_properties_flags
    from coordinator.runtime.files.keys import kept_prefixes

    try:
        wanted = Committing(
            file=file,
            topic_map=parse_properties_flags(topic_map),
            prefix=store.wal_prefix if prefix is None else prefix,
            new_key=new_key,
            output=output,
        )
    except SourceError as error:
        raise Failed(str(error).replace("--property", "--topic-map"), Exit.USAGE) from error
    check_prefix(wanted.prefix, tuple(kept_prefixes(f"{store.snapshots_prefix}/")))
    if not file.exists():
        raise Failed(f"there is no file {file}", Exit.NOT_FOUND)
    try:
        wal = read_wal_file(file)
    except WalFileError as error:
        raise Failed(str(error)) from error
    run(_commit(wanted, wal, store.open(), service))


async def _commit(wanted: Committing, wal: WalFile, store: ObjectStore, service: ServicePlace) -> None:
    from cli.objects import store_errors
    from cli.service import open_client
    from cli.upload import choose_key
    from coordinator.client.records.wal_commit import commit_batches
    from coordinator.client.records.wal_objects import upload

    async with open_client(service) as client:
        # Topics are looked up before anything is uploaded, so that a misspelt name leaves no object.
        topics = await _topics(client, wanted, wal)
        batches = commit_batches(str(wal.path), wal.batches, topics, _now_ms())
        record = choose_key(wal.path, now_ms=_now_ms(), prefix=wanted.prefix, renew=wanted.new_key)
        with store_errors():
            await client.check_store(store)
            uploaded = await upload(store, record.object_key, wal.path, wal.size_bytes)
        say(f"{store.location}: {record.object_key} {'uploaded' if uploaded else 'is there already'}")
        outcome = await client.commit_file(
            record.object_key,
            wal.size_bytes,
            batches,
        )
    rows = _result_rows(wal, outcome)
    print_rows(rows, wanted.output, COMMIT_COLUMNS if not outcome.is_ok else COMMIT_COLUMNS[:-2])
    _fail_for(wal, outcome)


async def _topics(client: DisklessClient, wanted: Committing, wal: WalFile) -> dict[str, TopicDescription]:
    """The topics of a file by their names in the manifest."""
    from cli.outcome import Exit, Failed
    from cli.service import find_topic

    names = sorted({batch.topic for batch in wal.batches})
    unused = sorted(set(wanted.topic_map) - set(names))
    if unused:
        raise Failed(f"--topic-map {unused[0]}=..: the manifest has no topic of that name; it has {', '.join(names)}", Exit.USAGE)
    return {name: await find_topic(client, wanted.topic_map.get(name, name)) for name in names}


def _result_rows(wal: WalFile, outcome: CommitOutcome) -> list[Row]:
    return [
        {
            "topic": batch.topic,
            "partition": batch.partition,
            "base_offset": result.base_offset,
            "last_offset": -1 if result.error else result.base_offset + batch.header.last_offset_delta,
            "append_time": time_text(result.append_time_ms),
            "log_start_offset": result.log_start_offset,
            "duplicate": result.is_duplicate,
            "object_key": outcome.object_key,
            "error": result.error.name if result.error else "",
            "message": result.message,
        }
        for batch, result in zip(wal.batches, outcome.batches, strict=True)
    ]


def _fail_for(wal: WalFile, outcome: CommitOutcome) -> None:
    """Raise `Failed` when a batch was not accepted: time-out, nothing but errors that heal, or a real rejection."""
    from cli.outcome import Exit, Failed
    from coordinator.kafka.errors import RETRIABLE

    if outcome.is_ok:
        return
    errors = [result.error for result in outcome.batches if result.error]
    what = f"{wal.path}: {len(errors)} of {len(outcome.batches)} batches were not accepted"
    if not outcome.is_known:
        raise Failed(f"{what} in time; run the command again to learn their outcome", Exit.TIMEOUT)
    if all(error in RETRIABLE for error in errors):
        raise Failed(f"{what}; the command may be run again", Exit.UNAVAILABLE)
    raise Failed(what)


@files.command("list")
@click.option("--coordinator", "coordinators", type=INDEX, multiple=True, help="Only files this coordinator knows. Repeatable.")
@click.option(
    "--state",
    "states",
    type=click.Choice(STATES),
    multiple=True,
    help="Only files in this state. Repeatable. [default: live, empty, waiting and deletable ones]",
)
@click.option("--after", help="Only keys after this one.")
@click.option("--max", "max_files", type=LIMIT, default=1000, show_default=True, help="At most this many.")
@service_options
@output_option
def list_(
    coordinators: Sequence[int], states: Sequence[str], after: str | None, max_files: int, service: ServicePlace, output: str
) -> None:
    """List the files the coordinators know, in the order of their keys: one line for each coordinator that knows a file.

    A file is live, then empty (its last batch is deleted), then waiting for owners before this one in its list, or deletable; the object
    stays at least until the time in the column. Of fenced, removed and handed over files only the key is remembered, up to that time.

    Examples: `diskless files list --bootstrap-server localhost:9192`,
    `diskless files list --coordinator 0 --state waiting --max 10 --bootstrap-server localhost:9192 -o jsonl`
    """
    from cli.looks.file_life import listed_row
    from cli.service import run
    from coordinator.core.file_state import FileState

    wanted = Listing(
        coordinators=coordinators,
        states=[FileState(STATES.index(state)) for state in states],
        after=after,
        max_files=max_files,
    )
    listed = run(_list(wanted, service))
    print_rows([listed_row(one) for one in listed], output, LIST_COLUMNS, empty="no files")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The arguments of `files list`."""

    coordinators: Sequence[int]
    states: Sequence[FileState]
    after: str | None
    max_files: int


async def _list(wanted: Listing, service: ServicePlace) -> Sequence[ListedFile]:
    from cli.looks.service import check_coordinators
    from cli.service import open_client

    # A page has the files that were looked at: few of them may be in the states that are wanted.
    page_size = PAGE_SIZE if wanted.states else min(wanted.max_files, PAGE_SIZE)
    async with open_client(service) as client:
        await check_coordinators(client, wanted.coordinators, service.timeout_s)
        listing = client.admin.list_files(wanted.coordinators, states=wanted.states, after_key=wanted.after, page_size=page_size)
        found: list[ListedFile] = []
        async for file in listing:
            found.append(file)
            if len(found) == wanted.max_files:
                break
        return found


@files.command()
@click.argument("object_key", nargs=-1, required=True)
@service_options
@output_option
def describe(object_key: Sequence[str], service: ServicePlace, output: str) -> None:
    """Tell whether files still have live batches, and for each owner their state, what they wait for and when they could go.

    One line for each coordinator that is an owner of the file or remembers its key. `live` is exact, but no licence to delete an
    object: only the coordinators decide that. `earliest` is the time until which the object stays in any case. Status 3 when no
    coordinator has a file under a key.

    Example: `diskless files describe wal/01JD0000000000000000000000 --bootstrap-server localhost:9192`
    """
    from cli.service import run

    run(_describe(object_key, service, output))


async def _describe(keys: Sequence[str], service: ServicePlace, output: str) -> None:
    import asyncio

    from cli.looks.file_life import described_rows
    from cli.service import fail_for, open_client

    async with open_client(service) as client:
        described, found = await asyncio.gather(
            client.admin.describe_files(keys),
            client.admin.find_files(keys),
        )
    rows: list[Row] = []
    for one in described:
        told: Row = {
            "object_key": one.object_key,
            "live": one.has_live_batches,
            "error": one.error.name if one.error else "",
            "message": one.message,
        }
        owners = described_rows([file for file in found.files if file.object_key == one.object_key], found.refusals)
        rows += [{**told, **owner} for owner in owners] or [told]
    print_rows(rows, output, DESCRIBE_COLUMNS)
    fail_for("files", [one.refusal for one in described])


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
