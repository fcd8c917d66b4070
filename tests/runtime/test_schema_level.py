"""The schema level rises by itself once every node agrees to it, and every replica of a node writes at the level that is in force."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coordinator.core.commands import OK, Outcome, RegisterNode
from coordinator.core.directory.directory import Directory, working_nodes
from coordinator.kafka.errors import ErrorCode
from coordinator.runtime.node import node as node_module
from coordinator.runtime.pauses import Pauses
from coordinator.runtime.ports import group_client_id
from coordinator.runtime.replica.replica import Replica
from coordinator.runtime.routing import directory_worker
from records.codec import decode_entry
from records.history import schema_of_header
from records.levels import LEVEL_LATEST
from records.model import Endpoint, FeatureLevelSet, NodeRegistered
from simulation.fakes.kafka import FakeKafka
from simulation.fakes.kafka_group import FakeMembership
from simulation.fakes.state_store import MemoryStateStores
from tests.core.build import batch, commit, place, result_of
from tests.runtime.nodes import TIMEOUT_MS, Running, in_memory, running

OTHER = RegisterNode(
    node_id=2,
    rack="",
    endpoints=[Endpoint(listener="PLAINTEXT", host="two", port=9192)],
    schema_level_max=1,
    incarnation_id=b"2" * 16,
    log_dirs=(b"d" * 16,),
)


OFTEN = Pauses(level_check_s=0.005, registration_check_s=0.005, revive_s=(0.01, 0.01))


def levels_written(kafka: FakeKafka, partition: int, start: int = 0) -> list[int]:
    """The schema level of every entry of a log from an offset on."""
    entries = kafka.logs[partition].read(start, 1000)
    return [schema_of_header((entry.value or b"")[:10]).level for entry in entries]


def raises(kafka: FakeKafka) -> list[FeatureLevelSet]:
    """What the directory's log says of levels."""
    entries = kafka.logs[0].read(0, 1000)
    return [record for entry in entries for record in decode_entry(entry.value or b"") if isinstance(record, FeatureLevelSet)]


async def register(started: Running, node: RegisterNode) -> Outcome:
    """Register another node, as its request would."""
    answer = await started.node.replicas[0].ask(node, TIMEOUT_MS)
    assert isinstance(answer, Outcome)
    return answer


async def until_level(started: Running, level: int) -> None:
    await started.until(lambda: started.node.schema_level == level, f"schema level {level}")


