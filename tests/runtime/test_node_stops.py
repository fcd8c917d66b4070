"""How a node begins on a topic that is not everywhere yet, and how it ends when nobody is to be served any longer."""

from __future__ import annotations

import asyncio

import pytest

from coordinator.runtime.node.metadata_topic import MISSING_CHECKS_MAX
from coordinator.runtime.pauses import Pauses
from coordinator.runtime.ports import TopicMissing
from simulation.fakes.state_store import MemoryStateStores
from tests.runtime.nodes import in_memory, running

HAND_OVER_MS = 600_000


async def test_a_new_topic_that_some_brokers_do_not_know_yet_is_waited_for() -> None:
    kafka, asked = in_memory(topic_exists=False), 0

    async def late(_partition: int) -> None:
        nonlocal asked
        asked += 1
        if asked <= 3:
            raise TopicMissing("UNKNOWN_TOPIC_OR_PART")

    kafka.before["log_range"] = late
    async with running(kafka, MemoryStateStores()) as started:
        await started.until(lambda: len(started.node.replicas.led()) == 2 or bool(started.fatal), "leadership, or the end")
    assert started.fatal == []
    assert asked > 3


async def test_a_node_with_state_puts_no_empty_topic_in_the_place_of_one_that_vanished() -> None:
    kafka = in_memory(topic_exists=False)
    async with running(kafka, MemoryStateStores(), state_found_in="/data/one", pauses=Pauses(kafka_retry_s=(0.001, 0.002))) as started:
        await started.until(lambda: bool(started.fatal), "the end")
        with pytest.raises(TopicMissing):
            await kafka.node("2").cluster.describe_topic()
    assert "/data/one holds the state of a service that had it" in str(started.fatal[0])


async def test_a_node_with_state_waits_for_a_topic_that_a_broker_does_not_know_yet() -> None:
    kafka, asked = in_memory(), 0

    async def late(_partition: int) -> None:
        nonlocal asked
        asked += 1
        if asked < MISSING_CHECKS_MAX:
            raise TopicMissing("UNKNOWN_TOPIC_OR_PART")

    kafka.before["describe_topic"] = late
    async with running(kafka, MemoryStateStores(), state_found_in="/data", pauses=Pauses(kafka_retry_s=(0.001, 0.002))) as started:
        await started.until(lambda: len(started.node.replicas.led()) == 2 or bool(started.fatal), "leadership, or the end")
    assert started.fatal == []


async def test_a_node_that_must_not_be_trusted_leads_no_moment_longer() -> None:
    async with running(in_memory(), MemoryStateStores(), shutdown_timeout_ms=HAND_OVER_MS) as started:
        await started.leads()
        async with asyncio.timeout(60):
            await started.node.stop(hand_over=False)


async def test_a_clean_stop_leads_on_for_its_successors() -> None:
    async with running(in_memory(), MemoryStateStores(), shutdown_timeout_ms=HAND_OVER_MS) as started:
        await started.leads()
        stopping = asyncio.create_task(started.node.stop())
        await started.until(lambda: started.node.assignment == frozenset(), "the group to take the assignment away")
        assert not stopping.done()
        assert len(started.node.replicas.led()) == 2
        stopping.cancel()
        await asyncio.gather(stopping, return_exceptions=True)


async def test_a_stopped_node_shows_no_state_whose_database_is_closed() -> None:
    """Requests are still served then: one that found the state would read from a closed database."""
    async with running(in_memory(), MemoryStateStores()) as started:
        await started.leads()
        await started.node.stop(hand_over=False)
        assert [started.node.replicas.shard(partition) for partition in (0, 1)] == [None, None]
