"""Moves of user partitions between coordinators that one node leads: commits, repetitions, producers, reads, deletions, restarts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from copy import copy
from typing import Any

import pytest

from coordinator.app.telemetry import node_samples
from coordinator.core.commands import (
    CommitAnswer,
    CommitFile,
    CommitResult,
    DeletedTo,
    DeletePoint,
    DeleteRecords,
    FetchPoint,
    FoundBatches,
    OffsetQuery,
    Outcome,
    WantedMove,
    WantedTopic,
)
from coordinator.kafka.batches import partition_key
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.timestamps import EARLIEST, LATEST, MAX_TIMESTAMP
from coordinator.runtime.pauses import Pauses
from coordinator.runtime.routing import router
from coordinator.runtime.routing.cluster_view import ClusterView
from coordinator.runtime.routing.moved_commits import MovedCommit
from simulation.fakes.state_store import MemoryStateStores
from tests.core.build import TOPIC, batch, commit
from tests.runtime.nodes import TIMEOUT_MS, Running, in_memory, running
from tests.waiting import until

BOTH = [0, 1]
OFTEN = Pauses(level_check_s=0.005)


async def topic(started: Running, partitions: int = 2) -> None:
    await started.until(lambda: started.node.schema_level == 2, "the level at which partitions move")
    wanted = WantedTopic(topic_id=TOPIC, name="orders", num_partitions=partitions)
    [outcome] = await started.node.directory.create_topics([wanted], TIMEOUT_MS)
    assert outcome.error is ErrorCode.NONE, outcome


def owner(started: Running, partition: int) -> int:
    found = started.node.view.owner_of(partition_key(TOPIC, partition))
    assert found is not None
    return found


async def move(started: Running, partition: int, to: int) -> None:
    wanted = WantedMove(topic_id=TOPIC, partition=partition, to_coordinator=to)
    outcomes = await started.node.directory.order_moves([wanted], TIMEOUT_MS, is_dry_run=False)
    assert isinstance(outcomes, list)
    assert [one.error for one in outcomes] == [ErrorCode.NONE], outcomes
    await until(lambda: owner(started, partition) == to, f"partition {partition} at coordinator {to}", within_s=10)


async def committed(started: Running, command: CommitFile) -> CommitResult:
    answered: asyncio.Future[CommitResult] = asyncio.get_running_loop().create_future()

    def respond(answer: CommitAnswer) -> None:
        answered.set_result(answer.result())

    started.node.router.commit(command, TIMEOUT_MS, respond, 100)
    return await answered


async def accepted(started: Running, key: str, rows: Sequence[dict[str, object]], owners: Sequence[int] = BOTH) -> list[int]:
    result = await committed(started, commit(key, rows, owner_ids=list(owners)))
    assert not any(result.errors), result
    return result.base_offsets


async def read_all(started: Running, partition: int, start: int = 0) -> list[tuple[str, int]]:
    """Key and base offset of every batch, read as a consumer reads: answer by answer, from where the last one ended."""
    batches: list[tuple[str, int]] = []
    while True:
        found = await find(started, partition, start)
        assert found.outcome.error is ErrorCode.NONE, found
        if not found.batches:
            return batches
        batches += [(one.object_key, one.base_offset) for one in found.batches]
        start = found.batches[-1].last_offset + 1


async def find(started: Running, partition: int, offset: int) -> FoundBatches:
    point = FetchPoint(TOPIC, partition, offset, 1 << 20)
    [found] = await started.node.router.find_batches([point], 1 << 20, 0, TIMEOUT_MS)
    return found


async def offset_at(started: Running, partition: int, timestamp: int) -> tuple[int, int]:
    [found] = await started.node.router.list_offsets([OffsetQuery(TOPIC, partition, timestamp)], TIMEOUT_MS)
    assert found.outcome.error is ErrorCode.NONE, found
    return found.offset, found.timestamp


async def test_offsets_producers_and_reads_go_on_at_the_next_owner() -> None:
    async with running(in_memory(), MemoryStateStores(), pauses=OFTEN) as started:
        await started.leads()
        await topic(started)
        before, to = owner(started, 0), 1 - owner(started, 0)
        assert await accepted(started, "wal/1", [batch(0, 3, sequence=0, max_timestamp=50), batch(1, 2)]) == [0, 0]
        assert await accepted(started, "wal/2", [batch(0, 2, sequence=3, max_timestamp=90)]) == [3]
        await move(started, 0, to)
        counted = {("partition_moves_total", ("moved",)): 1, ("partitions_moving", ()): 0, ("partition_move_oldest_seconds", ()): 0}

        def told() -> dict[tuple[str, tuple[str, ...]], float]:
            return {(one.name, one.labels): one.value for one in node_samples(started.node, lambda: 0) if (one.name, one.labels) in counted}

        await until(lambda: told() == counted, "the move counted, and over", within_s=10)
        # The producer goes on; a repetition of its batches is found, a gap is refused.
        assert await accepted(started, "wal/3", [batch(0, 1, sequence=5, max_timestamp=70), batch(1, 1)]) == [5, 2]
        duplicate = await committed(started, commit("wal/4", [batch(0, 2, sequence=3)], owner_ids=BOTH))
        assert (duplicate.errors, duplicate.base_offsets, duplicate.duplicates) == ([0], [3], [True])
        gap = await committed(started, commit("wal/5", [batch(0, 1, sequence=9)], owner_ids=BOTH))
        assert gap.errors == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
        assert await read_all(started, 0) == [("wal/1", 0), ("wal/2", 3), ("wal/3", 5)]
        assert await offset_at(started, 0, EARLIEST) == (0, -1)
        assert await offset_at(started, 0, LATEST) == (6, -1)
        assert await offset_at(started, 0, 60) == (3, 90)
        assert await offset_at(started, 0, 40) == (0, 50)
        assert await offset_at(started, 0, MAX_TIMESTAMP) == (4, 90)
        assert (await offset_at(started, 0, 95))[0] == -1
        assert owner(started, 0) == to != before
        # The owner before takes nothing of it, whoever asks; another owner of the file may have taken it.
        for owners, error in (
            (BOTH, ErrorCode.FENCED_LEADER_EPOCH),
            ([to], ErrorCode.FENCED_LEADER_EPOCH),
            ([before], ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ):
            answer = await started.ask(before, commit(f"wal/{owners}", [batch(0)], owner_ids=owners))
            assert answer.result().errors == [error]  # type: ignore[union-attr]


async def test_times_are_looked_up_in_all_stretches_on_a_node_that_has_not_read_the_move(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(in_memory(), MemoryStateStores(), pauses=OFTEN) as started:
        await started.leads()
        await topic(started)
        assert await accepted(started, "wal/1", [batch(0, 3, max_timestamp=50)]) == [0]
        await move(started, 0, 1 - owner(started, 0))
        assert await accepted(started, "wal/2", [batch(0, 2, max_timestamp=20)]) == [3]
        monkeypatch.setattr(ClusterView, "earlier_of", lambda *_: ())
        assert await offset_at(started, 0, 40) == (0, 50)
        assert await offset_at(started, 0, MAX_TIMESTAMP) == (2, 50)


async def test_a_file_is_refused_for_good_only_where_its_owner_is_for_certain() -> None:
    """Nodes that have not read a move find that a file does not name the owner, which it was before."""
    async with running(in_memory(), MemoryStateStores(), pauses=OFTEN) as started:
        await started.leads()
        await topic(started)
        before, to = owner(started, 0), 1 - owner(started, 0)
        view = started.node.view
        await move(started, 0, to)
        assert await accepted(started, "wal/1", [batch(0)], [to]) == [0]
        key = partition_key(TOPIC, 0)
        with pytest.MonkeyPatch.context() as lagging:
            lagging.setattr(view, "owner_of", lambda one: before if one == key else to)
            lagging.setattr(view, "earlier_of", lambda _key: ())
            lagging.setattr(view, "has_moved", lambda _batches: False)
            lagging.setattr(view, "owners_of", lambda keys: {before if one == key else to for one in keys})
            lagging.setattr(view, "owners_of_files", lambda _files: [(-1, 1)])
            for batches in [batch(0)], [batch(0), batch(1)]:
                answer = await committed(started, commit("wal/1", batches, owner_ids=[to]))
                assert answer.errors[0] == ErrorCode.FENCED_LEADER_EPOCH
        assert (await committed(started, commit("wal/1", [batch(0)], owner_ids=[to]))).base_offsets == [0]
        assert (await committed(started, commit("wal/2", [batch(0)], owner_ids=[before]))).errors == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


async def test_files_of_moved_partitions_are_looked_up_where_these_were_and_then_go_to_the_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []

    class Looked(MovedCommit):
        def __init__(self, *args: Any) -> None:
            looked.append(args[2].object_key)
            super().__init__(*args)

    async with running(in_memory(), MemoryStateStores(), pauses=OFTEN) as started:
        await started.leads()
        await topic(started)
        before, to = owner(started, 0), 1 - owner(started, 0)
        assert await accepted(started, "a", [batch(0)], [before]) == [0]
        await move(started, 0, to)
        monkeypatch.setattr(router, "MovedCommit", Looked)
        for number in range(1, 4):
            assert await accepted(started, f"b{number}", [batch(0)], [to]) == [number]
        assert looked == ["b1"]
        # What may have been committed before, or what its owner is not named of, is looked at as ever.
        assert await accepted(started, "a", [batch(0)], [before]) == [0]
        assert (await committed(started, commit("c", [batch(0)], owner_ids=[before]))).errors == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
        assert looked == ["b1", "a", "c"]
        # Another state of the coordinator before has to be asked anew.
        monkeypatch.setattr(started.node.replicas[before], "view", copy(started.node.replicas[before].view))
        for number in 4, 5:
            assert await accepted(started, f"b{number}", [batch(0)], [to]) == [number]
        assert looked == ["b1", "a", "c", "b4"]


async def test_files_wait_for_the_order_of_a_move_that_their_owner_has_taken_part_in() -> None:
    """The directory of a leader may lag: where a partition was before it came back is not known then."""
    async with running(in_memory(), MemoryStateStores(), pauses=OFTEN) as started:
        await started.leads()
        await topic(started)
        to = 1 - owner(started, 0)
        await move(started, 0, to)
        assert await accepted(started, "a", [batch(0)], [to]) == [0]
        directory = started.node.view.directory
        assert directory is not None
        read, directory.last_move_id = directory.last_move_id, 0
        for rows in [batch(0)], [batch(0), batch(1)]:
            assert set((await committed(started, commit("b", rows, owner_ids=BOTH))).errors) == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
        assert await accepted(started, "c", [batch(1)], BOTH) == [0]
        directory.last_move_id = read
        assert await accepted(started, "b", [batch(0)], [to]) == [1]


async def test_a_repetition_is_answered_as_the_first_time_wherever_its_partition_is() -> None:
    async with running(in_memory(), MemoryStateStores(), pauses=OFTEN) as started:
        await started.leads()
        await topic(started, 4)
        at = {owner(started, one): one for one in range(4)}
        one, other = at[0], at[1]
        rows = [batch(one, 3), batch(other, 2), batch(one, 1)]
        first = await committed(started, commit("wal/1", rows, owner_ids=BOTH))
        await move(started, one, 1)
        for again in (
            commit("wal/1", rows, owner_ids=BOTH),
            commit("wal/1", rows, owner_ids=[1, 0]),
        ):
            result = await committed(started, again)
            if again.owner_ids == BOTH:
                assert result == first
            else:
                # Another list is another content where the file is known; what moved is answered as it was in any case.
                assert [result.errors[0], result.errors[2]] == [0, 0]
                assert [result.base_offsets[0], result.base_offsets[2]] == [first.base_offsets[0], first.base_offsets[2]]
        assert await read_all(started, one) == [("wal/1", 0), ("wal/1", 3)]


async def test_a_share_of_a_file_that_was_committed_with_another_partition_is_known() -> None:
    """The file had batches of two partitions in one coordinator; since one of them moved, each comes to another one."""
    async with running(in_memory(), MemoryStateStores(), pauses=OFTEN) as started:
        await started.leads()
        await topic(started, 4)
        mine = [one for one in range(4) if owner(started, one) == 0]
        rows = [batch(mine[0], 2), batch(mine[1], 3)]
        first = await committed(started, commit("wal/1", rows, owner_ids=[0]))
        await move(started, mine[0], 1)
        result = await committed(started, commit("wal/1", rows, owner_ids=BOTH))
        assert (result.errors, result.base_offsets) == ([0, 0], first.base_offsets)
        assert await read_all(started, mine[0]) == [("wal/1", 0)]
        assert await read_all(started, mine[1]) == [("wal/1", 0)]


async def test_a_batch_whose_coordinator_the_file_does_not_name_is_refused_so_that_writers_send_it_anew() -> None:
    async with running(in_memory(), MemoryStateStores(), pauses=OFTEN) as started:
        await started.leads()
        await topic(started, 4)
        mine = [one for one in range(4) if owner(started, one) == 0]
        await move(started, mine[0], 1)
        rows = [batch(mine[0]), batch(mine[1])]
        result = await committed(started, commit("wal/1", rows, owner_ids=[0]))
        assert result.errors == [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.COORDINATOR_NOT_AVAILABLE]
        # Without that batch the share is committed.
        assert await accepted(started, "wal/1", rows[1:], [0]) == [0]
        # The file is known now: the batch that moved is still not taken for one of it.
        again = await committed(started, commit("wal/1", rows, owner_ids=[0]))
        assert again.errors[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert await read_all(started, mine[0]) == []


async def test_the_rest_of_a_file_whose_moved_batches_came_first_has_to_come_in_another_file() -> None:
    """The writer sent each share where it believed the partitions to be; those that moved were sent on before the next owner's own."""
    async with running(in_memory(), MemoryStateStores(), pauses=OFTEN) as started:
        await started.leads()
        await topic(started, 4)
        moving, mine = (next(one for one in range(4) if owner(started, one) == at) for at in (0, 1))
        await move(started, moving, 1)
        moved, own = batch(moving), batch(mine)
        assert await accepted(started, "wal/1", [moved]) == [0]
        assert (await committed(started, commit("wal/1", [own], owner_ids=BOTH))).errors == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
        # So whole it is, too, but what was committed is answered as it was.
        whole = await committed(started, commit("wal/1", [moved, own], owner_ids=BOTH))
        assert (whole.errors, whole.base_offsets) == ([0, ErrorCode.NOT_LEADER_OR_FOLLOWER], [0, -1])
        assert await accepted(started, "wal/2", [own]) == [0]


