"""Two versions of the project, installed from wheels: services that go from one to the other, node by node, under load.

The newer version has one schema level more, made up: a further number of every batch in the record of a commit. What clients did
and were told meanwhile is judged by a process of the newer version, which reads entries of both levels.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from cli.dev.coordinator import CoordinatorProcess
from cli.dev.kafka import Kafka
from cli.outcome import Exit
from integration_tests.final_state import Logs, create_topic, dump_topic
from integration_tests.history import UserPartition, longest_gap_s
from integration_tests.installations import Installation, call_version, copy_sources, install, take_loops_along
from integration_tests.load import Load
from integration_tests.recording import write_recording
from integration_tests.routes import Address
from integration_tests.service import UNDISTURBED, Service
from integration_tests.waiting import WAIT_S, wait_until
from records.errors import UnknownSchema
from records.history import schema_of_header
from records.levels import LEVEL_LATEST
from tests.records.next_level import NEXT_LEVEL, add_level

pytestmark = pytest.mark.timeout(600)  # two wheels are built

METADATA_PARTITIONS = 3
USER_PARTITIONS = 9
COMMAND_TIMEOUT_S = 180


class Versions(NamedTuple):
    """This version, and one with a further schema level."""

    old: Installation
    new: Installation


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> Versions:
    folder = tmp_path_factory.mktemp("versions")
    for name in Versions._fields:
        take_loops_along(copy_sources(folder / name))
    call_version(folder / "new", "99.0")
    add_level(folder / "new")
    return Versions(*(install(folder / name, folder / f"{name}-installed") for name in Versions._fields))


class Upgraded:
    """A service whose nodes change their version one by one, with a load on it."""

    def __init__(self, kafka: Kafka, folder: Path, versions: Versions, nodes: int) -> None:
        self.versions = versions
        self.service = Service(kafka.bootstrap, folder, partitions=METADATA_PARTITIONS, properties=UNDISTURBED)
        for node_id in range(1, nodes + 1):
            self.service.add(node_id, environment=versions.old.environment).start()
        self.service.wait_shared()
        self.owners: Mapping[UserPartition, int] = create_topic(self.addresses(), "orders", USER_PARTITIONS)
        assert set(self.owners.values()) == set(range(METADATA_PARTITIONS)), "every coordinator is to have some partitions"

    def addresses(self) -> dict[int, Address]:
        found = {}
        for node_id, node in self.service.nodes.items():
            host, _, port = node.address.rpartition(":")
            found[node_id] = Address(host, int(port))
        return found

    def node(self, node_id: int) -> CoordinatorProcess:
        return self.service.nodes[node_id]

    def start(self, node_id: int, version: Installation) -> None:
        """Start a node that does not run."""
        self.node(node_id).environment = dict(version.environment)
        self.node(node_id).start()

    def change(self, node_id: int, version: Installation, load: Load) -> None:
        """Stop a node, start it with a version, and do what the page about upgrades says of each node; prints how long commits waited."""
        node, start_s = self.node(node_id), time.monotonic()
        status = node.terminate()
        assert status == 0, f"node {node_id} ended with status {status}\n{node.log_tail()}"
        self.start(node_id, version)
        self.service.wait_shared()
        assert f'version="{version.version}"' in next(iter(node.samples("node_info")))
        load.wait_flowing()
        ends = {c: load.history.acknowledged_at_s(c) for c in range(METADATA_PARTITIONS)}
        gaps = [longest_gap_s(times_s, start_s, time.monotonic()) for times_s in ends.values()]
        print(f"node {node_id} to {version.version}: {time.monotonic() - start_s:.1f} s, no commit for {max(gaps):.2f} s at most")

    def refused(self, node_id: int, version: Installation) -> None:
        """Start a node that does not run with a version that lacks the level in force: it must end by itself and say why."""
        node = self.node(node_id)
        self.start(node_id, version)
        assert node.process is not None
        assert node.process.wait(WAIT_S) == 1, node.log_tail()
        reason = f"schema level {NEXT_LEVEL} is in force and this version has levels up to {LEVEL_LATEST}"
        assert node.log_tail(1).endswith(f"ended: {reason}: run the version that the other nodes run"), node.log_tail()

    def diskless(self, version: Installation, *words: str) -> subprocess.CompletedProcess[str]:
        """Run `diskless coordinator` of a version as people do."""
        servers = ",".join(node.address for node in self.service.nodes.values())
        return run_module(version, "cli.program", "coordinator", *words, "--bootstrap-server", servers)

    def levels(self) -> list[tuple[int, int, int]]:
        """What the newer version's command says: (node, level in force, highest level of the node)."""
        done = self.diskless(self.versions.new, "level", "-o", "json")
        assert done.returncode == Exit.OK, done.stderr
        return [(row["node"], row["level_in_force"], row["highest_level"]) for row in json.loads(done.stdout)]

    def wait_raised(self, *node_ids: int) -> None:
        """Wait until these nodes write at the new level."""
        in_force = f"schema level in force level={NEXT_LEVEL}"
        wait_until(lambda: all(in_force in self.node(node_id).log_text() for node_id in node_ids), "the new level at every node")

    def logs(self) -> Logs:
        return dump_topic(self.service.bootstrap, self.service.topic)

    def judge(self, load: Load, node_ids: set[int]) -> None:
        """Compare what the clients of a load that has ended were told with what is left, by nodes that run."""
        recording = self.service.folder / "history.jsonl.gz"
        write_recording(recording, load.history, None)
        nodes = json.dumps({node_id: address for node_id, address in self.addresses().items() if node_id in node_ids})
        place = ("--bootstrap", self.service.bootstrap, "--topic", self.service.topic)
        done = run_module(self.versions.new, "integration_tests.judge", str(recording), *place, "--nodes", nodes)
        assert done.returncode == 0, done.stdout[-5_000:] + done.stderr[-5_000:]
        assert len(load.history.files) > 50


