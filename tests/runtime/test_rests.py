"""The writer rests while little was committed, and says what it begins to write and when it is done."""

from __future__ import annotations

import pytest

from coordinator.runtime.telemetry import NoTelemetry
from simulation.fakes.state_store import MemoryStateStores
from tests.core.build import batch, commit, place, result_of
from tests.runtime.nodes import in_memory, running


class Flushes(NoTelemetry):
    """For every write how much was in it, and whether the writer had rested."""

    def __init__(self) -> None:
        self.is_rested = False
        self.seen: list[tuple[int, bool]] = []
        self.begun: list[tuple[int, int]] = []
        self.ends = 0

    def rest(self) -> None:
        self.is_rested = True

    def flushed(self, partition: int, seconds: float, batches: int) -> None:
        self.seen.append((batches, self.is_rested))
        self.is_rested = False

    def writing(self, partition: int, batches: int) -> None:
        self.begun.append((partition, batches))

    def written(self) -> None:
        self.ends += 1


@pytest.mark.parametrize(("batches", "rests"), [(1, False), (1_000, True), (25_000, False)])
async def test_the_writer_rests_between_few_but_not_too_few(batches: int, rests: bool) -> None:
    flushes = Flushes()
    async with running(
        in_memory(partitions=1),
        MemoryStateStores(),
        telemetry=flushes,
        rest=flushes.rest,
        on_writing=flushes.writing,
        on_written=flushes.written,
    ) as started:
        await started.leads()
        await started.ask(0, place())
        answer = result_of(await started.ask(0, commit("key", [batch(0, 1) for _ in range(batches)])))
        assert set(answer.errors) == {0}
        # A file counts as one more.
        await started.until(lambda: (batches + 1, rests) in flushes.seen, "the flush of the commit")
        await started.until(lambda: flushes.ends == len(flushes.seen), "the words of its end")
        assert flushes.begun[: len(flushes.seen)] == [(0, batches) for batches, _ in flushes.seen]
    assert flushes.begun[-1] == (0, 0)


async def test_the_writer_of_a_node_that_leads_nothing_does_not_rest() -> None:
    flushes, kafka = Flushes(), in_memory(partitions=1)
    follower = {"name": "2", "node_id": 2, "flush_interval_ms": 300, "flush_batches_max": 10_000}
    async with running(kafka, MemoryStateStores(), name="1") as leader:
        await leader.leads()
        async with running(kafka, MemoryStateStores(), **follower, telemetry=flushes, rest=flushes.rest):
            await leader.ask(0, place())
            answer = result_of(await leader.ask(0, commit("key", [batch(0, 1) for _ in range(1_500)])))
            assert set(answer.errors) == {0}
            await leader.until(lambda: any(batches > 1_000 for batches, _ in flushes.seen), "the flush of the follower")
            assert not any(rested for _, rested in flushes.seen)
