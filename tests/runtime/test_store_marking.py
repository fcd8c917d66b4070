"""The mark of the service in its store: kept where the directory is led, looked for on other nodes, and told when it is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from coordinator.adapters.objectstore import open_store
from coordinator.app.readiness import readiness
from coordinator.core.directory.directory import Directory
from coordinator.core.endpoints import endpoint_of
from coordinator.object_store import StoreDenied
from coordinator.protocol.codec import Message
from coordinator.protocol.messages import DescribeNodeResponse
from coordinator.runtime.files.store_marking import MISSING_S, REST_S, StoreMarking
from coordinator.runtime.ports import PeerUnavailable
from coordinator.store_mark import MarkedService, is_marked, mark_key
from records.model import Endpoint, NodeRegistered
from simulation.fakes.objects import FakeObjectStore, StoreFault
from simulation.fakes.snapshots import FakeObjects
from simulation.fakes.state_store import MemoryStateStores
from simulation.loop import VirtualTime
from tests.runtime.nodes import context_of, in_memory, running

OTHER_LISTENER = 0
"""The port of a listener at which no other node is reached."""
SERVICE = MarkedService(cluster_id="kafka", topic_id="AAAAAAAAAAAAAAAAAAAAAQ")


class World:
    """Nodes 1, 2 and so on, with stores on virtual time."""

    def __init__(self) -> None:
        self.time = VirtualTime()
        self.objects = FakeObjects(now_ms=lambda: 0)
        self.fault = StoreFault.NONE
        self.fault_of: Callable[[str], StoreFault] = lambda _call: self.fault
        self.leader = 0
        self.service: MarkedService | None = SERVICE
        self.nodes: dict[int, StoreMarking] = {}
        self.unreachable = {OTHER_LISTENER}
        self.directory = Directory()

    def node(self, objects: FakeObjects | None = None, *, files: Sequence[str] = ()) -> StoreMarking:
        """A node, whose store is that of all unless another one is given, and whose log speaks of some files."""
        node_id = len(self.nodes) + 1
        self.directory.nodes[node_id] = NodeRegistered(
            node_id=node_id,
            rack="",
            endpoints=[Endpoint(listener="OTHER", host="h", port=OTHER_LISTENER), Endpoint(listener="NODES", host="h", port=node_id)],
            schema_level_max=1,
            incarnation_id=bytes(16),
            log_dirs=[],
            is_any_dir_offline=False,
        )
        marking = StoreMarking(
            context_of(node_id=node_id, replicas=_Replicas(self, node_id, [_Files(files)]), view=_View(self), peers=_Peers(self)),
            store=FakeObjectStore(objects or self.objects, fault_of=lambda call: self.fault_of(call)),
            wal_prefix="wal/",
            service=lambda: self.service,
        )
        self.nodes[node_id] = marking
        self.time.new_loop(str(node_id)).create_task(marking.keep())
        return marking

    def lead(self, node_id: int) -> None:
        self.leader = node_id
        for marking in self.nodes.values():
            marking.wake()

    def run(self, seconds: float) -> None:
        self.time.run_until(self.time.now_s + seconds)


@dataclass
class _View:
    world: World

    @property
    def directory(self) -> Directory:
        return self.world.directory

    def node_endpoint(self, endpoints: Sequence[Endpoint]) -> Endpoint:
        return endpoint_of(endpoints, "NODES")


@dataclass
class _Replicas:
    world: World
    node_id: int
    files: Sequence[_Files]

    def followed(self) -> Sequence[_Files]:
        return self.files

    def is_leading(self, _partition: int) -> bool:
        return self.world.leader == self.node_id


@dataclass
class _Peers:
    world: World

    async def call(self, _host: str, port: int, _request: Message, _timeout_ms: int) -> Message:
        if port in self.world.unreachable:
            raise PeerUnavailable("no answer")
        return DescribeNodeResponse(
            error_code=0,
            node_id=port,
            incarnation_id=bytes(16),
            is_member=True,
            is_store_marked=self.world.nodes[port].is_found,
            time_ms=0,
            is_kafka_time_known=False,
        )


@dataclass
class _Files:
    keys: Sequence[str]

    def look(self, _read: object, after: str, limit: int) -> list[SimpleNamespace]:
        return [SimpleNamespace(object_key=key, live_batches=1) for key in self.keys if key > after][:limit]


def is_marked_in(objects: FakeObjects) -> bool:
    return mark_key(SERVICE) in objects.by_key


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.time.close()


def test_the_leader_marks_the_store_and_the_others_find_the_mark(world: World) -> None:
    one, two = world.node(), world.node()
    world.run(5)
    assert not is_marked_in(world.objects)
    assert "object.store.url differs" in one.problem
    world.lead(1)
    world.run(3)
    assert is_marked_in(world.objects)
    assert (one.problem, two.problem, one.is_found, two.is_found) == ("", "", True, True)


def test_nothing_is_marked_before_the_log_is_known(world: World) -> None:
    world.service = None
    one = world.node()
    world.lead(1)
    world.run(5)
    assert (world.objects.by_key, one.problem) == ({}, "")
    world.service = SERVICE
    world.run(2)
    assert is_marked_in(world.objects)


def test_a_mark_that_was_deleted_is_there_again_before_it_is_missed_for_long(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.objects.put("wal/b", b"1")
    one, two = world.node(files=["wal/a", "wal/b"]), world.node()
    world.lead(1)
    world.run(100)
    world.objects.remove(mark_key(SERVICE))
    world.run(2 * REST_S)
    assert is_marked_in(world.objects)
    assert (one.problem, two.problem, [one for one in caplog.records if one.levelname == "ERROR"]) == ("", "", [])


def test_a_leader_with_another_store_than_a_node_before_it_marks_nothing(world: World, caplog: pytest.LogCaptureFixture) -> None:
    elsewhere = FakeObjects(now_ms=lambda: 0)
    one = world.node()
    world.lead(1)
    world.run(5)
    wrong = world.node(elsewhere)
    world.lead(2)
    world.run(MISSING_S / 2)
    assert f"has no object {mark_key(SERVICE)}" in wrong.problem
    assert "node 1 has it in its store" in wrong.problem
    assert not caplog.records
    world.run(MISSING_S)
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert (is_marked_in(elsewhere), wrong.is_found, one.problem) == (False, False, "")


def test_a_leader_whose_store_lacks_what_the_log_speaks_of_marks_nothing(world: World) -> None:
    wrong = world.node(files=["wal/a", "wal/b"])
    world.lead(1)
    world.run(2 * REST_S)
    assert not is_marked_in(world.objects)
    assert "none of 2 objects that the log speaks of, wal/a first" in wrong.problem
    # What the problem tells to do makes it the store of the service.
    world.objects.put(mark_key(SERVICE), wrong.problem.rpartition("there: ")[2].encode())
    world.run(5)
    assert (wrong.problem, wrong.is_found) == ("", True)


def test_a_leader_that_no_other_node_answers_marks_its_store(world: World) -> None:
    world.node()
    world.unreachable.add(1)
    two = world.node()
    world.lead(2)
    world.run(5)
    assert (is_marked_in(world.objects), two.problem) == (True, "")


def test_a_store_that_does_not_answer_is_no_other_store(world: World) -> None:
    one, two = world.node(), world.node()
    world.lead(1)
    world.run(100)
    world.fault = StoreFault.REFUSED
    world.run(300)
    assert (one.problem, two.problem, one.is_found, two.is_found) == ("", "", True, True)


def test_a_store_that_refuses_a_node_for_a_while_is_no_other_store(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits need no store: nodes that were ready stay so while their credentials are renewed."""
    one, two = world.node(), world.node()
    world.lead(1)
    world.run(100)

    async def get(_store: FakeObjectStore, key: str) -> bytes:
        raise StoreDenied(f"memory: get {key}: status code: 403")

    monkeypatch.setattr(FakeObjectStore, "get", get)
    world.run(300)
    assert (one.problem, two.problem, one.is_found, two.is_found) == ("", "", True, True)
    three = world.node()  # it has never found the mark there
    world.run(5)
    assert (three.is_found, "can be neither written nor read" in three.lasting_problem) == (False, True)


