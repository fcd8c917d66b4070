"""What keeps the event loop is measured, ticks of the node included."""

from __future__ import annotations

from coordinator.runtime.telemetry import NoTelemetry
from simulation.fakes.state_store import MemoryStateStores
from tests.runtime.nodes import in_memory, running
from tests.waiting import block_loop

BLOCK_S = 0.15


class Lags(NoTelemetry):
    """Keeps how late the loop came; a slow one keeps the loop in every tick."""

    def __init__(self) -> None:
        self.seen_s: list[float] = []
        self.is_slow = False

    def ticked(self, late_s: float) -> None:
        self.seen_s.append(late_s)
        if self.is_slow:
            block_loop(BLOCK_S)


async def test_a_tick_that_keeps_the_loop_counts_as_lag() -> None:
    lags = Lags()
    async with running(in_memory(partitions=1), MemoryStateStores(), telemetry=lags) as started:
        await started.leads()
        lags.is_slow = True
        first = len(lags.seen_s) + 1
        await started.until(lambda: len(lags.seen_s) > first + 2, "ticks")
        lags.is_slow = False
        assert min(lags.seen_s[first:]) >= BLOCK_S
