"""`diskless doctor`: looks at Kafka, the nodes, the object store and this machine, and says what is wrong."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from cli.objects import store_options
from cli.options import (
    OFFSET,
    gateway_group_option,
    kafka_options,
    kafka_server_option,
    optional_server_option,
    output_option,
    timeout_option,
    topic_option,
)
from cli.output import print_rows
from cli.progress import doing

if TYPE_CHECKING:
    from cli.doctor.diagnosis import Diagnosis, LastEntry
    from cli.kafka.cluster import KafkaPlace
    from cli.looks.service import NodeView
    from coordinator.client.calls.directory import RestoreDescription
    from coordinator.client.calls.files import ListedFile
    from coordinator.client.calls.orphans import OrphanScanState
    from coordinator.client.client import DisklessClient
    from coordinator.config import Settings
    from coordinator.core.topic_rules import TopicExpectations
    from coordinator.object_store import ObjectStore
    from coordinator.runtime.ports import TopicFacts

COLUMNS = ("health", "check", "finding", "remedy")
SKEW_MAX_MS = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Patient:
    """The places to examine; None for those that were not given."""

    nodes: str | None
    kafka: KafkaPlace | None
    open_store: Callable[[], ObjectStore] | None
    settings: Settings | None
    gateway_group: str
    gateway_token_file: Path | None
    lag_max: int
    timeout_s: float


@click.command()
@optional_server_option("Addresses of coordinator nodes.")
@kafka_server_option("--kafka-bootstrap-server", name="kafka_server")
@kafka_options
@topic_option
@store_options
@gateway_group_option("--gateway-group")
@click.option(
    "--gateway-token-file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="File with a bearer token of the gateways' HTTP ports.",
)
@click.option("--lag-max", type=OFFSET, default=1000, show_default=True, help="Entries a replica may be behind.")
@timeout_option
@output_option
def doctor(
    bootstrap_server: str | None,
    kafka_server: str | None,
    command_config: Path | None,
    command_properties: Sequence[str],
    topic: str | None,
    store_url: str | None,
    store_options: Sequence[str],
    config_file: Path | None,
    gateway_group: str,
    gateway_token_file: Path | None,
    lag_max: int,
    timeout_s: float,
    output: str,
) -> None:
    """Find out what is wrong with a service: each finding comes with its remedy.

    Looks at what the options name: the metadata topic's settings, replicas and leaders (Kafka), reachability, versions, leaders,
    standbys, digests, snapshots, moves of partitions, overdue files, retention, data directories and clocks (nodes), shadows of diskless
    topics (Kafka and nodes), gateways and the batches of their clients (Kafka and the gateways' HTTP ports), the object store, and the
    data directories and the security of this machine's node (--config). Status 1 when a finding is an error; warnings alone give 0.

    Examples: `diskless doctor --config coordinator.properties --bootstrap-server localhost:9192`,
    `diskless doctor --bootstrap-server localhost:9192 --kafka-bootstrap-server localhost:9092 -o json`
    """
    import asyncio

    from cli.configuration import read_service_settings
    from cli.doctor.diagnosis import CHECK_ORDER, Health
    from cli.kafka.cluster import find_kafka_place
    from cli.objects import open_object_store
    from cli.outcome import Exit, Failed

    if not (bootstrap_server or kafka_server or store_url or config_file):
        raise Failed("nothing to look at: pass --config, --bootstrap-server, --kafka-bootstrap-server or --object-store-url", Exit.USAGE)
    has_kafka = kafka_server is not None or config_file is not None
    patient = Patient(
        nodes=bootstrap_server,
        kafka=find_kafka_place(kafka_server, config_file, topic, command_config, command_properties) if has_kafka else None,
        open_store=partial(open_object_store, store_url, store_options, config_file) if store_url or config_file else None,
        settings=None if config_file is None else read_service_settings(config_file),
        gateway_group=gateway_group,
        gateway_token_file=gateway_token_file,
        lag_max=lag_max,
        timeout_s=timeout_s,
    )
    with doing("examining the service"):
        found = sorted(asyncio.run(_examine(patient)), key=lambda one: CHECK_ORDER.index(one.check))
    print_rows([asdict(one) for one in found], output, COLUMNS)
    errors = sum(one.health is Health.ERROR for one in found)
    if errors:
        raise Failed(f"{errors} of {len(found)} findings are errors")


async def _examine(patient: Patient) -> list[Diagnosis]:
    facts, entries, found = await _look_at_kafka(patient)
    more = await _look_at_nodes(patient, facts, entries)
    found += more
    more, shadows = await _look_at_shadows(patient)
    found += more
    found += await _look_at_gateways(patient, shadows)
    found += await _look_at_store(patient)
    found += _look_at_folders(patient)
    found += _look_at_security(patient)
    return found


async def _look_at_kafka(patient: Patient) -> tuple[TopicFacts | None, list[LastEntry], list[Diagnosis]]:
    from cli.doctor.diagnosis import Diagnosis, Health, LastEntry, diagnose_clocks, diagnose_topic, skipped
    from cli.kafka.cluster import kafka_errors
    from cli.outcome import Exit, Failed

    if patient.kafka is None:
        why = "no Kafka was given: --kafka-bootstrap-server or --config"
        return None, [], [skipped("kafka topic", why), skipped("clocks", why)]
    remedy = "nothing can be committed while Kafka cannot be reached: see the brokers, the address and the credentials"
    try:
        cluster = patient.kafka.open(min(patient.timeout_s, 10.0))
    except Failed as failed:
        why = "Kafka cannot be reached"
        unreached = Diagnosis(health=Health.ERROR, check="kafka topic", finding=str(failed), remedy=remedy)
        return None, [], [unreached, skipped("kafka leaders", why), skipped("clocks", why)]
    entries: list[LastEntry] = []
    try:
        with kafka_errors():
            facts = await cluster.describe_topic()
            for partition in facts.partitions:
                if partition.leader is not None:
                    start, end = await cluster.log_range(partition.partition)
                    last = await cluster.read_entry(partition.partition, end - 1) if end > start else None
                    timestamp_ms = None if last is None else last.timestamp_ms
                    entries.append(LastEntry(partition=partition.partition, log_end=end, timestamp_ms=timestamp_ms, now_ms=_now_ms()))
    except Failed as failed:
        why = "the metadata topic cannot be read"
        if failed.status is Exit.NOT_FOUND:  # Kafka has answered
            remedy = "nothing can be committed without it: create it with `diskless init`, or name another with --metadata-topic"
            why = "the metadata topic does not exist"
        unread = Diagnosis(health=Health.ERROR, check="kafka topic", finding=str(failed), remedy=remedy)
        return None, [], [unread, skipped("kafka leaders", why), skipped("clocks", why)]
    finally:
        await cluster.close()
    skew_max_ms = SKEW_MAX_MS if patient.settings is None else patient.settings.clock_skew_max_ms
    found = diagnose_topic(facts, _expectations(patient))
    return facts, entries, [*found, *diagnose_clocks(entries, skew_max_ms)]


def _expectations(patient: Patient) -> TopicExpectations:
    """Return the requirements of the settings; without settings those of a production cluster."""
    from coordinator.core.topic_rules import TopicExpectations

    if patient.settings is None:
        return TopicExpectations()
    factor = patient.settings.diskless_metadata_topic_replication_factor
    in_sync = patient.settings.diskless_metadata_topic_min_insync_replicas
    return TopicExpectations(replication_factor=factor, min_insync_replicas=in_sync, is_development=factor == 1)


async def _look_at_nodes(patient: Patient, facts: TopicFacts | None, entries: Sequence[LastEntry]) -> list[Diagnosis]:
    from cli.doctor.diagnosis import (
        Diagnosis,
        Health,
        diagnose_coordinators,
        diagnose_nodes,
        diagnose_progress,
        diagnose_versions,
        skipped,
    )
    from cli.doctor.dirs import diagnose_dirs
    from cli.doctor.files import diagnose_files, diagnose_orphan_scan
    from cli.doctor.migrations import diagnose_migrations
    from cli.doctor.nodes import (
        diagnose_doubled_ids,
        diagnose_drains,
        diagnose_narrow_topics,
        diagnose_node_clocks,
        diagnose_placement,
        diagnose_stores,
        diagnose_withheld,
    )
    from cli.doctor.snapshots import diagnose_restore, diagnose_snapshots
    from cli.looks.service import look
    from cli.looks.snapshots import look_at_snapshots
    from cli.outcome import Failed
    from cli.service import ServicePlace, open_client
    from coordinator.client.errors import ServiceError

    if patient.nodes is None:
        return [skipped("nodes", "no node was given: --bootstrap-server")]
    try:
        async with open_client(ServicePlace(patient.nodes, min(patient.timeout_s, 10.0))) as client:
            views = await look(client, min(patient.timeout_s, 10.0))
            served, needed = await _served(client, views)
            strangers = await _strangers(client, patient.nodes, views)
            placed = await _placed(client, patient.timeout_s)
            snapshots = await look_at_snapshots(client, min(patient.timeout_s, 10.0))
            restored = await _restored(client, patient.timeout_s)
            files = await _idle_files(client, patient.timeout_s)
            retention = await _retention(client, patient.timeout_s)
            scan = await _orphan_scan(client, patient.timeout_s)
            migrations = await _migrations(client, patient.timeout_s)
            moves = await _moves(client, patient.timeout_s)
    except (ServiceError, Failed) as error:
        remedy = "start the nodes, or correct --bootstrap-server; the logs of the nodes say why they do not serve"
        why = error.message if isinstance(error, ServiceError) else str(error)
        return [Diagnosis(health=Health.ERROR, check="nodes", finding=f"no node answers: {why}", remedy=remedy)]
    skew_max_ms = SKEW_MAX_MS if patient.settings is None else patient.settings.clock_skew_max_ms
    coordinators = max((view.coordinator_count for view in views), default=0)
    found = [
        *diagnose_nodes(views, None if facts is None else facts.cluster_id),
        *diagnose_withheld(views),
        *diagnose_drains(views),
        *diagnose_placement(views, coordinators),
        *diagnose_stores(views),
        *diagnose_doubled_ids(views, strangers),
        *diagnose_node_clocks(views, skew_max_ms),
        *diagnose_narrow_topics(placed, coordinators),
        *moves,
        *diagnose_versions(served, needed),
        *diagnose_coordinators(views, None if facts is None else len(facts.partitions), patient.lag_max),
        *diagnose_progress(views, entries, patient.lag_max),
        *diagnose_snapshots(snapshots, *_snapshot_limits(patient)),
        *diagnose_dirs(views),
        *diagnose_restore(restored),
        *diagnose_files(files, _now_ms()),
        *retention,
        *diagnose_orphan_scan(scan, _now_ms()),
        *diagnose_migrations(migrations),
    ]
    return found


async def _restored(client: DisklessClient, timeout_s: float) -> RestoreDescription:
    """The restore that the log begins with; none when the directory has no leader, which other findings tell."""
    from cli.service import milliseconds
    from coordinator.client.calls.directory import RestoreDescription
    from coordinator.client.errors import ServiceError

    try:
        return await client.admin.restore(timeout_ms=milliseconds(min(timeout_s, 3.0)))
    except ServiceError:
        return RestoreDescription()


async def _idle_files(client: DisklessClient, timeout_s: float) -> list[ListedFile]:
    """Waiting and deletable files among the first of each coordinator; none of those that do not answer, which other findings tell."""
    from cli.doctor.files import LOOKED_AT
    from cli.service import milliseconds
    from coordinator.core.file_state import FileState

    timeout_ms = milliseconds(min(timeout_s, 3.0))
    found = await client.admin.first_files(LOOKED_AT, states=[FileState.WAITING, FileState.DELETABLE], timeout_ms=timeout_ms)
    return list(found.files)


async def _retention(client: DisklessClient, timeout_s: float) -> list[Diagnosis]:
    """Findings of a look at what is past retention, which deletes nothing."""
    from cli.doctor.diagnosis import skipped
    from cli.doctor.retention import RETENTION, diagnose_retention
    from cli.service import milliseconds
    from coordinator.client.errors import ServiceError

    try:
        topics = await client.admin.list_topics(timeout_ms=milliseconds(min(timeout_s, 3.0)))
        enforced = await client.admin.enforce_retention(is_dry_run=True, timeout_ms=milliseconds(min(timeout_s, 10.0)))
    except ServiceError as error:
        return [skipped(RETENTION, f"partitions cannot be looked at: {error.message}")]
    return diagnose_retention(enforced, {one.topic_id: one.name for one in topics})


async def _moves(client: DisklessClient, timeout_s: float) -> list[Diagnosis]:
    """Findings about the moves of partitions that are under way."""
    from cli.doctor.diagnosis import skipped
    from cli.doctor.moves import MOVES, diagnose_moves
    from cli.service import milliseconds
    from coordinator.client.errors import ServiceError

    timeout_ms = milliseconds(min(timeout_s, 3.0))
    try:
        told = await client.admin.move_partitions([], timeout_ms=timeout_ms)
        topics = await client.admin.list_topics(timeout_ms=timeout_ms) if told.under_way else []
    except ServiceError as error:
        return [skipped(MOVES, f"moves of partitions cannot be asked for: {error.message}")]
    return diagnose_moves(told.under_way, {one.topic_id: one.name for one in topics})


async def _orphan_scan(client: DisklessClient, timeout_s: float) -> OrphanScanState:
    """How far the scan for orphans is, or why that is not told."""
    from cli.service import milliseconds
    from coordinator.client.calls.orphans import OrphanScanState
    from coordinator.client.errors import Refusal, ServiceError

    try:
        return await client.admin.orphan_scan(timeout_ms=milliseconds(min(timeout_s, 3.0)))
    except ServiceError as error:
        return OrphanScanState(refusal=Refusal(error.code, error.message))


async def _migrations(client: DisklessClient, timeout_s: float) -> list[tuple[str, str]]:
    """Topic and state of partitions, of the first ones where there are very many; those that do not answer are left out."""
    from cli.doctor.migrations import ASKED_MAX
    from cli.service import milliseconds
    from coordinator.client.errors import ServiceError
    from coordinator.client.model import PartitionId
    from coordinator.kafka.errors import ErrorCode

    timeout_ms = milliseconds(min(timeout_s, 3.0))
    try:
        topics = await client.describe_topics(timeout_ms=timeout_ms)
    except ServiceError:
        return []  # other findings have the reason
    named = [(topic.name, PartitionId(topic.topic_id, one.partition)) for topic in topics for one in topic.partitions][:ASKED_MAX]
    states = await client.admin.describe_diskless_logs([partition for _, partition in named], timeout_ms=timeout_ms)
    return [(name, one.state) for (name, _), one in zip(named, states, strict=True) if one.error is ErrorCode.NONE]


async def _look_at_shadows(patient: Patient) -> tuple[list[Diagnosis], int]:
    """Compare the diskless topics with Kafka's, and count those with a shadow; other findings tell why Kafka or the nodes do not answer."""
    import asyncio

    from cli.doctor.diagnosis import skipped
    from cli.doctor.shadows import CHECK, diagnose_shadows
    from cli.kafka.shadows import ShadowTopics
    from cli.outcome import Failed
    from cli.service import ServicePlace, milliseconds, open_client
    from coordinator.client.errors import ServiceError
    from coordinator.client.model import PartitionId

    if patient.nodes is None or patient.kafka is None:
        return [skipped(CHECK, "nodes and Kafka are needed for it: --bootstrap-server, --kafka-bootstrap-server or --config")], 0
    timeout_s = min(patient.timeout_s, 10.0)
    try:
        async with open_client(ServicePlace(patient.nodes, timeout_s)) as client:
            listed = await client.admin.list_topics(timeout_ms=milliseconds(timeout_s))
            classic = [PartitionId(one.topic_id, partition) for one in listed for partition in one.classic]
            logs = await client.admin.describe_diskless_logs(classic, timeout_ms=milliseconds(timeout_s)) if classic else []
        pending = {one.topic_id for one, log in zip(classic, logs, strict=True) if log.error or log.state == "pending"}
        starts = {(one.topic_id, one.partition): log.start_offset for one, log in zip(classic, logs, strict=True)}
        ids = {one.topic_id for one in listed} - pending
        with await asyncio.to_thread(ShadowTopics, patient.kafka, timeout_s) as shadows:
            found = await asyncio.to_thread(shadows.all)
            records = await asyncio.to_thread(shadows.records, [one for one in found if one.topic_id in ids], starts)
    except (ServiceError, Failed) as error:
        return [skipped(CHECK, f"topics cannot be compared: {error}")], 0
    return diagnose_shadows(listed, found, records, pending), len({one.topic_id for one in listed} & {one.topic_id for one in found})


async def _look_at_gateways(patient: Patient, shadows: int) -> list[Diagnosis]:
    """Look at the live gateways; `shadows` is how many diskless topics Kafka clients could reach through them."""
    from cli.doctor.diagnosis import skipped
    from cli.doctor.gateways import CHECK, diagnose_gateways
    from cli.looks.gateways import find_gateways, look_at_gateways
    from cli.looks.http_access import HttpAccess
    from cli.outcome import Failed

    if patient.kafka is None:
        return [skipped(CHECK, "no Kafka was given: --kafka-bootstrap-server or --config")]
    try:
        access = HttpAccess.of(patient.kafka.properties, patient.timeout_s, patient.gateway_token_file)
        gateways = await find_gateways(patient.kafka, patient.gateway_group, min(patient.timeout_s, 10.0))
    except Failed as failed:
        return [skipped(CHECK, str(failed))]
    return diagnose_gateways(await look_at_gateways(gateways, access), shadows)


def _snapshot_limits(patient: Patient) -> tuple[int, int]:
    """Bytes of log and milliseconds after which a snapshot is due, by the settings or else by their defaults."""
    from coordinator.config import KEYS

    if patient.settings is not None:
        return (
            patient.settings.metadata_log_max_record_bytes_between_snapshots,
            patient.settings.metadata_log_max_snapshot_interval_ms,
        )
    names = ("metadata.log.max.record.bytes.between.snapshots", "metadata.log.max.snapshot.interval.ms")
    bytes_between, interval_ms = (int(KEYS[name].default or 0) for name in names)
    return bytes_between, interval_ms


async def _strangers(client: DisklessClient, servers: str, views: Sequence[NodeView]) -> list[tuple[str, int, bytes]]:
    """The processes at addresses that were given here and are registered nowhere: address, node id, incarnation."""
    from coordinator.client.routing.connection import ConnectionLost, RequestTimedOut
    from coordinator.protocol.messages import DescribeCoordinatorsRequest, DescribeCoordinatorsResponse
    from coordinator.protocol.wire import MalformedMessage

    known = {f"{view.node.host}:{view.node.port}" for view in views}
    found = []
    for address in [one.strip() for one in servers.split(",") if one.strip() not in known]:
        host, _, port = address.rpartition(":")
        try:
            answer = await client.admin.node(host.strip("[]"), int(port)).call(DescribeCoordinatorsRequest(coordinator_ids=()))
        except (ConnectionLost, RequestTimedOut, MalformedMessage, ValueError):
            continue
        response = cast(DescribeCoordinatorsResponse, answer)
        found.append((address, response.node_id, response.incarnation_id))
    return found


async def _placed(client: DisklessClient, timeout_s: float) -> dict[str, list[int]]:
    """The coordinator of each partition of each topic."""
    from cli.service import milliseconds
    from coordinator.client.errors import ServiceError

    try:
        topics = await client.describe_topics(timeout_ms=milliseconds(timeout_s))
    except ServiceError:
        return {}  # without a directory there is nothing to say of topics; the findings on leaders have the reason
    return {topic.name: [one.coordinator_id for one in topic.partitions] for topic in topics}


async def _served(client: DisklessClient, views: Sequence[NodeView]) -> tuple[dict[int, dict[int, tuple[int, int]]], dict[int, int]]:
    """Return the requests and versions that each answering node serves, and the newest versions that this release sends."""
    import kio.schema.api_versions.v4 as api_versions

    from coordinator.client.routing.connection import ConnectionLost, RequestTimedOut
    from coordinator.operations.table import APIS
    from coordinator.protocol.codec import Message
    from coordinator.protocol.wire import MalformedMessage

    request = api_versions.ApiVersionsRequest(client_software_name="diskless", client_software_version="1")
    served: dict[int, dict[int, tuple[int, int]]] = {}
    for view in views:
        if view.error:
            continue
        try:
            answer = await client.admin.node(view.node.host, view.node.port).call(cast(Message, request))
        except (ConnectionLost, RequestTimedOut, MalformedMessage):
            served[view.node.node_id] = {}
            continue
        keys = cast(api_versions.ApiVersionsResponse, answer).api_keys
        served[view.node.node_id] = {int(one.api_key): (int(one.min_version), int(one.max_version)) for one in keys}
    # The KIP's own numbers may be switched off; this program does not use them.
    return served, {key: max(api.versions) for key, api in APIS.items() if not api.is_kip_key}


async def _look_at_store(patient: Patient) -> list[Diagnosis]:
    from cli.doctor.diagnosis import Diagnosis, Health, skipped
    from cli.objects import store_errors
    from cli.outcome import Failed

    if patient.open_store is None:
        return [skipped("object store", "no object store was given: --object-store-url or --config")]
    try:
        store = patient.open_store()
        with store_errors():
            await store.ping()
            await _compare_store(patient, store)
    except Failed as failed:
        remedy = "files can neither be uploaded, read nor deleted there: see the store, its address and the credentials"
        return [Diagnosis(health=Health.ERROR, check="object store", finding=str(failed), remedy=remedy)]
    return [Diagnosis(health=Health.OK, check="object store", finding=f"{store.location} answers")]


async def _compare_store(patient: Patient, store: ObjectStore) -> None:
    """Raise `StoreError` when the nodes that were given have another store; other findings tell of nodes without an answer."""
    from contextlib import suppress

    from cli.outcome import Failed
    from cli.service import ServicePlace, milliseconds, open_client
    from coordinator.client.errors import ServiceError

    if patient.nodes is None:
        return
    timeout_s = min(patient.timeout_s, 10.0)
    with suppress(ServiceError, Failed):
        async with open_client(ServicePlace(patient.nodes, timeout_s)) as client:
            await client.check_store(store, timeout_ms=milliseconds(timeout_s))


def _look_at_folders(patient: Patient) -> list[Diagnosis]:
    """The data directories of the settings, as far as they are on this machine."""
    import os
    import shutil

    from cli.doctor.diagnosis import Space, diagnose_space, skipped
    from coordinator.adapters.sqlite.evidence import Evidence
    from coordinator.config.disk import remedy

    if patient.settings is None:
        return [skipped("data dirs", "no settings were given: --config")]
    spaces = []
    for folder in patient.settings.data_dirs:
        if not folder.is_dir():
            continue
        try:
            usage = shutil.disk_usage(folder)
            evidence = [one.path.name for one in Evidence(folder, disk_percent=0).kept()]
        except OSError as error:
            spaces.append(Space(path=str(folder), total_bytes=0, free_bytes=0, problem=str(error), remedy=remedy(error)))
            continue
        problem = "" if os.access(folder, os.R_OK | os.W_OK | os.X_OK) else "this user may not read and write it"
        what = "correct its owner and mode, or mount its file system for writing" if problem else ""
        spaces.append(
            Space(path=str(folder), total_bytes=usage.total, free_bytes=usage.free, problem=problem, remedy=what, evidence=evidence)
        )
    if not spaces:
        return [skipped("data dirs", "no data directory of the settings is on this machine; run doctor where the node runs")]
    return diagnose_space(spaces)


def _look_at_security(patient: Patient) -> list[Diagnosis]:
    """The settings, and the files that they name on this machine."""
    from cli.doctor.diagnosis import skipped
    from cli.doctor.security import CHECK, diagnose_security, named_files

    if patient.settings is None:
        return [skipped(CHECK, "no settings were given: --config")]
    return diagnose_security(patient.settings, named_files(patient.settings), time.time())


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
