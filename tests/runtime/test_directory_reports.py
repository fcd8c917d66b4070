"""What partition 0 is told of the data directories of replicas: batched, told again, the newest place, and when the node must stop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from coordinator.core.commands import OK, RegisterNode
from coordinator.core.directory.replica_dirs import ASSIGNMENTS_MAX
from coordinator.kafka.directory_ids import LOST, UNASSIGNED
from coordinator.kafka.errors import ErrorCode
from coordinator.operations.log_dirs import ASSIGN_REPLICAS_TO_DIRS, assign_response, assigned_replicas
from coordinator.protocol.codec import Message
from coordinator.runtime.answers.serving import serve
from coordinator.runtime.directories.port import DirectoryStatus, ReplicaPlace
from coordinator.runtime.directories.reporting import DirectoryReports, LogDirs, log_dirs
from coordinator.runtime.pauses import Pauses
from coordinator.runtime.ports import Peers, PeerUnavailable
from records.model import Endpoint
from simulation.fakes.state_store import MemoryStateStores
from tests.runtime.data_directories import over
from tests.runtime.nodes import NO_PEERS, Running, context_of, in_memory, running
from tests.waiting import stays

ONE, TWO = b"1" * 16, b"2" * 16
NODE = RegisterNode(
    node_id=9,
    rack="",
    endpoints=[Endpoint(listener="PLAINTEXT", host="nine", port=9192)],
    schema_level_max=1,
    incarnation_id=b"the ninth's own!",
    log_dirs=(ONE, TWO),
)
PATHS = {ONE: "/one", TWO: "/two"}
QUICK = Pauses(assignment_check_s=0.02, assignment_retry_s=(0.01, 0.05), registration_check_s=0.05)
FAILURE_TIMEOUT_MS = 200


class Told:
    """Data directories as a test puts them: implements `Directories`."""

    def __init__(self, homes: dict[int, bytes]) -> None:
        self.homes = homes
        self.failed: dict[bytes, str] = {}
        self.moving: dict[int, tuple[bytes, int]] = {}
        self.recorded: list[tuple[int, bytes]] = []
        self.stopped: list[str] = []

    def directories(self) -> list[DirectoryStatus]:
        return [DirectoryStatus(one, path, self.failed.get(one), -1, -1) for one, path in PATHS.items()]

    def places(self) -> list[ReplicaPlace]:
        return [ReplicaPlace(one, home, 1, 2, *self.moving.get(one, (None, -1))) for one, home in self.homes.items()]

    def assignment_recorded(self, partition: int, directory_id: bytes) -> None:
        self.recorded.append((partition, directory_id))

    def must_stop(self, reason: str) -> None:
        self.stopped.append(reason)


class Wire:
    """Requests to one node, answered as its server would; the first `refused` of them by an error, None: not at all."""

    def __init__(self, refused: Iterable[ErrorCode | None] = ()) -> None:
        self.first: Running | None = None
        self.refused = list(refused)
        self.asked: list[int] = []
        """How many replicas each request named."""

    async def call(self, host: str, port: int, request: Message, timeout_ms: int) -> Message:
        assert self.first is not None
        self.asked.append(len(assigned_replicas(request)[2]))
        if self.refused:
            refusal = self.refused.pop(0)
            if refusal is None:
                raise PeerUnavailable("it does not answer")
            return assign_response(refusal)
        return await serve(self.first.node, ASSIGN_REPLICAS_TO_DIRS, 0, request)


def reports(of: Running, told: Told, peers: Peers = NO_PEERS) -> DirectoryReports:
    """The reports of a node that has no process but this test, by what the node `of` knows."""
    node = of.node
    return DirectoryReports(
        context_of(node_id=NODE.node_id, replicas=node.replicas, view=node.view, peers=peers, pauses=QUICK),
        incarnation_id=NODE.incarnation_id,
        topic_id=lambda: None if node.topic.facts is None else node.topic.facts.topic_id,
        directories=told,
        failure_timeout_ms=FAILURE_TIMEOUT_MS,
    )


def known(of: Running) -> dict[int, bytes]:
    """The directories of the node's replicas as a node has read them."""
    directory = of.node.view.directory
    assert directory is not None
    return {partition: found for (node_id, partition), found in directory.replica_dirs.items() if node_id == NODE.node_id}


