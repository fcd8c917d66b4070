"""Five minutes of faults under load: every number of the page, the commands and the metrics is what the log and the store have.

Files are committed by a client and through a gateway, records are deleted, a group reads; nodes, the monitor, Spark's JVM and Kafka are
killed in turn. Every second the page is asked what it shows. Then the log is counted independently (`log_count`) and compared.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from playwright.sync_api import sync_playwright

from cli.dev.gateway import GatewayProcess
from cli.dev.kafka import KafkaCluster
from cli.dev.ports import lease_ports
from cli.outcome import Exit
from cli.output import time_text
from coordinator.client.client import DisklessClient
from coordinator.client.errors import ServiceError
from coordinator.client.model import PartitionId
from coordinator.client.records.ulid import new_key
from coordinator.kafka.errors import ErrorCode
from helm.generator.write import BOARDS
from integration_tests.commands import run
from integration_tests.dashboard_browser import DashboardProcess, looked_at, open_chromium
from integration_tests.final_state import Logs, dump_topic
from integration_tests.log_count import LogCount
from integration_tests.monitor_process import START_TIMEOUT_S, MonitorProcess
from integration_tests.page_polls import PagePolls, Unwatched, ask
from integration_tests.prometheus import Prometheus
from integration_tests.service import Service
from integration_tests.uploader import Uploader, batch_of
from integration_tests.waiting import WAIT_S, wait_until
from tests.monitoring.prometheus_tools import program

MINUTES = float(os.environ.get("DISKLESS_TEST_FAULT_MINUTES", "5"))
SEED = int(os.environ.get("DISKLESS_TEST_FAULT_SEED", "1"))
pytestmark = [pytest.mark.timeout(60 * MINUTES + 1200), pytest.mark.long]

COORDINATORS = 4
GATEWAY_PARTITIONS = 6
GROUP = "readers"
TOPICS = ("clicks", "orders")
QUICK = {
    "file.delete.grace.ms": "10000",
    "file.commit.max.age.ms": "60000",
    "file.cleaner.interval.ms": "500",
    "log.retention.check.interval.ms": "1000",
    "log.retention.ms": "604800000",
}
FLOWING = 40
KEPT = {"retention.ms": 86_400_000, "retention.bytes": 60_000}
"""Of the uploader's topic; the other one has the service's settings."""

NO_SERIES = {
    "Findings by rule": "nothing is found",
    "Age of Kafka's ACLs": "this Kafka has no ACLs",
    "Kafka did not tell its ACLs": "this Kafka has no ACLs",
    "Time until certificates expire": "listeners are plain",
    "Gateway certificates": "listeners are plain",
    "Throttled answers": "there are no quotas",
    "Throttled requests": "there are no quotas",
    "Refused partitions": "no producer asks for what is refused",
    "Time to take or to load one (p99)": "no node has to load a snapshot",
}
"""Panels of the boards that may show nothing of such a run, and why."""


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Clients:
    """An idempotent producer and a group of one member at a gateway, and somebody who deletes records, until stopped."""

    def __init__(self, service: Service, gateway: GatewayProcess) -> None:
        self._service, self._gateway = service, gateway
        self._stop = threading.Event()
        self.read = self.deleted = 0
        self.failed: list[BaseException] = []
        self._threads = [threading.Thread(target=self._guard(work)) for work in (self._write, self._read, self._delete)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End all three; may be called again."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        assert not self.failed, self.failed

    def _guard(self, work: Callable[[], None]) -> Callable[[], None]:
        def guarded() -> None:
            try:
                work()
            except BaseException as error:
                self.failed.append(error)
                raise

        return guarded

    def _write(self) -> None:
        client = Producer({"bootstrap.servers": self._gateway.address, "enable.idempotence": True, "linger.ms": 50, "log_level": 0})
        number = 0
        while not self._stop.is_set():
            number += 1
            client.produce("clicks", b"%d" % number * 20, key=b"%d" % number)
            client.poll(0.01)
        assert client.flush(2 * WAIT_S) == 0

    def _read(self) -> None:
        settings = {"bootstrap.servers": self._gateway.address, "group.id": GROUP, "auto.offset.reset": "earliest", "log_level": 0}
        client = Consumer({**settings, "enable.auto.commit": True, "auto.commit.interval.ms": 1000})
        client.subscribe(["clicks"])
        while not self._stop.is_set():
            message = client.poll(0.2)
            self.read += message is not None and message.error() is None
        client.close()

    def _delete(self) -> None:
        chance = random.Random(SEED)
        while not self._stop.wait(5):
            asyncio.run(self._delete_some(chance))

    async def _delete_some(self, chance: random.Random) -> None:
        """Delete the older half of some partitions; a node that is gone says so, and the next round comes."""
        async with DisklessClient(self._service.addresses) as client:
            try:
                topics = [await client.describe_topic(name) for name in TOPICS]
                places = chance.sample([(topic.topic_id, one) for topic in topics for one in topic.partitions], 5)
                points = [(PartitionId(topic, one.partition), (one.log_start_offset + one.high_watermark) // 2) for topic, one in places]
                self.deleted += sum(not one.error for one in await client.admin.delete_records(points))
            except ServiceError:
                return


@dataclass(kw_only=True)
class Run:
    """What runs, and what is known of it in the end. `unwatched` are the times that nobody saw."""

    kafka: KafkaCluster
    service: Service
    gateway: GatewayProcess
    monitor: MonitorProcess
    dashboard: DashboardProcess
    metrics_port: int
    unwatched: list[Unwatched] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    log: LogCount = field(default_factory=lambda: LogCount({}))
    polls: PagePolls = field(default_factory=lambda: PagePolls(""))
    stored: dict[str, int] = field(default_factory=dict)
    began_s: int = 0
    prometheus: Prometheus | None = None
    names: dict[str, bytes] = field(default_factory=dict)

    def start_monitor(self) -> None:
        """Start it, without waiting."""
        self.monitor.start("--trigger-interval", "0.5", "--metrics-port", str(self.metrics_port))

    def page(self, path: str, **parameters: object) -> Any:
        """Ask the dashboard."""
        return ask(self.dashboard.address, path, **parameters)

    def facts(self, look: str) -> dict[str, Any]:
        """The facts of a thing's page."""
        return {one["name"]: one["value"] for one in self.page("look", look=look)["facts"]}

    def is_current(self) -> bool:
        """Whether the page can say what happens now."""
        numbers = self.page("overview")["numbers"]
        return numbers is not None and bool(numbers["is_current"])

    @contextmanager
    def blind(self, why: str) -> Iterator[None]:
        """Nothing of the log is seen while the block runs."""
        from_ms = now_ms()
        yield
        self.unwatched.append(Unwatched(from_ms, now_ms(), why))


