"""A replica without anything is made from a snapshot of another node when the object store has lost all of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import cast

import pytest
from kio.schema.fetch_snapshot.v1.response import FetchSnapshotResponse

from coordinator.adapters.sqlite.stores import StateDatabases
from coordinator.core.commands import OK
from coordinator.kafka.errors import ErrorCode
from coordinator.operations.kafka_versions import schema_module
from coordinator.operations.snapshot_fetches import (
    FETCH_SNAPSHOT,
    SnapshotAnswer,
    SnapshotQuestion,
    fetch_snapshot_request,
    fetch_snapshot_response,
    snapshot_answer,
)
from coordinator.operations.table import operation_of
from coordinator.protocol.codec import Message
from coordinator.runtime.answers.serving import serve
from coordinator.runtime.ports import PeerAddress, PeerUnavailable
from simulation.fakes.kafka import FakeKafka
from simulation.fakes.snapshots import FakeDurableSnapshots, FakeObjects
from tests.patient_loop import loop_ms
from tests.runtime.nodes import TIMEOUT_MS, Running, in_memory, running

FIRST = PeerAddress(None, "first", 9192)


class Wire:
    """Requests to one node, answered as its server would; `change` may change what it answers to FetchSnapshot."""

    def __init__(self, first: Running, change: Callable[[Message], Message] = lambda answer: answer) -> None:
        self.fetched = 0
        self.unanswered = 0
        self._first = first
        self._change = change

    async def call(self, host: str, port: int, request: Message, timeout_ms: int) -> Message:
        if host != FIRST.host:
            self.unanswered += 1
            raise PeerUnavailable(f"nobody listens at {host}:{port}")
        operation, version = operation_of(type(request))
        self.fetched += operation is FETCH_SNAPSHOT
        answer = await serve(self._first.node, operation, version, request)
        return self._change(answer) if operation is FETCH_SNAPSHOT else answer


@asynccontextmanager
async def pruned(folder: Path) -> AsyncIterator[tuple[FakeKafka, Running, FakeObjects]]:
    """A node whose log begins behind its snapshots, of which the object store has none left."""
    (folder / "first").mkdir()
    (folder / "second").mkdir()
    kafka, objects = in_memory(partitions=2), FakeObjects(now_ms=loop_ms)
    async with running(kafka, StateDatabases(folder / "first"), durable=FakeDurableSnapshots(objects)) as first:
        await first.leads()
        for _ in range(2):
            for partition in range(2):
                assert await first.node.workers.snapshots.take(partition, TIMEOUT_MS) == OK
        await first.until(lambda: _is_pruned(first), "the logs to be pruned, and the local copies to be seen")
        objects.by_key.clear()
        yield kafka, first, objects


@asynccontextmanager
async def second_node(
    folder: Path, kafka: FakeKafka, objects: FakeObjects, wire: Wire, peer: PeerAddress = FIRST
) -> AsyncIterator[Running]:
    """A node without anything that may ask one other for snapshots."""
    async with running(
        kafka,
        StateDatabases(folder / "second"),
        name="2",
        node_id=2,
        peers=wire,
        durable=FakeDurableSnapshots(objects),
        snapshot_peers=(peer,),
    ) as second:
        yield second


def _is_pruned(first: Running) -> bool:
    found = [first.node.workers.snapshots.describe(partition) for partition in range(2)]
    return all(one is not None and one.log_start > 0 and one.known[-1].is_local for one in found)


def _is_loaded(second: Running) -> bool:
    return all(second.node.replicas.follows(partition) and second.node.replicas[partition].view for partition in range(2))


def _is_given_up(second: Running) -> bool:
    return second.node.replicas.follows(0) and second.node.replicas[0].unloadable is not None


async def asked(first: Running, question: SnapshotQuestion, *, cluster_id: str | None = None, max_bytes: int = 1_000) -> SnapshotAnswer:
    facts = first.node.topic.facts
    assert facts is not None
    request = fetch_snapshot_request(cluster_id or facts.cluster_id, 2, question, max_bytes)
    return snapshot_answer(await serve(first.node, FETCH_SNAPSHOT, 1, request))


async def test_every_node_answers_pieces_and_says_what_is_wrong(tmp_path: Path) -> None:
    async with pruned(tmp_path) as (kafka, first, _):
        found = first.node.workers.snapshots.describe(0)
        assert found is not None
        one = found.known[-1].snapshot
        right = SnapshotQuestion(kafka.topic, 0, one.end_offset, one.epoch, 0)
        begin = await asked(first, right, max_bytes=10)
        assert (begin.error, begin.size, len(begin.data)) == (ErrorCode.NONE, one.size_bytes, 10)
        rest = await asked(first, right._replace(position=10), max_bytes=2**31 - 1)
        assert len(begin.data + rest.data) == one.size_bytes
        cases = [
            (right._replace(position=one.size_bytes), ErrorCode.NONE),
            *((right._replace(position=wrong), ErrorCode.POSITION_OUT_OF_RANGE) for wrong in (one.size_bytes + 1, 2**60, 2**63 - 1, -1)),
            (right._replace(epoch=one.epoch + 1), ErrorCode.SNAPSHOT_NOT_FOUND),
            *((right._replace(end_offset=wrong), ErrorCode.SNAPSHOT_NOT_FOUND) for wrong in (-1, -(2**63), 2**63 - 1)),
            *((right._replace(epoch=wrong), ErrorCode.SNAPSHOT_NOT_FOUND) for wrong in (-1, -(2**31), 2**31 - 1)),
            (right._replace(partition=2), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            (right._replace(topic="other"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        for question, error in cases:
            assert (await asked(first, question)).error is error
        assert (await asked(first, right, cluster_id="other")).error is ErrorCode.INCONSISTENT_CLUSTER_ID
        assert (await asked(first, right, max_bytes=-1)).error is ErrorCode.INVALID_REQUEST


async def test_each_partition_gets_its_share_of_the_bytes_and_the_leader_is_told(tmp_path: Path) -> None:
    async with pruned(tmp_path) as (kafka, first, _):
        module = schema_module("fetch_snapshot", 1, "request")
        newest = []
        for partition in range(2):
            found = first.node.workers.snapshots.describe(partition)
            assert found is not None
            newest.append(found.known[-1].snapshot)
        ends = [newest[0].size_bytes - 10, 0, 0]  # ten bytes are left, and what they leave of their share is for the others
        questions = tuple(
            module.PartitionSnapshot(
                partition=partition,
                current_leader_epoch=-1,
                snapshot_id=module.SnapshotId(end_offset=newest[partition % 2].end_offset, epoch=newest[partition % 2].epoch),
                position=position,
            )
            for partition, position in zip((0, 1, 7), ends, strict=True)
        )
        topic = module.TopicSnapshot(name=kafka.topic, partitions=questions)
        request = module.FetchSnapshotRequest(cluster_id=kafka.cluster_id, replica_id=2, max_bytes=300, topics=(topic,))
        [answered] = cast(FetchSnapshotResponse, await serve(first.node, FETCH_SNAPSHOT, 1, request)).topics
        assert [len(one.unaligned_records) for one in answered.partitions] == [10, 145, 0]
        leaders = [(one.current_leader.leader_id, one.current_leader.leader_epoch) for one in answered.partitions]
        assert leaders == [(1, 1), (1, 1), (-1, -1)]


async def test_an_empty_node_is_made_from_a_snapshot_of_another(tmp_path: Path) -> None:
    async with pruned(tmp_path) as (kafka, first, objects):
        wire = Wire(first)
        async with second_node(tmp_path, kafka, objects, wire) as second:
            await second.until(lambda: _is_loaded(second), "the second node to be loaded")
            assert wire.fetched
            assert second.node.replicas[0].unloadable is None


async def test_damaged_bytes_of_another_node_are_refused(tmp_path: Path) -> None:
    def damaged(answer: Message) -> Message:
        found = snapshot_answer(answer)
        question = SnapshotQuestion(kafka.topic, 0, 0, 0, 0)
        return fetch_snapshot_response(1, ErrorCode.NONE, [(question, found._replace(data=found.data[:-1] + b"?"))])

    async with (
        pruned(tmp_path) as (kafka, first, objects),
        second_node(tmp_path, kafka, objects, Wire(first, damaged)) as second,
    ):
        await second.until(lambda: _is_given_up(second), "the damaged snapshots to be refused")


async def test_a_named_node_that_is_silent_is_waited_for(tmp_path: Path) -> None:
    async with pruned(tmp_path) as (kafka, first, objects):
        wire = Wire(first)
        silent = PeerAddress(None, "nobody", 1)
        async with second_node(tmp_path, kafka, objects, wire, silent) as second:
            await second.until(lambda: wire.unanswered > 1, "the silent node to be asked again")
            assert not _is_given_up(second)
            assert not second.node.is_prepared.is_set()


@pytest.mark.parametrize("error", [ErrorCode.SNAPSHOT_NOT_FOUND, ErrorCode.POSITION_OUT_OF_RANGE])
async def test_a_snapshot_that_goes_while_it_is_fetched_is_begun_anew(error: ErrorCode, tmp_path: Path) -> None:
    places = count()

    def going(answer: Message) -> Message:
        """The first answer is half of what was asked for, the second the error; from the third on all is well."""
        found, question = snapshot_answer(answer), SnapshotQuestion(kafka.topic, 0, 0, 0, 0)
        match next(places):
            case 0:
                return fetch_snapshot_response(1, ErrorCode.NONE, [(question, found._replace(data=found.data[: found.size // 2]))])
            case 1:
                return fetch_snapshot_response(1, ErrorCode.NONE, [(question, SnapshotAnswer(error))])
            case _:
                return answer

    async with pruned(tmp_path) as (kafka, first, objects):
        wire = Wire(first, going)
        async with second_node(tmp_path, kafka, objects, wire) as second:
            await second.until(lambda: _is_loaded(second), "the second node to be loaded")
            assert wire.fetched >= 4
