"""How the moves of partitions come on, for whoever watches; known where the directory is led, since that node began to lead it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Final

from coordinator.core.moves import Move

MOVED: Final = "moved"
DROPPED: Final = "dropped"
DELAYED: Final = "delayed"
MOVE_EVENTS: Final = (MOVED, DROPPED, DELAYED)
"""A partition is at its next coordinator; a move ended with its topic; a coordinator did not take a step, which is repeated."""


@dataclass(slots=True)
class MoveInProgress:
    """A move that is not done. `waits` says why its last step was not taken, and is empty before one was asked for in vain."""

    move: Move
    since_s: float
    frozen_s: float | None = None
    waits: str = ""


class MovesUnderWay:
    """See the module's text. Times are those of the event loop."""

    def __init__(self, now_s: Callable[[], float], *, on_moved: Callable[[float], None]) -> None:
        """`on_moved` is told how long a partition may have taken no batches."""
        self._now_s = now_s
        self._on_moved = on_moved
        self._under_way: dict[int, MoveInProgress] = {}
        self.counts: Counter[str] = Counter()
        """Of events."""

    def look(self, moves: Iterable[Move], carried_out: Collection[bytes]) -> None:
        """These moves are under way. Those that are no longer have ended with their topics, unless they are being carried out here."""
        known, self._under_way = self._under_way, {}
        for move in sorted(moves, key=lambda one: one.move_id):
            one = known.pop(move.move_id, None)
            self._under_way[move.move_id] = MoveInProgress(move, self._now_s()) if one is None else one
        for move_id, gone in known.items():
            if gone.move.key in carried_out:
                self._under_way[move_id] = gone
            else:
                self.counts[DROPPED] += 1

    def clear(self) -> None:
        """The directory is led elsewhere."""
        self._under_way.clear()

    def asks_for_release(self, move: Move) -> None:
        """From here on the partition may take no batches."""
        one = self._under_way.get(move.move_id)
        if one is not None and one.frozen_s is None:
            one.frozen_s = self._now_s()

    def delayed(self, move: Move, why: str) -> None:
        """A coordinator did not take a step."""
        self.counts[DELAYED] += 1
        one = self._under_way.get(move.move_id)
        if one is not None:
            one.waits = why

    def moved(self, move: Move) -> float:
        """The partition is at its next coordinator; returns how many seconds it may have taken no batches."""
        one = self._under_way.pop(move.move_id, None)
        frozen_s = 0.0 if one is None or one.frozen_s is None else self._now_s() - one.frozen_s
        self.counts[MOVED] += 1
        self._on_moved(frozen_s)
        return frozen_s

    def dropped(self, move: Move) -> None:
        """A move that was being carried out ended with its topic."""
        if self._under_way.pop(move.move_id, None) is not None:
            self.counts[DROPPED] += 1

    def under_way(self) -> list[tuple[MoveInProgress, float]]:
        """The moves that are not done, in the order in which they were ordered, and for how many seconds each is known here."""
        return [(one, self._now_s() - one.since_s) for one in self._under_way.values()]
