"""Long timers of a process's event loop come due together, short ones on time: looked at by what they are due at."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import TypeVarTuple, Unpack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.app.process.timers import LONG_S, CoalescingLoop, shared_delay_s
from coordinator.runtime.pauses import TICK_S

Ts = TypeVarTuple("Ts")

CLOCK_S = 1e-3
"""The resolution of the loop's clock."""
NOW_S = st.floats(0, 1e6)


def is_shared(moment_s: float, passed_s: float = 0.0) -> bool:
    """Whether it is a multiple of the tick, within the resolution of the clock, and the time that passed while it was found out."""
    return abs(moment_s / TICK_S - round(moment_s / TICK_S)) * TICK_S <= CLOCK_S + passed_s


@given(now_s=NOW_S, delay_s=st.floats(LONG_S, 1e5))
def test_a_long_timer_is_due_at_the_next_shared_moment_and_never_early(now_s: float, delay_s: float) -> None:
    shared_s = shared_delay_s(now_s, delay_s)
    assert is_shared(now_s + shared_s)
    assert -1e-6 < shared_s - delay_s < TICK_S + 1e-6


@given(now_s=NOW_S, delay_s=st.floats(-1, LONG_S, exclude_max=True))
def test_a_short_timer_is_due_on_time(now_s: float, delay_s: float) -> None:
    assert shared_delay_s(now_s, delay_s) == delay_s


class Recording(CoalescingLoop):
    """Keeps what its timers are due at, and how long making each took: it reads the clock for the delay and again for the timer."""

    def __init__(self) -> None:
        self.due_s: list[tuple[float, float]] = []

    def call_later(
        self, delay: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        began_s = self.time()
        handle = super().call_later(delay, callback, *args, context=context)
        self.due_s.append((handle.when(), self.time() - began_s))
        return handle


async def sleep(seconds: float) -> None:
    await asyncio.sleep(seconds)


async def wait_with_a_timeout(seconds: float) -> None:
    async with asyncio.timeout(seconds):
        await asyncio.Event().wait()


async def wait_until_a_time(seconds: float) -> None:
    loop, reached = asyncio.get_running_loop(), asyncio.Event()
    loop.call_at(loop.time() + seconds, reached.set)
    await reached.wait()


@pytest.mark.parametrize("wait", [sleep, wait_with_a_timeout, wait_until_a_time])
@pytest.mark.parametrize("seconds", [3 * LONG_S, 0.999, 3.33, 777.7])  # far enough from short ones for a machine that is busy
def test_every_kind_of_long_wait_is_such_a_timer(wait: Callable[[float], Awaitable[None]], seconds: float) -> None:
    async def due_s() -> list[tuple[float, float]]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, Recording)
        waiting = asyncio.ensure_future(wait(seconds))
        await asyncio.sleep(0)
        waiting.cancel()
        return loop.due_s

    with asyncio.Runner(loop_factory=Recording) as runner:
        ((due, passed_s),) = runner.run(due_s())
    assert is_shared(due, passed_s)
