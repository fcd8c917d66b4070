"""Lines of applied files as rows of the state database, and sums of lines. Compiled when installed; the `.pxd` has the types."""

from __future__ import annotations

try:
    import cython
except ImportError:
    from records import interpreted_cython as cython

from records.committed_files.lines import (
    BASE_OFFSET,
    BYTE_OFFSET,
    BYTE_SIZE,
    FILE,
    RECORD_COUNT,
    ROW,
    TIMESTAMP,
    TIMESTAMP_TYPE,
    VERDICT,
    BatchVerdict,
)

_ACCEPTED = int(BatchVerdict.ACCEPTED)

_LINES_WITH_LOCK = 1 << 11
"""Loops over up to this number of lines keep the interpreter lock: they take 0.2 ms, less than getting the lock back may take."""


def place_batches(
    lines: memoryview[int], first: int, stop: int, bounds: memoryview[int], file_ids: memoryview[int], append_times: memoryview[int],
    owners: memoryview[int], rows: memoryview[int], to: int,
) -> int:  # fmt: skip
    """Write the accepted batches of lines as rows (`stored_rows.ROW`) from `to` on, and the partitions' rows as `owners`.

    Returns the place after the last one.
    """
    for line in range(first, stop):
        if lines[line, VERDICT] != _ACCEPTED:
            continue
        owners[to] = lines[line, ROW]
        _put_row(lines, line, bounds, file_ids, append_times, rows, to)
        to += 1
    return to


def count_batches(lines: memoryview[int], first: int, stop: int, counts: memoryview[int]) -> int:
    """Count accepted batches by the rows of their partitions. Returns the first line whose row has no place in `counts`, or `stop`."""
    if stop - first <= _LINES_WITH_LOCK:
        return _count_batches(lines, first, stop, counts)
    with cython.nogil:
        return _count_batches(lines, first, stop, counts)


def _count_batches(lines: memoryview[int], first: int, stop: int, counts: memoryview[int]) -> int:
    """Do the work of `count_batches`."""
    known = len(counts)
    for line in range(first, stop):
        if lines[line, VERDICT] != _ACCEPTED:
            continue
        row = lines[line, ROW]
        if row >= known:
            return line
        counts[row] += 1
    return stop


def sort_batches(
    lines: memoryview[int], first: int, stop: int, bounds: memoryview[int], file_ids: memoryview[int], append_times: memoryview[int],
    places: memoryview[int], rows: memoryview[int],
) -> None:  # fmt: skip
    """Write the accepted batches of lines as rows (`stored_rows.ROW`), each at the place of its partition, which moves on by one."""
    if stop - first <= _LINES_WITH_LOCK:
        _sort_batches(lines, first, stop, bounds, file_ids, append_times, places, rows)
        return
    with cython.nogil:
        _sort_batches(lines, first, stop, bounds, file_ids, append_times, places, rows)


def _sort_batches(
    lines: memoryview[int], first: int, stop: int, bounds: memoryview[int], file_ids: memoryview[int], append_times: memoryview[int],
    places: memoryview[int], rows: memoryview[int],
) -> None:  # fmt: skip
    """Do the work of `sort_batches`."""
    for line in range(first, stop):
        if lines[line, VERDICT] != _ACCEPTED:
            continue
        owner = lines[line, ROW]
        to = places[owner]
        places[owner] = to + 1
        _put_row(lines, line, bounds, file_ids, append_times, rows, to)


def _put_row(
    lines: memoryview[int], line: int, bounds: memoryview[int], file_ids: memoryview[int], append_times: memoryview[int],
    rows: memoryview[int], to: int,
) -> None:  # fmt: skip
    """Write a batch as a row."""
    file = lines[line, FILE]
    rows[to, 0], rows[to, 1] = lines[line, BASE_OFFSET], lines[line, RECORD_COUNT]
    rows[to, 2], rows[to, 3] = lines[line, BYTE_OFFSET], lines[line, BYTE_SIZE]
    rows[to, 4], rows[to, 5] = file_ids[file], line - bounds[file]
    rows[to, 6], rows[to, 7], rows[to, 8] = lines[line, TIMESTAMP], append_times[file], lines[line, TIMESTAMP_TYPE]


def count_lines(lines: memoryview[int], totals: memoryview[int]) -> None:
    """Add to `totals`, by verdict, how many batches there are, and after the verdicts the records of the accepted ones."""
    for line in range(len(lines)):
        verdict = lines[line, VERDICT]
        totals[verdict] += 1
        if verdict == _ACCEPTED:
            totals[len(totals) - 1] += lines[line, RECORD_COUNT]