async def test_a_batch_whose_partition_came_and_was_deleted_is_no_other_content() -> None:
    async with running(in_memory(), MemoryStateStores(), pauses=OFTEN) as started:
        await started.leads()
        await topic(started, 1)
        other = bytes(15) + b"\7"
        at = owner(started, 0)
        outcomes = await started.node.directory.create_topics([WantedTopic(topic_id=other, name="others", num_partitions=2)], TIMEOUT_MS)
        assert [one.error for one in outcomes] == [ErrorCode.NONE]
        [mine] = [one for one in range(2) if started.node.view.owner_of(partition_key(other, one)) != at]
        own, moved = batch(mine, topic_id=other), batch(0)
        assert await accepted(started, "wal/1", [own]) == [0]
        await move(started, 0, 1 - at)
        assert await started.node.directory.delete_topics([TOPIC], TIMEOUT_MS) == [Outcome()]
        answer = (await started.ask(1 - at, commit("wal/1", [own, moved], owner_ids=BOTH))).result()  # type: ignore[union-attr]
        assert (answer.errors, answer.base_offsets[0]) == ([0, ErrorCode.UNKNOWN_TOPIC_ID], 0)


async def test_deletions_reach_the_stretch_before_and_a_partition_may_return_when_it_is_gone() -> None:
    kafka, stores = in_memory(), MemoryStateStores()
    async with running(kafka, stores, pauses=OFTEN) as started:
        await started.leads()
        await topic(started)
        before, to = owner(started, 0), 1 - owner(started, 0)
        for number in range(4):
            await accepted(started, f"wal/{number}", [batch(0, 2)])
        await move(started, 0, to)
        await accepted(started, "wal/4", [batch(0, 2)])
        back = WantedMove(topic_id=TOPIC, partition=0, to_coordinator=before)
        [refused] = await started.node.directory.order_moves([back], TIMEOUT_MS, is_dry_run=False)  # type: ignore[misc]
        assert refused.error is ErrorCode.INVALID_REQUEST
        assert "still are" in (refused.message or "")

        async def delete(offset: int) -> None:
            command = DeleteRecords(points=[DeletePoint(topic_id=TOPIC, partition=0, offset=offset)])
            [deleted] = await started.node.router.by_owner(
                lambda points: DeleteRecords(points=points), lambda outcome: DeletedTo(outcome=outcome), command.points, TIMEOUT_MS
            )
            assert (deleted.outcome.error, deleted.low_watermark) == (ErrorCode.NONE, offset), deleted

        await delete(3)
        assert await offset_at(started, 0, EARLIEST) == (3, -1)
        assert [base for _, base in await read_all(started, 0, 3)] == [2, 4, 6, 8]
        await started.node.workers.released.look()
        assert started.node.view.replicas.shard(before).bounds(TOPIC, 0) == (3, 8)  # type: ignore[union-attr]
        await delete(9)
        await started.node.workers.released.look()
        assert started.node.view.replicas.shard(before).bounds(TOPIC, 0) == (8, 8)  # type: ignore[union-attr]
        below = await find(started, 0, 2)
        assert below.outcome.error is ErrorCode.OFFSET_OUT_OF_RANGE
        await move(started, 0, before)
        assert await accepted(started, "wal/5", [batch(0, 2)]) == [10]
        assert [base for _, base in await read_all(started, 0, 9)] == [8, 10]
        assert (await find(started, 0, 8)).outcome.error is ErrorCode.OFFSET_OUT_OF_RANGE
        # A repetition of what was committed before it went is answered as it was.
        again = await committed(started, commit("wal/3", [batch(0, 2)], owner_ids=BOTH))
        assert (again.errors, again.base_offsets) == ([0], [6])
    async with running(kafka, stores, name="2", pauses=OFTEN) as restarted:
        await restarted.leads()
        assert [base for _, base in await read_all(restarted, 0, 9)] == [8, 10]
        assert await accepted(restarted, "wal/6", [batch(0, 2)]) == [12]


