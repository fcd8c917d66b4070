"""A topic that is created while some coordinators were never claimed: the directory waits for them, and tells when it waited in vain."""

from __future__ import annotations

import asyncio
from collections import Counter

from coordinator.core.commands import WantedTopic
from coordinator.kafka.errors import ErrorCode
from coordinator.runtime.pauses import Pauses
from simulation.fakes.kafka import FakeKafka
from simulation.fakes.state_store import MemoryStateStores
from tests.core.build import TOPIC
from tests.runtime.nodes import Running, in_memory, running

WIDE = WantedTopic(topic_id=TOPIC, name="wide", num_partitions=8)


def owners(started: Running) -> Counter[int]:
    directory = started.node.view.directory
    assert directory is not None
    return Counter({placed.coordinator_id: placed.num_partitions for placed in directory.placements[TOPIC].ranges})


def hold_claims(kafka: FakeKafka) -> asyncio.Event:
    """Coordinators 1 and up cannot be claimed before the event is set: no broker says where their logs end."""
    may_claim = asyncio.Event()

    async def log_range_later(partition: int) -> None:
        # Loading asks first, recovery second.
        if partition > 0 and partition in asked:
            await may_claim.wait()
        asked.add(partition)

    asked: set[int] = set()
    kafka.before["log_range"] = log_range_later
    return may_claim


async def test_a_topic_waits_for_the_first_claims_and_lives_on_all_coordinators() -> None:
    kafka = in_memory(partitions=4)
    held = hold_claims(kafka)
    async with running(kafka, MemoryStateStores()) as started:
        await started.until(lambda: started.node.replicas.led() == [0], "the directory's leader")
        creating = asyncio.ensure_future(started.node.directory.create_topics([WIDE], 20_000))
        await asyncio.sleep(0)
        assert TOPIC not in started.node.view.directory.placements  # type: ignore[union-attr]
        held.set()
        [outcome] = await creating
        assert (outcome.error, outcome.message) == (ErrorCode.NONE, None)
        assert owners(started) == {0: 2, 1: 2, 2: 2, 3: 2}


async def test_a_topic_that_waited_in_vain_is_placed_on_those_that_lead_and_tells() -> None:
    kafka = in_memory(partitions=4)
    held = hold_claims(kafka)
    async with running(kafka, MemoryStateStores(), pauses=Pauses(claims_s=0.05)) as started:
        await started.until(lambda: started.node.replicas.led() == [0], "the directory's leader")
        [outcome] = await started.node.directory.create_topics([WIDE], 20_000)
        assert outcome.error is ErrorCode.NONE
        assert "live on 1 of 4 coordinators" in str(outcome.message)
        assert owners(started) == {0: 8}
        held.set()
        await started.leads()
        # What is added later goes to the others first.
        grown = WantedTopic(topic_id=TOPIC, name="wide", num_partitions=32)
        assert [one.message for one in await started.node.directory.create_topics([grown], 20_000)] == [None]
        directory = started.node.view.directory
        assert directory is not None
        totals: Counter[int] = Counter()
        for placed in directory.placements[TOPIC].ranges:
            totals[placed.coordinator_id] += placed.num_partitions
        assert totals == {0: 8, 1: 8, 2: 8, 3: 8}
