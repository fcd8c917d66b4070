"""How fast a node works off what can wait: as fast as it can without commits, in proportion to them while they come.

Removing files and counting deleted batches out of them takes the event loop, the writer of the state database and the broker, and commits
wait for all three. The proportions keep that wait small, and are greater than one: what waits does not become more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from math import inf
from typing import Final, NamedTuple

from coordinator.runtime.replica import Replica

FILES_PER_FILE: Final = 2
"""Files that are removed for each that is committed."""
FILES_PER_S_MIN: Final = 1_000
"""While commits come, at least so many files are removed in a second: a twentieth of a core."""
BATCHES_PER_BATCH: Final = 4
"""Deleted batches that are counted out for each that is committed."""
BATCHES_PER_S_MIN: Final = 100_000
"""While commits come, at least so many deleted batches are counted out in a second."""
WINDOW_S: Final = 1.0
"""Commits of so long count."""
LOOK_S: Final = 0.1
"""The time between two looks at what was committed, at least."""


class _Look(NamedTuple):
    time_s: float
    files: int
    batches: int


class BackgroundPace:
    """See the module's text; one per node, and the clock calls `look`."""

    def __init__(self, replicas: Mapping[int, Replica]) -> None:
        self._replicas = replicas
        self._looks = deque([_Look(0.0, 0, 0)])

    def look(self, now_s: float) -> None:
        """Note what this node has committed as leader, by the event loop's clock."""
        newest = self._looks[-1]
        if now_s - newest.time_s < LOOK_S:
            return
        counts = [replica.view.commit_counts for replica in self._replicas.values() if replica.view is not None]
        look = _Look(now_s, sum(count.commits for count in counts), sum(count.batches for count in counts))
        if look.files < newest.files or look.batches < newest.batches:
            self._looks.clear()  # a replica was made anew and counts from 0
        self._looks.append(look)
        while len(self._looks) > 2 and now_s - self._looks[1].time_s >= WINDOW_S:
            self._looks.popleft()

    @property
    def is_free(self) -> bool:
        """Whether no commits came of late, so that nothing is held back."""
        return self.files_per_s == inf

    @property
    def files_per_s(self) -> float:
        """The number of files that may be removed in a second; infinite without commits."""
        oldest, newest = self._looks[0], self._looks[-1]
        return _per_s(newest.files - oldest.files, newest.time_s - oldest.time_s, FILES_PER_FILE, FILES_PER_S_MIN)

    @property
    def batches_per_s(self) -> float:
        """The number of deleted batches that may be counted out in a second; infinite without commits."""
        oldest, newest = self._looks[0], self._looks[-1]
        return _per_s(newest.batches - oldest.batches, newest.time_s - oldest.time_s, BATCHES_PER_BATCH, BATCHES_PER_S_MIN)


def _per_s(committed: int, in_s: float, share: int, least: int) -> float:
    return max(share * committed / in_s, least) if committed else inf
