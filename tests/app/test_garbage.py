"""Cycles among objects: new ones are found as they come, older ones when a flush took along what waited for it."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from coordinator.app.process.garbage import GC_MIDDLE_S, GC_OBJECTS, GarbageCollection, settle_garbage_collector


class Ring:
    """Holds itself."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def settled() -> Iterator[None]:
    """The collector as a process sets it."""
    before = gc.get_threshold()
    settle_garbage_collector()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


@pytest.mark.usefixtures("settled")
def test_new_cycles_go_as_others_come() -> None:
    gone = weakref.ref(Ring())
    kept = [[number] for number in range(2 * GC_OBJECTS)]
    assert gone() is None
    assert len(kept) == 2 * GC_OBJECTS


@pytest.mark.usefixtures("settled")
def test_cycles_that_survived_once_go_after_a_flush_but_not_after_each() -> None:
    times_s = iter([0.0, 0.5, GC_MIDDLE_S - 0.5, GC_MIDDLE_S])
    garbage = GarbageCollection(lambda: next(times_s))
    ring = Ring()
    gc.collect(0)
    gone = weakref.ref(ring)
    del ring
    garbage.flushed()
    garbage.flushed()
    assert gone() is not None
    garbage.flushed()
    assert gone() is None
