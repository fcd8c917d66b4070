"""The clock of a process: the wall clock without its jumps.

Append times and deadlines are read from the same clock. If it jumped, a jump forward would time out every request, end
every term that has an entry in flight and push the log's time, which never goes back, ahead for good; a jump back would
leave requests without an answer for as long as it was. So time passes here as it does on the monotonic clock, and a
difference to the wall clock is made up by running at most half as fast again, or half as slow. Invariant: it never goes backwards.
"""

from __future__ import annotations

import time
from collections.abc import Callable

NS_PER_MS = 1_000_000


def wall_ms() -> int:
    """The machine's clock, which may jump: milliseconds since the epoch."""
    return time.time_ns() // NS_PER_MS


class SteadyClock:
    """Call it for milliseconds since the epoch. Any thread may."""

    def __init__(self, wall_ns: Callable[[], int] = time.time_ns, monotonic_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._wall_ns = wall_ns
        self._monotonic_ns = monotonic_ns
        self._last = monotonic_ns(), wall_ns()

    def __call__(self) -> int:
        """Return the time."""
        # The pair is read and written whole, so a reader in another thread never sees half of a change.
        last_monotonic_ns, last_ns = self._last
        monotonic_ns = self._monotonic_ns()
        passed_ns = max(0, monotonic_ns - last_monotonic_ns)
        expected_ns = last_ns + passed_ns
        correction_ns_max = passed_ns // 2
        now_ns = expected_ns + max(-correction_ns_max, min(correction_ns_max, self._wall_ns() - expected_ns))
        self._last = monotonic_ns, now_ns
        return now_ns // NS_PER_MS
