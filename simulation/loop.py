"""Virtual time: one clock, and an event loop of its own for every process of the simulated cluster.

A loop runs callbacks that are due at the moment of the common clock; when nothing is due anywhere, the clock jumps to
the next timer. A frozen loop runs nothing while the clock goes on (SIGSTOP): what others sent it waits, and its overdue
timers fire together when it thaws. A dead loop takes nothing any more (SIGKILL).

Everything is ordered by time and then by order of arrival, so that a run repeats exactly. A process that does something again and again
without need does no harm that an answer shows, so a loop with too many callbacks within a second is an error of its own.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import random
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Executor, Future
from typing import Any, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

START_MS = 1_700_000_000_000
"""The time of true clocks when the virtual time begins."""
WRITE_S = (0.0002, 0.004)
END_ROUNDS_MAX = 200
CALLBACKS_PER_S_MAX = 6_000
"""Four times what the busiest process of hundreds of lives did."""


class ProcessSpins(Exception):
    """The loop of a process ran more callbacks within a second of virtual time than any work takes."""


class VirtualTime:
    """The clock, and everything that is due on any loop."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.is_over = False
        self.on_error: Callable[[VirtualLoop, dict[str, Any]], None] = lambda _loop, _context: None
        self.ready: deque[tuple[VirtualLoop, asyncio.Handle]] = deque()
        self._timers: list[tuple[float, int, VirtualLoop, asyncio.TimerHandle]] = []
        self._timer_count = 0
        self._loops: list[VirtualLoop] = []

    def new_loop(self, name: str) -> VirtualLoop:
        """A loop for one process."""
        loop = VirtualLoop(self, name)  # type: ignore[abstract] # what is missing needs sockets or threads
        self._loops.append(loop)
        return loop

    def add_timer(self, loop: VirtualLoop, handle: asyncio.TimerHandle) -> None:
        """Have a callback run at its time; among equals the first comes first."""
        self._timer_count += 1
        heapq.heappush(self._timers, (handle.when(), self._timer_count, loop, handle))

    def run_until(self, end_s: float) -> None:
        """Run everything that is due up to a moment, or until `is_over`."""
        timers, ready = self._timers, self.ready
        while not self.is_over:
            self._run_ready()
            if self.is_over:
                return
            if not timers or timers[0][0] > end_s:
                self.now_s = max(self.now_s, end_s)
                return
            self.now_s = max(self.now_s, timers[0][0])
            while timers and timers[0][0] <= self.now_s:
                _, _, loop, handle = heapq.heappop(timers)
                ready.append((loop, handle))

    def _run_ready(self) -> None:
        ready = self.ready
        running: VirtualLoop | None = None
        try:
            while ready and not self.is_over:
                loop, handle = ready.popleft()
                if loop.is_frozen or loop.is_dead:
                    loop.waiting.append(handle)
                elif not handle.cancelled():
                    if loop is not running:
                        asyncio.events._set_running_loop(loop)
                        running = loop
                    handle._run()
        finally:
            asyncio.events._set_running_loop(None)

    def close(self) -> None:
        """Cancel every task that is left, on the loops of the living and of the dead, and let it end."""
        self._timers.clear()
        self.is_over = False
        for loop in self._loops:
            loop.is_dead = False
            loop.thaw()
        for _ in range(END_ROUNDS_MAX):
            tasks = [task for loop in self._loops for task in asyncio.all_tasks(loop)]
            if not tasks:
                break
            for task in tasks:
                task.cancel()
            self._run_ready()
        self.is_over = True
        for loop in self._loops:
            loop.is_dead = True


class VirtualLoop(asyncio.AbstractEventLoop):
    """The event loop of one process: timers, callbacks, tasks; neither sockets nor threads.

    The tasks of a dead loop stay as they are until the clock is closed, so that none is torn down at some random moment.
    """

    def __init__(self, time: VirtualTime, name: str) -> None:
        self.name = name
        self.is_frozen = False
        self.is_dead = False
        self.waiting: list[asyncio.Handle] = []
        self._time = time
        self._second_ends_s = 0.0
        self._callbacks_left = 0

    def thaw(self) -> None:
        """Go on: what became due while it was frozen comes first."""
        self.is_frozen = False
        waiting, self.waiting = self.waiting, []
        self._time.ready.extendleft((self, handle) for handle in reversed(waiting))

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
        if self.is_dead:
            self.waiting.append(handle)
        else:
            self._time.ready.append((self, handle))
            self._count()
        return handle

    def _count(self) -> None:
        now_s = self._time.now_s
        if now_s >= self._second_ends_s:
            self._second_ends_s, self._callbacks_left = now_s + 1.0, CALLBACKS_PER_S_MAX
        self._callbacks_left -= 1
        if self._callbacks_left == 0:
            many = ProcessSpins(f"more than {CALLBACKS_PER_S_MAX} callbacks within a second")
            self._time.on_error(self, {"message": "does the same again and again", "exception": many})

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
            self._time.add_timer(self, handle)
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
            except Exception as error:  # noqa: BLE001 - handed to the waiter
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