@pytest.mark.parametrize("wanted", [[], [WantedMove(topic_id=TOPIC, partition=0, to_coordinator=1)]], ids=len)
async def test_who_does_not_lead_the_directory_to_the_end_of_a_question_tells_nothing_of_moves(wanted: list[WantedMove]) -> None:
    """What is under way is known where the directory is led; nothing under way would be taken for the end of a move."""
    async with running(in_memory(), MemoryStateStores(), pauses=OFTEN) as started:
        await started.leads()
        await topic(started)
        started.kafka.set_available(False)
        told = await started.node.directory.order_moves(wanted, 50, is_dry_run=True)
        assert isinstance(told, Outcome), told
        assert told.error is not ErrorCode.NONE


async def test_a_topic_that_moved_is_deleted_everywhere() -> None:
    async with running(in_memory(), MemoryStateStores(), pauses=OFTEN) as started:
        await started.leads()
        await topic(started)
        await accepted(started, "wal/1", [batch(0, 2)])
        await move(started, 0, 1 - owner(started, 0))
        await accepted(started, "wal/2", [batch(0, 2)])
        [outcome] = await started.node.directory.delete_topics([TOPIC], TIMEOUT_MS)
        assert outcome == Outcome()
        for one in (0, 1):
            shard = started.node.view.replicas.shard(one)
            assert shard is not None
            assert not shard.topic_ids()
            assert not shard.stretches
            await until(lambda: not shard.is_trimming, "batches counted out")  # noqa: B023 - awaited in the same round
            assert all(file.live_batches == 0 for file in shard.files_after("", 10))


async def test_a_node_that_starts_again_knows_everything() -> None:
    kafka, stores = in_memory(), MemoryStateStores()
    async with running(kafka, stores, pauses=OFTEN) as started:
        await started.leads()
        await topic(started)
        await accepted(started, "wal/1", [batch(0, 3, sequence=0)])
        to = 1 - owner(started, 0)
        await move(started, 0, to)
        await accepted(started, "wal/2", [batch(0, 2, sequence=3)])
    async with running(kafka, stores, name="2", pauses=OFTEN) as again:
        await again.leads()
        assert owner(again, 0) == to
        assert await read_all(again, 0) == [("wal/1", 0), ("wal/2", 3)]
        assert await accepted(again, "wal/3", [batch(0, 1, sequence=5)]) == [5]
    async with running(kafka, MemoryStateStores(), name="3", pauses=OFTEN) as anew:
        await anew.leads()
        assert await read_all(anew, 0) == [("wal/1", 0), ("wal/2", 3), ("wal/3", 5)]
        duplicate = await committed(anew, commit("wal/9", [batch(0, 2, sequence=3)], owner_ids=BOTH))
        assert duplicate.duplicates == [True]
