"""What operators move by hand: nodes are drained and come back, coordinators are added, under clients that never pause."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from cli.dev.kafka import Kafka
from cli.kafka.cluster import find_kafka_place
from cli.looks.leadership import find_members
from cli.outcome import Exit
from coordinator.client import DisklessClient, Record, open_store
from integration_tests import commands
from integration_tests.service import UNDISTURBED, Service
from integration_tests.waiting import wait_until
from integration_tests.watched import Watched

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
def writing(service: Service) -> Iterator[None]:
    """Write records to all coordinators with the client until the end of the block, where its errors are raised."""
    is_over, written = threading.Event(), [0]

    async def write() -> None:
        async with DisklessClient(service.addresses, object_store=open_store(service.properties["object.store.url"])) as client:
            await client.admin.create_topic("written", PARTITIONS)
            while not is_over.is_set():
                await client.write({("written", written[0] % PARTITIONS): [Record(value=b"%d" % written[0])]})
                written[0] += 1

    with ThreadPoolExecutor(1) as pool:
        work = pool.submit(lambda: asyncio.run(write()))
        try:
            wait_until(lambda: written[0] > 5 or work.done(), "records")
            yield
        finally:
            is_over.set()
        work.result(60)


@pytest.fixture
def undisturbed(kafka: Kafka, data_folder: Path) -> Iterator[Service]:
    """A service whose nodes lose nothing by standing still for a while, and notice soon that the topic has grown."""
    quick = {"topic.check.interval.ms": "500"}
    with Service(kafka.bootstrap, data_folder, partitions=PARTITIONS, properties={**UNDISTURBED, **quick}) as made:
        yield made


def test_a_drained_node_leads_nothing_and_no_client_sees_an_error(undisturbed: Service) -> None:
    run = Run(undisturbed, 2)
    with run.load() as load, writing(undisturbed):
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
