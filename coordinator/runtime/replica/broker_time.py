"""The time of a Kafka broker's clock, measured by the timestamp it gave to an own entry.

The metadata topic has message.timestamp.type=LogAppendTime: its brokers stamp every entry. An own entry was stamped between
the moment it was produced and the moment it was read back, so its stamp tells the broker's clock with the precision of that
round trip. The claim is always such a probe, so every leader knows the time of its broker before it leads.
Kept as the distance to the monotonic clock, which no jump of the wall clock changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from coordinator.core.events import NewEntry
from coordinator.core.log_entry import ReadEntry

PROBE_EVERY_MS = 5_000.0

Bracket = tuple[float, float]
"""A broker's clock less the monotonic clock, in milliseconds: at least, at most."""


class BrokerTime:
    """The newest probe of one replica; `bracket` is None before the first was answered."""

    def __init__(self, monotonic_ms: Callable[[], float]) -> None:
        self.bracket: Bracket | None = None
        self._monotonic_ms = monotonic_ms
        self._key: bytes | None = None
        self._produced_ms = -PROBE_EVERY_MS

    def produced(self, entries: Sequence[NewEntry]) -> None:
        """Entries are about to be produced: the first is a probe if it is a claim or the last probe is old."""
        seq, key, _ = entries[0]
        now_ms = self._monotonic_ms()
        if seq == 0 or now_ms - self._produced_ms >= PROBE_EVERY_MS:
            self._key, self._produced_ms = key, now_ms

    def read(self, entries: Sequence[ReadEntry]) -> bool:
        """Entries were read; returns whether the probe was among them."""
        if self._key is None:
            return False
        for entry in entries:
            if entry.key == self._key:
                self.bracket = entry.timestamp_ms - self._monotonic_ms(), entry.timestamp_ms - self._produced_ms
                self._key = None
                return True
        return False
