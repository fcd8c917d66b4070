"""The runs of a partition as the reader keeps them in memory: their ids, last offsets and greatest timestamps.

Runs are few (up to a thousand batches each), so finding one by offset is a binary search and finding one by time a look
at each, without an index that a commit would have to maintain.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from coordinator.core.tables.search_loops import first_at_least


class RunEntry(NamedTuple):
    """A run that was written or rewritten."""

    partition_row: int
    run_id: int
    last: int
    max_timestamp: int


class RunIndex:
    """The runs of one partition in offset order."""

    __slots__ = ("_ids", "_last", "_max_timestamp")

    def __init__(self, runs: Sequence[Sequence[int]]) -> None:
        """Take the id, last offset and greatest timestamp of each run."""
        self._ids, self._last, self._max_timestamp = (array("q", column) for column in _columns(runs))

    def put(self, entry: RunEntry) -> None:
        """Take a run that was appended or joined to the last one; one that is known already changes nothing."""
        if self._ids and self._ids[-1] == entry.run_id:
            self._last[-1] = entry.last
            self._max_timestamp[-1] = entry.max_timestamp
        elif not self._last or entry.last > self._last[-1]:
            self._ids.append(entry.run_id)
            self._last.append(entry.last)
            self._max_timestamp.append(entry.max_timestamp)

    def trim(self, to: int) -> None:
        """Drop the runs that end before an offset."""
        gone = bisect_left(self._last, to)
        del self._ids[:gone], self._last[:gone], self._max_timestamp[:gone]

    def covering(self, offset: int) -> int | None:
        """The id of the first run that ends at or after an offset."""
        at = bisect_left(self._last, offset)
        return self._ids[at] if at < len(self._ids) else None

    def reaching(self, offset: int, timestamp_ms: int) -> int | None:
        """The id of the first run that ends at or after an offset and has a batch at or after a time."""
        start = bisect_left(self._last, offset)
        if start == len(self._ids):
            return None
        at = first_at_least(memoryview(self._max_timestamp), start, timestamp_ms)
        return self._ids[at] if at >= 0 else None

    def greatest(self, offset: int) -> int | None:
        """The id of the first run with the greatest timestamp among those that end at or after an offset."""
        start = bisect_left(self._last, offset)
        if start == len(self._ids):
            return None
        return self._ids[start + int(np.frombuffer(self._max_timestamp, np.int64)[start:].argmax())]


def _columns(runs: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    return tuple(zip(*runs, strict=True)) or ((), (), ())
