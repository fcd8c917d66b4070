"""Waiting on an event loop: with `integration_tests/waiting.py`, the places where a test lets time pass.

All waits count on the clock of the running loop, which is patient (`tests/patient_loop.py`) or virtual (`tests/virtual_loop.py`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable

from tests.virtual_loop import VirtualLoop

LOOK_EVERY_S = 0.005
WAIT_S = 60.0
"""How long to wait for what must come: far longer than it takes."""


async def attempts(what: str, within_s: float = WAIT_S, every_s: float = LOOK_EVERY_S) -> AsyncIterator[None]:
    """Yield, pause and yield again until the caller breaks off; raise `AssertionError`, naming `what`, after `within_s`."""
    loop = asyncio.get_running_loop()
    end_s = loop.time() + within_s
    while True:
        began_s = loop.time()  # before the attempt: one that takes long is followed by another look at its result
        yield
        if began_s > end_s:
            raise AssertionError(f"waited {within_s:g} s in vain for {what}")
        await asyncio.sleep(every_s)


async def until(
    condition: Callable[[], object | Awaitable[object]], what: str, within_s: float = WAIT_S, every_s: float = LOOK_EVERY_S
) -> None:
    """Return as soon as the condition, which may be a coroutine function, holds. Raises `AssertionError` after `within_s`."""
    async for _ in attempts(what, within_s, every_s):
        if await _holds(condition):
            return


async def stays(condition: Callable[[], object | Awaitable[object]], what: str, for_s: float) -> None:
    """Check that the condition holds now and whenever it is looked at for `for_s`. Raises `AssertionError` when it does not."""
    loop = asyncio.get_running_loop()
    end_s = loop.time() + for_s
    while True:
        assert await _holds(condition), f"{what} did not stay so"
        if loop.time() >= end_s:
            return
        await asyncio.sleep(min(LOOK_EVERY_S, for_s))


async def virtual_time(seconds: float) -> None:
    """Let virtual time pass, in no time. Raises `TypeError` on a loop with a clock that runs by itself."""
    if not isinstance(asyncio.get_running_loop(), VirtualLoop):
        raise TypeError("only a virtual loop lets time pass without waiting")
    await asyncio.sleep(seconds)


async def _holds(condition: Callable[[], object | Awaitable[object]]) -> bool:
    found = condition()
    return bool(await found if isinstance(found, Awaitable) else found)


def block_loop(seconds: float) -> None:
    """Keep the loop from running for so long, as work of the processor does: the event itself that a test is about."""
    time.sleep(seconds)
