"""The life of a node: what ends it, what it survives, and what it says of itself meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator.adapters.sqlite import StateDatabases
from coordinator.app.readiness import readiness
from coordinator.app.telemetry import node_samples
from coordinator.core.commands import CommitResult
from coordinator.core.leader import Leader
from coordinator.core.topic_rules import TopicExpectations
from coordinator.runtime.pauses import Pauses
from simulation.fakes.state_store import MemoryStateStore, MemoryStateStores
from tests.core.build import batch, commit, place, result_of
from tests.runtime.failing_stores import FailingStores
from tests.runtime.nodes import Running, in_memory, running

NOT_ALLOWED = "TOPIC_AUTHORIZATION_FAILED"


# ---- a cluster that refuses


@pytest.mark.parametrize("topic_exists", [True, False])
async def test_a_refusal_at_the_start_ends_the_process_with_reason_and_remedy(topic_exists: bool) -> None:
    kafka = in_memory(topic_exists=topic_exists)
    kafka.refusal = NOT_ALLOWED
    async with running(kafka, MemoryStateStores()) as started:
        await started.until(lambda: bool(started.fatal), "the end")
    assert NOT_ALLOWED in str(started.fatal[0])
    assert f"Describe, DescribeConfigs, Read and Write on topic {kafka.topic}" in str(started.fatal[0])


async def test_a_topic_that_cannot_be_created_as_configured_ends_the_process() -> None:
    kafka = in_memory(topic_exists=False)
    # The cluster has three brokers.
    async with running(kafka, MemoryStateStores(), expectations=TopicExpectations(replication_factor=4)) as started:
        await started.until(lambda: bool(started.fatal), "the end")
    assert "replication factor 4" in str(started.fatal[0])
    assert "correct the value that was refused" in str(started.fatal[0])


async def test_a_refusal_while_replicas_load_ends_the_process() -> None:
    kafka = in_memory()

    class RefusedMeanwhile(MemoryStateStores):
        def open(self, partition: int, cluster_id: str, topic_id: bytes) -> MemoryStateStore:
            kafka.refusal = NOT_ALLOWED
            return super().open(partition, cluster_id, topic_id)

    async with running(kafka, RefusedMeanwhile()) as started:
        await started.until(lambda: bool(started.fatal), "the end")
    assert NOT_ALLOWED in str(started.fatal[0])


async def test_an_outage_at_the_start_is_waited_for() -> None:
    kafka = in_memory(topic_exists=False)
    kafka.set_available(False)
    async with running(kafka, MemoryStateStores(), pauses=Pauses(kafka_retry_s=(0.01, 0.02))) as started:
        kafka.set_available(True)
        await started.leads()
    assert started.fatal == []


async def test_a_refusal_while_serving_is_counted_and_survived() -> None:
    kafka = in_memory()
    async with running(kafka, MemoryStateStores()) as started:
        await started.leads()
        kafka.refusal = NOT_ALLOWED
        await started.until(lambda: started.node.topic.failed_checks["refused"] >= 5, "several refused checks")
        assert {"tick", "topic-guard"} <= set(started.node.loop_rounds_s), "the age of a loop that never succeeds grows too"
        samples = {(one.name, one.labels): one.value for one in node_samples(started.node, lambda: 0)}
        assert samples[("topic_check_failures_total", ("refused",))] >= 5
        assert started.node.replicas.led() == [0, 1]
        assert await started.ask(1, place(count=1)) is not None
        assert result_of(await started.ask(1, commit("a", [batch(0, 3)], owner_ids=[1]))).errors == [0]
        kafka.refusal = None
        seen, before_s = sum(started.node.topic.failed_checks.values()), started.node.loop_rounds_s["topic-guard"]
        await started.until(lambda: started.node.loop_rounds_s["topic-guard"] > before_s, "a check that succeeds")
        assert sum(started.node.topic.failed_checks.values()) - seen <= 1
    assert started.fatal == []


async def test_a_leader_that_has_to_claim_again_under_a_refusal_does_so_when_it_ends() -> None:
    kafka = in_memory(partitions=1)
    async with running(kafka, MemoryStateStores()) as started:
        await started.leads()
        kafka.refusal = NOT_ALLOWED
        # The report of this commit fails, and with it the term: recovery asks for the end of the log, which is refused.
        kafka.faults.refuse_produce = lambda _node, _partition, _seq: "injected"
        answer = await started.ask(0, place(count=1))
        assert answer is not None
        await started.until(lambda: not started.node.replicas.led(), "the end of the term")
        kafka.faults.refuse_produce = lambda _node, _partition, _seq: None
        await started.until(lambda: started.node.topic.failed_checks["refused"] >= 3, "several refused checks")
        assert started.node.replicas.led() == []
        kafka.refusal = None
        await started.leads()
    assert started.fatal == []


# ---- a database that cannot be written


SOON = Pauses(revive_s=(0.05, 0.05))


async def commit_to(started: Running, partition: int, *keys: str) -> list[CommitResult]:
    return [result_of(await started.ask(partition, commit(key, [batch(0, 2)], owner_ids=[partition]))) for key in keys]


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_replica_whose_database_cannot_be_written_is_rebuilt_from_the_log_and_leads_again(kind: str, tmp_path: Path) -> None:
    stores = FailingStores(MemoryStateStores() if kind == "memory" else StateDatabases(tmp_path, boot_id="boot"))
    kafka = in_memory()
    async with running(kafka, stores, pauses=SOON) as started:
        await started.leads()
        await started.ask(1, place(count=1))
        first = await commit_to(started, 1, "a", "b")
        broken = started.node.replicas[1]
        await started.until(lambda: broken.writer.written_offset >= 3, "a write of the database")
        stores.failing.add(1)
        lost = await commit_to(started, 1, "c")
        await started.until(lambda: started.node.replicas[1] is not broken, "a new replica")
        await started.leads()
        again = await commit_to(started, 1, "a", "b", "c", "d")
        assert again[:3] == first + lost
        assert again[3].errors == [0]
        assert await started.high_watermark(1) == 8
        rebuilt = started.node.replicas[1]
        await started.until(lambda: rebuilt.writer.written_offset >= 4, "the rebuilt database")
        assert rebuilt.writer.failures == 0
    assert stores.opened == [0, 1, 1]
    assert len(stores.kept) == 1
    if kind == "sqlite":
        assert (tmp_path / str(stores.kept[0])).stat().st_size > 0
    assert started.fatal == []
    # What the rebuilt replica wrote holds: another process goes on from it.
    async with running(kafka, stores) as later:
        await later.leads()
        assert await commit_to(later, 1, "a", "b", "c") == first + lost


async def test_every_failure_of_a_database_is_followed_by_a_new_one() -> None:
    stores = FailingStores(MemoryStateStores())
    kafka = in_memory(partitions=1)
    async with running(kafka, stores, pauses=SOON) as started:
        for round_ in range(3):
            await started.leads()
            replica = started.node.replicas[0]
            stores.failing.add(0)
            await started.ask(0, place(count=round_ + 1, order=round_ + 1))
            await started.until(lambda replica=replica: started.node.replicas[0] is not replica, "a new replica")  # type: ignore[misc]
        await started.leads()
    assert len(stores.kept) == 3
    assert started.fatal == []


async def test_nothing_is_read_from_a_database_that_is_being_set_aside() -> None:
    stores = FailingStores(MemoryStateStores())
    async with running(in_memory(partitions=1), stores) as started:
        await started.leads()
        replica = started.node.replicas[0]
        await replica.close(keep_evidence=True)
        assert replica.view is None
        assert started.node.replicas.led() == []


# ---- what /ready says


async def test_a_failed_replica_makes_the_node_not_ready_and_says_why() -> None:
    stores = FailingStores(MemoryStateStores())
    async with running(in_memory(), stores, pauses=Pauses(revive_s=(3600.0, 3600.0))) as started:
        await started.leads()
        await started.until(lambda: readiness(started.node)[0], "readiness")
        stores.failing.add(1)
        await started.ask(1, place(count=1))
        await started.until(lambda: started.node.replicas[1].failure is not None, "the failure")
        is_ready, detail = readiness(started.node)
        assert not is_ready
        assert detail["failed"] == {1: "the state database cannot be written: DiskFull('no space left on device')"}
        assert detail["leading"] == [0]


async def test_a_replica_ahead_of_its_log_makes_the_node_not_ready_and_says_why() -> None:
    stores = MemoryStateStores()
    kafka = in_memory()
    async with running(kafka, stores) as started:
        await started.leads()
    kafka.logs[1].cut(0)
    async with running(kafka, stores) as started:
        await started.until(lambda: started.node.is_joined, "the group")
        await started.until(lambda: started.node.replicas.led() == [0], "leadership of the other")
        is_ready, detail = readiness(started.node)
        assert not is_ready
        assert detail["loading"] == []
        failed = detail["failed"]
        assert isinstance(failed, dict)
        assert "Acknowledged data is missing from the log" in failed[1]


async def test_a_bug_of_the_core_stops_the_replica_which_is_rebuilt(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(in_memory(partitions=1), MemoryStateStores(), pauses=SOON) as started:
        await started.leads()
        assert await started.ask(0, place(count=1)) is not None
        replica, pump = started.node.replicas[0], Leader.pump

        def broken(leader: Leader, now_ms: int) -> None:
            if started.node.replicas[0] is replica:
                raise ZeroDivisionError("as if by mistake")
            pump(leader, now_ms)

        monkeypatch.setattr(Leader, "pump", broken)
        refused = result_of(await started.ask(0, commit("a", [batch(0, 3)])))
        assert refused.errors == [16]
        await started.until(lambda: started.node.replicas[0] is not replica and started.node.replicas.is_leading(0), "the rebuilt replica")
        assert result_of(await started.ask(0, commit("a", [batch(0, 3)]))).errors == [0]
