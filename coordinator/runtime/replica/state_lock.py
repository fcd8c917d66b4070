"""A lock that another connection holds on the state database of one replica: an operator's `BEGIN IMMEDIATE`, a tool that copies the file.

The database is sound, so its writer asks again until the lock is gone. Meanwhile the log of the node, `/metrics` and `diskless doctor` tell
of the lock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from coordinator.core.state.damage import StateBusy

LOG = logging.getLogger("coordinator.replica")

RETRY_S = 0.5
"""Between two attempts: with the wait inside each of them, state is written a second after the end of the lock at the latest."""
TOLD_AGAIN_MS = 60_000


class StateLock:
    """See the module's text."""

    def __init__(self, partition: int, clock_ms: Callable[[], int]) -> None:
        self.since_ms = -1
        """When the lock was first met; -1 while there is none."""
        self._partition = partition
        self._clock_ms = clock_ms
        self._told_ms = 0

    @property
    def is_held(self) -> bool:
        """Whether the last attempt met a lock."""
        return self.since_ms >= 0

    @property
    def age_ms(self) -> int:
        """For how long the lock has been met; 0 while there is none."""
        return max(0, self._clock_ms() - self.since_ms) if self.is_held else 0

    def met(self, busy: StateBusy) -> None:
        """Note that an attempt met the lock; it is logged at first, and once a minute."""
        now_ms = self._clock_ms()
        if not self.is_held:
            self.since_ms = now_ms
        elif now_ms - self._told_ms < TOLD_AGAIN_MS:
            return
        self._told_ms = now_ms
        LOG.warning("state database is locked partition=%d seconds=%.1f reason=%r", self._partition, self.age_ms / 1000, str(busy))

    def gone(self) -> None:
        """Note that an attempt succeeded."""
        if self.is_held:
            LOG.info("state database is unlocked partition=%d seconds=%.1f", self._partition, self.age_ms / 1000)
            self.since_ms = -1
