"""Turns for answers that may be long in the making, so that however many are asked for, everybody else is served between.

At most one of them is begun in each round of the event loop. Whose connection has taken the least time goes first, so a
small read never waits behind a queue of large ones; and after an answer that took long, connections that take long, or
are not known yet, wait for as long, which leaves the loop half of its time. All is forgotten every `FORGET_S`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from heapq import heappop, heappush
from itertools import count
from typing import Final, TypeVar

LONG_S: Final = 0.003
PAUSE_MAX_S: Final = 0.2
FORGET_S: Final = 10.0
TIMER_MIN_S: Final = 0.001
"""uvloop rounds to milliseconds: what is left of a pause would be none, again and again until it is over."""

T = TypeVar("T")


class Turns:
    """The turns of one event loop."""

    def __init__(self) -> None:
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = count()
        self._taken_s: dict[int, float] = {}
        self._forgotten_s = 0.0
        self._free_s = 0.0
        self._is_pumping = False

    async def take(self, connection_id: int, work: Coroutine[None, None, T]) -> T:
        """Do the work when its turn comes; if the wait is cancelled it is never begun."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        heappush(self._waiting, (self._taken_s.get(connection_id, LONG_S), next(self._numbers), turn))
        if not self._is_pumping:
            self._is_pumping = True
            loop.call_soon(self._pump, loop)
        try:
            await turn
        except asyncio.CancelledError:
            work.close()
            raise
        # What the loop's thread computes counts, not what the work waits for.
        start_s = time.thread_time()
        try:
            return await work
        finally:
            self._note(connection_id, time.thread_time() - start_s, loop.time())

    def begin(self, connection_id: int) -> bool:
        """Take a turn at once, if none was begun in this round and nobody waits; `end` must follow. False: only `take` will do."""
        loop = asyncio.get_running_loop()
        if self._is_pumping or self._waiting:
            return False
        if self._taken_s.get(connection_id, LONG_S) >= LONG_S and loop.time() < self._free_s:
            return False
        self._is_pumping = True
        loop.call_soon(self._pump, loop)
        return True

    def end(self, connection_id: int, spent_s: float) -> None:
        """A turn that was begun at once took so much time of the loop's thread."""
        self._note(connection_id, spent_s, asyncio.get_running_loop().time())

    def _note(self, connection_id: int, spent_s: float, now_s: float) -> None:
        if now_s - self._forgotten_s > FORGET_S:
            self._taken_s.clear()
            self._forgotten_s = now_s
        self._taken_s[connection_id] = self._taken_s.get(connection_id, 0.0) + (spent_s if spent_s > LONG_S else 0.0)
        if spent_s > LONG_S:
            self._free_s = now_s + min(spent_s, PAUSE_MAX_S)

    def _pump(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin one, and look again in the next round or when the pause is over."""
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