async def register(of: Running, **changes: Any) -> None:
    """Register the node in partition 0."""
    await of.leads()
    assert await of.node.replicas[0].ask(replace(NODE, **changes), 5_000) == OK


@asynccontextmanager
async def telling(of: Running, told: Told, peers: Peers = NO_PEERS) -> AsyncIterator[DirectoryReports]:
    """Reports that go on by themselves."""
    reporting = reports(of, told, peers)
    task = asyncio.create_task(reporting.keep())
    try:
        yield reporting
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_partition_0_records_where_replicas_are() -> None:
    kafka, told = in_memory(partitions=3), Told({0: ONE, 1: TWO, 2: ONE})
    async with running(kafka, MemoryStateStores()) as first:
        await register(first)
        reporting = reports(first, told)
        assert reporting.queued() == {0: ONE, 1: TWO, 2: ONE}
        for _ in range(3):
            assert await reporting.look()
            await asyncio.sleep(0)
        assert known(first) == {0: ONE, 1: TWO, 2: ONE}
        assert (reporting.queued(), reporting.longest_wait_s()) == ({}, 0.0)
        assert told.recorded == []


async def test_nothing_is_told_before_the_process_is_registered() -> None:
    kafka, told = in_memory(), Told({0: ONE})
    async with running(kafka, MemoryStateStores()) as first:
        await register(first, incarnation_id=b"another process!")
        reporting = reports(first, told)
        assert await reporting.look()
        assert (known(first), reporting.queued()) == ({}, {0: ONE})


async def test_the_newest_place_of_a_replica_is_told() -> None:
    kafka, told = in_memory(), Told({0: ONE, 1: ONE})
    async with running(kafka, MemoryStateStores()) as first:
        await register(first)
        async with telling(first, told) as reporting:
            await first.until(lambda: known(first) == {0: ONE, 1: ONE}, "the first places")
            told.homes[1] = TWO
            told.homes[0] = TWO
            told.homes[0] = ONE
            reporting.changed()
            await first.until(lambda: known(first) == {0: ONE, 1: TWO}, "the newest places")


async def test_a_move_is_told_when_its_copy_is_written_and_taken_back_when_it_fails() -> None:
    kafka, told = in_memory(), Told({0: ONE})
    async with running(kafka, MemoryStateStores()) as first:
        await register(first)
        async with telling(first, told) as reporting:
            await first.until(lambda: known(first) == {0: ONE}, "the home")
            told.moving[0] = (TWO, -1)
            assert reporting.queued() == {}
            told.moving[0] = (TWO, 5)
            await first.until(lambda: (0, TWO) in told.recorded, "the keeper to hear that the new home is recorded")
            assert known(first) == {0: TWO}
            told.moving.clear()
            await first.until(lambda: known(first) == {0: ONE}, "the old home again")


async def test_a_move_to_where_partition_0_believes_the_replica_to_be_does_not_wait() -> None:
    kafka, told = in_memory(), Told({0: ONE})
    async with running(kafka, MemoryStateStores()) as first:
        await register(first)
        reporting = reports(first, told)
        told.moving[0] = (TWO, 5)
        await reporting.look()
        # The move was given up and begins again before anything else is told.
        told.recorded.clear()
        await reporting.look()
        assert told.recorded == [(0, TWO)]


@pytest.mark.parametrize("was_recorded", [True, False])
async def test_a_replica_whose_directory_failed_before_it_was_recorded_is_lost(was_recorded: bool) -> None:
    kafka, told = in_memory(), Told({0: ONE})
    async with running(kafka, MemoryStateStores()) as first:
        await register(first)
        reporting = reports(first, told)
        if was_recorded:
            await reporting.look()
        told.failed[ONE] = "I/O error"
        await reporting.look()
        # Where it was recorded, the registration without the directory says it all.
        assert known(first) == {0: ONE if was_recorded else LOST}
        told.homes[0] = TWO
        await reporting.look()
        assert known(first) == {0: TWO}


