"""Real processes with wrong clocks, and two with one node id: who is wrong stands back and says why, nobody else loses anything."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cli.dev.coordinator import CoordinatorProcess
from integration_tests.checker import check
from integration_tests.faults.clock import ShiftedClock, build_library
from integration_tests.faults.preload import NoPreload
from integration_tests.final_state import create_topic, dump_topic, read_final_state
from integration_tests.load import Load
from integration_tests.routes import Address
from integration_tests.service import Service
from integration_tests.waiting import wait_until
from records.codec import decode_entry
from records.committed_files.codec import FileCommitted
from records.model import NodeRegistered, Record

PARTITIONS = 4
TAKE_OVER_S = 60.0
"""Some seconds: the clocks are looked at every second, the group is asked who else is there, and the machine may be busy."""
HOUR_S = 3_600.0


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        return build_library(tmp_path_factory.mktemp("clock"))
    except NoPreload as missing:
        pytest.skip(str(missing))


@pytest.fixture
def small(service: Service) -> Service:
    """A service of few coordinators."""
    service.properties["diskless.metadata.topic.num.partitions"] = str(PARTITIONS)
    return service


def records_of(service: Service) -> list[Record]:
    return [
        record
        for log in dump_topic(service.bootstrap, service.topic).values()
        for one in log
        if one.value
        for record in decode_entry(one.value)
    ]


def address(node: CoordinatorProcess) -> Address:
    host, _, port = node.address.rpartition(":")
    return Address(host, int(port))


def led(node: CoordinatorProcess) -> Any:
    return node.readiness()[1].get("leading")


def ahead_s(node: CoordinatorProcess, others: str) -> float:
    """How far ahead of others a node says its clock is, which is why it stays out of leadership."""
    told = re.search(rf"the clock of this node is ([0-9.]+) s ahead of {others}; synchronise it", str(node.readiness()[1]["withheld"]))
    assert told is not None, node.readiness()
    return float(told.group(1))


def doctor(*nodes: CoordinatorProcess) -> list[Mapping[str, str]]:
    servers = ",".join(node.address for node in nodes)
    done = subprocess.run(
        [sys.executable, "-m", "cli.program", "doctor", "--bootstrap-server", servers, "-o", "json"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    found: list[Mapping[str, str]] = json.loads(done.stdout)
    return found


def assert_log_time_is_true(service: Service) -> None:
    now_ms = time.time() * 1000
    times = [record.append_time_ms for record in records_of(service) if isinstance(record, FileCommitted)]
    assert times
    assert max(times) < now_ms + 60_000


def test_a_leader_whose_clock_jumps_two_hours_ahead_is_replaced_within_seconds(small: Service, library: Path) -> None:
    clock = ShiftedClock(library, small.folder / "node-1.clock")
    small.add(1, environment=clock.environment).start()
    small.add(2).start()
    small.wait_shared()
    first, second = small.nodes[1], small.nodes[2]
    nodes = {1: address(first), 2: address(second)}
    owners = create_topic(nodes, "orders", 8)
    load = Load(nodes, owners, seed=1)
    with load:
        load.wait_flowing()
        clock.set(2 * HOUR_S)
        start_s = time.monotonic()
        wait_until(lambda: led(second) == list(range(PARTITIONS)), "the other node to lead everything", TAKE_OVER_S)
        print(f"taken over {time.monotonic() - start_s:.1f} s after the jump")
        load.wait_flowing()
        assert not first.readiness()[0]
        assert ahead_s(first, "Kafka and node 2") == pytest.approx(2 * HOUR_S, abs=5)
        assert first.metric("leadership_withheld", reason="clock") == 1
        assert first.metric("clock_ahead_seconds", clock="Kafka") == pytest.approx(7200, abs=5)
        findings = doctor(first, second)
        assert any(one["check"] == "clocks" and one["health"] == "error" and "node 1" in one["finding"] for one in findings), findings
        clock.set(0)
        wait_until(lambda: first.readiness()[0], "the return of the first node")
        load.wait_flowing()
    final = read_final_state(nodes, owners, bootstrap=small.bootstrap, metadata_topic=small.topic)
    assert check(load.history, final) == []
    assert_log_time_is_true(small)


def test_a_killed_process_is_replaced_at_once_and_a_frozen_one_steps_down(small: Service, tmp_path: Path) -> None:
    small.start(1)
    first = small.nodes[1]
    wait_until(lambda: registered_at(small) == first.address, "the registration of the first")
    first.kill()
    start_s = time.monotonic()
    first.start()
    wait_until(lambda: first.readiness()[1].get("joined") is True, "the group", TAKE_OVER_S)
    print(f"joined {time.monotonic() - start_s:.1f} s after the start behind a kill -9")
    small.wait_shared()
    twin = CoordinatorProcess(1, bootstrap=small.bootstrap, folder=tmp_path / "twin", properties=small.properties)
    wait_until(lambda: sum(isinstance(one, NodeRegistered) for one in records_of(small)) == 2, "the second registration of the first")
    first.pause()
    try:
        twin.start()
        wait_until(lambda: led(twin) == list(range(PARTITIONS)), "the leadership of the second")
        wait_until(lambda: registered_at(small) == twin.address, "the registration of the second")
        first.resume()
        assert first.wait_ended(60.0)
        assert "has registered as node 1 after this one" in first.log_text().strip().splitlines()[-1]
        assert twin.readiness()[0]
    finally:
        twin.close()


def registered_at(service: Service) -> str:
    """The address of the process that registered last; empty before the first has."""
    registered = [record for record in records_of(service) if isinstance(record, NodeRegistered)]
    return f"{registered[-1].endpoints[0].host}:{registered[-1].endpoints[0].port}" if registered else ""
