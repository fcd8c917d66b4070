"""What long polls wait for at one replica: changes of user partitions, in the state that is applied.

Nothing is asked for while nothing is applied, and then one look compares the rows of all waiting polls in arrays. A watch ends when it
fires, which it does once.
Invariants: a watch whose partitions have other marks (`ShardView.marks_of`) than it was made with fires at the next look; one whose
partitions have gone or have other rows, or whose replica ends or fails, fires without places; no other watch fires.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from coordinator.core.commands import FetchPoint
from coordinator.core.tables.tables import Int64s
from coordinator.core.view import ShardView

Wake: TypeAlias = Callable[[list[int] | None], None]
"""Takes the places in the watch that have changed; None when everything has to be asked for anew. It must only schedule what follows."""


class Watch:
    """Partitions that one poll waits for, with their rows, and what `ShardView` said of them at the same moment."""

    __slots__ = ("forgotten", "marks", "points", "rows", "wake")

    def __init__(self, points: Sequence[FetchPoint], rows: Int64s, marks: Int64s, forgotten: int, wake: Wake) -> None:
        self.points = points
        self.rows = rows
        self.marks = marks
        self.forgotten = forgotten
        self.wake = wake


class Watches:
    """See the module's text; one per replica."""

    def __init__(self, *, on_used: Callable[[], None]) -> None:
        """`on_used` is called when the first watch comes and when the last one goes."""
        self._watches: dict[Watch, None] = {}
        self._on_used = on_used
        # What the watches have, in one array each, with the watch and the place in it of each line; None when a watch came or went.
        self._table: tuple[list[Watch], Int64s, Int64s, Int64s, Int64s] | None = None
        self._looked_at = -1
        self._forgotten = 0
        """The count of forgotten partitions with which the rows of all watches are known to be right."""

    def __bool__(self) -> bool:
        return bool(self._watches)

    def add(self, watch: Watch, view: ShardView | None) -> None:
        """Have a watch fire at a change, at once if its marks are not those of `view`; without one the next look compares them.

        It alone is compared: a look at all takes a millisecond for a thousand polls, each of which comes again after every answer.
        """
        self._forgotten = min(self._forgotten, watch.forgotten) if self._watches else watch.forgotten
        self._watches[watch] = None
        self._table = None
        if len(self._watches) == 1:
            self._on_used()
        if view is None:
            self._looked_at = -1
        elif view.count_forgotten() != watch.forgotten:
            self._fire(watch, None)
        elif places := _changed(view, watch.rows, watch.marks):
            self._fire(watch, places)

    def discard(self, watch: Watch) -> None:
        """Forget a watch, if it is there."""
        if watch in self._watches:
            del self._watches[watch]
            self._table = None
            if not self._watches:
                self._on_used()

    def fire_all(self) -> None:
        """Have every watch fire: the replica cannot be asked any more."""
        for watch in list(self._watches):
            self._fire(watch, None)

    def look(self, view: ShardView) -> None:
        """Compare, if something was applied since the last look."""
        if not self._watches or view.applied_offset == self._looked_at:
            return
        self._looked_at = view.applied_offset
        if view.count_forgotten() != self._forgotten:
            self._forgotten = view.count_forgotten()
            # A partition that came back after a move may have another row than before.
            for watch in [one for one in self._watches if view.rows_of(one.points) != one.rows.tolist()]:
                self._fire(watch, None)
            if not self._watches:
                return
        watches, owners, places, rows, marks = self._table = self._table or self._collect()
        changed = _changed(view, rows, marks)
        found: dict[int, list[int]] = {}
        for owner, place in zip(owners[changed].tolist(), places[changed].tolist(), strict=True):
            found.setdefault(owner, []).append(place)
        for owner, places_changed in found.items():
            self._fire(watches[owner], places_changed)

    def _collect(self) -> tuple[list[Watch], Int64s, Int64s, Int64s, Int64s]:
        watches = list(self._watches)
        sizes = np.array([len(one.rows) for one in watches], np.int64)
        owners = np.repeat(np.arange(len(watches)), sizes)
        places = np.concatenate([np.arange(size) for size in sizes])
        return watches, owners, places, np.concatenate([one.rows for one in watches]), np.concatenate([one.marks for one in watches])

    def _fire(self, watch: Watch, places: list[int] | None) -> None:
        self.discard(watch)
        watch.wake(places)


def _changed(view: ShardView, rows: Int64s, marks: Int64s) -> list[int]:
    """The places of the rows that have other marks than these."""
    changed: list[int] = (view.marks_of(rows) != marks).any(axis=1).nonzero()[0].tolist()
    return changed
