"""Fills rows of batches (`cold.ROW`) from blocks and records. Compiled when installed; the `.pxd` has the types.

Rows are the lines of a two-dimensional array of int64, the fields of `ROW` their columns. `targets` say where the rows of
each segment or run go, so that many blocks can share one array. Arrays are memoryviews, so that the same lines see plain
ints when they are not compiled.
"""

from __future__ import annotations

from coordinator.core.tables.scratch import BASE, BYTE_OFFSET, COUNT, FILE_OF, ORDER, SIZE, STARTS, STOPS, TIMESTAMP, TYPE


def place_columns(
    columns: memoryview[int],
    targets: memoryview[int],
    file_ids: list[int],
    first_batch: list[int],
    append_time: int,
    rows: memoryview[int],
) -> None:
    """Write the batches of a `CommitBlock`, which has these columns; those of each segment go to its target."""
    for segment in range(len(targets)):
        to = targets[segment]
        for place in range(columns[STARTS, segment], columns[STOPS, segment]):
            at = columns[ORDER, place]
            file = columns[FILE_OF, at]
            rows[to, 0] = columns[BASE, at]
            rows[to, 1] = columns[COUNT, at]
            rows[to, 2] = columns[BYTE_OFFSET, at]
            rows[to, 3] = columns[SIZE, at]
            rows[to, 4] = file_ids[file]
            first = first_batch[file]
            rows[to, 5] = at - first
            rows[to, 6] = columns[TIMESTAMP, at]
            rows[to, 7] = append_time
            rows[to, 8] = columns[TYPE, at]
            to += 1


def place_record(
    run_length: list[int],
    run_base_offset: list[int],
    record_count_minus_one: list[int],
    byte_gap: list[int],
    byte_size: list[int],
    timestamp_age: list[int],
    timestamp_type: list[int],
    targets: memoryview[int],
    file_id: int,
    append_time: int,
    rows: memoryview[int],
) -> None:
    """Write the batches of a `FileCommitted`; no gaps and no types stand for zeros."""
    at = end = 0
    has_gaps, has_types = len(byte_gap) > 0, len(timestamp_type) > 0
    for run in range(len(run_length)):
        to, offset = targets[run], run_base_offset[run]
        length = run_length[run]
        for _ in range(length):
            # What is in a list is a Python number until it has a C variable: nothing is added to it before.
            count, size, age = record_count_minus_one[at], byte_size[at], timestamp_age[at]
            count += 1
            gap = byte_gap[at] if has_gaps else 0
            rows[to, 0] = offset
            rows[to, 1] = count
            rows[to, 2] = end + gap
            rows[to, 3] = size
            rows[to, 4] = file_id
            rows[to, 5] = at
            rows[to, 6] = append_time - age
            rows[to, 7] = append_time
            rows[to, 8] = timestamp_type[at] if has_types else 0
            end += gap + size
            offset += count
            at += 1
            to += 1
