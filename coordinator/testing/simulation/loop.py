"""Virtual time: one clock, and an event loop of its own for every process of the simulated cluster.

A loop runs callbacks that are due at the moment of the common clock; when nothing is due anywhere, the clock jumps to
the next timer. A frozen loop runs nothing while the clock goes on (SIGSTOP): what others sent it waits, and its overdue
timers fire together when it thaws. A dead loop takes nothing any more (SIGKILL).

Everything is ordered by time and then by order of arrival, so that a run repeats exactly.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import random
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Executor, Future
from math import inf
from typing import Any, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

WRITE_S = (0.0002, 0.004)
END_ROUNDS_MAX = 200


class VirtualTime:
    """The clock, and the loops that share it."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.is_over = False
        self.on_error: Callable[[VirtualLoop, dict[str, Any]], None] = lambda _loop, _context: None
        self._loops: list[VirtualLoop] = []
        self._dead: list[VirtualLoop] = []

    def new_loop(self, name: str) -> VirtualLoop:
        """A loop for one process."""
        loop = VirtualLoop(self, name)  # type: ignore[abstract] # what is missing needs sockets or threads
        self._loops.append(loop)
        return loop

    def kill(self, loop: VirtualLoop) -> None:
        """Run nothing of this loop any more. Its tasks are kept until the end, so that none is torn down at some random moment."""
        loop.is_dead = True
        self._loops.remove(loop)
        self._dead.append(loop)

    def run_until(self, end_s: float) -> None:
        """Run everything that is due up to a moment, or until `is_over`."""
        while not self.is_over:
            next_s, due = inf, None
            for loop in self._loops:
                at_s = loop.next_s()
                if at_s < next_s:
                    next_s, due = at_s, loop
            if due is None or next_s > end_s:
                self.now_s = max(self.now_s, end_s)
                return
            if next_s > self.now_s:
                self.now_s = next_s
            due.run_once()

    def close(self) -> None:
        """Cancel every task that is left, the living and the dead."""
        for loop in (*self._loops, *self._dead):
            loop.end()


class VirtualLoop(asyncio.AbstractEventLoop):
    """The event loop of one process: timers, callbacks, tasks; neither sockets nor threads."""

    def __init__(self, time: VirtualTime, name: str) -> None:
        self.name = name
        self.is_frozen = False
        self.is_dead = False
        self._time = time
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._timer_count = 0

    # ---- for the clock

    def next_s(self) -> float:
        """When this loop has something to do; infinity when never."""
        if self.is_frozen:
            return inf
        if self._ready:
            return self._time.now_s
        timers = self._timers
        while timers and timers[0][2].cancelled():
            heapq.heappop(timers)
        return timers[0][0] if timers else inf

    def run_once(self) -> None:
        """Run what is due now."""
        ready, timers = self._ready, self._timers
        while timers and timers[0][0] <= self._time.now_s:
            ready.append(heapq.heappop(timers)[2])
        asyncio.events._set_running_loop(self)
        try:
            for _ in range(len(ready)):
                handle = ready.popleft()
                if not handle.cancelled():
                    handle._run()
        finally:
            asyncio.events._set_running_loop(None)

    def end(self) -> None:
        """Cancel the tasks of this loop and let them end."""
        self.is_dead, self.is_frozen = False, False
        for _ in range(END_ROUNDS_MAX):
            tasks = asyncio.all_tasks(self)
            if not tasks:
                break
            for task in tasks:
                task.cancel()
            self.run_once()
        self._timers.clear()
        self._ready.clear()
        self.is_dead = True

    # ---- the interface of asyncio

    def time(self) -> float:
        return self._time.now_s

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return not self.is_dead

    def is_closed(self) -> bool:
        return False

    def call_soon(self, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        if not self.is_dead:
            self._ready.append(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._time.now_s + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        if not self.is_dead:
            self._timer_count += 1
            heapq.heappush(self._timers, (when, self._timer_count, handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Cancelled timers leave the heap when their time comes."""

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[T]:
        return asyncio.Task(coro, loop=self, name=name, context=context)

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        """Run in a `VirtualWriter`: later, at one moment, in the order asked."""
        if not isinstance(executor, VirtualWriter):
            raise TypeError(f"loop {self.name} has no threads; {executor!r} cannot be used")
        done: asyncio.Future[T] = asyncio.Future(loop=self)

        def run() -> None:
            if done.cancelled():
                return
            try:
                done.set_result(func(*args))
            except Exception as error:  # noqa: BLE001 - handed to whoever waits
                done.set_exception(error)

        self.call_at(executor.next_end_s(self._time.now_s), run)
        return done

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self.is_dead:
            self._time.on_error(self, context)


class VirtualWriter(Executor):
    """The writer thread of one process: works off what it is given, one after the other."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._busy_until_s = 0.0

    def next_end_s(self, now_s: float) -> float:
        """When work given now will be done."""
        self._busy_until_s = max(now_s, self._busy_until_s) + self._rng.uniform(*WRITE_S)
        return self._busy_until_s

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        raise TypeError("only a virtual loop gives work to a virtual writer")
