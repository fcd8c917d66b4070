"""The rules of `records.file_checks` over the columns of many files at once.

Values are looked at column by column, all files together, and file by file only where a column breaks a rule.
"""

from __future__ import annotations

import numpy as np

from records.bulk_cut import COLUMNS
from records.bulk_head import Mask
from records.file_checks import COLUMN_HIGHS, COLUMN_LOWS
from records.varints import Int64s

_LOWS = np.array([*COLUMN_LOWS, 0])
_HIGHS = np.array([*COLUMN_HIGHS, 0])
"""The messages of other batches are the last column: of each, the size, which is 0 as long as it is empty."""

_ROW = {name: row for row, name in enumerate(COLUMNS)}
_SAFE = 1 << 61
"""Two numbers within this distance of 0 have a sum and a difference of 64 bits, whatever they are."""


def sums_of(values: Int64s, counts: Int64s) -> Int64s:
    """The sum of each stretch of values, given how long the stretches are."""
    sums = np.zeros(len(values) + 1, np.int64)
    values.cumsum(out=sums[1:])
    ends = counts.cumsum()
    totals: Int64s = sums[ends] - sums[ends - counts]
    return totals


def have_lengths(counts: Int64s) -> Mask:
    """Which files have columns that agree in length."""
    runs, batches = counts[_ROW["run_topic"]], counts[_ROW["byte_size"]]
    producers, others = counts[_ROW["producer_index"]], counts[_ROW["other_index"]]
    sound = np.ones(len(runs), bool)
    for names, length in (
        (("run_partition", "run_length", "run_base_offset"), runs),
        (("record_count_minus_one", "timestamp_age"), batches),
        (("producer_id", "producer_epoch", "base_sequence"), producers),
        (("other_code", "other_base_offset", "other_time", "other_log_start", "other_message"), others),
    ):
        for name in names:
            sound &= counts[_ROW[name]] == length
    for name, length in (("run_log_start", runs), ("byte_gap", batches), ("timestamp_type", batches)):
        sound &= (counts[_ROW[name]] == 0) | (counts[_ROW[name]] == length)
    return sound


class Checker:
    """The columns of files whose lengths agree, as `Cut.gather` returns them; `sound` is what the rules leave of the files."""

    def __init__(self, numbers: Int64s, bounds: Int64s, counts: Int64s) -> None:
        self.sound: Mask = np.ones(counts.shape[1], bool)
        self._numbers, self._bounds, self._counts = numbers, bounds.tolist(), counts

    def check(self, topic_count: Int64s, append_time_ms: Int64s) -> None:
        """Apply every rule."""
        extremes = self._check_ranges()
        self._check_indexes(topic_count)
        self._check_offsets(extremes["run_base_offset"][1])
        self._check_times(append_time_ms, extremes["timestamp_age"])
        self._check_positions()

    def _column(self, name: str) -> Int64s:
        row = _ROW[name]
        return self._numbers[self._bounds[row] : self._bounds[row + 1]]

    def _count(self, name: str) -> Int64s:
        counts: Int64s = self._counts[_ROW[name]]
        return counts

    def _refuse(self, name: str, is_bad: Mask) -> None:
        """Refuse the files that have a bad value in a column."""
        places = is_bad.nonzero()[0]
        if len(places):
            self.sound[np.searchsorted(self._count(name).cumsum(), places, "right")] = False

    def _check_ranges(self) -> dict[str, tuple[int, int]]:
        """Check the range of each column; returns the extremes, (0, 0) of an empty column."""
        starts = np.array(self._bounds[:-1])
        filled = (starts < self._bounds[1:]).nonzero()[0]
        extremes = dict.fromkeys(COLUMNS, (0, 0))
        if len(filled):
            least = np.minimum.reduceat(self._numbers, starts[filled])
            greatest = np.maximum.reduceat(self._numbers, starts[filled])
            for row, low, high in zip(filled.tolist(), least.tolist(), greatest.tolist(), strict=True):
                extremes[COLUMNS[row]] = (low, high)
            for row in filled[(least < _LOWS[filled]) | (greatest > _HIGHS[filled])].tolist():
                values = self._column(COLUMNS[row])
                self._refuse(COLUMNS[row], (values < _LOWS[row]) | (values > _HIGHS[row]))
        return extremes

    def _check_indexes(self, topic_count: Int64s) -> None:
        runs, batches, others = self._count("run_topic"), self._count("byte_size"), self._count("other_index")
        self._refuse("run_topic", self._column("run_topic") >= topic_count.repeat(runs))
        self.sound &= sums_of(self._column("run_length"), runs) == batches
        self._check_distances("producer_index", batches)
        self._check_distances("other_index", batches + others)

    def _check_distances(self, name: str, limit: Int64s) -> None:
        distance, counts = self._column(name), self._count(name)
        if not len(distance):
            return
        self.sound &= (counts == 0) | (sums_of(distance, counts) < limit)
        # Only the first distance of a file may be 0: another one names the same place twice.
        twice = distance == 0
        twice[(counts.cumsum() - counts)[counts > 0]] = False
        self._refuse(name, twice)

    def _check_offsets(self, base_offset_max: int) -> None:
        if base_offset_max < _SAFE:  # fewer than 2^61 records follow: 2^31 per batch, and every batch takes bytes
            return
        records = sums_of(self._column("record_count_minus_one"), self._count("byte_size")) + self._count("byte_size")
        room = np.iinfo(np.int64).max - records
        self._refuse("run_base_offset", self._column("run_base_offset") > room.repeat(self._count("run_base_offset")))

    def _check_times(self, append_time_ms: Int64s, ages: tuple[int, int]) -> None:
        if not len(append_time_ms) or (
            min(int(append_time_ms.min()), ages[0]) > -_SAFE and max(int(append_time_ms.max()), ages[1]) < _SAFE
        ):
            return
        append_time, age = append_time_ms.repeat(self._count("timestamp_age")), self._column("timestamp_age")
        # A difference overflows when its signs say so: unlike operands, and a result unlike the first of them.
        self._refuse("timestamp_age", ((append_time ^ age) & (append_time ^ (append_time - age))) < 0)

    def _check_positions(self) -> None:
        counts, batches = self._count("byte_gap"), self._count("byte_size")
        if not counts.any():
            return
        gap, size = self._column("byte_gap"), self._column("byte_size")
        if len(gap) != len(size):
            size = size[np.repeat(counts > 0, batches)]
        # Beyond 64 bits sums wrap. The first position that leaves [0, 2^63) is negative then: a step is at most 2^63.
        end = (gap + size).cumsum()
        first = (counts.cumsum() - counts)[counts > 0]
        before = end[first] - gap[first] - size[first]
        end -= before.repeat(counts[counts > 0])
        self._refuse("byte_gap", (end < 0) | (end - size < 0))