async def until_looked(started: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait until the leader has looked several times more whether it can raise the level."""
    looks = 0
    look = working_nodes

    def counting(directory: Directory) -> list[NodeRegistered]:
        nonlocal looks
        looks += 1
        return look(directory)

    with monkeypatch.context() as patch:
        patch.setattr(directory_worker, "working_nodes", counting)
        await started.until(lambda: looks >= 5, "looks")


async def test_a_fresh_service_comes_to_the_newest_level_by_itself_and_writes_it_everywhere() -> None:
    kafka = in_memory()
    async with running(kafka, MemoryStateStores(), pauses=OFTEN) as started:
        await started.leads()
        await until_level(started, LEVEL_LATEST)
        assert raises(kafka) == [FeatureLevelSet(level=LEVEL_LATEST)]
        assert set(levels_written(kafka, 0)) == {1}  # the raise itself is of the level before
        ends = [log.end_offset for log in kafka.logs]
        for partition in (0, 1):
            await started.ask(partition, place(count=1))
            result_of(await started.ask(partition, commit(f"file-{partition}", [batch(0, 2)], owner_ids=[partition])))
            assert await started.high_watermark(partition) == 2
            assert set(levels_written(kafka, partition, ends[partition])) == {LEVEL_LATEST}
    assert started.fatal == []


async def test_a_node_that_agrees_only_to_the_old_level_holds_it() -> None:
    kafka, stores = in_memory(), MemoryStateStores()
    async with running(kafka, stores, schema_level_max=1, pauses=OFTEN) as started:
        await started.leads()
        await started.until(lambda: 1 in nodes_of(started), "the registration")
        assert nodes_of(started)[1].schema_level_max == 1
        await started.ask(1, place(count=1))
        assert raises(kafka) == []
    assert set(levels_written(kafka, 1)) == {1}
    async with running(kafka, stores, pauses=OFTEN) as started:  # it may go to the new version now
        await started.leads()
        await until_level(started, LEVEL_LATEST)
    assert raises(kafka) == [FeatureLevelSet(level=LEVEL_LATEST)]


def nodes_of(started: Running) -> dict[int, NodeRegistered]:
    directory = started.node.view.directory
    return {} if directory is None else directory.nodes


async def test_a_registered_node_of_an_earlier_version_holds_the_level_until_it_is_upgraded(monkeypatch: pytest.MonkeyPatch) -> None:
    kafka = in_memory()
    stranger = FakeMembership(group=kafka.group, node="stranger", client_id=group_client_id(2))
    async with running(kafka, MemoryStateStores(), pauses=OFTEN) as started:
        await started.until(lambda: "1" in kafka.group.members(), "membership")
        kafka.group.add(stranger)
        kafka.group.assign({0: "1", 1: "1"})
        await started.leads()
        # A member that nobody knows may be one of any version.
        await until_looked(started, monkeypatch)
        assert started.node.schema_level == 1
        assert await register(started, OTHER) == OK
        await until_looked(started, monkeypatch)
        assert (started.node.schema_level, raises(kafka)) == (1, [])
        assert await register(started, replace(OTHER, schema_level_max=LEVEL_LATEST)) == OK
        await until_level(started, LEVEL_LATEST)
        # What cannot follow is told so.
        refused = await register(started, OTHER)
        assert refused.error is ErrorCode.UNSUPPORTED_VERSION
    assert raises(kafka) == [FeatureLevelSet(level=LEVEL_LATEST)]


async def test_a_group_that_does_not_know_this_member_says_nothing_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    kafka = in_memory()
    monkeypatch.setattr(kafka.group, "client_ids", frozenset)
    async with running(kafka, MemoryStateStores(), pauses=OFTEN) as started:
        await started.leads()
        await until_looked(started, monkeypatch)
        assert (started.node.schema_level, raises(kafka)) == (1, [])


async def test_a_node_that_is_gone_is_named_by_the_operator_and_never_holds_a_level_again(monkeypatch: pytest.MonkeyPatch) -> None:
    kafka, stores = in_memory(), MemoryStateStores()
    async with running(kafka, stores, schema_level_max=1, pauses=OFTEN) as started:
        await started.leads()
        await register(started, OTHER)
    async with running(kafka, stores, pauses=OFTEN) as started:
        await started.leads()
        worker = started.node.directory
        await until_looked(started, monkeypatch)
        assert (await worker.raise_schema_level(0, frozenset(), TIMEOUT_MS), started.node.schema_level) == (OK, 1)
        refused = await worker.raise_schema_level(LEVEL_LATEST, frozenset(), TIMEOUT_MS)
        assert refused.error is ErrorCode.INVALID_REQUEST
        assert "node 2 supports levels up to 1" in str(refused.message)
        assert await worker.raise_schema_level(LEVEL_LATEST, frozenset({2}), TIMEOUT_MS) == OK
        assert started.node.schema_level == LEVEL_LATEST
        assert [node.node_id for node in working_nodes(started.node.view.directory or Directory())] == [1]


async def test_replicas_that_are_loaded_later_write_at_the_level_in_force(monkeypatch: pytest.MonkeyPatch) -> None:
    kafka, stores = in_memory(), MemoryStateStores()
    async with running(kafka, stores, pauses=OFTEN) as started:
        await started.leads()
        await until_level(started, LEVEL_LATEST)
    end = kafka.logs[1].end_offset
    async with running(kafka, stores, pauses=OFTEN) as started:
        await started.leads()
        assert started.node.schema_level == LEVEL_LATEST
        assert set(levels_written(kafka, 1, end)) == {LEVEL_LATEST}  # its claim
        told: list[int] = []
        use_schema_level = Replica.use_schema_level

        def used(replica: Replica, level: int) -> None:
            told.append(level)
            use_schema_level(replica, level)

        monkeypatch.setattr(Replica, "use_schema_level", used)
        for partition in (0, 1):
            replica = started.node.replicas[partition]
            replica.invalidate("a test wants it built anew")
            await started.until(lambda old=replica, at=partition: started.node.replicas[at] is not old, "another replica")  # type: ignore[misc]
            await started.leads()
            shard = started.node.replicas.shard(partition)
            assert shard is not None
            assert shard.schema_level == LEVEL_LATEST
        assert set(told) == {LEVEL_LATEST}  # also while the directory was being read anew
    assert raises(kafka) == [FeatureLevelSet(level=LEVEL_LATEST)]


async def test_a_database_of_a_newer_version_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    kafka, stores = in_memory(), MemoryStateStores()
    async with running(kafka, stores, pauses=OFTEN) as started:
        await started.leads()
        await until_level(started, LEVEL_LATEST)
    monkeypatch.setattr(node_module, "LEVEL_LATEST", LEVEL_LATEST - 1)
    async with running(kafka, stores, pauses=OFTEN) as started:
        await started.until(lambda: bool(started.fatal), "the end")
    assert f"schema level {LEVEL_LATEST} is in force and this version has levels up to {LEVEL_LATEST - 1}" in str(started.fatal[0])
