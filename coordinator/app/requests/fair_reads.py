"""Fair scheduler for expensive reads: at most one starts per iteration of the event loop.

The connection that has used the least CPU time goes first, so a small read never waits for a queue of large ones. After a
read of `LONG_S` or more, connections that are slow or unknown wait as long as it took, which leaves the loop half of its time
for everything else. The account of each connection is cleared every `FORGET_S`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from heapq import heappop, heappush
from itertools import count
from typing import Final, TypeVar, TypeVarTuple

LONG_S: Final = 0.003
PAUSE_MAX_S: Final = 0.2
FORGET_S: Final = 10.0
TIMER_MIN_S: Final = 0.001
"""uvloop rounds to milliseconds: the remainder of a pause would become zero, again and again until it is over."""

T = TypeVar("T")
Args = TypeVarTuple("Args")


class FairReads:
    """The scheduler of one event loop. `cpu_s` tells the CPU seconds that the loop's thread has used."""

    def __init__(self, cpu_s: Callable[[], float]) -> None:
        self._cpu_s = cpu_s
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = count()
        self._taken_s: dict[int, float] = {}
        self._forgotten_s = 0.0
        self._free_s = 0.0
        self._is_pumping = False

    async def take(self, connection_id: int, work: Callable[[*Args], Awaitable[T]], *args: *Args) -> T:
        """Do the work when its turn comes and return its result; if the wait is cancelled the work never starts."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        heappush(self._waiting, (self._taken_s.get(connection_id, LONG_S), next(self._numbers), turn))
        if not self._is_pumping:
            self._is_pumping = True
            loop.call_soon(self._pump, loop)
        await turn
        # CPU time counts, not the time the work waits for others.
        start_s = self._cpu_s()
        try:
            return await work(*args)
        finally:
            self._note(connection_id, self._cpu_s() - start_s, loop.time())

    def attempt(self, connection_id: int, work: Callable[[], bool]) -> bool:
        """Do work at once if none started in this iteration and no other waits, and return its result. Raises what the work raises.

        False without doing it when it is not the turn of this connection. After a False use `take`.
        """
        loop = asyncio.get_running_loop()
        if self._is_pumping or self._waiting:
            return False
        if self._taken_s.get(connection_id, LONG_S) >= LONG_S and loop.time() < self._free_s:
            return False
        self._is_pumping = True
        loop.call_soon(self._pump, loop)
        start_s = self._cpu_s()
        try:
            return work()
        finally:
            self._note(connection_id, self._cpu_s() - start_s, loop.time())

    def _note(self, connection_id: int, spent_s: float, now_s: float) -> None:
        if now_s - self._forgotten_s > FORGET_S:
            self._taken_s.clear()
            self._forgotten_s = now_s
        self._taken_s[connection_id] = self._taken_s.get(connection_id, 0.0) + (spent_s if spent_s > LONG_S else 0.0)
        if spent_s > LONG_S:
            self._free_s = now_s + min(spent_s, PAUSE_MAX_S)

    def _pump(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start one read, and look again in the next iteration or when the pause is over."""
        while self._waiting and self._waiting[0][2].done():
            heappop(self._waiting)  # cancelled
        self._is_pumping = bool(self._waiting)
        if not self._waiting:
            return
        taken_s, _, turn = self._waiting[0]
        pause_s = self._free_s - loop.time()
        if taken_s >= LONG_S and pause_s > 0:
            self._is_pumping = False
            loop.call_later(max(pause_s, TIMER_MIN_S), self._resume, loop)
            return
        heappop(self._waiting)
        turn.set_result(None)
        loop.call_soon(self._pump, loop)

    def _resume(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._is_pumping:
            self._pump(loop)
