"""Every panel and every alert has data: a real Prometheus scrapes a real service and a real monitor that live through something.

One broker, two nodes, a load: the second node joins and takes over, a stranger writes to the metadata topic, batches are
refused, the broker restarts. Afterwards the service is killed and entries that must not be are planted behind its log.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

import pytest
from confluent_kafka import Producer

from cli.dev.kafka import BrokerRuntime, KafkaCluster
from coordinator.client.calls.moves import PartitionMove
from coordinator.client.client import DisklessClient
from coordinator.client.model import PartitionId
from helm.generator.alerts import ALERTS, GROUPS
from helm.generator.model import Board
from helm.generator.recording import RECORDINGS
from helm.generator.write import BOARDS
from integration_tests.final_state import create_topic, dump_topic
from integration_tests.history import UserPartition
from integration_tests.load import Load
from integration_tests.metadata_log import read_log
from integration_tests.monitor_process import START_TIMEOUT_S, MonitorProcess
from integration_tests.prometheus import Prometheus
from integration_tests.routes import Address
from integration_tests.service import Service
from integration_tests.waiting import WAIT_S, wait_until
from integration_tests.wire import OUT_OF_ORDER_SEQUENCE, Batch, Topic, connected, refused
from records.codec import encode_entry
from records.entry_key import EntryKey, decode_key, encode_key
from records.model import RecordsDeleted
from tests.monitoring.prometheus_tools import program

pytestmark = pytest.mark.timeout(600)

PARTITIONS = 3
USER_PARTITIONS = 9
RULES_LOOK_BACK_S = 125
"""Conditions look two minutes back: they are evaluated as of two minutes from now, when what is there now is old enough."""

ONLY_WITH_FINDINGS = {"Findings by rule"}
ONLY_WITH_ACLS_OF_KAFKA = {"Age of Kafka's ACLs", "Kafka did not tell its ACLs", "DisklessAclsOld"}
"""The broker of these tests has no authorizer."""
ONLY_WITH_TLS = {"Time until certificates expire", "DisklessCertificateExpires"}
"""The nodes of these tests listen in plain text."""


OF_NODES = {name: board for name, board in BOARDS.items() if name not in {"gateway", "export"}}
OF_OTHERS = {alert.name for group in ("gateways", "exports") for alert in GROUPS[group]}
"""No gateway and no export runs here: `gateway/test_gateway_monitoring.py` and `tables/test_export.py` have theirs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What runs."""

    service: Service
    monitor: MonitorProcess
    prometheus: Prometheus
    cluster: KafkaCluster
    owners: Mapping[UserPartition, int]
    load: Load
    load_ends: ExitStack


def address(node_address: str) -> Address:
    host, _, port = node_address.rpartition(":")
    return Address(host, int(port))


@pytest.fixture(scope="module")
def stage(broker_runtime: BrokerRuntime, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The service with its load, the monitor and Prometheus; everything is stopped afterwards."""
    prometheus_program = program("prometheus")
    folder = tmp_path_factory.mktemp("monitoring")
    with ExitStack() as stack:
        cluster = stack.enter_context(KafkaCluster(1, folder / "kafka", runtime=broker_runtime))
        service = Service(
            cluster.bootstrap,
            folder / "service",
            partitions=PARTITIONS,
            properties={"topic.check.interval.ms": "300", "log.retention.check.interval.ms": "1000"},
        )
        stack.callback(service.stop)
        service.start(1)
        monitor = stack.enter_context(MonitorProcess(cluster.bootstrap, service.topic, folder / "monitor"))
        monitor.start("--metrics-port", "0", "--trigger-interval", "1")
        second = service.add(2)
        nodes = {node_id: address(node.address) for node_id, node in service.nodes.items()}
        owners = create_topic({1: nodes[1]}, "orders", USER_PARTITIONS)
        load_ends = stack.enter_context(ExitStack())
        load = load_ends.enter_context(Load(nodes, owners, seed=4))
        load.wait_flowing()
        wait_until(lambda: "ready topic=" in monitor.said() or monitor.has_ended(), "the monitor to be ready", START_TIMEOUT_S)
        assert not monitor.has_ended(), monitor.said()
        port = next(word.removeprefix("metrics=") for word in monitor.said().split() if word.startswith("metrics="))
        targets = {
            "diskless-coordinator": [node.http.removeprefix("http://") for node in service.nodes.values()],
            "diskless-monitor": [port.removeprefix("http://").removesuffix("/metrics")],
        }
        prometheus = stack.enter_context(Prometheus(prometheus_program, folder / "prometheus", targets))
        second.start()
        yield Stage(service=service, monitor=monitor, prometheus=prometheus, cluster=cluster, owners=owners, load=load, load_ends=load_ends)


