"""The creation times of the files of tombstones, in the order in which they expire: the oldest first.

A service that removes hundreds of files a second makes as many tombstones a second. Each takes a number and a reference here, and
expiring some costs as much as there are of them, however many tombstones stay.
"""

from __future__ import annotations

from array import array
from heapq import heappop, heappush
from typing import Generic, TypeVar

SPAN_MS = 1_000

K = TypeVar("K")


class _Span(Generic[K]):
    """The tombstones of files that were created in the same second: times of creation, and keys or their hashes."""

    __slots__ = ("keys", "times")

    def __init__(self) -> None:
        self.times = array("q")
        self.keys: list[K] = []

    def add(self, created_ms: int, key: K) -> None:
        self.times.append(created_ms)
        self.keys.append(key)


class TombstoneAges(Generic[K]):
    """The keys that have tombstones, or their hashes. Those without a time (-1) are counted only: they never expire."""

    __slots__ = ("_count", "_order", "_spans")

    def __init__(self) -> None:
        self._spans: dict[int, _Span[K]] = {}
        self._order: list[int] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, created_ms: int, key: K) -> None:
        """Note a tombstone; a key has one at most."""
        self._count += 1
        if created_ms < 0:
            return
        number = created_ms // SPAN_MS
        span = self._spans.get(number)
        if span is None:
            span = self._spans[number] = _Span()
            heappush(self._order, number)
        span.add(created_ms, key)

    def discard(self, created_ms: int, key: K) -> None:
        """Forget the tombstone of a key that gets another one. Raises `KeyError` when it was never noted."""
        self._count -= 1
        if created_ms < 0:
            return
        span = self._spans[created_ms // SPAN_MS]
        for at, known in enumerate(span.keys):
            if known == key and span.times[at] == created_ms:
                del span.times[at], span.keys[at]
                return
        raise KeyError(f"no tombstone of a file created at {created_ms} has the key {key}")

    def take_before(self, before_ms: int) -> list[K]:
        """Forget the tombstones of files created before a time; returns their keys."""
        gone: list[K] = []
        while self._order and self._order[0] * SPAN_MS < before_ms:
            number = self._order[0]
            span = self._spans[number]
            if before_ms < (number + 1) * SPAN_MS:
                kept: _Span[K] = _Span()
                for created_ms, key in zip(span.times, span.keys, strict=True):
                    if created_ms < before_ms:
                        gone.append(key)
                    else:
                        kept.add(created_ms, key)
                self._spans[number] = kept
                break
            heappop(self._order)
            del self._spans[number]
            gone += span.keys
        self._count -= len(gone)
        return gone

    def due_before(self, before_ms: int, count_max: int) -> int | None:
        """The time, `before_ms` at most, before which no more than `count_max` files were created that have tombstones.

        Those of the same millisecond go together all the same. None when there are none.
        """
        looked_at: list[int] = []
        times: list[int] = []
        while self._order and self._order[0] * SPAN_MS < before_ms and len(times) <= count_max:
            number = heappop(self._order)
            looked_at.append(number)
            times += (time for time in self._spans[number].times if time < before_ms)
        for number in looked_at:
            heappush(self._order, number)
        if not times:
            return None
        if len(times) <= count_max:
            return before_ms
        times.sort()
        # All before the first that is too many; those of its own millisecond only where nothing else would go.
        return max(times[count_max], times[0] + 1)
