"""Replicas are loaded side by side, each database proven against its own entry; one that cannot be proven holds up no other."""

from __future__ import annotations

import pytest

from coordinator.app.readiness import readiness
from simulation.fakes.kafka import FakeKafka
from simulation.fakes.state_store import MemoryStateStores
from tests.core.build import batch, commit, place, result_of
from tests.runtime.nodes import Running, in_memory, running

PARTITIONS = 5


async def commit_to(started: Running, partition: int) -> None:
    """Place a topic at a coordinator, commit a file to it, and wait until its state database has it."""
    await started.leads()
    await started.ask(partition, place())
    assert result_of(await started.ask(partition, commit("a", [batch(0, 3)], owner_ids=[partition]))).errors == [0]
    replica, log = started.node.replicas[partition], started.kafka.logs[partition]
    await started.until(lambda: replica.writer.written_offset == log.end_offset - 1, "the state to be written")


async def kafka_with_states() -> tuple[FakeKafka, MemoryStateStores]:
    """A Kafka and state databases that belong to its logs; coordinator 1 has committed a file."""
    kafka, stores = in_memory(partitions=PARTITIONS), MemoryStateStores()
    async with running(kafka, stores) as started:
        await commit_to(started, 1)
    return kafka, stores


@pytest.mark.parametrize("partition", [1, PARTITIONS - 1])
async def test_a_partition_that_kafka_tells_nothing_of_holds_up_no_other(partition: int) -> None:
    kafka, stores = await kafka_with_states()
    kafka.set_unanswered(partition)
    others = [number for number in range(PARTITIONS) if number != partition]
    async with running(kafka, stores) as started:
        await started.until(lambda: started.node.replicas.led() == others, "leadership of the others")
        is_ready, detail = readiness(started.node)
        assert (is_ready, detail["loading"], detail["failed"]) == (False, [partition], {})
        kafka.set_unanswered()
        await started.leads()
        assert await started.high_watermark(1) == 3
        assert not started.node.keeper.failures[partition].count
    assert started.fatal == []


async def test_nothing_is_served_without_the_directory() -> None:
    kafka, stores = await kafka_with_states()
    kafka.set_unanswered(0)
    async with running(kafka, stores) as started:
        await started.until(lambda: len(started.node.replicas.loaded()) == PARTITIONS - 1, "the others")
        assert not started.node.is_prepared.is_set()
        kafka.set_unanswered()
        await started.leads()
    assert started.fatal == []


async def test_a_topic_that_grows_while_a_replica_waits_for_kafka_is_known_to_it() -> None:
    kafka, stores = await kafka_with_states()
    kafka.set_unanswered(1)
    async with running(kafka, stores) as started:
        await started.until(lambda: started.node.is_prepared.is_set(), "the others")
        kafka.grow(PARTITIONS + 2)
        await started.until(lambda: started.node.replicas.count == PARTITIONS + 2, "the new partitions")
        kafka.set_unanswered()
        await started.leads()
        assert await started.high_watermark(1) == 3
    assert started.fatal == []


async def test_each_database_is_proven_against_the_entry_of_its_own_log() -> None:
    """Two logs of equal length, of which one was cut and has grown again: the other's entry at that offset proves nothing."""
    kafka, stores = await kafka_with_states()
    applied_offset = kafka.logs[2].end_offset - 1
    kafka.cut(2, applied_offset)
    kafka.append(2, None, b"?")
    async with running(kafka, stores) as started:
        await started.leads()
        assert f"entry {applied_offset} of the log is not the one" in started.node.keeper.failures[2].last_reason
        assert [number for number in range(PARTITIONS) if started.node.keeper.failures[number].count] == [2]
        assert await started.high_watermark(1) == 3
    assert started.fatal == []


async def test_a_hole_where_an_entry_was_applied_is_another_log(caplog: pytest.LogCaptureFixture) -> None:
    kafka, stores = await kafka_with_states()
    applied_offset = kafka.logs[1].end_offset - 1
    kafka.cut(1, applied_offset)
    kafka.append_hole(1)
    async with running(kafka, stores) as started:
        await started.until(lambda: started.node.is_prepared.is_set(), "the replicas")
    assert f"the log has no entry {applied_offset}, which the state database has applied" in caplog.text
    assert started.fatal == []


async def test_an_entry_that_is_deleted_while_it_is_asked_for_is_no_contradiction() -> None:
    """Its state goes on from there: the log starts right behind it."""
    kafka, stores = await kafka_with_states()
    deleted = kafka.logs[1].end_offset

    async def deleted_meanwhile(partition: int) -> None:
        if partition == 1:
            kafka.delete_records(1, deleted)

    kafka.before["read_entry"] = deleted_meanwhile
    async with running(kafka, stores) as started:
        await started.leads()
        assert kafka.logs[1].start_offset == deleted
        assert await started.high_watermark(1) == 3
        assert not started.node.keeper.failures[1].count
    assert started.fatal == []
