"""The order in which a coordinator looks at its files without live batches, and the pauses before it looks at waiting ones again.

Files are ordered by the time at which they became empty. Files after the newest that was seen are examined in every round. Files before
it had to wait, for another owner, their age or the store: *sweeps* go through them again. A sweep that moved few files is followed by a
longer pause, so that a million files that wait for the batches of another topic cost next to nothing. Pure: the time is passed in.
"""

from __future__ import annotations

from typing import Final, TypeAlias

Position: TypeAlias = tuple[int, int]
"""The time at which a file became empty, and its id."""

START: Final[Position] = (-1, -1)
MOVED_SHARE_MIN: Final = 8
"""A sweep moved little when it moved less than this fraction of the files that it looked at."""
PAUSE_SHARE: Final = 9
"""The pause after such a sweep is at least so many times as long as the sweep."""
PAUSES_PER_GRACE: Final = 10
PAUSE_MS_MAX: Final = 600_000


class Walk:
    """See the module's text; one for each led coordinator. Times are of the caller's clock."""

    def __init__(self, *, interval_ms: int, grace_ms: int) -> None:
        self._interval_ms = interval_ms
        self._pause_ms_max = max(interval_ms, min(PAUSES_PER_GRACE * grace_ms, PAUSE_MS_MAX))
        self._newest = START
        self._pause_ms = interval_ms
        self._next_sweep_ms = self._rested_ms = 0
        self._sweep: Position | None = None
        self._sweep_began_ms = 0
        self._seen = self._moved = self._unknown = 0

    @property
    def newest(self) -> Position:
        """The newest examined position; files after it are new."""
        return self._newest

    def saw_new(self, last: Position) -> None:
        """New files were looked at, up to this one."""
        self._newest = max(self._newest, last)

    def sweep_from(self, now_ms: int) -> Position | None:
        """Where to look at files again, up to `newest`; None while it is too early."""
        if self._sweep is None and now_ms >= self._next_sweep_ms:
            self._sweep, self._sweep_began_ms = START, now_ms
            self._seen = self._moved = self._unknown = 0
        return self._sweep

    def swept(self, last: Position | None, *, seen: int, moved: int, unknown: int, now_ms: int) -> None:
        """Some files were looked at again, up to this one; with None the sweep has ended.

        `moved` ones will not be met again; of `unknown` ones it could not be found out what is to be done.
        """
        self._seen += seen
        self._moved += moved
        self._unknown += unknown
        self._sweep = last
        if last is not None:
            return
        if self._moved * MOVED_SHARE_MIN >= self._seen:
            self._pause_ms, self._rested_ms = self._interval_ms, now_ms
        else:
            self._pause_ms = self._interval_ms if self._unknown else min(2 * self._pause_ms, self._pause_ms_max)
            self._rested_ms = now_ms + PAUSE_SHARE * (now_ms - self._sweep_began_ms)
        self._next_sweep_ms = max(now_ms + self._pause_ms, self._rested_ms)

    def hurry(self, now_ms: int) -> None:
        """A file that was seen may not have to wait any longer: the next sweep comes soon, and the one after it as well."""
        self._pause_ms = self._interval_ms
        self._next_sweep_ms = min(self._next_sweep_ms, max(now_ms + self._interval_ms, self._rested_ms))
