"""Batches of applied blocks as packed runs, and the sums of their hashes: all partitions at once, in loops over the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, pairwise
from typing import NamedTuple, Protocol

import numpy as np

from coordinator.core.files.block import Int64s, starts_of_equal
from coordinator.core.state.packing_loops import add_hashes, pack_stretches
from coordinator.core.tables.stored_rows import PACKED, ROW, Rows, RunRow, numbers_of
from coordinator.core.yielding import Rest, no_rest
from records.state_digest import U64, key_lanes

RUN_ROWS_MAX = 1000
"""Bounds what one lookup has to unpack. Two runs of 24 000 bytes fill three of the database's pages; 1024 batches would leave
a quarter of the space unused."""

INT32_MAX = (1 << 31) - 1
UINT32_MAX = (1 << 32) - 1

_SLICE_ROWS = 1 << 13
"""A loop holds the interpreter for so many rows, well below a millisecond."""

_BLOCKS_A_PIECE = 8


class Block(Protocol):
    """The packed part of an applied block: batches of partitions, named by their rows, in segments."""

    partition_rows: list[int]

    def lengths(self) -> Int64s:
        """How many batches each segment has."""

    def place(self, targets: memoryview[int], rows: memoryview[int]) -> None:
        """Write the batches of each segment to these lines of numbers, from its target on."""


class PackedRuns(NamedTuple):
    """The runs, and the sum of the hashes of each partition's batches, in the form of `state_digest.lanes_of`."""

    runs: list[RunRow]
    partition_rows: Int64s
    sums: U64


def pack_runs(blocks: Sequence[Block], keys: Mapping[int, bytes], rest: Rest = no_rest) -> PackedRuns:
    """Pack the batches of blocks in log order; `keys` are those of the partition rows."""
    owners = np.fromiter(chain.from_iterable([block.partition_rows for block in blocks]), np.int64)
    if not len(owners):
        return PackedRuns([], owners, np.empty((0, 2), np.uint64))
    lengths = np.concatenate([block.lengths() for block in blocks])
    rest()
    # Stable: blocks are in log order, so that every partition's batches stay in offset order.
    order = np.argsort(owners, kind="stable")
    ends = lengths[order].cumsum()
    targets = np.empty_like(ends)
    targets[order] = ends - lengths[order]
    rows = np.empty(int(ends[-1]), ROW)
    lines, places = numbers_of(rows).data, targets.data
    at = 0
    for number, block in enumerate(blocks):
        if number % _BLOCKS_A_PIECE == 0:
            rest()
        start, at = at, at + len(block.partition_rows)
        block.place(places[start:at], lines)
    rest()
    firsts = order[starts_of_equal(owners[order])]
    return _pack_partitions(rows, owners[firsts], [*targets[firsts].tolist(), len(rows)], keys, rest)


def batches_sum(key: bytes, rows: Rows) -> U64:
    """The sum of the hashes of some batches of a partition, in the form of `state_digest.lanes_of`."""
    sums = np.zeros((1, 2), np.uint64)
    numbers, lanes = numbers_of(rows).data, key_lanes(key)
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
    found = at = 0
    while at < len(partition):
        rest()
        start, at = at, max(at + 1, int(stops.searchsorted(starts[at] + _SLICE_ROWS, "right")))
        part = slice(start, at)
        found += pack_stretches(
            numbers, starts[part].data, stops[part].data, partition[part].data, lanes.data, packed.data, runs[found:].data, sums.data
        )
    rest()
    return PackedRuns(_run_rows(runs[:found], packed.data.cast("B"), partition_rows), partition_rows, sums)


def _run_rows(runs: Int64s, raw: memoryview[int], partition_rows: Int64s) -> list[RunRow]:
    owner, *columns, first, end = runs.T
    size = PACKED.itemsize
    data = [raw[start:stop].tobytes() for start, stop in zip((first * size).tolist(), (end * size).tolist(), strict=True)]
    return list(map(RunRow, partition_rows[owner].tolist(), *(column.tolist() for column in columns), data))
