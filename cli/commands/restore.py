"""`diskless restore`: a service whose Kafka is lost, begun again from the snapshots in the object store."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click

from cli.kafka.metadata_topic import PARTITION_COUNT, REQUEST_TIMEOUT_MAX_S, copies_options, create_topic, expected_topic, tell_findings
from cli.objects import NamedStore, named_store_with_snapshots
from cli.options import (
    INDEX,
    dry_run_option,
    kafka_place,
    output_option,
    server_option,
    service_options,
    timeout_option,
)
from cli.output import print_rows, say, time_text
from cli.progress import doing
from cli.spark.session import outcome_folder_option, store_place

if TYPE_CHECKING:
    from cli.kafka.cluster import KafkaPlace
    from cli.output import Row
    from cli.restore.plan import OldLog, RestorePlan
    from cli.restore.report import ReportRow
    from cli.service import ServicePlace
    from coordinator.adapters.kafka.cluster import KafkaAdmin
    from coordinator.client.calls.directory import RestoreDescription
    from coordinator.core.topic_rules import TopicExpectations
    from coordinator.object_store import ObjectStore
    from records.model import Restored
    from spark_jobs.store.engine import StorePlace

REPORT_COLUMNS = (("finding", 12), ("object_key", 44), ("size", 10), ("modified", 24), ("coordinators", 12))
MISSING_TOLD_MAX = 100
START_COLUMNS = ("coordinator", "state", "end_offset", "stored", "epoch_floor", "file_id_base", "snapshot")


@click.group()
def restore() -> None:
    """Begin again in a new Kafka, from the snapshots in the object store."""


@restore.command()
@kafka_place("--kafka-bootstrap-server")
@named_store_with_snapshots
@click.option("--cluster-id", metavar="ID", help="Id of the Kafka cluster that is lost, when the store has snapshots of several.")
@click.option(
    "--metadata-topic-id", "topic_id_text", metavar="ID", help="Topic id of the metadata topic that is lost, when there are several."
)
@click.option("--partitions", type=PARTITION_COUNT, help="Partitions of the topic that is lost. [default: as the snapshots tell]")
@click.option(
    "--accept-loss",
    "accepted",
    type=INDEX,
    multiple=True,
    metavar="ID",
    help="Let a coordinator without a snapshot begin empty. Repeatable.",
)
@copies_options
@dry_run_option
@timeout_option
@output_option
def start(
    kafka: KafkaPlace,
    store: NamedStore,
    cluster_id: str | None,
    topic_id_text: str | None,
    partitions: int | None,
    accepted: Sequence[int],
    replication_factor: int | None,
    min_insync_replicas: int | None,
    dry_run: bool,
    timeout_s: float,
    output: str,
) -> None:
    """Make a new metadata topic that goes on from the newest good snapshots of the one that is lost.

    Stop every node first, and start nodes with empty data directories afterwards. Commits after the snapshots are lost:
    `diskless restore report` lists it. Nothing is written before every snapshot was proven. The command may be run again: it completes
    what it has begun. SECONDS of --timeout are for each answer of Kafka.

    Examples: `diskless restore start --kafka-bootstrap-server kafka:9092 --config coordinator.properties --dry-run`,
    `diskless restore start --kafka-bootstrap-server kafka:9092 --object-store-url s3://bucket --cluster-id MkU3OEVBNTcwNTJENDM2Qg`
    """
    expectations = expected_topic(kafka, replication_factor, min_insync_replicas)
    wanted = _Wanted(cluster_id, topic_id_text, partitions, accepted, dry_run)
    with doing("reading and proving snapshots"):
        asyncio.run(_start(kafka, store.open(), store.snapshots_prefix, expectations, wanted, timeout_s, output))


class _Wanted:
    """The lost log as the operator names it. Raises `Failed` for a text that is no topic id."""

    def __init__(
        self, cluster_id: str | None, topic_id: str | None, partitions: int | None, accepted: Sequence[int], dry_run: bool
    ) -> None:
        from cli.outcome import Exit, Failed
        from coordinator.kafka.names import parse_topic_id

        self.cluster_id = cluster_id
        try:
            self.topic_id = None if topic_id is None else parse_topic_id(topic_id)
        except ValueError as error:
            raise Failed(f"--metadata-topic-id {topic_id}: {error}", Exit.USAGE) from error
        self.partitions = partitions
        self.accepted = sorted(set(accepted))
        self.dry_run = dry_run


async def _start(
    place: KafkaPlace, store: ObjectStore, prefix: str, expectations: TopicExpectations, wanted: _Wanted, timeout_s: float, output: str
) -> None:
    from cli.kafka.cluster import kafka_errors
    from cli.restore.plan import Prover, find_logs, make_plan, pick_log
    from cli.restore.topic import write_entries

    log = pick_log(await find_logs(store, prefix), wanted.cluster_id, wanted.topic_id, f"{store.location} (prefix {prefix or 'none'})")
    cluster = place.open(min(timeout_s, REQUEST_TIMEOUT_MAX_S))
    try:
        with kafka_errors():
            exists, begun = await _look(cluster, place.topic, log)
            plan = await make_plan(Prover(store, prefix, log), log, partitions=wanted.partitions, accepted=wanted.accepted, begun=begun)
            for warning in plan.warnings:
                say(f"warning: {warning}")
            count = len(plan.entries)
            if not wanted.dry_run:
                await _make_topic(cluster, place.topic, count, expectations, exists=exists, timeout_s=timeout_s)
                await write_entries(place, cluster, plan.entries, begun, timeout_s)
    finally:
        await cluster.close()
    print_rows([_row(one, plan, begun, is_written=not wanted.dry_run) for one in plan.entries], output, START_COLUMNS)
    if wanted.dry_run:
        say(f"dry run: nothing was written to topic {place.topic}")
    else:
        say(
            f"topic {place.topic} goes on from these snapshots. Keep them until the service has taken new ones and pruned its log. Start"
            " the nodes with empty data directories, look at `diskless restore report`, then end it with `diskless restore finish`"
        )


async def _look(cluster: KafkaAdmin, topic: str, log: OldLog) -> tuple[int | None, dict[int, Restored]]:
    """How many partitions the new topic has, None when it does not exist, and what they begin with."""
    from cli.restore.topic import begun_entries, check_begun
    from coordinator.runtime.ports import TopicMissing

    try:
        facts = await cluster.describe_topic()
    except TopicMissing:
        return None, {}
    count = len(facts.partitions)
    begun = await begun_entries(cluster, topic, count)
    check_begun(begun, log, topic, count)
    return count, begun


async def _make_topic(
    cluster: KafkaAdmin, topic: str, count: int, expectations: TopicExpectations, *, exists: int | None, timeout_s: float
) -> None:
    """Create the topic, or check the one that exists: entries are written to a safe topic of the right size only. Raises `Failed`."""
    from cli.outcome import Failed

    if exists not in (None, count):
        raise Failed(
            f"topic {topic} exists with {exists} partitions, the restore has {count}: delete it, or name another (--metadata-topic)"
        )
    if exists is None:
        facts = await create_topic(cluster, topic, count, expectations, time.monotonic() + timeout_s)
    else:
        facts = await cluster.describe_topic()
    if not tell_findings(facts, count, expectations):
        raise Failed(f"topic {topic} may lose acknowledged entries; nothing was written to it, put that right and run the command again")


def _row(entry: Restored, plan: RestorePlan, begun: dict[int, Restored], *, is_written: bool) -> Row:
    partition = entry.metadata_partition
    state = "there already" if partition in begun else "written" if is_written else "to be written"
    modified_ms = plan.modified_ms.get(partition, 0)
    return {
        "coordinator": partition,
        "state": state if entry.location else f"{state}, empty",
        "end_offset": entry.old_end_offset if entry.location else None,
        "stored": time_text(modified_ms) if modified_ms > 0 else None,
        "epoch_floor": entry.epoch_floor,
        "file_id_base": entry.file_id_base,
        "snapshot": entry.location or None,
    }


@dataclass(slots=True)
class Missing:
    """Files with live batches without an object: how many, and the first of them."""

    count: int = 0
    first: list[Row] = field(default_factory=list)

    def add(self, row: ReportRow) -> None:
        """Count one."""
        self.count += 1
        if self.count <= MISSING_TOLD_MAX:
            self.first.append({"object_key": row.object_key, "coordinators": list(row.coordinators)})


@restore.command()
@server_option
@named_store_with_snapshots
@store_place(outcome_folder_option("which live files have no object"), is_needed=False)
@timeout_option
@output_option
def report(service: ServicePlace, store: NamedStore, place: StorePlace | None, output: str) -> None:
    """Compare what the service knows, restored or not, with the objects in the store.

    `unknown`: an object of a WAL file that no coordinator knows; it was committed after the snapshots, or never. `missing`: a file
    with live batches whose object is gone; status 5. `partly known`: a file that only some of its owners know, COORDINATORS are the
    others. A producer that repeats a lost commit makes it good. Objects stored since the command began are left out. SECONDS of
    --timeout are for each page.

    Example: `diskless restore report --bootstrap-server localhost:9192 --config coordinator.properties -o jsonl`
    """
    from cli.outcome import Exit, Failed
    from cli.service import run

    began_ms = time.time_ns() // 1_000_000
    report = _report(service, store.open(), store.wal_prefix, store.snapshots_prefix, output)
    missing = run(report, "comparing the service with the object store")
    if place is not None:
        from cli.spark.batch import note_result

        note_result(place, "last_objects", json.dumps({"at_ms": began_ms, "missing_files": missing.count, "missing": missing.first}))
    if missing.count:
        raise Failed(f"{missing.count} files with live batches have no object: their records cannot be read", Exit.AUDIT)


async def _report(service: ServicePlace, store: ObjectStore, wal: str, snapshots: str, output: str) -> Missing:
    """Print what differs; returns the files whose objects are missing."""
    from cli.objects import UnusualKeys, store_errors
    from cli.outcome import Failed
    from cli.output import RowStream
    from cli.restore.report import MISSING, FoundObject, OutOfOrder, compare
    from cli.service import open_client
    from coordinator.core.file_state import FileState
    from coordinator.kafka.errors import ErrorCode

    began_ms = time.time_ns() // 1_000_000
    wal_folder, snapshots_folder = (f"{prefix}/" if prefix else "" for prefix in (wal.strip("/"), snapshots))

    unusual = UnusualKeys()

    async def objects() -> AsyncIterator[FoundObject]:
        async for chunk in store.list(""):
            for one in unusual.without(chunk):
                if not snapshots_folder or not one.key.startswith(snapshots_folder):
                    yield FoundObject(one.key, one.size_bytes, one.modified_ms)

    def is_wanted(one: FoundObject) -> bool:
        return one.key.startswith(wal_folder) and one.modified_ms < began_ms

    missing = Missing()
    with store_errors(), RowStream(output, REPORT_COLUMNS) as rows:
        async with open_client(service) as client:

            async def is_lost(key: str) -> bool:
                if await store.head(key) is not None:
                    return False
                # Retention may have deleted its last batch, and the node the object, since the file was listed.
                (now,) = await client.admin.describe_files([key])
                return now.has_live_batches or now.error not in (ErrorCode.NONE, ErrorCode.RESOURCE_NOT_FOUND)

            _say_restore(await client.admin.restore())
            # In every state: an owner that only remembers the key of a file has lost nothing.
            files = client.admin.list_files(states=tuple(FileState))
            try:
                async for one in compare(files, objects(), is_wanted=is_wanted, is_lost=is_lost):
                    if one.finding == MISSING:
                        missing.add(one)
                    rows.write(_report_row(one))
            except OutOfOrder as error:
                raise Failed(str(error)) from error
    unusual.tell()
    return missing


def _report_row(one: ReportRow) -> Row:
    return {
        "finding": one.finding,
        "object_key": one.object_key,
        "size": one.size_bytes,
        "modified": None if one.modified_ms is None else time_text(one.modified_ms),
        "coordinators": list(one.coordinators),
    }


def _say_restore(restored: RestoreDescription) -> None:
    from coordinator.kafka.names import topic_id_text

    if not restored.is_restored:
        say("this service was not restored: its log begins with nothing")
        return
    state = "finished" if restored.is_finished else "not finished (diskless restore finish)"
    say(f"restored from cluster {restored.old_cluster_id}, topic id {topic_id_text(restored.old_topic_id)}; the restore is {state}")


@restore.command()
@service_options
@output_option
def finish(service: ServicePlace, output: str) -> None:
    """Call the restore finished: partition 0 logs it. Running the command again changes nothing.

    Until then the log of partition 0 is not pruned, and an alert says that a restore is open. Look at `diskless restore report`
    first: afterwards objects that no coordinator knows count as orphans.

    Example: `diskless restore finish --bootstrap-server localhost:9192`
    """
    from cli.outcome import Exit, Failed
    from cli.output import print_fields
    from cli.service import run
    from coordinator.kafka.names import topic_id_text

    restored = run(_finish(service))
    if not restored.is_restored:
        raise Failed("this service was not restored: there is nothing to finish", Exit.NOT_FOUND)
    print_fields(
        {
            "restore_id": restored.restore_id.hex(),
            "finished": restored.is_finished,
            "old_cluster_id": restored.old_cluster_id,
            "old_topic_id": topic_id_text(restored.old_topic_id),
            "coordinators": [
                {
                    "coordinator": one.coordinator_id,
                    "old_end_offset": one.old_end_offset,
                    "file_id_base": one.file_id_base,
                    "snapshot": one.location or None,
                }
                for one in restored.coordinators
            ],
        },
        output,
    )


async def _finish(service: ServicePlace) -> RestoreDescription:
    from cli.service import open_client

    async with open_client(service) as client:
        restored = await client.admin.restore()
        if not restored.is_restored or restored.is_finished:
            return restored
        return await client.admin.finish_restore(restored.restore_id)
