"""Deadlines and the pauses between attempts.

Invariant: no pause and no attempt reaches beyond the caller's deadline.
"""

from __future__ import annotations

import asyncio
import math
import random
from dataclasses import dataclass

_SLACK_MS_MAX = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """The n-th pause is a random half to whole of `backoff_ms` doubled n times, at most `backoff_ms_max`."""

    backoff_ms: int = 20
    backoff_ms_max: int = 1_000

    def pause_s(self, attempt: int, rng: random.Random) -> float:
        """Return the pause after attempt `attempt` (from 0)."""
        longest_ms = min(self.backoff_ms_max, self.backoff_ms << min(attempt, 20))
        return longest_ms / 1000 * rng.uniform(0.5, 1.0)


@dataclass(eq=False, slots=True, weakref_slot=True)
class Deadline:
    """A moment on the event loop's clock. It stays, or passes at once when no task waits any longer."""

    at_s: float

    @classmethod
    def after_ms(cls, timeout_ms: float) -> Deadline:
        """Return the deadline that is `timeout_ms` away."""
        return cls(asyncio.get_running_loop().time() + timeout_ms / 1000)

    def pass_now(self) -> None:
        """Make no time be left."""
        self.at_s = -math.inf

    @property
    def remaining_s(self) -> float:
        """Seconds left; not below 0."""
        return max(0.0, self.at_s - asyncio.get_running_loop().time())

    @property
    def is_over(self) -> bool:
        """True when less than a millisecond is left, which no attempt can use."""
        return self.remaining_s < 0.001

    def at_most_ms(self, limit_ms: float) -> float:
        """Seconds an attempt may take."""
        return min(self.remaining_s, limit_ms / 1000)

    async def pause(self, policy: RetryPolicy, attempt: int, rng: random.Random) -> bool:
        """Pause before the next attempt; False, and no pause, when none would fit in."""
        pause_s = policy.pause_s(attempt, rng)
        if pause_s >= self.remaining_s:
            return False
        await asyncio.sleep(pause_s)
        return True


def server_timeout_ms(timeout_s: float) -> int:
    """Return the TimeoutMs of a request whose reply is awaited for `timeout_s`: less, so that the node's own answer comes first."""
    timeout_ms = timeout_s * 1000
    return max(1, int(timeout_ms - min(timeout_ms / 10, _SLACK_MS_MAX)))