def applied(expr: str) -> str:
    """An expression of a dashboard with every choice at "All"."""
    for name in ("job", "instance", "partition"):
        expr = expr.replace(f"${name}", ".*")
    return expr.replace("$__rate_interval", "1m")


def without_data(prometheus: Prometheus, expressions: Mapping[str, str], at_s: float | None = None) -> list[str]:
    """What returns nothing, or nothing but "not a number"."""
    return [name for name, expr in expressions.items() if all(math.isnan(sample.value) for sample in prometheus.query(expr, at_s=at_s))]


def wait_for_data(stage: Stage, expressions: Mapping[str, str], from_now_s: float = 0.0) -> None:
    """Wait until all return something, evaluated as of so many seconds from now."""
    deadline_s = time.monotonic() + WAIT_S
    while (missing := without_data(stage.prometheus, expressions, time.time() + from_now_s)) and time.monotonic() < deadline_s:
        stage.load.wait_flowing(1)
    assert missing == []


def mark_expressions(board: Board) -> dict[str, str]:
    return {f"{board.title} / {mark.title}": applied(mark.expr) for mark in board.marks}


def panel_expressions(board: Board) -> dict[str, str]:
    return {
        f"{board.title} / {section.title} / {panel.title} / {query.legend}": applied(query.expr)
        for section in board.sections
        for panel in section.panels
        for query in panel.queries
        if panel.title not in ONLY_WITH_FINDINGS | ONLY_WITH_ACLS_OF_KAFKA | ONLY_WITH_TLS
    }


async def refuse_something(stage: Stage) -> None:
    """Commit a batch whose sequence does not follow, to whoever leads its coordinator."""
    where, coordinator = next(iter(stage.owners.items()))
    node = next(node for node in stage.service.nodes.values() if coordinator in list(node.readiness()[1]["leading"]))  # type: ignore[call-overload]
    topic = Topic(where.topic_id, "orders")
    async with connected(node.address) as wire:
        await wire.commit(Batch(topic, where.partition, producer=77, epoch=0, sequence=0))
        assert await wire.commit(Batch(topic, where.partition, producer=77, epoch=0, sequence=9)) == [refused(OUT_OF_ORDER_SEQUENCE)]


async def move_a_partition(stage: Stage) -> None:
    """Have a partition that nobody writes to go on in another coordinator."""
    async with DisklessClient(stage.service.addresses, client_id="test") as client:
        topic_id = (await client.admin.create_topic("moved", 1)).topic_id
        [before] = (await client.describe_topic(topic_id)).partitions
        to = (before.coordinator_id + 1) % PARTITIONS
        [refusal] = (await client.admin.move_partitions([PartitionMove(PartitionId(topic_id, 0), to)])).refusals
        refusal.raise_for_error()


async def take_snapshots(stage: Stage) -> None:
    """Take one of each coordinator; one of each is no reason to prune."""
    async with DisklessClient(stage.service.addresses, client_id="test") as client:
        for taken in await client.admin.take_snapshots():
            taken.raise_for_error()


def write(stage: Stage, partition: int, *entries: tuple[bytes, bytes]) -> None:
    """Write into the metadata topic as no coordinator would."""
    producer = Producer({"bootstrap.servers": stage.cluster.bootstrap, "acks": "all"})
    for key, value in entries:
        producer.produce(stage.service.topic, key=key, value=value, partition=partition)
    assert producer.flush(60) == 0


def last_key(stage: Stage, partition: int) -> EntryKey:
    """The key of the last entry in force."""
    messages = dump_topic(stage.service.bootstrap, stage.service.topic)[partition]
    claim = read_log(messages).claims[-1]
    keys = [key for message in messages if (key := decode_key(message.key)) is not None and key.term == claim.term]
    return max(keys, key=lambda key: key.seq)


