"""What operators move by hand: nodes are drained and come back, partitions move, coordinators are added, under clients that never pause."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from cli.dev.gateway import GatewayProcess
from cli.dev.kafka import Kafka
from cli.dev.process import start_child
from cli.kafka.cluster import find_kafka_place
from cli.looks.leadership import find_members
from cli.main import root
from cli.outcome import Exit
from coordinator.client import DisklessClient, Record, open_store
from integration_tests import commands
from integration_tests.final_state import log_ends
from integration_tests.monitor_process import START_TIMEOUT_S, MonitorProcess
from integration_tests.service import UNDISTURBED, Service
from integration_tests.waiting import wait_until
from integration_tests.watched import Watched, quiet_admin
from spark_jobs.monitor.report import open_report

PARTITIONS = 4
HIDDEN = {14, 15, 16}
"""Answers after which a client finds the leader and asks it, without a word to its user."""


class Run(Watched):
    """A service of some nodes with a topic in all its coordinators, on which the product's own client commits beside the load."""

    def __init__(self, service: Service, nodes: int) -> None:
        super().__init__(service.start(nodes), "orders", 2 * PARTITIONS)

    def led(self, node_id: int) -> list[int]:
        """The coordinators a node leads, by its own account; none while it does not answer."""
        try:
            leading = self.service.nodes[node_id].readiness()[1].get("leading", [])
        except OSError:
            return []
        assert isinstance(leading, list)
        return leading

    def restart(self, node_id: int) -> None:
        """SIGTERM, which must end well, and a new process that is ready."""
        node = self.service.nodes[node_id]
        assert node.terminate() == 0, node.log_tail()
        node.start()
        wait_until(lambda: node.readiness()[0], f"node {node_id} to be ready", excused=OSError)

    def row_of(self, node_id: int) -> dict[str, object]:
        """The node in `diskless coordinator list`."""
        [row] = [row for row in commands.run(self.service, "coordinator", "list") if row["node"] == node_id]
        return dict(row)

    def say(self, *words: str, status: Exit = Exit.OK) -> str:
        """Run a command that moves something; returns what it said."""
        return str(commands.run(self.service, "coordinator", *words, status=status, output=False))


@contextmanager
def writing(service: Service) -> Iterator[list[int]]:
    """Write records to all coordinators with the client, and follow them, until the end of the block, where their errors are raised.

    Yields the numbers of the records that a reader was given.
    """
    is_over, written, found = threading.Event(), [0], list[int]()

    async def follow(client: DisklessClient, more: asyncio.Event) -> None:
        async for record in client.read("written", follow=True):
            found.append(int(record.value or b""))
            more.set()

    async def write() -> None:
        more = asyncio.Event()
        async with DisklessClient(service.addresses, object_store=open_store(service.properties["object.store.url"])) as client:
            await client.admin.create_topic("written", PARTITIONS)
            async with asyncio.TaskGroup() as tasks:
                reader = tasks.create_task(follow(client, more))
                while not is_over.is_set():
                    await client.write({("written", written[0] % PARTITIONS): [Record(value=b"%d" % written[0])]})
                    written[0] += 1
                while len(found) < written[0]:
                    more.clear()
                    await more.wait()
                reader.cancel()

    with ThreadPoolExecutor(1) as pool:
        work = pool.submit(lambda: asyncio.run(write()))
        try:
            wait_until(lambda: len(found) > 5 or work.done(), "records")
            yield found
        finally:
            is_over.set()
        work.result(60)
    for partition in range(PARTITIONS):
        assert [one for one in found if one % PARTITIONS == partition] == list(range(partition, written[0], PARTITIONS))


@pytest.fixture
def undisturbed(kafka: Kafka, data_folder: Path) -> Iterator[Service]:
    """A service whose nodes lose nothing by standing still for a while, and notice soon that the topic has grown."""
    quick = {"topic.check.interval.ms": "500"}
    with Service(kafka.bootstrap, data_folder, partitions=PARTITIONS, properties={**UNDISTURBED, **quick}) as made:
        yield made


