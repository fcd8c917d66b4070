"""A member that cannot bring what it was assigned to leading refuses it for a while, so that another may lead."""

from __future__ import annotations

import asyncio

from coordinator.runtime.ports import KafkaUnavailable
from simulation.fakes.state_store import MemoryStateStores
from tests.runtime.nodes import Heard, in_memory, running

LOAD_TIMEOUT_MS = 300
EVERYTHING = frozenset({0, 1})


async def test_who_cannot_lead_refuses_for_a_while() -> None:
    """Its session is alive, but it is told no end of the log, without which nobody may claim."""
    kafka, is_told, other = in_memory(), asyncio.Event(), Heard()

    async def untold(_partition: int) -> None:
        if started.node.is_joined and not is_told.is_set():
            raise KafkaUnavailable("no broker says where the log ends")

    kafka.before["log_range"] = untold
    async with running(kafka, MemoryStateStores(), load_timeout_ms=LOAD_TIMEOUT_MS) as started:
        await started.until(lambda: started.node.assignment == EVERYTHING, "the assignment")
        kafka.node("2").membership.join(other)
        await started.until(lambda: EVERYTHING in other.assignments, "the other member's turn")
        assert started.node.is_joined
        assert "did not come to leading in 0.3 s (load.timeout.ms)" in (started.node.withheld_reason or "")
        assert not started.node.replicas.led()
        is_told.set()
        await started.until(lambda: bool(started.node.replicas.led()), "the return")
    assert started.fatal == []


async def test_who_leads_refuses_nothing() -> None:
    kafka, other = in_memory(), Heard()
    async with running(kafka, MemoryStateStores(), load_timeout_ms=LOAD_TIMEOUT_MS) as started:
        await started.leads()
        began_s = asyncio.get_running_loop().time()
        kafka.node("2").membership.join(other)
        await started.until(lambda: asyncio.get_running_loop().time() > began_s + 3 * LOAD_TIMEOUT_MS / 1000, "three times the timeout")
        assert EVERYTHING not in other.assignments
        assert started.node.withheld_reason is None
        assert started.node.assignment == EVERYTHING
