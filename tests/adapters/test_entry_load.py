"""A load is heavy while entries leave by many, and for no longer than a moment behind that."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable
from typing import cast

from coordinator.adapters.kafka.producing.entry_load import SILENCE_S, SWITCH_AFTER, EntryLoad
from coordinator.adapters.kafka.producing.in_flight_window import FEW_MAX

MANY, FEW = FEW_MAX + 1, FEW_MAX


class Timers:
    """The timers of an event loop, which end when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[Timer] = []

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        assert delay_s == SILENCE_S
        timer = Timer(self, callback)
        self.waiting.append(timer)
        return timer

    def end(self) -> None:
        """The one that there is ends."""
        [timer] = self.waiting
        self.waiting.clear()
        timer.callback()


class Timer:
    def __init__(self, timers: Timers, callback: Callable[[], None]) -> None:
        self.callback = callback
        self._timers = timers

    def cancel(self) -> None:
        # One that has ended may be cancelled too, as asyncio has it.
        if self in self._timers.waiting:
            self._timers.waiting.remove(self)


class Watched:
    """A load and what it said."""

    def __init__(self) -> None:
        self.said: list[bool] = []
        self.timers = Timers()
        self.load = EntryLoad(cast(AbstractEventLoop, self.timers), self.said.append)

    def hand_over(self, *groups: int) -> None:
        for entries in groups:
            self.load.handing_over(entries)


def test_neither_a_burst_nor_a_pause_changes_anything() -> None:
    watched = Watched()
    watched.hand_over(*[MANY] * (SWITCH_AFTER - 1), FEW, MANY)
    assert watched.said == []
    watched.hand_over(MANY)
    assert watched.said == [True]
    watched.hand_over(*[FEW] * (SWITCH_AFTER - 1), MANY, FEW)
    assert watched.said == [True]
    watched.hand_over(FEW)
    assert watched.said == [True, False]
    assert not watched.load.is_heavy


def test_a_load_that_stops_is_over() -> None:
    watched = Watched()
    watched.hand_over(*[MANY] * SWITCH_AFTER)
    watched.timers.end()
    assert watched.said == [True, False]
    assert not watched.timers.waiting
    # What came before does not count any more.
    watched.hand_over(*[MANY] * (SWITCH_AFTER - 1))
    assert watched.said == [True, False]
    watched.hand_over(MANY)
    assert watched.said == [True, False, True]


def test_a_load_that_goes_on_stays_heavy() -> None:
    watched = Watched()
    watched.hand_over(*[MANY] * SWITCH_AFTER)
    for _ in range(3):
        watched.hand_over(FEW, MANY)
        watched.timers.end()
    assert watched.said == [True]
    watched.hand_over(FEW)
    watched.timers.end()
    assert watched.said == [True, False]


def test_loads_that_come_and_go_have_one_timer() -> None:
    watched = Watched()
    for _ in range(5):
        watched.hand_over(*[MANY] * SWITCH_AFTER, *[FEW] * SWITCH_AFTER)
        assert not watched.timers.waiting
    watched.hand_over(*[MANY] * SWITCH_AFTER)
    assert len(watched.timers.waiting) == 1
    assert watched.said == [True, False] * 5 + [True]