def test_a_drained_node_leads_nothing_and_partitions_move_and_no_client_sees_an_error(undisturbed: Service) -> None:
    run = Run(undisturbed, 2)
    with run.load() as load, writing(undisturbed) as read:
        load.wait_flowing()
        start_s = time.monotonic()
        assert "node 1 leads nothing" in run.say("drain", "1")
        assert (run.led(1), sorted(run.led(2))) == ([], list(range(PARTITIONS)))
        assert (run.row_of(1)["leads"], run.row_of(1)["drains"]) == ([], "until it is restarted")
        assert run.service.nodes[1].readiness()[0], "a node that drains is ready"
        assert (run.service.nodes[1].metric("draining"), run.service.nodes[2].metric("draining")) == (1, 0)
        full = commands.run(undisturbed, "coordinator", "status")
        assert all(row["live_partitions"] and row["live_files"] and row["state_bytes"] > 0 for row in full), full
        load.wait_flowing()
        assert "node 2 is the last one that leads" in run.say("drain", "2", status=Exit.FAILURE)
        run.say("undrain", "1")
        wait_until(lambda: len(run.led(1)) == PARTITIONS // 2, "the share after the drain")
        load.wait_flowing()
        for row in commands.run(undisturbed, "topics", "describe", "written"):
            to = str((row["coordinator"] + 1) % PARTITIONS)
            commands.run(undisturbed, "partitions", "move", f"written:{row['partition']}", "--to", to, output=False)
            now = len(read)
            wait_until(lambda: len(read) > now + 2 * PARTITIONS, "records of all partitions")  # noqa: B023 - awaited
    assert run.errors_since(start_s) <= HIDDEN
    run.judge()


@pytest.mark.long
def test_a_drain_ends_with_the_process_unless_it_is_to_last(undisturbed: Service) -> None:
    run = Run(undisturbed, 2)
    with run.load() as load, writing(undisturbed):
        load.wait_flowing()
        run.say("drain", "1")
        run.restart(1)
        wait_until(lambda: len(run.led(1)) == PARTITIONS // 2, "the next process to lead its share")
        assert run.row_of(1)["drains"] == ""
        run.say("drain", "1", "--lasting")
        run.restart(1)
        assert (run.led(1), run.row_of(1)["drains"]) == ([], "until undrained")
        load.wait_flowing()
        run.say("undrain", "1")
        wait_until(lambda: len(run.led(1)) == PARTITIONS // 2, "the share after the drain")
        load.wait_flowing()
    run.judge()


@pytest.mark.long
def test_coordinators_are_added_to_a_busy_service_and_nothing_that_exists_moves(undisturbed: Service, kafka: Kafka) -> None:
    run, more = Run(undisturbed, 2), 2 * PARTITIONS
    kafka_words = ("--kafka-bootstrap-server", kafka.bootstrap, "--metadata-topic", undisturbed.topic)
    with run.load() as load, writing(undisturbed):
        load.wait_flowing()
        before = commands.run(undisturbed, "topics", "describe", "orders")
        assert "never made smaller" in run.say("grow", str(PARTITIONS - 1), *kafka_words, "--yes", status=Exit.USAGE)
        assert f"would get {PARTITIONS} more" in run.say("grow", str(more), *kafka_words, "--dry-run")
        assert f"{more} coordinators are led" in run.say("grow", str(more), *kafka_words, "--yes")
        assert f"{more} coordinators are led" in run.say("grow", str(more), *kafka_words, "--yes"), "run again it changes nothing"
        undisturbed.properties["diskless.metadata.topic.num.partitions"] = str(more)
        undisturbed.wait_shared()
        wait_until(lambda: len(run.led(1)) == len(run.led(2)) == PARTITIONS, "even shares")
        load.wait_flowing()
        commands.run(undisturbed, "topics", "create", "new", "--partitions", str(more), output=False)
        placed = commands.run(undisturbed, "topics", "describe", "new")
        assert sorted(row["coordinator"] for row in placed) == list(range(more))
        commands.run(undisturbed, "topics", "create", "small", "--partitions", "2", output=False)
        assert {row["coordinator"] for row in commands.run(undisturbed, "topics", "describe", "small")} <= set(range(PARTITIONS, more))
        run.restart(1)
        undisturbed.wait_shared()
        load.wait_flowing()
        after = commands.run(undisturbed, "topics", "describe", "orders")
    where = [[(row["partition"], row["coordinator"]) for row in rows] for rows in (before, after)]
    assert where[0] == where[1]
    run.judge()


@pytest.mark.long
def test_leaders_are_in_the_racks_that_are_named_and_a_reserved_node_has_its_coordinators_alone(undisturbed: Service, kafka: Kafka) -> None:
    undisturbed.properties["leader.racks"] = "b"
    for node_id, rack, only in ((1, "a", ""), (2, "b", ""), (3, "b", "3")):
        undisturbed.add(node_id, node_rack=rack, node_coordinators=only).start()

    def led() -> dict[int, object]:
        return {node_id: node.readiness()[1].get("leading") for node_id, node in undisturbed.nodes.items()}

    wait_until(lambda: led() == {1: [], 2: [0, 1, 2], 3: [3]}, "leaders where they are to be", excused=OSError)
    place = ("--kafka-bootstrap-server", kafka.bootstrap, "--metadata-topic", undisturbed.topic)
    group = ("--group", undisturbed.properties["group.id"])

    def told_to_lead_ms() -> dict[int, int]:
        """For how long each node led all it leads, when it last took part in a round."""
        members = find_members(find_kafka_place(kafka.bootstrap, None, undisturbed.topic, None, ()), group[1], 30.0)
        return {one.told.node_id: sum(one.told.led_ms.values()) for one in asyncio.run(members)}

    assert commands.run(undisturbed, "coordinator", "rebalance", "--dry-run", *place, *group) == []
    before = told_to_lead_ms()
    assert "3 nodes asked" in commands.run(undisturbed, "coordinator", "rebalance", *place, *group, output=False)
    wait_until(lambda: all(told > before[node_id] for node_id, told in told_to_lead_ms().items() if node_id > 1), "a round of the group")
    assert led() == {1: [], 2: [0, 1, 2], 3: [3]}
    assert undisturbed.nodes[3].terminate() == 0
    wait_until(lambda: undisturbed.nodes[2].readiness()[1]["leading"] == [0, 1, 2, 3], "the rack's other node to lead all")
    found = commands.run(undisturbed, "doctor", *place, status=Exit.FAILURE)
    assert [one["health"] for one in found if one["check"] == "placement"] == ["ok"]


def kill_growing(service: Service, kafka: Kafka, count: int, log: Path) -> None:
    """Kill `coordinator grow` when the topic has grown and its partitions have no leaders: a node stands still in the round for them."""
    where = ["--kafka-bootstrap-server", kafka.bootstrap, "--metadata-topic", service.topic]
    words = ["grow", str(count), "--yes", *where, "--bootstrap-server", service.nodes[1].address]
    admin = quiet_admin(kafka.bootstrap)

    def has_grown() -> bool:
        return len(admin.list_topics(service.topic, timeout=10).topics[service.topic].partitions) == count

    service.nodes[2].pause()
    try:
        command = start_child([sys.executable, "-m", "cli.program", "coordinator", *words], marker="cli.program", log=log)
        wait_until(lambda: has_grown() or not command.is_running(), "the topic to grow")
        command.kill()
        assert command.wait(60) == -signal.SIGKILL, log.read_text(encoding="utf-8")
    finally:
        service.nodes[2].resume()


def gateway_of(service: Service, folder: Path) -> GatewayProcess:
    """A gateway of the service, which is ready."""
    own = {"object.store.url": service.properties["object.store.url"], "metadata.topic": service.topic}
    made = GatewayProcess(1001, bootstrap=service.bootstrap, coordinators=service.addresses[0], folder=folder, properties=own)
    made.start()
    made.wait_ready()
    return made


def send_to_each(gateway: GatewayProcess, topic: str, partitions: int) -> None:
    """Create a topic with Kafka's client, write a record to each of its partitions, and read them all."""
    new = NewTopic(topic, partitions, replication_factor=1, config={"diskless.enable": "true"})
    admin = quiet_admin(gateway.address)  # kept until the answer is there
    admin.create_topics([new])[topic].result(60)
    producer = Producer({"bootstrap.servers": gateway.address, "acks": "all"})
    errors: list[object] = []
    for partition in range(partitions):
        producer.produce(topic, b"%d" % partition, partition=partition, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(60) == 0
    assert errors == [None] * partitions
    consumer = Consumer({"bootstrap.servers": gateway.address, "group.id": "reader", "auto.offset.reset": "earliest"})
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
        found = [one.value() or b"" for one in consumer.consume(partitions, timeout=60)]
    finally:
        consumer.close()
    assert sorted(found) == [b"%d" % partition for partition in range(partitions)]


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_growth_that_was_killed_is_gone_on_with_and_monitor_gateway_snapshots_and_restore_follow_it(
    undisturbed: Service, kafka: Kafka, tmp_path: Path
) -> None:
    run, more = Run(undisturbed, 2), 2 * PARTITIONS
    kafka_words = ("--kafka-bootstrap-server", kafka.bootstrap, "--metadata-topic", undisturbed.topic)
    with MonitorProcess(kafka.bootstrap, undisturbed.topic, tmp_path) as monitor, closing(gateway_of(undisturbed, tmp_path)) as gateway:
        monitor.start_ready("--trigger-interval", "0.2")
        with run.load() as load:
            load.wait_flowing()
            kill_growing(undisturbed, kafka, more, tmp_path / "grow.log")
            assert f"{more} coordinators are led" in run.say("grow", str(more), *kafka_words, "--yes")
            send_to_each(gateway, "stream", more)
            placed = commands.run(undisturbed, "topics", "describe", "stream")
            assert sorted(row["coordinator"] for row in placed) == list(range(more))
            load.wait_flowing()
        taken = commands.run(undisturbed, "snapshots", "take")
        assert [(row["coordinator"], row["error"]) for row in taken] == [(one, None) for one in range(more)]
        ends = log_ends(kafka.bootstrap, undisturbed.topic)

        def follows_all() -> bool:
            with open_report(monitor.place) as report:
                heads = {int(str(row["kpart"])): int(str(row["next_offset"])) for row in report.heads()}
                log = report.log()
                return log is not None and log["partitions"] == more and all(heads.get(one, 0) >= end for one, end in ends.items())

        wait_until(lambda: monitor.has_ended() or follows_all(), "the monitor to follow all coordinators", START_TIMEOUT_S)
        assert not monitor.has_ended(), monitor.said()
        assert monitor.total("findings") == 0
        assert monitor.terminate() == 0
    new = ("--kafka-bootstrap-server", kafka.bootstrap, "--metadata-topic", f"{undisturbed.topic}-restored", "--replication-factor", "1")
    store = ("--min-insync-replicas", "1", "--object-store-url", undisturbed.properties["object.store.url"])
    restored = CliRunner().invoke(root, ["restore", "start", *new, *store, "-o", "json"])
    assert restored.exit_code == Exit.OK, restored.stderr
    assert [(row["coordinator"], row["state"]) for row in json.loads(restored.stdout)] == [(one, "written") for one in range(more)]
    run.judge()