def cause_faults(run: Run, uploader: Uploader, clients: Clients) -> None:
    """Kill one after the other, and wait each time until the load goes on."""
    chance, end_s = random.Random(SEED), time.monotonic() + 60 * MINUTES

    def flow(more: int = FLOWING) -> None:
        wanted, read = uploader.committed + more, clients.read + 20
        wait_until(lambda: uploader.committed >= wanted and clients.read >= read, f"{more} more files, and records", 2 * WAIT_S)

    def node() -> None:
        number = chance.choice(list(run.service.nodes))
        run.service.nodes[number].kill()
        flow()
        run.service.nodes[number].start()
        run.service.wait_shared()

    def monitor() -> None:
        run.monitor.process.kill()
        with run.blind("the monitor was dead"):
            flow(4 * FLOWING)
        run.start_monitor()

    def jvm() -> None:
        pid = run.monitor.jvm()
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        assert run.monitor.wait_ended() == 1
        with run.blind("Spark was dead"):
            flow(4 * FLOWING)
        run.start_monitor()

    def kafka() -> None:
        run.kafka.kill(1)
        with run.blind("Kafka was dead"):
            wait_until(lambda: "Kafka has not answered" in run.page("overview")["verdict"]["sentence"], "the page to miss Kafka")
        run.kafka.restart(1)
        run.service.wait_shared()

    while time.monotonic() < end_s:
        for fault in chance.sample((node, monitor, kafka, jvm, node), 5):
            fault()
            run.faults[fault.__name__] += 1
            wait_until(lambda: run.monitor.has_ended() or "ready topic=" in run.monitor.said(), "the monitor", START_TIMEOUT_S)
            flow()
            wait_until(run.is_current, "the page to be current", START_TIMEOUT_S)


