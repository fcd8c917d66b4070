"""Counts deleted batches of partitions out of their files, and their hashes out of the state digest, some at a time.

A packed run is gone through by a compiled loop, without unpacking it: deleting costs every batch that was ever committed.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from coordinator.core.state.packing_loops import take_out_run
from coordinator.core.state.run_packing import batches_sum
from coordinator.core.state.unwritten import Generation, UnwrittenRun
from coordinator.core.tables.in_memory import BrokenInvariant
from coordinator.core.tables.stored_rows import PACKED_CELLS, WrittenRun
from records.state_digest import U64, Int64s, key_lanes

RUN_COST = 50
"""The cost of reading a run, in batches counted out."""


class TakenOut:
    """The batches that one step of trimming takes out of a state; `generation` is told by `count`."""

    def __init__(self, generation: Generation) -> None:
        self._generation = generation
        self._files: list[Int64s] = []

    def take(
        self, runs: Iterator[WrittenRun | UnwrittenRun], row: int, key: bytes, start: int, target: int, budget: int
    ) -> tuple[int, int]:
        """Take out batches of a partition from `start` on, up to `target` or as far as the budget reaches.

        Returns the offset that is reached, and the cost. Raises `BrokenInvariant` when the batches are not there.
        """
        cost, lanes = 0, key_lanes(key)
        sums = self._generation.trimmed_sums.setdefault(row, np.zeros((1, 2), np.uint64))
        for run in runs:
            part = (
                _take_written(run, lanes, start, target, sums)
                if isinstance(run, WrittenRun)
                else _take_rows(run, lanes, start, target, sums)
            )
            if part is None:
                raise BrokenInvariant(f"no batch holds offset {start} of row {row}, which is to be counted out of its file")
            files, behind = part
            self._files.append(files)
            cost += len(files) + RUN_COST
            start = min(behind, target)
            if start >= target or cost >= budget:
                return start, cost
        raise BrokenInvariant(f"the batches of row {row} end at {start}, before {target}, up to which they were deleted")

    def count(self) -> None:
        """Count the batches out of their files."""
        for files in self._files:
            self._generation.lose(files)


def _take_written(written: WrittenRun, lanes: tuple[int, int], start: int, target: int, sums: U64) -> tuple[Int64s, int] | None:
    """The files of the batches that go, and the offset behind the last one looked at; None when no batch holds `start`."""
    run, end = written
    if not run.data or not run.base <= start or run.base >= end:
        return None
    cells = memoryview(run.data).cast("I")
    files, behind = np.empty(len(cells) // PACKED_CELLS, np.int64), np.empty(1, np.int64)
    gone = take_out_run(
        cells, run.base, run.file_base, run.timestamp_base, start, target, end, *lanes, sums.data, files.data, behind.data
    )  # fmt: skip
    return files[:gone], int(behind[0])


def _take_rows(run: UnwrittenRun, lanes: tuple[int, int], start: int, target: int, sums: U64) -> tuple[Int64s, int] | None:
    """Do as `_take_written`, for batches that are not written."""
    rows = run.rows()
    if not len(rows) or run.base > start:
        return None
    ends = rows["base"] + rows["count"]
    gone = rows[(ends > start) & (ends <= target)]
    sums += batches_sum(lanes, gone)
    return gone["file"], int(ends[-1])
