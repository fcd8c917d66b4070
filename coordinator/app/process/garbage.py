"""The cyclic GC examines few objects at a time, since the event loop is blocked meanwhile.

By default Python examines all objects made since the start when a hundred middle collections have left many: 120 ms for a million. So the
objects of the start are frozen, and middle collections run after a flush (`GarbageCollection`). Tables are arrays, and long-lived objects
that go again, such as a connection, are in no cycle when they go.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Final

GC_OBJECTS: Final = 2_000
GC_MIDDLE_S: Final = 5.0
GC_NEVER: Final = 1_000_000


def settle_garbage_collector() -> None:
    """Freeze the objects of the start, and make collections by the cyclic GC rare. Call it when everything is loaded."""
    # Objects loaded so far live as long as the process: the collector need not examine them again.
    gc.collect()
    gc.freeze()
    # New objects are looked at some at a time, which takes a fraction of a millisecond, and once. Older ones, which are looked at
    # together, wait for a moment when most of them are gone (`GarbageCollection`).
    gc.set_threshold(GC_OBJECTS, GC_NEVER, 100)


class GarbageCollection:
    """Runs a middle collection after a flush, at most once in `GC_MIDDLE_S`: most objects that waited for the flush are gone then."""

    def __init__(self, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._monotonic_s = monotonic_s
        self._last_s = monotonic_s()

    def flushed(self) -> None:
        """Note that a flush of a state database was written; collect if the last collection is long ago."""
        now_s = self._monotonic_s()
        if now_s - self._last_s >= GC_MIDDLE_S:
            self._last_s = now_s
            gc.collect(1)
