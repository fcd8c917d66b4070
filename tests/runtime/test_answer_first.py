"""A commit is answered before the replica applies it; reads and writes of the state that come in between do not notice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from coordinator.core.commands import Answer, FetchPoint, FoundOffset, OffsetQuery, WantedTopic
from coordinator.core.files.apply import ApplyResult
from coordinator.core.files.logged import LoggedFiles
from coordinator.core.leadership.states import State
from coordinator.core.state.replica_state import ShardState
from coordinator.core.tables.in_memory import BrokenInvariant
from coordinator.core.view import ShardView
from coordinator.kafka.errors import ErrorCode
from coordinator.runtime.replica.replica import Replica
from coordinator.runtime.routing.applied import find_applied_batches
from simulation.fakes.state_store import MemoryStateStores
from tests.core.build import TOPIC, batch, commit, place, result_of
from tests.runtime.nodes import TIMEOUT_MS, Running, in_memory, running

POINT = FetchPoint(topic_id=TOPIC, partition=0, offset=0, max_bytes=1000)


async def commit_and(replica: Replica, then: Callable[[ShardView], object]) -> Answer:
    """Commit a file and do something the moment it is answered."""
    answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

    def answered(value: Answer) -> None:
        shard = replica.view
        assert shard is not None
        assert not shard.is_settled
        then(shard)
        answer.set_result(value)

    replica.submit(commit("a", [batch(0, 3)], owner_ids=[replica.partition]), TIMEOUT_MS, answered)
    async with asyncio.timeout(TIMEOUT_MS / 1000):
        return await answer


async def with_topic(started: Running) -> None:
    await started.leads()
    [outcome] = await started.node.directory.create_topics([WantedTopic(topic_id=TOPIC, name="orders", num_partitions=2)], TIMEOUT_MS)
    assert outcome.error is ErrorCode.NONE
    assert await started.high_watermark(0) == 0


async def test_what_the_answer_makes_due_runs_before_it_is_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(in_memory(partitions=2), MemoryStateStores()) as started:
        await started.leads()
        # Not the directory's replica, which others look at.
        replica = started.node.replicas[1]
        await replica.ask(place(), TIMEOUT_MS)
        # Every event applies first, and so does who writes the state: here nobody comes in between.
        monkeypatch.setattr(Replica, "on_entries", lambda *_: None)
        monkeypatch.setattr(Replica, "tick", lambda *_: False)
        await started.until(lambda: not replica.writer.is_writing, "writing to end")
        seen: list[bool] = []
        loop = asyncio.get_running_loop()
        # As a connection schedules the writing of an answer.
        answer = await commit_and(replica, lambda shard: loop.call_soon(lambda: seen.append(shard.is_settled)))
        assert result_of(answer).base_offsets == [0]
        assert seen == [False]
        shard = replica.view
        assert shard is not None
        await started.until(lambda: shard.is_settled, "the commit to be applied")


async def test_reads_behind_the_answer_see_the_commit() -> None:
    async with running(in_memory(partitions=1), MemoryStateStores()) as started:
        await with_topic(started)
        node = started.node
        found: list[object] = []
        listed: asyncio.Future[list[FoundOffset]] = asyncio.get_running_loop().create_future()

        def read(_: ShardView) -> None:
            found.append(find_applied_batches(node.view, [POINT], 1000, 0))
            assert node.router.list_offsets_here([OffsetQuery(topic_id=TOPIC, partition=0, timestamp=-1)], TIMEOUT_MS, listed.set_result)

        await commit_and(started.node.replicas[0], read)
        [[one]] = found  # type: ignore[misc]
        assert (one.high_watermark, [row.last_offset for row in one.batches]) == (3, [2])  # type: ignore[has-type]
        async with asyncio.timeout(TIMEOUT_MS / 1000):
            assert [one.offset for one in await listed] == [3]


async def test_the_state_that_is_written_behind_the_answer_has_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(in_memory(partitions=1), MemoryStateStores()) as started:
        await with_topic(started)
        replica = started.node.replicas[0]
        # Nothing is written by the clock of the node any more.
        tick = Replica.tick
        monkeypatch.setattr(Replica, "tick", lambda *_: False)
        await started.until(lambda: not replica.writer.is_writing and replica.writer.is_time(), "writing to end")
        frozen: list[tuple[int, bool]] = []

        def write(shard: ShardView) -> None:
            tick(replica)
            has_file = any(generation.file("a") is not None for generation in shard.state.frozen)
            frozen.append((shard.state.applied_offset, has_file))

        await commit_and(replica, write)
        [(offset, has_file)] = frozen
        assert has_file
        await started.until(lambda: replica.writer.written_offset >= offset, "the commit to be written")


async def test_a_commit_that_cannot_be_applied_stays_answered_and_the_replica_is_rebuilt(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(in_memory(partitions=1), MemoryStateStores()) as started:
        await with_topic(started)
        before = started.node.replicas[0]
        apply = ShardState.apply_files

        def fails(state: ShardState, files: LoggedFiles, first: int, stop: int) -> ApplyResult:
            if before.view is not None and state is before.view.state:
                raise BrokenInvariant("it does not fit")
            return apply(state, files, first, stop)

        monkeypatch.setattr(ShardState, "apply_files", fails)
        answer = await commit_and(started.node.replicas[0], lambda _: None)
        assert result_of(answer).base_offsets == [0]
        await started.until(lambda: before.view is None or before.view.phase is State.FAILED, "the replica to fail")
        await started.until(lambda: started.node.replicas[0] is not before, "the replica to be built anew")
        await started.leads()
        assert await started.high_watermark(0) == 3
        assert result_of(await started.ask(0, commit("a", [batch(0, 3)]))).base_offsets == [0]
    assert started.fatal == []
