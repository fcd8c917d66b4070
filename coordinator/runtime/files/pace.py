"""Throttle for background work: unlimited while no commits arrive, otherwise proportional to the commit rate.

Removing files and subtracting deleted batches from them takes the event loop, the writer of the state database and the broker, and commits
wait for all three. The proportions keep that wait small, and are greater than one, so the backlog does not grow.

Commits at any node count, since every node applies what is removed: one that leads nothing busy would take the event loops of those that
do. A node removes in proportion to the files that it has committed as leader itself. All nodes subtract batches from their own copy of
files, in proportion to all commits: a node that lags in that has to catch up before it can judge a removal.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import inf
from typing import Final, NamedTuple

from coordinator.runtime.routing.replicas import Replicas

FILES_PER_FILE: Final = 2
"""Files that are removed for each that this node commits as leader."""
BATCHES_PER_BATCH: Final = 4
"""Deleted batches that are counted out for each that is committed at any node."""
LOOK_S: Final = 0.1
"""The time between two looks at what was committed, at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PaceRules:
    """The paces that hold while commits come."""

    files_per_s_min: int = 1_000
    """At least so many files are removed in a second: a twentieth of a core."""
    batches_per_s_min: int = 100_000
    """At least so many deleted batches are counted out in a second."""
    window_s: float = 1.0
    """Commits of so long count."""
    keys_per_entry: tuple[int, int] = (50, 1_000)
    """The least and the greatest number of keys in an entry that removes files.

    Deciding on a key and applying that takes the event loop some microseconds, and commits wait meanwhile: a fraction of a millisecond for
    the least number. Where thousands of files are committed in a second, groups of them are longer than that, and entries are as well.
    """


class _Look(NamedTuple):
    time_s: float
    led_files: int
    files: int
    batches: int

    def has_less_than(self, other: _Look) -> bool:
        """Whether a count has gone back: a replica was made anew and counts from 0."""
        return self.led_files < other.led_files or self.files < other.files or self.batches < other.batches


class BackgroundPace:
    """See the module's text; one per node, and the clock calls `look`."""

    def __init__(self, replicas: Replicas, rules: PaceRules) -> None:
        self.rules = rules
        self._replicas = replicas
        self._looks = deque([_Look(0.0, 0, 0, 0)])

    def look(self, now_s: float) -> None:
        """Note what this node has applied, and committed as leader, by the event loop's clock."""
        newest = self._looks[-1]
        if now_s - newest.time_s < LOOK_S:
            return
        views = self._replicas.loaded()
        applied = [view.applied_counts for view in views]
        led_files = sum(view.commit_counts.commits for view in views)
        look = _Look(now_s, led_files, sum(one.files for one in applied), sum(one.batches for one in applied))
        if look.has_less_than(newest):
            self._looks.clear()
        self._looks.append(look)
        while len(self._looks) > 2 and now_s - self._looks[1].time_s >= self.rules.window_s:
            self._looks.popleft()

    @property
    def is_free(self) -> bool:
        """Whether no commits came of late, so that nothing is held back."""
        return self._looks[0].files == self._looks[-1].files

    @property
    def files_per_s(self) -> float:
        """The number of files that this node may remove in a second; infinite without commits."""
        oldest, newest = self._looks[0], self._looks[-1]
        return self._per_s(newest.led_files - oldest.led_files, FILES_PER_FILE, self.rules.files_per_s_min)

    @property
    def batches_per_s(self) -> float:
        """The number of deleted batches that this node may subtract in a second; infinite without commits."""
        oldest, newest = self._looks[0], self._looks[-1]
        return self._per_s(newest.batches - oldest.batches, BATCHES_PER_BATCH, self.rules.batches_per_s_min)

    def _per_s(self, committed: int, share: int, least: int) -> float:
        return inf if self.is_free else max(share * committed / (self._looks[-1].time_s - self._looks[0].time_s), least)
