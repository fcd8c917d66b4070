"""When the collector of cycles looks at the objects of a process: at few at once, for the event loop stands still meanwhile.

Python looks at all that were made since the start when a hundred middle collections left many objects: 120 ms for a million. So tables
are arrays, and what lives long and goes again, such as a connection, is in no cycle when it goes.
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
    """Make the collector of cycles rare, once everything is loaded."""
    # Objects loaded so far live as long as the process: the collector need not examine them again.
    gc.collect()
    gc.freeze()
    # New objects are looked at some at a time, which takes a fraction of a millisecond, and once. Older ones, which are looked at
    # together, wait for a moment when most of them are gone (`GarbageCollection`).
    gc.set_threshold(GC_OBJECTS, GC_NEVER, 100)


class GarbageCollection:
    """Looks for cycles among objects that are not new, now and then, when a flush has taken along what waited for it."""

    def __init__(self, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._monotonic_s = monotonic_s
        self._last_s = monotonic_s()

    def flushed(self) -> None:
        """A flush of a state database was written: most objects that lived for some time are gone."""
        now_s = self._monotonic_s()
        if now_s - self._last_s >= GC_MIDDLE_S:
            self._last_s = now_s
            gc.collect(1)
