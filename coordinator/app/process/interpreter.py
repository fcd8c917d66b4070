"""The switch interval: the time for which a thread keeps the interpreter while another one waits for it.

One value for all threads, and the event loop is on both sides: while few commits come it should not wait long for the state writer or a
snapshot, and while many come it should not be stopped by each of them, since a thread that is let in has to be woken first, and the loop
is blocked meanwhile. But then the writer gets less than it needs: unwritten changes fill memory, so a writer that falls behind is
let in at once again. Why and how much: docs/decisions/034-switch-interval.md.
"""

from __future__ import annotations

import sys
from typing import Final

SHORT_S: Final = 0.0005
LONG_S: Final = 0.005
BEHIND: Final = 4
"""A write of so many times `state.flush.max.batches` says that the writer has fallen behind, one of half as many that it has caught up."""


class SwitchInterval:
    """Sets the interpreter's switch interval: long while the load is heavy and the state of no partition is written late."""

    def __init__(self, flush_batches_max: int) -> None:
        self._is_load_heavy = False
        self._behind: set[int] = set()
        self._behind_batches = BEHIND * flush_batches_max
        self._set()

    def load_changed(self, is_heavy: bool) -> None:
        """Take the news that the load has become heavy, or is so no more."""
        self._is_load_heavy = is_heavy
        self._set()

    def writing(self, partition: int, batches: int) -> None:
        """Take the news that a write of so many batches of a partition begins."""
        if batches >= self._behind_batches:
            self._behind.add(partition)
        elif batches <= self._behind_batches // 2:
            self._behind.discard(partition)
        self._set()

    def _set(self) -> None:
        sys.setswitchinterval(LONG_S if self._is_load_heavy and not self._behind else SHORT_S)
