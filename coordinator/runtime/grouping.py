"""When requests that wait become a group. Pure: the time is passed in, timers are the caller's.

At once when nothing is in flight; else when that is acknowledged, when as many bytes wait as are in flight, or a while after the newest
group started, so that requests that arrive one by one travel together.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from coordinator.runtime.pauses import Pauses

GROUP_BYTES_MIN = 64 * 1024
"""Requests of so many bytes are worth a group: it starts as soon as as much waits as is in flight, so that under load one group
is decided while another is on its way."""


class _Group(NamedTuple):
    last_seq: int
    started_s: float
    size_bytes: int


class Grouping:
    """The groups of one term that are in flight, and what their requests came to in bytes."""

    def __init__(self, *, pauses: Pauses) -> None:
        self.enough_bytes = 0
        """So many waiting bytes start a group before the time that `wait_s` gave."""
        self._few_spacing_s = pauses.few_spacing_s
        self._spacing_s = pauses.group_spacing_s
        self._in_flight: deque[_Group] = deque()
        self._submitted_bytes = 0

    @property
    def is_idle(self) -> bool:
        """Whether no group is in flight."""
        return not self._in_flight

    def wait_s(self, now_s: float) -> float:
        """How long a request that arrives now waits for others; not above 0: not at all."""
        groups = self._in_flight
        if not groups:
            return 0.0
        in_flight_bytes = sum([size_bytes for _, _, size_bytes in groups])
        self.enough_bytes = max(GROUP_BYTES_MIN, in_flight_bytes)
        spacing_s = self._few_spacing_s if in_flight_bytes < GROUP_BYTES_MIN else self._spacing_s
        return groups[-1].started_s + spacing_s - now_s

    def submitted(self, size_bytes: int) -> None:
        """Requests of so many bytes were handed to the core: the next group is theirs."""
        self._submitted_bytes += size_bytes

    def started(self, last_seq: int, now_s: float) -> None:
        """A group was appended."""
        self._in_flight.append(_Group(last_seq, now_s, self._submitted_bytes))
        self._submitted_bytes = 0

    def acknowledged(self, last_seq: int) -> Iterator[float]:
        """Entries up to this one were reported; yields when the groups that are complete now had started."""
        groups = self._in_flight
        while groups and groups[0].last_seq <= last_seq:
            yield groups.popleft().started_s

    def clear(self) -> None:
        """The term is over."""
        self._in_flight.clear()
        self._submitted_bytes = 0
