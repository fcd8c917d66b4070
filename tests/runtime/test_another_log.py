"""A log that is not the one the state was built from (created anew, without its beginning, with a hole, cut and grown again).

Nobody mixes the two.
"""

from __future__ import annotations

import pytest

from coordinator.app.readiness import readiness
from coordinator.core.leadership.states import State
from coordinator.runtime.pauses import Pauses
from coordinator.runtime.ports import group_client_id
from coordinator.runtime.replica.replica import Replica
from records.codec import encode_entry, encode_key
from records.entry_key import EntryKey
from records.model import LeadershipClaimed
from simulation.fakes.kafka import FakeKafka
from simulation.fakes.kafka_group import FakeMembership
from simulation.fakes.state_store import MemoryStateStores
from tests.core.build import batch, commit, place, result_of
from tests.runtime.nodes import Running, in_memory, running


async def commit_some(started: Running, *keys: str) -> None:
    """Place a topic at coordinator 1 and commit files to it."""
    await started.leads()
    await started.ask(1, place())
    for key in keys:
        assert result_of(await started.ask(1, commit(key, [batch(0, 3)], owner_ids=[1]))).errors == [0]


async def test_a_topic_created_anew_ends_the_node_and_nothing_is_acknowledged_in_it() -> None:
    kafka = in_memory()
    async with running(kafka, MemoryStateStores()) as started:
        await commit_some(started, "a", "b")
        kafka.create(2)
        refused = result_of(await started.ask(1, commit("c", [batch(0, 3)], owner_ids=[1])))
        assert refused.errors == [16]
        await started.until(lambda: bool(started.fatal), "the end")
        assert not started.node.replicas.led()
    assert "was deleted and created anew while the service was running" in str(started.fatal[0])


async def test_a_leader_that_reads_a_topic_created_anew_does_not_claim_in_it() -> None:
    """Though nobody writes, and before the next look at the topic."""
    kafka = in_memory()
    async with running(kafka, MemoryStateStores()) as started:
        await commit_some(started, "a")
        kafka.create(2)
        await started.until(lambda: bool(started.fatal), "the end")
    assert [log.end_offset for log in kafka.logs] == [0, 0]


async def test_a_topic_created_anew_while_nobody_ran_is_another_one() -> None:
    kafka, stores = in_memory(), MemoryStateStores()
    async with running(kafka, stores) as started:
        await commit_some(started, "a", "b")
    kafka.create(2)
    async with running(kafka, stores) as started:
        await commit_some(started, "a")
        assert await started.high_watermark(1) == 3
    assert started.fatal == []


async def test_a_log_that_starts_behind_the_state_fails_the_replica_and_names_both_offsets() -> None:
    kafka, stores = in_memory(), MemoryStateStores()
    async with running(kafka, stores) as started:
        await commit_some(started, "a")
    applied_offset = kafka.logs[1].end_offset - 1
    for _ in range(5):
        kafka.append(1, None, b"?")
    kafka.delete_records(1, applied_offset + 3)
    async with running(kafka, stores) as started:
        await started.until(lambda: started.node.is_joined, "the group")
        await started.until(lambda: started.node.replicas.led() == [0], "leadership of the other")
        # Until the directory is loaded other nodes may have a snapshot.
        await started.until(lambda: started.node.replicas[1].unloadable is not None, "the replica to be given up")
        is_ready, detail = readiness(started.node)
    assert not is_ready
    failed = detail["failed"]
    assert isinstance(failed, dict)
    assert f"the log starts at {applied_offset + 3}, after the applied offset {applied_offset}" in failed[1]


async def test_a_hole_in_the_log_stops_the_replica() -> None:
    """An offset that no reader sees may have been anything: replicas that step over it might differ."""
    kafka = in_memory()
    async with running(kafka, MemoryStateStores()) as started:
        await commit_some(started, "a")
        hole = kafka.append_hole(1)
        kafka.append(1, None, b"?")
        await started.until(lambda: (shard := started.node.replicas.shard(1)) is not None and shard.phase is State.FAILED, "the failure")
        assert f"expected offset {hole}, read {hole + 1}" in str(started.node.replicas[1].failure)
        assert started.node.replicas.led() == [0]


def grow_again(kafka: FakeKafka, end_offset: int) -> None:
    """Lose what partition 1 has from an offset on, and give those offsets, and one more, to other entries."""
    lost = kafka.logs[1].end_offset - end_offset
    kafka.set_available(False)
    kafka.cut(1, end_offset)
    for _ in range(lost + 1):
        kafka.append(1, None, b"?")
    kafka.set_available(True)