def test_an_unforeseen_error_ends_neither_the_look_nor_the_node(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def get(_store: FakeObjectStore, key: str) -> bytes:
        raise RuntimeError(key)

    with monkeypatch.context() as patched:
        patched.setattr(FakeObjectStore, "get", get)
        one = world.node()
        world.lead(1)
        world.run(10)
        assert not one.is_found
    world.run(5)
    assert (one.is_found, is_marked_in(world.objects)) == (True, True)


def test_objects_are_looked_for_until_one_is_there(world: World) -> None:
    asked: list[str] = []

    def fault_of(call: str) -> StoreFault:
        asked.append(call)
        return StoreFault.NONE

    keys = [f"wal/{number}" for number in range(8)]
    for key in keys:
        world.objects.put(key, b"x")
    world.fault_of = fault_of
    world.node(files=keys)
    world.lead(1)
    world.run(5)
    assert is_marked_in(world.objects)
    assert len([call for call in asked if "head" in call]) == 1, asked


async def test_a_node_marks_its_store_and_without_the_mark_it_is_not_ready() -> None:
    store = open_store("memory://")
    async with running(in_memory(partitions=1), MemoryStateStores(), objects=store) as started:
        await started.until(lambda: started.node.workers.marking.is_found and readiness(started.node)[0], "readiness")
        service = started.node.topic.service()
        assert service is not None
        assert await is_marked(store, service)
        started.node.workers.marking.problem = "this is another store"
        is_ready, detail = readiness(started.node)
        assert (is_ready, detail["object_store"]) == (False, "this is another store")
