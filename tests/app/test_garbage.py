"""The collector of cycles runs when a flush took the young objects along."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from coordinator.app.main import GC_YOUNG_COLLECTIONS, collect_young_garbage


class Ring:
    """Holds itself."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def by_hand() -> Iterator[None]:
    """Nobody else collects."""
    gc.disable()
    yield
    gc.enable()


def test_young_cycles_go() -> None:
    gone = weakref.ref(Ring())
    assert gone() is not None
    collect_young_garbage()
    assert gone() is None


def test_cycles_that_survived_once_go_later() -> None:
    ring = Ring()
    collect_young_garbage()
    gone = weakref.ref(ring)
    del ring
    for _ in range(GC_YOUNG_COLLECTIONS + 2):
        collect_young_garbage()
    assert gone() is None
    assert gc.get_count()[1] <= GC_YOUNG_COLLECTIONS + 1
