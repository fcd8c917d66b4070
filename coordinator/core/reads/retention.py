"""Finds the batches at the beginning of a partition that are past its retention: Kafka's rules, applied to batches instead of segments.

By time, batches up to the first one that is young enough are past it; the time of a batch is its greatest timestamp, or the append time of
its file where it has none. By size, the oldest batches are past it as long as `retention.bytes` are left. A look is bounded (`RUNS_A_LOOK`)
and changes nothing: the caller keeps the result (`Known`), has the records deleted through the log, and looks again: at the same
batches and by the same time, or looks would never end at a partition that batches come to and expire in.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from coordinator.core.reads.queries import file_of_batch
from coordinator.core.state.lookups import Lookups
from coordinator.core.tables.stored_rows import APPEND_TIME_BIT, PACKED_CELLS, Rows, WrittenRun, unpack
from coordinator.core.tables.stretches import is_released
from coordinator.kafka.topic_configs import UNLIMITED_RETENTION, Retention

RUNS_A_LOOK = 16
"""Runs that are read in one look, of up to 1000 batches each: less than a millisecond."""


class Known(NamedTuple):
    """Cached result of earlier scans of a partition that begins at `log_start`.

    The batches of `[log_start, counted_to)` have `counted_bytes`. `oldest_ms` is the time of the first batch, None when it is unknown;
    the batch ends before `oldest_end`.
    """

    log_start: int
    counted_to: int
    counted_bytes: int = 0
    oldest_ms: int | None = None
    oldest_end: int = -1


class Bound(NamedTuple):
    """What looks go by that follow each other: a time of the log's clock, and batches before an offset."""

    now_ms: int
    end: int = 2**63 - 1


class LookedAt(NamedTuple):
    """The result of a look: `batches` with `size_bytes`, in the records of `[log_start, delete_to)`, are past retention.

    `known` is what is known once they are deleted; with `has_more` the next look, by the same `bound`, may find more at once.
    """

    known: Known
    log_start: int
    delete_to: int
    bound: Bound
    batches: int = 0
    size_bytes: int = 0
    has_more: bool = False


class _Past(NamedTuple):
    """Batches from the log start on that are past retention; the others are of the first that is not, as in `Known`."""

    end: int
    batches: int
    size_bytes: int
    oldest_ms: int | None = None
    oldest_end: int = -1


def look_at(state: Lookups, topic_id: bytes, partition: int, retention: Retention, bound: Bound, known: Known | None) -> LookedAt | None:
    """Look at a partition; None when it does not exist. The bound of the result ends where the partition does, if not before.

    A `known` whose log start is further on than the state's is taken for the state after the deletion that an earlier look proposed.
    Of a partition that moved, the owner looks at sizes only while batches are left elsewhere, which are older; the coordinators that have
    those look at times (`look_at_released`).
    """
    table = state.hot.partitions
    row = table.find(topic_id, partition)
    if row is None:
        return None
    if is_released(table, row):
        return _nothing(Known(table.log_start.cells[row], table.log_start.cells[row]), bound)
    if table.log_start.cells[row] < state.hot.stretch_of(topic_id, partition).base_offset:
        retention = retention._replace(ms=UNLIMITED_RETENTION.ms)
    return _look(state, row, retention, bound, known)


def look_at_released(state: Lookups, topic_id: bytes, partition: int, retention: Retention, bound: Bound) -> LookedAt | None:
    """Look at the times of a stretch that ended in a move, once the stretches before it are gone; None when it is not here."""
    table = state.hot.partitions
    row = table.find(topic_id, partition)
    if row is None or not is_released(table, row) or table.log_start.cells[row] < state.hot.stretch_of(topic_id, partition).base_offset:
        return None
    return _look(state, row, retention._replace(size_bytes=UNLIMITED_RETENTION.size_bytes), bound, None)


def _look(state: Lookups, row: int, retention: Retention, bound: Bound, known: Known | None) -> LookedAt:
    table = state.hot.partitions
    log_start, high_watermark = table.log_start.cells[row], table.high_watermark.cells[row]
    bound = bound._replace(end=min(bound.end, high_watermark))
    if known is None or known.log_start < log_start:
        known = Known(log_start, log_start)
    if known.log_start >= bound.end:
        return _nothing(Known(known.log_start, known.log_start), bound)
    if retention.ms >= 0:
        cutoff_ms = bound.now_ms - retention.ms
        if known.oldest_ms is None or known.oldest_ms < cutoff_ms:
            past = _older(state, row, known.log_start, bound.end, cutoff_ms)
            if past.batches:
                return _deletion(known, past, bound)
            known = known._replace(oldest_ms=past.oldest_ms, oldest_end=past.oldest_end)
    if retention.size_bytes < 0:
        return _nothing(known, bound)
    known = _counted(state, row, known, bound.end)
    if known.counted_to < bound.end:
        return _nothing(known, bound, has_more=True)
    past = _oldest(state, row, known.log_start, bound.end, known.counted_bytes - retention.size_bytes)
    return _deletion(known, past, bound) if past.batches else _nothing(known, bound)


def _nothing(known: Known, bound: Bound, *, has_more: bool = False) -> LookedAt:
    return LookedAt(known, known.log_start, known.log_start, bound, has_more=has_more)