async def test_every_panel_and_every_alert_has_data(stage: Stage) -> None:
    prometheus, service = stage.prometheus, stage.service
    service.wait_shared()
    await refuse_something(stage)
    write(stage, 0, (b"a stranger", b"who is lost"))
    stage.load.wait_flowing()
    stage.cluster.restart(1)
    stage.load.wait_flowing()
    service.wait_shared()
    await take_snapshots(stage)
    await move_a_partition(stage)

    expressions = {name: expr for board in OF_NODES.values() for name, expr in panel_expressions(board).items()}
    expressions |= {one.record: one.record for one in RECORDINGS if "gateway" not in one.record}
    wait_for_data(stage, expressions)
    asked = [alert for alert in ALERTS if alert.name not in ONLY_WITH_ACLS_OF_KAFKA | ONLY_WITH_TLS | OF_OTHERS]
    looked_at = {f"{alert.name}: {expr}": expr for alert in asked for expr in alert.looks_at}
    wait_for_data(stage, {name: expr for name, expr in looked_at.items() if "findings" not in expr}, RULES_LOOK_BACK_S)
    for expr in [*(alert.expr for alert in ALERTS), *(expr for board in OF_NODES.values() for expr in mark_expressions(board).values())]:
        prometheus.query(expr)

    # What the numbers say is what happened. A process that is late with its answer to Prometheus has no numbers for a second.
    wait_until(
        lambda: sorted(one.labels["partition"] for one in prometheus.query("diskless_coordinator_leading == 1")) == ["0", "1", "2"],
        "each coordinator to be led once",
    )
    rejected = 'sum(diskless_coordinator_rejected_batches_total{error="OUT_OF_ORDER_SEQUENCE_NUMBER"})'
    wait_until(lambda: [one.value for one in prometheus.query(rejected)] == [1], "one refused batch")
    wait_until(lambda: "DisklessForeignEntries" in prometheus.firing(), "the alert about a stranger's entries")
    moved = 'sum(diskless_coordinator_partition_moves_total{event="moved"})'
    wait_until(lambda: [one.value for one in prometheus.query(moved)] == [1], "one partition that moved")
    assert prometheus.firing() <= {"DisklessForeignEntries", "DisklessLeaderFlapping"}


def test_replicas_that_stand_at_the_same_offset_agree(stage: Stage) -> None:
    stage.load_ends.close()
    by_partition = "by (namespace, job, partition) (diskless_coordinator_state_applied_offset)"
    at_the_same = f"count {by_partition} == 2 and max {by_partition} == min {by_partition}"
    agreed: set[str] = set()

    def all_have_agreed() -> bool:
        # Leaders write an entry every few seconds, so on a busy machine the coordinators stand still one after the other.
        still = {one.labels["partition"] for one in stage.prometheus.query(at_the_same)}
        digests: dict[str, list[float]] = {}
        for one in stage.prometheus.query("diskless_coordinator_state_digest"):
            digests.setdefault(one.labels["partition"], []).append(one.value)
        agreed.update(one for one in still if len(digests[one]) == 2 and len({*digests[one]}) == 1 and digests[one][0] > 0)
        return len(agreed) == PARTITIONS

    wait_until(all_have_agreed, "both replicas of each coordinator to have written the same")
    assert {one.value for one in stage.prometheus.query("max_over_time(diskless_coordinator:digests_differ[5m])")} == {0}


def test_what_must_not_be_in_the_log_raises_the_alarm(stage: Stage) -> None:
    for node in stage.service.nodes.values():
        node.kill()
    last = last_key(stage, 0)
    keys = [EntryKey(last.epoch, last.term, last.seq + more) for more in (1, 2)]
    where = next(where for where, owner in stage.owners.items() if owner == 0)
    beyond = RecordsDeleted(topic_id=where.topic_id, partition=where.partition, new_log_start_offset=10**12)
    write(stage, 0, (encode_key(keys[0]), encode_entry([beyond])), (encode_key(keys[1]), b"broken"))
    wanted = {"DisklessAuditFindings", "DisklessQuarantine"}
    wait_until(lambda: wanted <= stage.prometheus.firing(), "the alerts about the log")
    panels = {panel.title: panel for section in BOARDS["monitor"].sections for panel in section.panels}
    for title in ONLY_WITH_FINDINGS:
        assert stage.prometheus.query(applied(panels[title].queries[0].expr))
    marks = mark_expressions(BOARDS["monitor"])
    wait_until(lambda: all(stage.prometheus.query(expr) for expr in marks.values()), "the mark of a finding")
    # It fires after a minute.
    down = 'ALERTS{alertname="DisklessServiceDown", alertstate=~"pending|firing"}'
    wait_until(lambda: bool(stage.prometheus.query(down)), "the alert about the service to be pending")
