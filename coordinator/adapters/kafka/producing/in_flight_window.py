"""How many entries of a term are handed to librdkafka at once; the others wait here. Why: docs/decisions/001-five-messages-in-flight.md.

Pure: entries go in, those that may leave come out. Entries leave in the order they came in, each once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Generic, TypeVar

IN_FLIGHT_MAX: Final = 5
"""With fewer messages in flight librdkafka sends at once (RD_KAFKA_IDEMP_MAX_INFLIGHT)."""
FEW_MAX: Final = 16
"""Up to this number of waiting entries leave within the window; more leave together, because small requests cost the broker much."""

Entry = TypeVar("Entry")


class InFlightWindow(Generic[Entry]):
    """The entries of one producer that wait, and the number of those in flight."""

    def __init__(self) -> None:
        self._waiting: list[Entry] = []
        self.in_flight = 0

    @property
    def first_waiting(self) -> Entry | None:
        """The entry that leaves next; None when none waits."""
        return self._waiting[0] if self._waiting else None

    def add(self, entries: Sequence[Entry]) -> None:
        """Let entries wait after those that wait already."""
        self._waiting += entries

    def take(self) -> list[Entry]:
        """Remove and return the entries that may leave now, in one call: none while the window is full. They count as in flight."""
        room = IN_FLIGHT_MAX - self.in_flight
        if room <= 0:
            return []
        if len(self._waiting) > FEW_MAX:
            room = len(self._waiting)
        leaving, self._waiting = self._waiting[:room], self._waiting[room:]
        self.in_flight += len(leaving)
        return leaving

    def refused(self, entries: Sequence[Entry]) -> None:
        """Drop all waiting entries: taken ones did not leave, so none may leave after them."""
        self.in_flight -= len(entries)
        self._waiting.clear()

    def reported(self, count: int) -> None:
        """Take `count` reported entries out of the window."""
        self.in_flight -= count

    def clear(self) -> None:
        """Forget the entries that wait."""
        self._waiting.clear()