def watermark(replica: Replica) -> int | None:
    """The high watermark that the replica knows of the first partition."""
    view = replica.view
    return view.state.hot.partitions.high_watermark.cells[0] if view is not None and view.live_partitions else None


@pytest.mark.parametrize("leads", [True, False], ids=["leader", "follower"])
@pytest.mark.parametrize("grows", [True, False])
async def test_a_log_that_was_cut_under_a_replica_is_compared_with_its_state(grows: bool, leads: bool) -> None:
    kafka = in_memory()
    async with running(kafka, MemoryStateStores(), pauses=Pauses(revive_s=(0.01, 0.05))) as started:
        await commit_some(started, "a")
        end_of_a = kafka.logs[1].end_offset
        assert result_of(await started.ask(1, commit("lost", [batch(0, 4)], owner_ids=[1]))).errors == [0]
        replica = started.node.replicas[1]
        if not leads:
            kafka.group.add(FakeMembership(group=kafka.group, node="2", client_id=group_client_id(2)))
            kafka.group.assign({0: "1", 1: "2"})
            claim = LeadershipClaimed(epoch=2, term=9, node_id=2, rack="", endpoints=[])
            kafka.append(1, encode_key(EntryKey(2, 9, 0)), encode_entry([claim]))
            await started.until(lambda: not started.node.replicas.is_leading(1), "the end of its own leadership")
        view = replica.view
        assert view is not None
        await started.until(lambda: view.next_offset == kafka.logs[1].end_offset, "the end of the log")
        assert watermark(replica) == 7
        lost_end = kafka.logs[1].end_offset
        if grows:
            grow_again(kafka, end_of_a)
        else:
            kafka.cut(1, end_of_a)
        await started.until(lambda: started.node.replicas[1] is not replica, "the failure of the replica")
        if not grows:
            await started.until(lambda: started.node.replicas[1].unloadable is not None, "the refusal")
            refused = f"has applied offset {lost_end - 1}, but the log ends at {end_of_a}. Acknowledged data is missing from the log"
            assert refused in str(started.node.replicas[1].failure)
            assert refused in str(started.node.withheld_reason)
            assert not started.node.replicas.is_leading(1)
            return
        await started.until(lambda: watermark(started.node.replicas[1]) == 3, "the new one")
        assert "is not the one the state database has applied" in started.node.keeper.failures[1].last_reason
        assert started.node.keeper.failures[1].count == 2  # the replica, and its database
        if leads:
            await started.leads()
            assert result_of(await started.ask(1, commit("lost", [batch(0, 4)], owner_ids=[1]))).base_offsets == [3]
    assert started.fatal == []


async def test_a_running_node_and_a_restarted_one_say_the_same_of_a_log_that_is_too_short() -> None:
    """Until somebody restores the topic, or removes the database to accept the loss."""
    kafka, stores = in_memory(), MemoryStateStores()
    async with running(kafka, stores, pauses=Pauses(revive_s=(0.01, 0.05))) as started:
        await commit_some(started, "a", "lost")
        lost = kafka.logs[1].entries()[-1]
        replica = started.node.replicas[1]
        await started.until(lambda: (view := replica.view) is not None and view.next_offset == lost.offset + 1, "the end of the log")
        kafka.cut(1, lost.offset)
        await started.until(lambda: started.node.replicas[1].unloadable is not None, "the refusal while it runs")
        told = started.node.replicas[1].unloadable
    async with running(kafka, stores) as started:
        await started.until(lambda: started.node.is_prepared.is_set(), "the start")
        assert started.node.replicas[1].unloadable == told
        await started.until(lambda: started.node.replicas.led() == [0], "leadership of the other")
    kafka.append(1, lost.key, lost.value)
    async with running(kafka, stores) as started:
        await started.leads()
        assert await started.high_watermark(1) == 6
    kafka.cut(1, lost.offset)
    stores.set_aside(1)
    async with running(kafka, stores) as started:
        await started.leads()
        assert await started.high_watermark(1) == 3


async def test_a_log_that_was_cut_while_nobody_ran_and_has_grown_again_is_another_one() -> None:
    kafka, stores = in_memory(), MemoryStateStores()
    async with running(kafka, stores) as started:
        await commit_some(started, "a")
        end_of_a = kafka.logs[1].end_offset
        assert result_of(await started.ask(1, commit("lost", [batch(0, 4)], owner_ids=[1]))).errors == [0]
        replica = started.node.replicas[1]
        await started.until(lambda: replica.writer.written_offset >= end_of_a, "the state to be written")
    grow_again(kafka, end_of_a)
    async with running(kafka, stores) as started:
        await started.leads()
        assert await started.high_watermark(1) == 3
        assert "is not the one the state database has applied" in started.node.keeper.failures[1].last_reason
    assert started.fatal == []
