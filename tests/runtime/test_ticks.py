"""What keeps the event loop is measured, ticks of the node included."""

from __future__ import annotations

import pytest

from coordinator.runtime.telemetry import NoTelemetry
from simulation.fakes.state_store import MemoryStateStores
from tests.runtime.nodes import in_memory, running
from tests.waiting import block_loop

BLOCK_S = 0.15


class Lags(NoTelemetry):
    """Keeps how late the loop came."""

    def __init__(self) -> None:
        self.seen_s: list[float] = []

    def ticked(self, late_s: float) -> None:
        self.seen_s.append(late_s)


async def test_a_tick_that_keeps_the_loop_counts_as_lag(monkeypatch: pytest.MonkeyPatch) -> None:
    lags = Lags()
    async with running(in_memory(partitions=1), MemoryStateStores(), telemetry=lags) as started:
        await started.leads()
        monkeypatch.setattr(started.node.fitness, "tick", lambda: block_loop(BLOCK_S))
        first = len(lags.seen_s) + 1
        await started.until(lambda: len(lags.seen_s) > first + 2, "ticks")
        monkeypatch.undo()
        assert min(lags.seen_s[first:]) >= BLOCK_S
