"""The clock of a process follows the wall clock, but neither jumps nor goes backwards."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.runtime.node.clock import NS_PER_MS, SteadyClock

START_MS = 1_700_000_000_000


class Clocks:
    """A wall clock that may be set, and a monotonic one."""

    def __init__(self) -> None:
        self.wall_ms = START_MS
        self.monotonic_ms = 5
        self.steady = SteadyClock(lambda: self.wall_ms * NS_PER_MS, lambda: self.monotonic_ms * NS_PER_MS)

    def after(self, ms: int) -> int:
        """Let time pass and return the steady clock's time since the start."""
        self.wall_ms += ms
        self.monotonic_ms += ms
        return self.steady() - START_MS


def test_it_is_the_wall_clock_while_that_does_not_jump() -> None:
    clocks = Clocks()
    assert [clocks.after(ms) for ms in (0, 1, 10, 1_000, 60_000)] == [0, 1, 11, 1_011, 61_011]


@pytest.mark.parametrize(("jump_ms", "times"), [(600_000, [15, 30, 1_530]), (-600_000, [5, 10, 510])])
def test_a_jump_is_made_up_slowly(jump_ms: int, times: list[int]) -> None:
    clocks = Clocks()
    clocks.wall_ms += jump_ms
    assert [clocks.after(ms) for ms in (10, 10, 1_000)] == times


def test_it_arrives_at_the_wall_clock() -> None:
    clocks = Clocks()
    clocks.wall_ms += 1_000
    for _ in range(30):
        clocks.after(100)
    assert clocks.after(0) == clocks.wall_ms - START_MS


def test_a_jump_there_and_back_leaves_nothing() -> None:
    clocks = Clocks()
    clocks.wall_ms += 86_400_000
    assert clocks.after(100) == 150
    clocks.wall_ms -= 86_400_000
    assert clocks.after(1_000) == 1_100


@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(-(10**9), 10**9))))
def test_it_never_goes_back_and_is_never_far_from_the_time_that_passed(steps: list[tuple[int, int]]) -> None:
    clocks = Clocks()
    before = clocks.after(0)
    for passed_ms, jump_ms in steps:
        clocks.wall_ms += jump_ms
        now = clocks.after(passed_ms)
        assert passed_ms / 2 - 1 <= now - before <= passed_ms * 1.5 + 1
        before = now