async def test_a_standby_tells_the_leader_of_partition_0_and_tells_it_again_until_it_is_heard() -> None:
    kafka, told = in_memory(), Told({0: ONE, 1: TWO})
    wire = Wire([None, ErrorCode.NOT_COORDINATOR, ErrorCode.STALE_BROKER_EPOCH])
    async with running(kafka, MemoryStateStores()) as first:
        await register(first)
        kafka.group.is_automatic = False  # the second node is a standby of both partitions
        wire.first = first
        endpoints = [Endpoint(listener="PLAINTEXT", host="two", port=9192)]
        async with running(kafka, MemoryStateStores(), name="2", node_id=2, endpoints=endpoints, incarnation_id=b"2" * 16) as second:
            await second.until(lambda: second.node.view.leader(0) is not None, "the second node to read partition 0")
            async with telling(second, told, wire) as reporting:
                await second.until(lambda: known(second) == {0: ONE, 1: TWO}, "the assignments to be recorded")
                assert reporting.queued() == {}
    assert wire.asked[:4] == [2, 2, 2, 2]


async def test_many_replicas_are_told_in_several_requests() -> None:
    kafka, told = in_memory(), Told(dict.fromkeys(range(ASSIGNMENTS_MAX + 10), ONE))
    async with running(kafka, MemoryStateStores()) as first:
        await register(first)
        async with telling(first, told):
            await first.until(lambda: len(known(first)) == ASSIGNMENTS_MAX + 10, "all of them")


async def test_the_node_stops_when_a_failed_directory_it_leads_in_stays_unknown_to_partition_0() -> None:
    kafka, told = in_memory(), Told({0: ONE, 1: TWO})
    async with running(kafka, MemoryStateStores()) as first:
        await register(first, log_dirs=(ONE, TWO))
        async with telling(first, told):
            told.failed[TWO] = "I/O error"
            await first.until(lambda: bool(told.stopped), "the node to be told to stop")
    assert "/two failed (I/O error)" in told.stopped[0]
    assert "log.dir.failure.timeout.ms (0.2 s)" in told.stopped[0]


@pytest.mark.parametrize("how", ["the registration lacks it", "nothing is led there"])
async def test_the_node_goes_on_when_the_failure_is_known_or_concerns_no_leader(how: str) -> None:
    kafka, told = in_memory(), Told({0: ONE, 1: TWO})
    async with running(kafka, MemoryStateStores()) as first:
        await register(first, log_dirs=(ONE, TWO))
        async with telling(first, told):
            if how == "nothing is led there":
                told.homes[1] = ONE
            else:
                await register(first, log_dirs=(ONE,), is_any_dir_offline=True)
            told.failed[TWO] = "I/O error"
            await stays(lambda: told.stopped == [], "no stop", 2 * FAILURE_TIMEOUT_MS / 1000)
    assert told.stopped == []


def test_the_registration_names_the_directories_that_are_online_in_order() -> None:
    told = Told({})
    assert log_dirs(told.directories()) == LogDirs((ONE, TWO), False)
    told.failed[ONE] = "full"
    assert log_dirs(told.directories()) == LogDirs((TWO,), True)


async def test_the_registration_and_the_places_of_a_real_node_follow_a_failure(tmp_path: Path) -> None:
    kafka = in_memory(partitions=4)
    pauses = replace(QUICK, revive_s=(0.02, 0.05), directory_probe_s=0.02)
    async with over(kafka, tmp_path / "one", tmp_path / "two", pauses=pauses) as started:
        await started.leads()
        ids = {one.path: one.directory_id for one in started.node.keeper.directories.directories()}
        first, second = ids[str(tmp_path / "one")], ids[str(tmp_path / "two")]

        def recorded() -> list[bytes]:
            directory = started.node.view.directory
            return [] if directory is None else [directory.replica_dirs.get((1, partition), UNASSIGNED) for partition in range(4)]

        def registered() -> list[bytes]:
            directory = started.node.view.directory
            return [] if directory is None or 1 not in directory.nodes else directory.nodes[1].log_dirs

        await started.until(lambda: recorded() == [first, second, first, second], "all homes to be recorded")
        assert registered() == sorted([first, second])
        (tmp_path / "two").rename(tmp_path / "gone")
        await started.until(lambda: recorded() == [first] * 4, "the new homes to be recorded")
        await started.until(lambda: registered() == [first], "the registration to lack the lost directory")
        assert started.node.view.directory is not None
        assert started.node.view.directory.nodes[1].is_any_dir_offline
        assert started.fatal == []
