"""When waiting requests become a group. Pure: the time is passed in, timers are the caller's.

A group starts at once when none is in flight. Otherwise it starts when the groups in flight are acknowledged, when the waiting bytes reach
the bytes in flight, or some time (`runtime.pauses`) after the newest group started, so that requests that arrive one by one travel
together.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from coordinator.runtime.pauses import Pauses

GROUP_BYTES_MIN = 64 * 1024
"""The least number of waiting bytes that starts a group while another is in flight. Above it a new group starts when the waiting bytes
reach the bytes in flight, so that under load one group is decided while another is on its way."""


class _Group(NamedTuple):
    last_seq: int
    started_s: float
    size_bytes: int


class Grouping:
    """The groups of one term that are in flight, with the bytes of their requests."""

    def __init__(self, *, pauses: Pauses) -> None:
        self.enough_bytes = 0
        """The number of waiting bytes that starts a group before the time that `wait_s` returned."""
        self._few_spacing_s = pauses.few_spacing_s
        self._spacing_s = pauses.group_spacing_s
        self._in_flight: deque[_Group] = deque()
        self._submitted_bytes = 0

    @property
    def is_idle(self) -> bool:
        """Whether no group is in flight."""
        return not self._in_flight

    def wait_s(self, now_s: float) -> float:
        """Return how long a request that arrives now waits for others, in seconds; 0 or less: it does not wait."""
        groups = self._in_flight
        if not groups:
            return 0.0
        in_flight_bytes = sum([size_bytes for _, _, size_bytes in groups])
        self.enough_bytes = max(GROUP_BYTES_MIN, in_flight_bytes)
        spacing_s = self._few_spacing_s if in_flight_bytes < GROUP_BYTES_MIN else self._spacing_s
        return groups[-1].started_s + spacing_s - now_s

    def submitted(self, size_bytes: int) -> None:
        """Count the bytes of requests that were handed to the core; the next group is theirs."""
        self._submitted_bytes += size_bytes

    def started(self, last_seq: int, now_s: float) -> None:
        """Note that a group was appended, up to the entry with this seq."""
        self._in_flight.append(_Group(last_seq, now_s, self._submitted_bytes))
        self._submitted_bytes = 0

    def acknowledged(self, last_seq: int) -> Iterator[float]:
        """Note that entries up to this one are acknowledged; yields the start time of each group that is complete now."""
        groups = self._in_flight
        while groups and groups[0].last_seq <= last_seq:
            yield groups.popleft().started_s

    def clear(self) -> None:
        """Forget all groups: the term is over."""
        self._in_flight.clear()
        self._submitted_bytes = 0
