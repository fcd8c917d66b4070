"""Applying a block to the hot tables: the loops. Compiled when installed; the `.pxd` has the types.

`columns` are those of a `CommitBlock`, `of_batch` and `of_producer` the tables of `ProducerColumns`; `scratch` names their rows.
Arrays are memoryviews, so that the same lines see plain ints when not compiled.
"""

from __future__ import annotations

from coordinator.core.tables.scratch import (
    AT,
    BASE,
    COUNT,
    FIRST_SEQUENCE,
    ITS_EPOCH,
    ITS_ID,
    LAST_SEQUENCE,
    ORDER,
    PRODUCER_SEGMENT,
    PRODUCER_START,
    STARTS,
    STOPS,
    TIMESTAMP,
    TYPE,
)


def advance_partitions(
    rows: list[int],
    columns: memoryview[int],
    append_time: int,
    high_watermark: memoryview[int],
    max_timestamp: memoryview[int],
    max_timestamp_offset: memoryview[int],
) -> int:
    """Move high watermarks behind the batches of each partition, and keep its greatest effective timestamp.

    Segment i is the partition in `rows[i]`. That timestamp's offset is the last one of the first batch that has it.
    Changes nothing and returns the first `i` whose batches do not begin at the high watermark; -1 is success.
    """
    for segment in range(len(rows)):
        row, place = rows[segment], columns[ORDER, columns[STARTS, segment]]
        if columns[BASE, place] != high_watermark[row]:
            return segment
    for segment in range(len(rows)):
        row = rows[segment]
        greatest = max_timestamp[row]
        place = 0
        for at in range(columns[STARTS, segment], columns[STOPS, segment]):
            place = columns[ORDER, at]
            # 1: LogAppendTime
            effective = append_time if columns[TYPE, place] == 1 else columns[TIMESTAMP, place]
            if effective > greatest:
                greatest = max_timestamp[row] = effective
                max_timestamp_offset[row] = columns[BASE, place] + columns[COUNT, place] - 1
        high_watermark[row] = columns[BASE, place] + columns[COUNT, place]
    return -1


def find_strangers(
    slots: list[int],
    of_producer: memoryview[int],
    rows: list[int],
    owner: memoryview[int],
    producer: memoryview[int],
    top: int,
) -> list[int]:
    """The producers whose slot is not the row of theirs in the table, whose rows end at `top`; slots may be any numbers."""
    strangers: list[int] = []
    for number in range(len(slots)):
        slot = slots[number]
        partition_row = rows[of_producer[PRODUCER_SEGMENT, number]]
        if slot < 0 or slot >= top or owner[slot] != partition_row or producer[slot] != of_producer[ITS_ID, number]:
            strangers.append(number)
    return strangers


def remember_batches(
    slots: list[int],
    of_producer: memoryview[int],
    of_batch: memoryview[int],
    found: int,
    columns: memoryview[int],
    append_time: int,
    table_epoch: memoryview[int],
    head: memoryview[int],
    remembered: memoryview[int],
    last_append: memoryview[int],
    ring_first: memoryview[int],
    ring_last: memoryview[int],
    ring_base: memoryview[int],
    ring_time: memoryview[int],
) -> None:
    """Put the batches of each producer, whose row in the table is in `slots`, into its ring of five; `found` are all together."""
    for number in range(len(slots)):
        slot = slots[number]
        first = of_producer[PRODUCER_START, number]
        stop = of_producer[PRODUCER_START, number + 1] if number + 1 < len(slots) else found
        if table_epoch[slot] < 0:
            table_epoch[slot] = of_producer[ITS_EPOCH, number]
        place = head[slot]
        for at in range(first, stop):
            cell = slot * 5 + place
            which = of_batch[AT, at]
            ring_first[cell], ring_last[cell] = of_batch[FIRST_SEQUENCE, at], of_batch[LAST_SEQUENCE, at]
            ring_base[cell] = columns[BASE, which]
            ring_time[cell] = append_time if columns[TYPE, which] == 1 else -1
            place = place + 1 if place < 4 else 0
        head[slot] = place
        held = remembered[slot] + stop - first
        remembered[slot] = held if held < 5 else 5
        last_append[slot] = append_time
