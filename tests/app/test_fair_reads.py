"""Expensive reads leave room for everything else. All times are virtual."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from coordinator.app.requests.fair_reads import FairReads

TIMERS_MAX = 100


class VirtualLoop(asyncio.SelectorEventLoop):
    """Virtual time, and timers of whole milliseconds, rounded as uvloop rounds them."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 1.0
        self.timers = 0
        self._selector.select = self._pass  # type: ignore[attr-defined]

    def time(self) -> float:
        return self.now_s

    def call_later(self, delay: float, *given: Any, **named: Any) -> asyncio.TimerHandle:
        self.timers += 1
        assert self.timers <= TIMERS_MAX, "timers are set again and again"
        return super().call_later(round(delay * 1000) / 1000, *given, **named)

    def _pass(self, timeout: float | None) -> list[object]:
        assert timeout is not None, "everything waits for nothing"
        self.now_s += timeout
        return []


class Scene:
    """A scheduler on a virtual loop whose time passes only in timers and in reads."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.cpu_s = 0.0
        self.reads = FairReads(cpu_s=lambda: self.cpu_s)

    def attempt(self, connection_id: int, seconds: float = 0.0) -> bool:
        """Whether a read of so much CPU time was done at once."""

        def work() -> bool:
            self.cpu_s += seconds
            return True

        return self.reads.attempt(connection_id, work)

    async def read(self, seconds: float, begun: list[float]) -> float:
        """A read that holds the loop for so long."""
        begun.append(self.loop.now_s)
        self.loop.now_s += seconds
        self.cpu_s += seconds
        return seconds


def live(story: Callable[[Scene], Awaitable[None]]) -> None:
    """Live a story on a loop of its own."""

    async def lived(loop: VirtualLoop) -> None:
        await story(Scene(loop))

    with contextlib.closing(VirtualLoop()) as loop:
        loop.run_until_complete(lived(loop))


def test_the_loop_is_free_between_long_reads_of_one_connection() -> None:
    async def story(scene: Scene) -> None:
        begun: list[float] = []
        for _ in range(4):
            assert await scene.reads.take(1, scene.read, 0.02, begun) == 0.02
        assert min(later - earlier for earlier, later in itertools.pairwise(begun)) >= 0.04 - 1e-9

    live(story)


def test_a_small_read_does_not_wait_behind_a_queue_of_large_ones() -> None:
    async def story(scene: Scene) -> None:
        large: list[float] = []
        small: list[float] = []
        await scene.reads.take(99, scene.read, 0.0, small)
        queue = [asyncio.create_task(scene.reads.take(connection, scene.read, 0.01, large)) for connection in range(3) for _ in range(5)]
        await asyncio.sleep(0)
        await scene.reads.take(99, scene.read, 0.0, small)
        assert len(large) <= 1
        await asyncio.gather(*queue)
        assert len(large) == 15

    live(story)


def test_the_loop_runs_between_any_two_reads() -> None:
    async def story(scene: Scene) -> None:
        begun: list[float] = []
        rounds = 0
        waiting = asyncio.gather(*(scene.reads.take(1, scene.read, 0.0, begun) for _ in range(50)))
        while not waiting.done():
            rounds += 1
            await asyncio.sleep(0)
        assert len(begun) == 50
        assert rounds >= 50

    live(story)


def test_one_read_of_an_iteration_starts_at_once_and_the_next_waits() -> None:
    async def story(scene: Scene) -> None:
        begun: list[float] = []
        assert scene.attempt(1)
        assert not scene.attempt(2)
        assert not scene.attempt(1)
        waiting = [asyncio.create_task(scene.reads.take(connection, scene.read, 0.0, begun)) for connection in (1, 2)]
        await asyncio.sleep(0)
        assert not scene.attempt(3)
        await asyncio.gather(*waiting)
        assert len(begun) == 2
        await asyncio.sleep(0)
        assert scene.attempt(3)

    live(story)


def test_after_a_long_read_only_connections_known_to_be_quick_start_at_once() -> None:
    async def story(scene: Scene) -> None:
        begun: list[float] = []
        await scene.reads.take(7, scene.read, 0.0, begun)
        await asyncio.sleep(0)
        assert scene.attempt(1, 0.05)
        await asyncio.sleep(0)
        assert not scene.attempt(1)
        assert not scene.attempt(2)
        assert scene.attempt(7)
        started_s = scene.loop.now_s
        await scene.reads.take(1, scene.read, 0.0, begun)
        assert scene.loop.now_s - started_s >= 0.05 - 1e-9

    live(story)


def test_a_read_whose_wait_is_cancelled_never_starts() -> None:
    async def story(scene: Scene) -> None:
        begun: list[float] = []
        task = asyncio.create_task(scene.reads.take(1, scene.read, 0.0, begun))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert begun == []
        assert await scene.reads.take(1, scene.read, 0.0, begun) == 0.0

    live(story)


@pytest.mark.parametrize("part", range(20))
def test_a_pause_is_slept_through(part: int) -> None:
    """A pause that the loop's timers round down is waited for once more, not again and again until it is over."""
    pause_s = 0.01 + part / 10_000

    async def story(scene: Scene) -> None:
        assert scene.attempt(1, pause_s)
        started_s = scene.loop.now_s
        await scene.reads.take(1, scene.read, 0.0, [])
        assert pause_s - 1e-9 <= scene.loop.now_s - started_s <= pause_s + 0.002
        assert scene.loop.timers <= 2

    live(story)
