"""Batches of applied files as packed runs, and the sums of their hashes: all partitions at once, in loops over the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np

from coordinator.core.files.logged import AppliedFiles, Int64s
from coordinator.core.state.packing_loops import add_hashes, pack_stretches
from coordinator.core.tables.stored_rows import PACKED, ROW, Rows, RunRow, numbers_of
from coordinator.core.yielding import Rest, no_rest
from records.state_digest import U64, key_lanes

RUN_ROWS_MAX = 1000
"""The most batches of a run, which bounds the work of a lookup: it unpacks one. Two runs of 24 000 bytes fill three of the database's
pages; 1024 batches would leave a quarter of the space unused."""

INT32_MAX = (1 << 31) - 1
UINT32_MAX = (1 << 32) - 1

_SLICE_ROWS = 1 << 13
"""A loop on the event loop takes so many rows at a time: the interpreter waits well below a millisecond."""

_FILES_A_PIECE = 8

_LOOKS_A_LINE = 100
"""Looking through so many counts takes as long as sorting the partition of a batch."""

_ROWS_AT_FIRST = 1 << 10
"""Up to so many partitions have places made in advance; where there are more, they are made as batches of them are found."""


class PackedRuns(NamedTuple):
    """The runs, and the sum of the hashes of each partition's batches, in the form of `state_digest.lanes_of`."""

    runs: list[RunRow]
    partition_rows: Int64s
    sums: U64


def pack_runs(applied: Sequence[AppliedFiles], keys: Mapping[int, bytes], rest: Rest = no_rest) -> PackedRuns:
    """Pack the batches of files in log order; `keys` are those of the partition rows."""
    counts = np.zeros(_ROWS_AT_FIRST, np.int64)
    for number, files in enumerate(applied):
        if number % _FILES_A_PIECE == 0:
            rest()
        counts = files.count_by_partition(counts)
    partition_rows = _with_batches(applied, counts)
    ends = counts[partition_rows].cumsum()
    if not len(ends):
        return PackedRuns([], partition_rows, np.empty((0, 2), np.uint64))
    places, end = counts, int(ends[-1])
    places[partition_rows] = ends - counts[partition_rows]
    bounds = [*places[partition_rows].tolist(), end]
    # Files are in log order, so that every partition's batches come in offset order.
    rows = np.empty(end, ROW)
    for number, files in enumerate(applied):
        if number % _FILES_A_PIECE == 0:
            rest()
        files.sort_into(numbers_of(rows), places)
    rest()
    return _pack_partitions(rows, partition_rows, bounds, keys, rest)


def _with_batches(applied: Sequence[AppliedFiles], counts: Int64s) -> Int64s:
    """The rows that have a count, ascending: found by the batches where these are few among very many partitions."""
    if sum(files.lines for files in applied) * _LOOKS_A_LINE >= len(counts):
        return counts.nonzero()[0]
    rows: Int64s = np.unique(np.concatenate([np.empty(0, np.int64), *(files.partition_rows() for files in applied)]))
    # A batch that was not accepted may name a row without a place.
    rows = rows[(rows >= 0) & (rows < len(counts))]
    rows = rows[counts[rows] > 0]
    return rows


def batches_sum(lanes: tuple[int, int], rows: Rows) -> U64:
    """The sum of the hashes of some batches of the partition with these lanes, in the form of `state_digest.lanes_of`."""
    sums = np.zeros((1, 2), np.uint64)
    numbers = numbers_of(rows).data
    for start in range(0, len(rows), _SLICE_ROWS):
        add_hashes(numbers, start, min(start + _SLICE_ROWS, len(rows)), *lanes, sums.data, 0)
    return sums


def _pack_partitions(rows: Rows, partition_rows: Int64s, bounds: list[int], keys: Mapping[int, bytes], rest: Rest) -> PackedRuns:
    """Pack sorted rows; those of `partition_rows[i]` are `rows[bounds[i]:bounds[i + 1]]`."""
    stretches_of = [range(start, stop, RUN_ROWS_MAX) for start, stop in pairwise(bounds)]
    partition = np.arange(len(stretches_of)).repeat(list(map(len, stretches_of)))
    starts = np.fromiter(chain.from_iterable(stretches_of), np.int64, len(partition))
    stops = np.append(starts[1:], len(rows))
    numbers = numbers_of(rows).data
    lanes = np.array([key_lanes(keys[row]) for row in partition_rows.tolist()], np.int64)
    sums = np.zeros((len(partition_rows), 2), np.uint64)
    packed = np.empty((len(rows), PACKED.itemsize // 4), np.uint32)
    # As many as there are rows, when none fits beside another.
    runs = np.empty((len(rows), 8), np.int64)
    found = pack_stretches(numbers, starts.data, stops.data, partition.data, lanes.data, packed.data, runs.data, sums.data)
    rest()
    return PackedRuns(_run_rows(runs[:found], packed.data.cast("B"), partition_rows), partition_rows, sums)


def _run_rows(runs: Int64s, raw: memoryview[int], partition_rows: Int64s) -> list[RunRow]:
    owner, *columns, first, end = runs.T
    size = PACKED.itemsize
    data = [raw[start:stop].tobytes() for start, stop in zip((first * size).tolist(), (end * size).tolist(), strict=True)]
    return list(map(RunRow, partition_rows[owner].tolist(), *(column.tolist() for column in columns), data))
