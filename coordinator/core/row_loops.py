"""Fills rows of batches (`cold.ROW`) from blocks and records. Compiled when installed; the `.pxd` has the types.

Rows are the lines of a two-dimensional array of int64, the fields of `ROW` their columns. `targets` say where the rows of
each segment or run go, so that many blocks can share one array. Arrays are memoryviews, so that the same lines see plain
ints when they are not compiled.
"""

from __future__ import annotations


def place_columns(
    order: memoryview[int],
    starts: memoryview[int],
    stops: memoryview[int],
    targets: memoryview[int],
    file_ids: memoryview[int],
    first_batch: memoryview[int],
    append_times: memoryview[int],
    file_of: memoryview[int],
    base: memoryview[int],
    count: memoryview[int],
    byte_offset: memoryview[int],
    size: memoryview[int],
    timestamp: memoryview[int],
    timestamp_type: memoryview[int],
    rows: memoryview[int],
) -> None:
    """Write the batches of a block; segment s is those at `order[starts[s]:stops[s]]`."""
    for segment in range(len(starts)):
        to = targets[segment]
        for place in range(starts[segment], stops[segment]):
            at = order[place]
            file = file_of[at]
            rows[to, 0] = base[at]
            rows[to, 1] = count[at]
            rows[to, 2] = byte_offset[at]
            rows[to, 3] = size[at]
            rows[to, 4] = file_ids[file]
            rows[to, 5] = at - first_batch[file]
            rows[to, 6] = timestamp[at]
            rows[to, 7] = append_times[file]
            rows[to, 8] = timestamp_type[at]
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