def _deletion(known: Known, past: _Past, bound: Bound) -> LookedAt:
    if known.counted_to >= past.end:
        after = Known(past.end, known.counted_to, known.counted_bytes - past.size_bytes, past.oldest_ms, past.oldest_end)
    else:
        after = Known(past.end, past.end, 0, past.oldest_ms, past.oldest_end)
    return LookedAt(after, known.log_start, past.end, bound, past.batches, past.size_bytes, has_more=True)


def _parts(state: Lookups, row: int, start: int, end: int) -> Iterator[_Part]:
    """The batches from an offset on and before another, run by run, as many as one look reads."""
    for run in islice(state.runs_from(row, start), RUNS_A_LOOK):
        part = _WrittenPart(run, start, end) if isinstance(run, WrittenRun) else _Part(run.rows(), start, end)
        if len(part.sizes):
            yield part


def _older(state: Lookups, row: int, log_start: int, end: int, cutoff_ms: int) -> _Past:
    past, batches, size_bytes = log_start, 0, 0
    for part in _parts(state, row, log_start, end):
        old = part.first_young(state, cutoff_ms)
        if old:
            past = part.end_of(old)
            batches += old
            size_bytes += int(part.sizes[:old].sum())
        if old < len(part.sizes):
            return _Past(past, batches, size_bytes, part.time_of(state, old), part.end_of(old + 1))
    return _Past(past, batches, size_bytes)


def _counted(state: Lookups, row: int, known: Known, end: int) -> Known:
    """Count the batches behind those that were counted. A partition that moved here may have none before the end."""
    counted_to, size_bytes = end, known.counted_bytes
    for part in _parts(state, row, known.counted_to, end):
        counted_to = part.end_of(len(part.sizes))
        size_bytes += int(part.sizes.sum())
    return known._replace(counted_to=counted_to, counted_bytes=size_bytes)


def _oldest(state: Lookups, row: int, log_start: int, end: int, excess_bytes: int) -> _Past:
    """The oldest batches that have no more than some bytes together."""
    past, batches, size_bytes = log_start, 0, 0
    for part in _parts(state, row, log_start, end) if excess_bytes > 0 else ():
        sums = np.cumsum(part.sizes)
        count = int(np.searchsorted(sums, excess_bytes - size_bytes, "right"))
        if count:
            past = part.end_of(count)
            batches += count
            size_bytes += int(sums[count - 1])
        if count < len(sums):
            break
    return _Past(past, batches, size_bytes)


class _Part:
    """The batches of a run that end after an offset and begin before another; `sizes` are their bytes."""

    def __init__(self, rows: Rows, start: int, end: int) -> None:
        self._rows = rows[(rows["base"] + rows["count"] > start) & (rows["base"] < end)]
        self.sizes: npt.NDArray[np.int64] = self._rows["size"]

    def end_of(self, count: int) -> int:
        """The offset after the first `count` batches, at least one."""
        return int(self._rows["base"][count - 1] + self._rows["count"][count - 1])

    def first_young(self, state: Lookups, cutoff_ms: int) -> int:
        """The place of the first batch that is not older than a time; the number of batches when all are."""
        rows = self._rows
        is_of_file = (rows["type"] == 1) | (rows["timestamp"] < 0)
        young = np.flatnonzero(~is_of_file & (rows["timestamp"] >= cutoff_ms))
        first = int(young[0]) if len(young) else len(rows)
        # Append times never go back, so few of them have to be looked up.
        places = np.flatnonzero(is_of_file[:first]).tolist()
        found = bisect_left(places, cutoff_ms, key=lambda place: self.time_of(state, place))
        return int(places[found]) if found < len(places) else first

    def time_of(self, state: Lookups, at: int) -> int:
        """The time of a batch."""
        row = self._rows[at]
        timestamp = int(row["timestamp"])
        if timestamp >= 0 and row["type"] == 0:
            return timestamp
        return int(row["append_time"]) or file_of_batch(state, int(row["file"])).append_time_ms


class _WrittenPart(_Part):
    """Batches of a packed run, unpacked only if some have no timestamp of their own: an operation on each column is what a look costs."""

    def __init__(self, written: WrittenRun, start: int, end: int) -> None:
        run, run_end = written
        end = min(run_end, end)
        cells = np.frombuffer(run.data, "<u4").reshape(-1, PACKED_CELLS)
        counts = (cells[:, 0] & (APPEND_TIME_BIT - 1)).astype(np.int64) + 1
        ends = run.base + counts.cumsum()
        first = 0 if run.base >= start else int(ends.searchsorted(start, "right"))
        stop = len(cells) if run.last < end else int((ends - counts).searchsorted(end))
        self._run = run
        self._ends = ends[first:stop]
        self._times = cells[first:stop, 4]
        self._is_packed = run.timestamp_base >= 0 and int(cells[:, 0].max(initial=0)) < APPEND_TIME_BIT
        self.sizes = cells[first:stop, 2].astype(np.int64)
        if not self._is_packed:
            self._rows = unpack(run)[first:stop]

    def end_of(self, count: int) -> int:
        return int(self._ends[count - 1])

    def first_young(self, state: Lookups, cutoff_ms: int) -> int:
        if not self._is_packed:
            return super().first_young(state, cutoff_ms)
        if self._run.max_timestamp < cutoff_ms:
            return len(self._times)
        # A distance from the base of the run is not negative.
        is_young = self._times >= max(0, cutoff_ms - self._run.timestamp_base)
        at = int(is_young.argmax())
        return at if is_young[at] else len(is_young)

    def time_of(self, state: Lookups, at: int) -> int:
        return self._run.timestamp_base + int(self._times[at]) if self._is_packed else super().time_of(state, at)
