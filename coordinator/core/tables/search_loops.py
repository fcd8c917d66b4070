"""Searches batches and columns for an offset or a time. Compiled when installed; the `.pxd` has the types.

Packed batches are cells of 32 bits, six per batch (`stored_rows.PACKED`), rows the lines of a two-dimensional array of int64 with
the columns of `stored_rows.ROW`. Arrays are memoryviews, so that the same lines see plain ints when they are not compiled.
"""

from __future__ import annotations


def first_at_least(values: memoryview[int], start: int, least: int) -> int:
    """The first place from `start` on with a value of at least `least`, or -1."""
    for at in range(start, len(values)):
        if values[at] >= least:
            return at
    return -1


def packed_reaching(
    cells: memoryview[int], place: int, base: int, end: int, log_start: int, timestamp_base: int, timestamp: int
) -> tuple[int, int]:
    """Find the first packed batch from `place` on that may reach a time; returns its place and its base offset, or (-1, -1).

    `base` is the base offset of the batch at `place`. Batches that end before `log_start`, or begin at `end` or later, do not
    count. One whose time is that of its file is taken for one that reaches it: the caller knows the file.
    """
    for batch in range(place, len(cells) // 6):
        if base >= end:
            break
        at = batch * 6
        count = cells[at]
        last = base + (count & 0x7FFFFFFF)
        if last >= log_start and (count >> 31 or timestamp_base + cells[at + 4] >= timestamp):
            return batch, base
        base = last + 1
    return -1, -1


def row_reaching(rows: memoryview[int], start: int, stop: int, log_start: int, timestamp: int) -> int:
    """The first row of `[start, stop)` that reaches a time and does not end before `log_start`, or -1."""
    for at in range(start, stop):
        time = rows[at, 7] if rows[at, 8] == 1 else rows[at, 6]
        if time >= timestamp and rows[at, 0] + rows[at, 1] > log_start:
            return at
    return -1


def unpack_batches(
    cells: memoryview[int], place: int, base: int, offset: int, end: int, file_base: int, timestamp_base: int, limit: int
) -> tuple[list[tuple[int, int, int, int, int, int, int, int]], int, int]:
    """Unpack at most `limit` batches from `place` on; returns them, and the place and the base offset of what follows them.

    `base`, `end` and `offset` are as in `packed_reaching` (`offset` for `log_start`). A batch is (base offset, record count,
    byte offset, size, file, index, timestamp, timestamp type); the place is -1 when none follows.
    """
    found: list[tuple[int, int, int, int, int, int, int, int]] = []
    for batch in range(place, len(cells) // 6):
        if base >= end:
            break
        if len(found) == limit:
            return found, batch, base
        at = batch * 6
        kind = cells[at] >> 31
        count = (cells[at] & 0x7FFFFFFF) + 1
        if base + count > offset:
            file, timestamp = file_base + cells[at + 3], timestamp_base + cells[at + 4]
            found.append((base, count, cells[at + 1], cells[at + 2], file, cells[at + 5], timestamp, kind))
        base = base + count
    return found, -1, base