async def be_refused(service: Service, topic: str) -> None:
    """Commit a file whose one batch leaves out sequences of the uploader's producer."""
    async with DisklessClient(service.addresses) as client:
        batch = batch_of((await client.describe_topic(topic)).topic_id, 0, 0, 100, 1_000_000)
        outcome = await client.commit_file(f"wal/{new_key(now_ms(), os.urandom(10))}", batch.size, [batch])
        assert [one.error for one in outcome.batches] == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]


def settled(run: Run) -> Logs:
    """The log, once every file without live batches was removed and the monitor has read all of it."""
    logs = dump_topic(run.service.bootstrap, run.service.topic)

    def is_quiet() -> bool:
        nonlocal logs
        logs = dump_topic(run.service.bootstrap, run.service.topic, known=logs)
        return not LogCount(logs).objects()["empty"]

    wait_until(is_quiet, "empty files to be removed", 4 * WAIT_S)
    wanted = sum(len(messages) for messages in logs.values())
    run.monitor.wait_total("entries", wanted)
    return logs


@pytest.fixture(scope="module")
def done(broker_runtime: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Everything as it stands after the faults."""
    folder = tmp_path_factory.mktemp("fault-run")
    with ExitStack() as stack:
        kafka = stack.enter_context(KafkaCluster(1, folder / "kafka", runtime=broker_runtime))
        service = stack.enter_context(Service(kafka.bootstrap, folder / "service", partitions=COORDINATORS, properties=QUICK)).start(2)
        gateway = GatewayProcess(
            1001,
            bootstrap=kafka.bootstrap,
            coordinators=",".join(service.addresses),
            folder=folder / "gateway",
            properties={"object.store.url": service.properties["object.store.url"], "metadata.topic": service.topic},
        )
        stack.callback(gateway.close)
        gateway.start()
        gateway.wait_ready()
        admin = AdminClient({"bootstrap.servers": gateway.address})
        topic = NewTopic("clicks", GATEWAY_PARTITIONS, replication_factor=1, config={"diskless.enable": "true"})
        admin.create_topics([topic])["clicks"].result(WAIT_S)
        monitor = stack.enter_context(MonitorProcess(service.bootstrap, service.topic, folder))
        [port] = lease_ports(1)
        stack.callback(port.close)
        addresses = [one.http.removeprefix("http://") for one in (*service.nodes.values(), gateway)]
        dashboard = DashboardProcess(monitor.folder, folder, addresses)
        stack.callback(dashboard.close)
        made = Run(kafka=kafka, service=service, gateway=gateway, monitor=monitor, dashboard=dashboard, metrics_port=port.port)
        made.began_s = int(time.time())
        made.start_monitor()
        dashboard.start()
        nodes = [one.http.removeprefix("http://") for one in service.nodes.values()]
        targets = {
            "diskless-coordinator": nodes,
            "diskless-monitor": [f"127.0.0.1:{port.port}"],
            "diskless-gateway": [gateway.http.removeprefix("http://")],
        }
        made.prometheus = stack.enter_context(Prometheus(program("prometheus"), folder / "prometheus", targets))
        wait_until(lambda: monitor.has_ended() or "ready topic=" in monitor.said(), "the line `ready`", START_TIMEOUT_S)
        uploader = Uploader(service)
        stack.callback(uploader.stop)
        wait_until(lambda: uploader.committed > 0, "the first file", WAIT_S)
        settings = [word for name, value in KEPT.items() for word in ("--config", f"{name}={value}")]
        run(service, "topics", "alter", uploader.topic, *settings, output=False)
        clients = Clients(service, gateway)
        stack.callback(clients.stop)
        wait_until(made.is_current, "the page to be current", START_TIMEOUT_S)
        with PagePolls(dashboard.address) as made.polls:
            cause_faults(made, uploader, clients)
            run(service, "snapshots", "take", output=False)
            clients.stop()
            uploader.stop()
        asyncio.run(be_refused(service, uploader.topic))
        logs = settled(made)
        made.log, made.stored = LogCount(logs), uploader.sizes()
        made.names = {one["topic"]: _raw(one["topic_id"]) for one in run(service, "topics", "list")}
        print(f"{dict(made.faults)}, {made.log.counted()}, {len(made.polls.polls)} polls, {clients.read} read, {clients.deleted} deleted")
        yield made


def _raw(topic_id: str) -> bytes:
    from coordinator.kafka.names import parse_topic_id

    return parse_topic_id(topic_id)


# ---- the page, while it happened and afterwards


def test_no_number_was_ever_shown_that_the_log_does_not_have_nor_one_of_a_time_that_was_not_watched(done: Run) -> None:
    assert set(done.faults) == {"node", "monitor", "kafka", "jvm"}
    lies = list(done.polls.lies(done.log, done.unwatched))
    assert lies == [], f"{len(lies)} lies:\n" + "\n".join(lies[:40])


def test_totals_tiles_and_metrics_are_those_of_the_log(done: Run) -> None:
    log, numbers = done.log, done.page("overview")["numbers"]
    wanted = {**log.counted()._asdict(), "file_bytes": log.file_bytes()}
    assert {name: int(numbers["totals"][name]["digits"]) for name in wanted} == wanted
    assert int(numbers["void_entries"]["digits"]) == log.voids()
    assert {name: int(one["digits"]) for name, one in numbers["other_batches"].items()} == log.others()
    assert log.others()["sequence_gap"] == 1
    assert int(numbers["totals"]["findings"]["digits"]) == int(numbers["totals"]["quarantined"]["digits"]) == 0
    metrics = done.monitor.scrape()
    assert {name: metrics[f"diskless_monitor_{name}_total"] for name in log.counted()._asdict()} == log.counted()._asdict()
    assert sum(value for name, value in metrics.items() if name.startswith("diskless_monitor_void_entries_total")) == log.voids()
    heads = {one["coordinator"]: one["next_offset"] for one in done.page("monitor")["heads"]}
    assert all(heads[one] >= end for one, end in log.ends().items())
    assert metrics["diskless_monitor_entries_total"] >= sum(log.ends().values())


def test_sums_of_charts_over_the_whole_run_are_those_of_the_log(done: Run) -> None:
    first_s = done.began_s // 60 * 60
    end_s = int(time.time()) // 60 * 60
    assert end_s * 1000 > max(share.logged_ms for _, share in done.log.shares()), "the last minute of the load is over"
    span = {"from": first_s, "to": end_s}
    whole = done.log.counted()
    for split in ("total", "coordinator"):
        chart = done.page("activity", split=split, **span)
        assert {name: int(one["digits"]) for name, one in chart["sums"].items()} == whole._asdict()
        for place, unit in enumerate(whole._fields):
            drawn = sum(value or 0 for line in chart["lines"] for value in line["rates"][unit]) * chart["step_s"]
            assert abs(drawn - whole[place]) < 1, (split, unit)
    of_topics = {one["label"]: one["sums"] for one in done.page("activity", split="topic", **span)["lines"]}
    for name, topic_id in done.names.items():
        counted = [sums for where, sums in done.log.by_partition().items() if where[0] == topic_id]
        assert {unit: int(of_topics[name][unit]) for unit in ("batches", "records", "bytes")} == {
            unit: sum(getattr(one, unit) for one in counted) for unit in ("batches", "records", "bytes")
        }
    uploaded = done.page("uploaders", **span)
    for unit in ("files", "batches", "bytes"):
        assert sum(one[unit] for one in uploaded["uploaders"]) == getattr(whole, unit)
    assert uploaded["files"] == whole.files
    assert uploaded["multi_owner_files"] == sum(share.is_first and len(share.file.owner_ids) > 1 for _, share in done.log.shares())
    [sizes] = [one for one in done.page("histograms", **span)["histograms"] if one["name"] == "file_bytes"]
    assert sum(one["count"] for one in sizes["buckets"]) == whole.files
    assert done.page("leadership", **span)["changes"] == sum(done.log.claims().values())


def test_pages_of_topics_partitions_and_coordinators_are_those_of_the_log(done: Run) -> None:
    committed, live, producers = done.log.by_partition(), done.log.live(), done.log.producers()
    rows = {(one["topic"], one["partition"]): one for one in done.page("partitions", limit=200, sort="name")["rows"]}
    for name, topic_id in done.names.items():
        of_topic = [where for where in committed if where[0] == topic_id]
        facts = done.facts(f"topic/{name}")
        for title, unit in (("Batches", "batches"), ("Records", "records"), ("Data committed", "bytes")):
            assert int(facts[title]) == sum(getattr(committed[where], unit) for where in of_topic), (name, unit)
        for where in of_topic:
            facts, row = done.facts(f"partition/{name}/{where[1]}"), rows[name, where[1]]
            counted = committed[where]
            reader = next(one for one in done.log.readers.values() if where in one.fold.high_watermarks)
            assert (int(facts["Batches"]), int(facts["Records"]), int(facts["Data committed"])) == counted[1:]
            assert (int(row["batches"]), int(row["records"]), int(row["bytes"])) == counted[1:]
            assert int(facts["High watermark"]) == row["next_offset"] == reader.fold.high_watermarks[where]
            assert int(facts["Log start"]) == row["start_offset"] == reader.read.log_starts.get(where, 0)
            page = done.page("look", look=f"partition/{name}/{where[1]}")
            shown = next((one for one in page["tables"] if one["title"] == "Producers"), {"rows": []})["rows"]
            told = {int(row[0]["value"]): (int(row[2]["value"]), int(row[3]["value"]) - 1) for row in shown}
            assert told == {key[2]: value for key, value in producers.items() if key[:2] == where}
        assert live
    for one, claims in done.log.claims().items():
        page = done.page("look", look=f"coordinator/{one}")
        facts = {fact["name"]: fact["value"] for fact in page["facts"]}
        newest = done.log.readers[one].read.claims[-1]
        assert (facts["Leader"], int(facts["Epoch"])) == (f"node {newest.node_id}", newest.epoch)
        assert next(each for each in page["tables"] if each["title"] == "Terms")["total"] == claims
        assert int(facts["Partitions of users"]) == len(done.log.readers[one].fold.high_watermarks)


def test_files_are_those_of_the_log_and_of_the_object_store(done: Run) -> None:
    objects, told = done.log.objects(), done.page("files")
    by_state = {one["state"]: one for one in told["states"]}
    assert (by_state["live"]["files"], by_state["live"]["file_bytes"]) == (len(objects["live"]), sum(objects["live"].values()))
    assert (by_state["removed"]["files"], by_state["removed"]["file_bytes"]) == (len(objects["removed"]), sum(objects["removed"].values()))
    assert (told["empty"]["files"], len(objects["empty"])) == (0, 0)
    assert by_state["live"]["live_bytes"] == sum(one.byte_size for batches in done.log.live().values() for _, one in batches)
    assert objects["removed"], "records were deleted until files were empty"
    assert {key: size for key, size in done.stored.items() if key in objects["live"]} == objects["live"]
    assert not done.stored.keys() & objects["removed"].keys()


# ---- the commands


def test_usage_and_files_of_topics_are_those_of_the_log(done: Run) -> None:
    live = done.log.live()
    for name, topic_id in done.names.items():
        batches = [one for where, found in live.items() if where[0] == topic_id for one in found]
        [usage] = run(done.service, "topics", "usage", name)
        assert (usage["batches"], usage["bytes"], usage["objects"]) == (
            len(batches),
            sum(one.byte_size for _, one in batches),
            len({key for key, _ in batches}),
        )
        by_partition = {one["partition"]: one for one in run(done.service, "topics", "usage", name, "--by-partition")}
        for (_, partition), found in ((where, found) for where, found in live.items() if where[0] == topic_id):
            assert by_partition[partition]["batches"] == len(found)
            assert by_partition[partition]["bytes"] == sum(one.byte_size for _, one in found)
        shares = Counter[str]()
        for key, one in batches:
            shares[key] += one.byte_size
        assert {one["object_key"]: one["bytes"] for one in run(done.service, "topics", "files", name)} == shares


def test_what_retention_removes_next_is_the_same_on_the_page_in_the_command_and_in_the_log(done: Run) -> None:
    live = done.log.live()
    limits = {name: {"retention.ms": 604_800_000} for name in done.names} | {"orders": KEPT}
    for name, topic_id in done.names.items():
        by_partition = {one["partition"]: one for one in run(done.service, "topics", "usage", name, "--by-partition")}
        kept, due = limits[name], 0
        for (_, partition), batches in ((where, found) for where, found in live.items() if where[0] == topic_id):
            facts, usage = done.facts(f"partition/{name}/{partition}"), by_partition[partition]
            sizes, times = zip(*((one.byte_size, one.timestamp_ms) for _, one in batches), strict=True)
            assert (int(facts["Live batches"]), facts["Live data"]) == (usage["batches"], usage["bytes"]) == (len(batches), sum(sizes))
            due += facts["Past retention, goes at the leader's next look"]
            assert time_text(facts["Next goes by time"]) == usage["next_freed"] == time_text(times[0] + kept["retention.ms"])
            assert time_text(facts["Last goes by time"]) == usage["last_freed"] == time_text(max(times) + kept["retention.ms"])
            assert facts["Goes by time within a day"] == usage["freed_in_a_day"]
            if "retention.bytes" in kept:
                assert facts["Next goes by size after so much more"] == kept["retention.bytes"] + sizes[0] - sum(sizes) > 0
            committed = done.log.by_partition()[topic_id, partition]
            assert facts["Deleted"] == committed.bytes - sum(sizes)
        facts = done.facts(f"topic/{name}")
        [usage] = run(done.service, "topics", "usage", name)
        assert (facts["Live data"], facts["Past retention, goes at the leader's next look"]) == (usage["bytes"], usage["due_bytes"])
        assert due == usage["due_bytes"] == 0, "the leaders have looked since"
        assert time_text(facts["Next goes by time"]) == usage["next_freed"]


def test_producers_groups_and_coordinators_are_those_of_the_log_and_of_kafka(done: Run) -> None:
    names = {topic_id: name for name, topic_id in done.names.items()}
    listed = run(done.service, "producers", "list")
    assert {(one["topic"], one["partition"], one["producer_id"]): (one["epoch"], one["last_sequence"]) for one in listed} == {
        (names[topic_id], partition, producer_id): value for (topic_id, partition, producer_id), value in done.log.producers().items()
    }
    places = [TopicPartition("clicks", partition) for partition in range(GATEWAY_PARTITIONS)]
    kafka = Consumer({"bootstrap.servers": done.kafka.bootstrap, "group.id": GROUP})
    committed = {one.partition: one.offset for one in kafka.committed(places, timeout=WAIT_S)}
    kafka.close()
    ends = {where: end for one in done.log.readers.values() for where, end in one.fold.high_watermarks.items()}
    lag = run(done.service, "groups", "lag", GROUP, "--kafka-bootstrap-server", done.kafka.bootstrap)
    assert {one["partition"]: (one["current_offset"], one["log_end_offset"], one["lag"]) for one in lag} == {
        partition: (offset, ends[done.names["clicks"], partition], ends[done.names["clicks"], partition] - offset)
        for partition, offset in committed.items()
    }
    status = {one["coordinator"]: one for one in run(done.service, "coordinator", "status", status=Exit.OK)}
    for one, reader in done.log.readers.items():
        newest = reader.read.claims[-1]
        assert (status[one]["leader"], status[one]["epoch"]) == (newest.node_id, newest.epoch)
        assert status[one]["log_end"] >= done.log.ends()[one]
        assert status[one]["live_partitions"] == len(reader.fold.high_watermarks)


def test_every_panel_of_the_boards_has_series_of_the_run(done: Run) -> None:
    assert done.prometheus is not None
    span_s = int(time.time()) - done.began_s
    empty = set()
    for board in (one for name, one in BOARDS.items() if name != "export"):
        for panel in (panel for section in board.sections for panel in section.panels):
            for query in panel.queries:
                expr = query.expr.replace("$__rate_interval", "1m")
                for variable in ("job", "instance", "partition"):
                    expr = expr.replace(f"${variable}", ".*")
                found = done.prometheus.query(f"count_over_time(({expr})[{span_s}s:5s])")
                if not found:
                    empty.add(panel.title)
    assert empty <= NO_SERIES.keys(), sorted(empty - NO_SERIES.keys())


def test_the_browser_draws_these_numbers(done: Run) -> None:
    whole = done.log.counted()
    with sync_playwright() as playwright, looked_at(open_chromium(playwright)) as watched:
        page = watched.open(done.dashboard.address)
        for unit in whole._fields:
            watched.wait_exact(f"#tile-{unit} .exact", str(getattr(whole, unit)))
        page.wait_for_function("() => document.querySelector('#tile-audit strong').textContent === 'clean'")
        watched.assert_quiet()
