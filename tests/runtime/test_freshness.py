"""A replica that may be too far behind the log's end names no batches: their objects may be deleted by now."""

from __future__ import annotations

import random

import pytest

from coordinator.core.commands import FetchPoint, FoundBatches, WantedTopic
from coordinator.kafka.errors import ErrorCode
from coordinator.runtime.files.rules import FileRules
from coordinator.runtime.ports import KafkaUnavailable
from coordinator.runtime.replica.freshness import ASKED_MAX, Freshness
from coordinator.runtime.routing.applied import find_applied_batches
from simulation.fakes.state_store import MemoryStateStores
from tests.core.build import TOPIC
from tests.runtime.nodes import Running, in_memory, running

POINT = FetchPoint(topic_id=TOPIC, partition=0, offset=0, max_bytes=1000)
GRACE_MS = 600


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def test_a_state_is_as_new_as_the_last_end_that_it_reached() -> None:
    clock = Clock()
    freshness = Freshness(monotonic_s=clock, lag_max_s=30.0)
    assert not freshness.is_sufficient
    assert "has not been at the end of its log yet" in freshness.reason
    freshness.learned_end(1000.0, 7)
    freshness.reached(6)
    assert not freshness.is_sufficient
    clock.now_s = 1010.0
    freshness.learned_end(1010.0, 12)
    freshness.reached(7)
    assert freshness.is_sufficient
    clock.now_s = 1030.0
    assert freshness.is_sufficient
    clock.now_s = 1030.1
    assert not freshness.is_sufficient
    assert "30.1 s ago" in freshness.reason
    freshness.reached(12)
    assert freshness.is_sufficient
    freshness.forget()
    assert not freshness.is_sufficient


def test_without_a_limit_every_state_will_do() -> None:
    assert Freshness(monotonic_s=Clock(), lag_max_s=FileRules(delete_grace_ms=0).read_lag_max_s).is_sufficient


@pytest.mark.parametrize("seed", range(20))
def test_a_state_is_never_taken_for_newer_than_it_is(seed: int) -> None:
    """A log grows, its end is asked for, answers come late, a reader follows: what is sufficient has all that is older than the limit."""
    rng, clock, lag_max_s = random.Random(seed), Clock(), 3.0
    freshness = Freshness(monotonic_s=clock, lag_max_s=lag_max_s)
    ends: list[tuple[float, int]] = [(clock.now_s, 0)]
    late: list[tuple[float, int]] = []
    applied = sufficient = 0
    for _ in range(2_000):
        clock.now_s += rng.random() / 10
        match rng.randrange(5):
            case 0:
                ends.append((clock.now_s, ends[-1][1] + rng.randrange(3)))
            case 1:
                late.append((clock.now_s, ends[-1][1]))
            case 2 if late:
                freshness.learned_end(*late.pop(0))
            case _:
                applied += min(rng.randrange(4), ends[-1][1] - applied)
                freshness.reached(applied)
        if freshness.is_sufficient:
            sufficient += 1
            assert applied >= max(end for at_s, end in ends if at_s <= max(clock.now_s - lag_max_s, ends[0][0]))
    assert sufficient > 100


def test_a_replica_that_never_stands_at_the_end_of_a_busy_log_is_still_known_to_follow() -> None:
    clock = Clock()
    freshness = Freshness(monotonic_s=clock, lag_max_s=1.0)
    for offset in range(10 * ASKED_MAX):
        clock.now_s += 0.01
        freshness.learned_end(clock.now_s, offset + 5)
        freshness.reached(offset)
    assert freshness.is_sufficient


async def started_with_topic(started: Running) -> None:
    await started.leads()
    [outcome] = await started.node.directory.create_topics([WantedTopic(topic_id=TOPIC, name="orders", num_partitions=1)], 5_000)
    assert outcome.error is ErrorCode.NONE


async def find(started: Running, timeout_ms: int = 5_000) -> FoundBatches:
    [found] = await started.node.router.find_batches([POINT], 1_000, 10, timeout_ms)
    return found


async def test_a_node_that_cannot_see_the_end_of_the_log_refuses_to_find_batches_until_it_can() -> None:
    kafka = in_memory(partitions=1)
    async with running(kafka, MemoryStateStores(), files=FileRules(delete_grace_ms=GRACE_MS)) as started:
        await started_with_topic(started)
        view = started.node.view
        await started.until(lambda: find_applied_batches(view, [POINT], 1_000, 10) is not None, "an answer without waiting")
        kafka.is_available = False
        await started.until(lambda: find_applied_batches(view, [POINT], 1_000, 10) is None, "the state to be too old")
        refused = await find(started, timeout_ms=50)
        assert refused.outcome.error is ErrorCode.OFFSET_NOT_AVAILABLE
        assert refused.outcome.message is not None
        assert "coordinator 0 on node 1 was at the end of its log" in refused.outcome.message
        assert "at most 0.3 s (half of file.delete.grace.ms)" in refused.outcome.message
        kafka.is_available = True
        await started.until(lambda: find_applied_batches(view, [POINT], 1_000, 10) is not None, "an answer without waiting")


async def test_a_leader_proves_at_once_that_its_state_is_new_enough() -> None:
    async def untold(_partition: int) -> None:
        raise KafkaUnavailable("no broker answered")

    kafka = in_memory(partitions=1)
    async with running(kafka, MemoryStateStores(), files=FileRules(delete_grace_ms=GRACE_MS)) as started:
        await started_with_topic(started)
        kafka.before["log_range"] = untold
        await started.until(lambda: not started.node.replicas[0].freshness.is_sufficient, "the state to be too old")
        assert (await find(started)).outcome.error is ErrorCode.NONE
        assert started.node.replicas[0].freshness.is_sufficient


async def test_without_a_grace_nothing_is_asked_and_nothing_refused() -> None:
    kafka = in_memory(partitions=1)
    async with running(kafka, MemoryStateStores(), files=FileRules(delete_grace_ms=0)) as started:
        await started_with_topic(started)
        kafka.is_available = False
        assert find_applied_batches(started.node.view, [POINT], 1_000, 10) is not None
