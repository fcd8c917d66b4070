"""Applying a block to the hot tables: the loops. Compiled when installed; the `.pxd` has the types.

Arrays are memoryviews, so that the same lines see plain ints when not compiled.
"""

from __future__ import annotations


def advance_partitions(
    rows: memoryview[int],
    order: memoryview[int],
    starts: memoryview[int],
    stops: memoryview[int],
    base: memoryview[int],
    count: memoryview[int],
    timestamp: memoryview[int],
    timestamp_type: memoryview[int],
    file_of: memoryview[int],
    append_times: memoryview[int],
    high_watermark: memoryview[int],
    max_timestamp: memoryview[int],
    max_timestamp_offset: memoryview[int],
) -> int:
    """Move high watermarks behind the batches of each partition, and keep its greatest effective timestamp.

    `order[starts[i]:stops[i]]` are the batches of the partition in `rows[i]`. That timestamp's offset is the last one of the first
    batch that has it. Changes nothing and returns the first `i` whose batches do not begin at the high watermark; -1 is success.
    """
    for segment in range(len(rows)):
        if base[order[starts[segment]]] != high_watermark[rows[segment]]:
            return segment
    for segment in range(len(rows)):
        row = rows[segment]
        greatest = max_timestamp[row]
        place = 0
        for at in range(starts[segment], stops[segment]):
            place = order[at]
            # 1: LogAppendTime
            effective = append_times[file_of[place]] if timestamp_type[place] == 1 else timestamp[place]
            if effective > greatest:
                greatest = max_timestamp[row] = effective
                max_timestamp_offset[row] = base[place] + count[place] - 1
        high_watermark[row] = base[place] + count[place]
    return -1


def find_strangers(
    slots: memoryview[int],
    segments: memoryview[int],
    producer_ids: memoryview[int],
    rows: memoryview[int],
    owner: memoryview[int],
    producer: memoryview[int],
    top: int,
) -> list[int]:
    """The producers whose slot is not the row of theirs in the table, whose rows end at `top`; slots may be any numbers."""
    strangers: list[int] = []
    for number in range(len(slots)):
        slot = slots[number]
        if slot < 0 or slot >= top or owner[slot] != rows[segments[number]] or producer[slot] != producer_ids[number]:
            strangers.append(number)
    return strangers


def remember_batches(
    slots: memoryview[int],
    epochs: memoryview[int],
    starts: memoryview[int],
    batch: memoryview[int],
    first_sequences: memoryview[int],
    last_sequences: memoryview[int],
    base: memoryview[int],
    timestamp_type: memoryview[int],
    file_of: memoryview[int],
    append_times: memoryview[int],
    table_epoch: memoryview[int],
    head: memoryview[int],
    remembered: memoryview[int],
    last_append: memoryview[int],
    ring_first: memoryview[int],
    ring_last: memoryview[int],
    ring_base: memoryview[int],
    ring_time: memoryview[int],
) -> None:
    """Put the batches of each producer into its ring of five; producer `i` has the batches from `starts[i]` on, in sequence order."""
    for number in range(len(slots)):
        slot = slots[number]
        stop = starts[number + 1] if number + 1 < len(slots) else len(batch)
        if table_epoch[slot] < 0:
            table_epoch[slot] = epochs[number]
        place, at = head[slot], 0
        for at in range(starts[number], stop):
            cell = slot * 5 + place
            which = batch[at]
            ring_first[cell], ring_last[cell], ring_base[cell] = first_sequences[at], last_sequences[at], base[which]
            ring_time[cell] = append_times[file_of[which]] if timestamp_type[which] == 1 else -1
            place = place + 1 if place < 4 else 0
        head[slot] = place
        held = remembered[slot] + stop - starts[number]
        remembered[slot] = held if held < 5 else 5
        last_append[slot] = append_times[file_of[batch[stop - 1]]]
