"""A log that is not the one the state was built from (created anew, without its beginning, with a hole): nobody mixes the two."""

from __future__ import annotations

from coordinator.app.main import readiness
from coordinator.core.leadership.states import State
from coordinator.testing.state_store import MemoryStateStores
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
        assert not started.node.view.led()
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
        await started.until(lambda: started.node.view.led() == [0], "leadership of the other")
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
        await started.until(lambda: (shard := started.node.view.shard(1)) is not None and shard.phase is State.FAILED, "the failure")
        assert f"expected offset {hole}, read {hole + 1}" in str(started.node.replicas[1].failure)
        assert started.node.view.led() == [0]
