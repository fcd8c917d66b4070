"""Joins the last, short run of a partition with the one that follows it.

Under light load every write brings a partition only a few batches; left alone, the row and index entry around them would
outweigh them, and a lookup far back would have to page through thousands of rows.
"""

from __future__ import annotations

from coordinator.core.state.packing_loops import count_from_lower_bases
from coordinator.core.state.run_packing import INT32_MAX, RUN_ROWS_MAX
from coordinator.core.tables.stored_rows import PACKED, RunRow

SHORT_RUN_ROWS = 64
"""A run this long stays as it is: it carries about one byte of overhead per batch, and rewriting it would cost more."""


def is_short(run: RunRow) -> bool:
    """Whether a later run may be joined to this one."""
    return len(run.data) < SHORT_RUN_ROWS * PACKED.itemsize


def joined(first: RunRow, second: RunRow) -> RunRow | None:
    """Both runs as one, or None when they are not adjacent or do not fit the packed form."""
    if second.base != first.last + 1 or len(first.data) + len(second.data) > RUN_ROWS_MAX * PACKED.itemsize:
        return None
    file_base = min(first.file_base, second.file_base)
    timestamp_base = min(first.timestamp_base, second.timestamp_base)
    if max(first.timestamp_base, second.timestamp_base) - timestamp_base > INT32_MAX:
        return None
    both = bytearray(first.data + second.data)
    cells = memoryview(both).cast("I")
    seam, end = len(first.data) // PACKED.itemsize, len(both) // PACKED.itemsize
    for start, stop, run in ((0, seam, first), (seam, end, second)):
        if not count_from_lower_bases(cells, start, stop, run.file_base - file_base, run.timestamp_base - timestamp_base):
            return None
    return RunRow(
        first.partition_row,
        first.base,
        second.last,
        max(first.max_timestamp, second.max_timestamp),
        file_base,
        timestamp_base,
        bytes(both),
    )
