"""The window of entries in flight: order, size, and the way out for many."""

from __future__ import annotations

import random

import pytest

from coordinator.adapters.kafka.producing.in_flight_window import FEW_MAX, IN_FLIGHT_MAX, InFlightWindow


def filled(count: int) -> InFlightWindow[int]:
    window = InFlightWindow[int]()
    window.add(range(count))
    return window


def test_a_few_entries_never_exceed_the_window() -> None:
    window = filled(FEW_MAX)
    assert window.take() == list(range(IN_FLIGHT_MAX))
    assert window.take() == []
    window.reported(2)
    assert window.take() == [IN_FLIGHT_MAX, IN_FLIGHT_MAX + 1]
    assert (window.in_flight, window.first_waiting) == (IN_FLIGHT_MAX, IN_FLIGHT_MAX + 2)


def test_many_entries_leave_together_once_the_window_has_room() -> None:
    window = filled(IN_FLIGHT_MAX)
    window.take()
    window.add(range(IN_FLIGHT_MAX, 40))
    assert window.take() == []
    window.reported(1)
    assert window.take() == list(range(IN_FLIGHT_MAX, 40))
    assert (window.in_flight, window.first_waiting) == (39, None)
    window.reported(39)
    assert window.take() == []


def test_nothing_leaves_behind_entries_that_were_refused() -> None:
    window = filled(8)
    window.refused(window.take())
    assert (window.in_flight, window.first_waiting, window.take()) == (0, None, [])


def test_cleared_entries_do_not_leave() -> None:
    window = filled(8)
    window.take()
    window.clear()
    window.reported(IN_FLIGHT_MAX)
    assert (window.in_flight, window.take()) == (0, [])


@pytest.mark.parametrize("seed", range(20))
def test_entries_leave_in_order_each_once(seed: int) -> None:
    rng, window = random.Random(seed), InFlightWindow[int]()
    left: list[int] = []
    added = 0
    while added < 300 or window.first_waiting is not None:
        if added < 300 and rng.random() < 0.4:
            size = rng.choice((1, 2, 8, 30))
            window.add(range(added, added + size))
            added += size
        waited, in_flight = window.first_waiting, window.in_flight
        taken = window.take()
        assert bool(taken) == (waited is not None and in_flight < IN_FLIGHT_MAX)
        assert window.in_flight <= IN_FLIGHT_MAX or len(taken) > FEW_MAX or not taken
        left += taken
        window.reported(rng.randint(0, window.in_flight))
    assert left == list(range(added))
