"""Long answers leave room for everybody else."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from typing import Any

import pytest

from coordinator.app.fair_reads import Turns


async def _busy(seconds: float, begun: list[float]) -> float:
    begun.append(time.monotonic())
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
    return seconds


async def test_the_loop_is_free_between_long_answers_of_one_connection() -> None:
    turns, begun, long_s = Turns(), [], 0.02
    for _ in range(4):
        assert await turns.take(1, _busy(long_s, begun)) == long_s
    gaps = [later - earlier for earlier, later in itertools.pairwise(begun)]
    assert min(gaps) >= 2 * long_s - 0.002


async def test_a_small_read_does_not_wait_behind_a_queue_of_large_ones() -> None:
    turns, large, small = Turns(), [], []
    await turns.take(99, _busy(0.0, small))
    queue = [asyncio.create_task(turns.take(connection, _busy(0.01, large))) for connection in range(3) for _ in range(5)]
    await asyncio.sleep(0)
    await turns.take(99, _busy(0.0, small))
    assert len(large) <= 1
    await asyncio.gather(*queue)
    assert len(large) == 15


async def test_others_run_between_any_two_answers() -> None:
    turns, begun, rounds = Turns(), [], 0
    waiting = asyncio.gather(*(turns.take(1, _busy(0.0, begun)) for _ in range(50)))
    while not waiting.done():
        rounds += 1
        await asyncio.sleep(0)
    assert len(begun) == 50
    assert rounds >= 50


async def test_one_turn_of_a_round_is_taken_at_once_and_the_next_waits() -> None:
    turns, begun = Turns(), []
    assert turns.begin(1)
    assert not turns.begin(2)
    turns.end(1, 0.0)
    assert not turns.begin(1)
    waiting = [asyncio.create_task(turns.take(connection, _busy(0.0, begun))) for connection in (1, 2)]
    await asyncio.sleep(0)
    assert not turns.begin(3)
    await asyncio.gather(*waiting)
    assert len(begun) == 2
    await asyncio.sleep(0)
    assert turns.begin(3)


async def test_after_a_long_answer_nobody_who_is_not_known_to_be_quick_begins_at_once() -> None:
    turns, long_s = Turns(), 0.05
    await turns.take(7, _busy(0.0, []))
    await asyncio.sleep(0)
    assert turns.begin(1)
    turns.end(1, long_s)
    await asyncio.sleep(0)
    assert not turns.begin(1)
    assert not turns.begin(2)
    assert turns.begin(7)
    turns.end(7, 0.0)
    started = time.monotonic()
    await turns.take(1, _busy(0.0, []))
    assert time.monotonic() - started >= long_s - 0.01


async def test_work_whose_wait_is_cancelled_is_never_begun() -> None:
    turns, begun = Turns(), []
    task = asyncio.create_task(turns.take(1, _busy(0.0, begun)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert begun == []
    assert await turns.take(1, _busy(0.0, begun)) == 0.0


TIMERS_MAX = 2


class _RoundingLoop(asyncio.SelectorEventLoop):
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
        assert self.timers <= TIMERS_MAX, "the pause is not slept through"
        return super().call_later(round(delay * 1000) / 1000, *given, **named)

    def _pass(self, timeout: float | None) -> list[object]:
        assert timeout is not None, "everything waits for nothing"
        self.now_s += timeout
        return []


@pytest.mark.parametrize("part", range(20))
def test_a_pause_is_slept_through(part: int) -> None:
    """A pause that the loop's timers round down is waited for once more, not again and again until it is over."""
    pause_s = 0.01 + part / 10_000

    async def pause(loop: _RoundingLoop) -> float:
        turns = Turns()
        assert turns.begin(1)
        turns.end(1, pause_s)
        started_s = loop.time()
        await turns.take(1, _busy(0.0, []))
        return loop.time() - started_s

    with contextlib.closing(_RoundingLoop()) as loop:
        assert pause_s - 1e-9 <= loop.run_until_complete(pause(loop)) <= pause_s + 0.002
