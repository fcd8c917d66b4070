"""When a state database is written: of a leader every interval, of a follower in larger pieces while batches come."""

from __future__ import annotations

import pytest

from coordinator.runtime.replica.write_times import FEW_BATCHES, FOLLOWED_INTERVALS, IDLE_WRITE_INTERVAL_MS, WriteTimes

INTERVAL_MS = 500
START_MS = 1_760_000_000_000


class Clock:
    """A clock that stands until it is moved on."""

    def __init__(self) -> None:
        self.now_ms = START_MS

    def __call__(self) -> int:
        return self.now_ms


def written(clock: Clock) -> WriteTimes:
    """The times of a database that is written at this moment."""
    times = WriteTimes(clock_ms=clock, interval_ms=INTERVAL_MS)
    times.begin(1)
    return times


def follow(times: WriteTimes, clock: Clock, came: list[int]) -> list[int]:
    """After how many milliseconds a follower is written to which so many batches come in each interval."""
    due = []
    unwritten = 0
    for batches in came:
        clock.now_ms += INTERVAL_MS
        unwritten += batches
        assert times.is_time()
        if times.is_followed_due(unwritten):
            due.append(clock.now_ms - START_MS)
            times.begin(unwritten)
            unwritten = 0
        assert not times.is_time()
    return due


def test_the_first_write_waits_for_nothing() -> None:
    times = WriteTimes(clock_ms=Clock(), interval_ms=INTERVAL_MS)
    assert times.is_time()
    assert times.is_followed_due(FEW_BATCHES)
    assert times.is_offset_due()


@pytest.mark.parametrize("batches", [1, FEW_BATCHES])
def test_a_follower_is_written_after_several_intervals_while_batches_come(batches: int) -> None:
    clock = Clock()
    due = follow(written(clock), clock, [batches] * 3 * FOLLOWED_INTERVALS)
    assert due == [FOLLOWED_INTERVALS * INTERVAL_MS * number for number in (1, 2, 3)]


def test_a_follower_is_written_once_no_batches_come() -> None:
    clock = Clock()
    assert follow(written(clock), clock, [FEW_BATCHES, 1, 0, 1, 0]) == [3 * INTERVAL_MS, 5 * INTERVAL_MS]


def test_between_two_looks_an_interval_passes() -> None:
    clock = Clock()
    times = written(clock)
    clock.now_ms += INTERVAL_MS - 1
    assert not times.is_time()
    clock.now_ms += 1
    assert times.is_time()


def test_an_applied_offset_alone_waits_for_seconds() -> None:
    clock = Clock()
    times = written(clock)
    clock.now_ms += IDLE_WRITE_INTERVAL_MS - 1
    assert not times.is_offset_due()
    clock.now_ms += 1
    assert times.is_offset_due()


@pytest.mark.parametrize(
    ("batches", "within_ms", "rests"),
    [(999, 500, False), (1_000, 500, True), (24_999, 500, True), (25_000, 500, False), (25_000, 1_000, True), (200_000, 5_000, True)],
)
def test_the_writer_rests_when_batches_come_slowly(batches: int, within_ms: int, *, rests: bool) -> None:
    clock = Clock()
    times = written(clock)
    clock.now_ms += within_ms
    assert times.begin(batches) is rests


def test_the_time_without_anything_to_write_does_not_count_as_slow() -> None:
    clock = Clock()
    times = written(clock)
    clock.now_ms += 60_000
    times.is_offset_due()
    clock.now_ms += 250
    assert not times.begin(100_000)