def run_module(version: Installation, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a module of a version, or of the tests with the packages of that version."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("DISKLESS_")}
    environment = {**kept, **version.environment}
    words = [sys.executable, "-m", *command]
    return subprocess.run(words, capture_output=True, text=True, env=environment, timeout=COMMAND_TIMEOUT_S, check=False)


def level_of(value: bytes | None) -> int:
    """The schema level of an entry; the made-up one is unknown here."""
    try:
        return schema_of_header((value or b"")[:10]).level
    except UnknownSchema:
        return NEXT_LEVEL


def levels_in(logs: Logs) -> set[int]:
    """The schema levels of all entries."""
    return {level_of(message.value) for messages in logs.values() for message in messages}


@pytest.mark.long
def test_a_service_under_load_is_upgraded_node_by_node_and_its_level_rises_at_the_end(
    kafka: Kafka, versions: Versions, data_folder: Path
) -> None:
    old, new = versions
    upgraded = Upgraded(kafka, data_folder, versions, nodes=3)
    service = upgraded.service
    try:
        with Load(upgraded.addresses(), upgraded.owners, seed=1, consumers=True) as load:
            load.wait_flowing()
            upgraded.change(1, new, load)
            upgraded.change(1, old, load)  # the way back is open while a node of the old version is left
            upgraded.change(1, new, load)
            upgraded.change(2, new, load)
            assert upgraded.levels() == [(1, LEVEL_LATEST, NEXT_LEVEL), (2, LEVEL_LATEST, NEXT_LEVEL), (3, LEVEL_LATEST, LEVEL_LATEST)]
            assert NEXT_LEVEL not in levels_in(upgraded.logs())
            upgraded.change(3, new, load)
            upgraded.wait_raised(1, 2, 3)
            assert upgraded.levels() == [(node_id, NEXT_LEVEL, NEXT_LEVEL) for node_id in (1, 2, 3)]
            load.wait_flowing()
            raised = upgraded.logs()
            assert {level_of(messages[-1].value) for messages in raised.values()} == {NEXT_LEVEL}

            # Nobody goes back from there: the old version is refused, and the others go on.
            assert upgraded.node(3).terminate() == 0
            upgraded.refused(3, old)
            load.wait_flowing()
            upgraded.start(3, new)
            service.wait_shared()
            load.wait_flowing()
        upgraded.judge(load, {1, 2, 3})
    finally:
        service.stop()


@pytest.mark.long  # tests/runtime/test_schema_level.py has the same on nodes of one process
def test_a_node_left_behind_holds_the_level_until_an_operator_says_that_it_is_gone(
    kafka: Kafka, versions: Versions, data_folder: Path
) -> None:
    old, new = versions
    upgraded = Upgraded(kafka, data_folder, versions, nodes=2)
    service = upgraded.service
    try:
        with Load(upgraded.addresses(), upgraded.owners, seed=2) as load:
            load.wait_flowing()
            upgraded.change(1, new, load)
            raising = ("raise-level", str(NEXT_LEVEL), "--yes")
            held = upgraded.diskless(new, *raising)
            assert held.returncode == Exit.FAILURE, held.stderr
            assert f"node 2 (up to level {LEVEL_LATEST}) is in the way" in held.stderr
            unknown = upgraded.diskless(old, *raising)
            assert f"node 2 (up to level {LEVEL_LATEST}) is in the way" in unknown.stderr
            living = upgraded.diskless(new, *raising, "--gone-node", "2")
            assert living.returncode == Exit.USAGE, living.stderr
            assert "node 2 answers, so it is not gone" in living.stderr
            assert upgraded.node(2).terminate() == 0
            service.wait_shared()
            load.wait_flowing()
            assert {held for _, held, _ in upgraded.levels()} == {LEVEL_LATEST}
            raised = upgraded.diskless(new, *raising, "--gone-node", "2")
            assert raised.returncode == Exit.OK, raised.stderr
            upgraded.wait_raised(1)
            load.wait_flowing()

            # It comes back as it was, and stays out; then as it should be.
            upgraded.start(2, old)
            why = f"raises the schema level to {NEXT_LEVEL}, this version has levels up to {LEVEL_LATEST}: run the version that the other"
            wait_until(lambda: why in str(upgraded.node(2).readiness()[1].get("withheld")), "the old version to stay out")
            load.wait_flowing()
            assert upgraded.node(2).terminate() == 0
            upgraded.start(2, new)
            service.wait_shared()
            load.wait_flowing()
            wait_until(lambda: upgraded.levels() == [(1, NEXT_LEVEL, NEXT_LEVEL), (2, NEXT_LEVEL, NEXT_LEVEL)], "its registration")
        upgraded.judge(load, {1, 2})
    finally:
        service.stop()
