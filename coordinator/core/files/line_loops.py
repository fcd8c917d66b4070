"""Lines of applied files as rows of the state database, and sums of lines. Compiled when installed; the `.pxd` has the types."""

from __future__ import annotations

from records.lines import (
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


def place_batches(
    lines: memoryview[int], first: int, stop: int, bounds: memoryview[int], file_ids: memoryview[int], append_times: memoryview[int],
    owners: memoryview[int], rows: memoryview[int], to: int,
) -> int:  # fmt: skip
    """Write the accepted batches of lines as rows (`stored_rows.ROW`) from `to` on, and the partitions' rows as `owners`.

    Returns the place behind the last one.
    """
    for line in range(first, stop):
        if lines[line, VERDICT] != _ACCEPTED:
            continue
        file = lines[line, FILE]
        owners[to] = lines[line, ROW]
        rows[to, 0], rows[to, 1] = lines[line, BASE_OFFSET], lines[line, RECORD_COUNT]
        rows[to, 2], rows[to, 3] = lines[line, BYTE_OFFSET], lines[line, BYTE_SIZE]
        rows[to, 4], rows[to, 5] = file_ids[file], line - bounds[file]
        rows[to, 6], rows[to, 7], rows[to, 8] = lines[line, TIMESTAMP], append_times[file], lines[line, TIMESTAMP_TYPE]
        to += 1
    return to


def order_rows(rows: memoryview[int], order: memoryview[int], sorted_rows: memoryview[int]) -> None:
    """Copy rows in another order."""
    for to in range(len(order)):
        place = order[to]
        for cell in range(9):
            sorted_rows[to, cell] = rows[place, cell]


def count_lines(lines: memoryview[int], totals: memoryview[int]) -> None:
    """Add to `totals`, by verdict, how many batches there are, and behind the verdicts the records of the accepted ones."""
    for line in range(len(lines)):
        verdict = lines[line, VERDICT]
        totals[verdict] += 1
        if verdict == _ACCEPTED:
            totals[len(totals) - 1] += lines[line, RECORD_COUNT]
