"""Applies a block to the hot tables: what `HotState.apply` does for its records one by one, in a few loops over columns."""

from __future__ import annotations

import numpy as np

from coordinator.core.apply_loops import advance_partitions, find_strangers, remember_batches
from coordinator.core.block import CommitBlock, Int64s, ProducerColumns
from coordinator.core.hot import BrokenInvariant, HotState


def apply_block(hot: HotState, block: CommitBlock) -> list[int]:
    """Apply a block and return the rows of its segments' partitions. Raises `BrokenInvariant` when it does not fit."""
    table = hot.partitions
    index = table.index
    try:
        row_list = [index[key] for key in block.keys]
    except KeyError as missing:
        raise BrokenInvariant(f"commits to unknown partition {missing}") from None
    rows = np.array(row_list, np.int64)
    wrong = advance_partitions(
        rows.data,
        block.order.data,
        block.starts.data,
        block.stops.data,
        block.base.data,
        block.count.data,
        block.timestamp.data,
        block.timestamp_type.data,
        block.file_of.data,
        block.append_times.data,
        table.high_watermark.cells,
        table.max_timestamp.cells,
        table.max_timestamp_offset.cells,
    )
    if wrong >= 0:
        base = block.base[block.order[block.starts[wrong]]]
        raise BrokenInvariant(f"offset {base} is assigned where the high watermark is {table.high_watermark.cells[row_list[wrong]]}")
    times = block.append_times.tolist()
    hot.advance_time(times[0], max(times))
    hot.touched.partitions.update(row_list)
    if block.producers is not None:
        _remember(hot, block, block.producers, rows)
    return row_list


def slots_of(hot: HotState, producers: ProducerColumns, rows: Int64s) -> Int64s:
    """The rows of the producers, made where there are none; `rows` are those of the segments' partitions."""
    table, slots = hot.producers, producers.slots
    strangers = find_strangers(
        slots.data,
        producers.segments.data,
        producers.producer_ids.data,
        rows.data,
        table.owner.cells,
        table.producer.cells,
        table.top,
    )
    if not strangers:
        return slots
    slots = slots.copy()
    for number in strangers:
        slots[number] = table.add(int(rows[producers.segments[number]]), int(producers.producer_ids[number]))
    return slots


def _remember(hot: HotState, block: CommitBlock, producers: ProducerColumns, rows: Int64s) -> None:
    """Put each producer's batches into its ring; only the last ones of many stay."""
    table = hot.producers
    slots = slots_of(hot, producers, rows)
    remember_batches(
        slots.data,
        producers.epochs.data,
        producers.starts.data,
        producers.at.data,
        producers.first_sequences.data,
        producers.last_sequences.data,
        block.base.data,
        block.timestamp_type.data,
        block.file_of.data,
        block.append_times.data,
        table.epoch.cells,
        table.head.cells,
        table.count.cells,
        table.last_append.cells,
        table.ring_first.cells,
        table.ring_last.cells,
        table.ring_base.cells,
        table.ring_time.cells,
    )
    hot.touched.producers.update(slots.tolist())
