"""Threads keep the interpreter for longer while the load is heavy and the state writer keeps up."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from coordinator.app.process.interpreter import LONG_S, SHORT_S, SwitchInterval


@pytest.fixture(autouse=True)
def interval() -> Iterator[None]:
    before = sys.getswitchinterval()
    yield
    sys.setswitchinterval(before)


def is_long() -> bool:
    assert sys.getswitchinterval() in (pytest.approx(LONG_S), pytest.approx(SHORT_S))
    return sys.getswitchinterval() == pytest.approx(LONG_S)


def test_the_interval_follows_the_load() -> None:
    interval = SwitchInterval(100)
    seen = [is_long()]
    for is_heavy in (True, True, False):
        interval.load_changed(is_heavy)
        seen.append(is_long())
    assert seen == [False, True, True, False]


def test_a_writer_that_falls_behind_is_let_in_at_once_until_it_has_caught_up() -> None:
    interval = SwitchInterval(100)
    interval.load_changed(True)
    seen = []
    for partition, batches in ((0, 399), (0, 400), (1, 400), (0, 201), (0, 200), (1, 0), (1, 399)):
        interval.writing(partition, batches)
        seen.append(is_long())
    assert seen == [True, False, False, False, False, True, True]


def test_a_writer_that_is_behind_does_not_lengthen_the_interval_of_a_light_load() -> None:
    interval = SwitchInterval(100)
    interval.writing(0, 1_000)
    interval.load_changed(True)
    assert not is_long()
    interval.load_changed(False)
    interval.writing(0, 0)
    assert not is_long()
