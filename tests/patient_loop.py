"""The event loop of the tests: its clock stands still while the machine does.

A machine that runs many things at once stops a process for seconds. On asyncio's own clock every timeout has run out when it
goes on, and a test of what happens before a timeout fails though nothing is wrong. Here one round of the loop lasts `ROUND_S`
at most, however long it takes by the machine's clock; waits go by in rounds of `WAIT_S`, so they are as long as ever. Timers in
other threads, of librdkafka and in other processes run on the machine's clock.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from selectors import SelectorKey

ROUND_S = 0.2
WAIT_S = 0.05
EPOCH_S = time.time() - time.monotonic()


class _InRounds(selectors.DefaultSelector):
    """Waits no longer than a part of a round at once."""

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        return super().select(WAIT_S if timeout is None else min(timeout, WAIT_S))


class PatientLoop(asyncio.SelectorEventLoop):
    """An event loop with a clock that counts `ROUND_S` at most between two readings."""

    def __init__(self) -> None:
        self._real_s = self._now_s = time.monotonic()
        super().__init__(_InRounds())

    def time(self) -> float:
        """Return the seconds on the loop's clock."""
        real_s = time.monotonic()
        # asyncio reads the clock once in each round at least.
        self._now_s += min(real_s - self._real_s, ROUND_S)
        self._real_s = real_s
        return self._now_s


class PatientPolicy(asyncio.DefaultEventLoopPolicy):
    """Makes patient loops wherever nothing else is asked for."""

    def new_event_loop(self) -> PatientLoop:
        """Return a new loop."""
        return PatientLoop()


def loop_ms() -> int:
    """Return milliseconds since the epoch on the running loop's clock: the clock of what a test runs."""
    return int((EPOCH_S + asyncio.get_running_loop().time()) * 1000)
