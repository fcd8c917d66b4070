"""Applies a block to the hot tables: what `HotState.apply` does for its records one by one, in a few numpy calls."""

from __future__ import annotations

import numpy as np

from coordinator.core.batches import LOG_APPEND_TIME
from coordinator.core.block import CommitBlock, Int64s, ProducerColumns, lengths_of
from coordinator.core.hot import BrokenInvariant, HotState
from coordinator.core.tables import REMEMBERED_BATCHES


def apply_block(hot: HotState, block: CommitBlock) -> list[int]:
    """Apply a block and return the rows of its segments' partitions. Raises `BrokenInvariant` when it does not fit."""
    index = hot.partitions.index
    try:
        row_list = [index[key] for key in block.keys]
    except KeyError as missing:
        raise BrokenInvariant(f"commits to unknown partition {missing}") from None
    rows = np.array(row_list, np.int64)
    high_watermark = hot.partitions.high_watermark.array
    first = block.order[block.starts]
    last = block.order[block.stops - 1]
    if (block.base[first] != high_watermark[rows]).any():
        wrong = int((block.base[first] != high_watermark[rows]).argmax())
        raise BrokenInvariant(f"offset {block.base[first][wrong]} is assigned where the high watermark is {high_watermark[rows[wrong]]}")
    high_watermark[rows] = block.base[last] + block.count[last]
    hot.advance_time(int(block.append_times[0]), int(block.append_times.max()))
    hot.touched.partitions.update(row_list)
    _raise_max_timestamps(hot, block, rows)
    if block.producers is not None:
        _remember(hot, block, block.producers, rows)
    return row_list


def _raise_max_timestamps(hot: HotState, block: CommitBlock, rows: Int64s) -> None:
    """Keep each partition's greatest effective timestamp and the last offset of the first batch that has it."""
    append_time = block.append_times[block.file_of]
    effective = np.where(block.timestamp_type == LOG_APPEND_TIME, append_time, block.timestamp)[block.order]
    greatest = np.maximum.reduceat(effective, block.starts)
    table = hot.partitions
    is_greater = greatest > table.max_timestamp.array[rows]
    if not is_greater.any():
        return
    lengths = block.stops - block.starts
    places = np.where(effective == greatest.repeat(lengths), np.arange(len(effective)), len(effective))
    first = block.order[np.minimum.reduceat(places, block.starts)[is_greater]]
    table.max_timestamp.array[rows[is_greater]] = greatest[is_greater]
    table.max_timestamp_offset.array[rows[is_greater]] = block.base[first] + block.count[first] - 1


def _slots(hot: HotState, producers: ProducerColumns, rows: Int64s) -> Int64s:
    """The rows of the producers, made where there are none; `rows` are those of the segments' partitions."""
    table = hot.producers
    owners, ids = rows[producers.segments], producers.producer_ids
    slots = producers.slots
    is_right = table.are(slots, owners, ids)
    if is_right.all():
        return slots
    slots = slots.copy()
    for place in np.flatnonzero(~is_right).tolist():
        slots[place] = table.add(int(owners[place]), int(ids[place]))
    return slots


def _remember(hot: HotState, block: CommitBlock, producers: ProducerColumns, rows: Int64s) -> None:
    """Put each producer's batches into its ring; only the last ones of many stay."""
    table = hot.producers
    slots = _slots(hot, producers, rows)
    new = table.epoch.array[slots] < 0
    table.epoch.array[slots[new]] = producers.epochs[new]
    lengths = lengths_of(producers.starts, len(producers.at))
    rank = np.arange(len(producers.at)) - producers.starts.repeat(lengths)
    keep = lengths.repeat(lengths) - rank <= REMEMBERED_BATCHES
    slot_of = slots.repeat(lengths)[keep]
    cell = slot_of * REMEMBERED_BATCHES + (table.head.array[slot_of] + rank[keep]) % REMEMBERED_BATCHES
    at = producers.at[keep]
    append_time = block.append_times[block.file_of[at]]
    table.ring_first.array[cell] = producers.first_sequences[keep]
    table.ring_last.array[cell] = producers.last_sequences[keep]
    table.ring_base.array[cell] = block.base[at]
    table.ring_time.array[cell] = np.where(block.timestamp_type[at] == LOG_APPEND_TIME, append_time, -1)
    table.head.array[slots] = (table.head.array[slots] + lengths) % REMEMBERED_BATCHES
    table.count.array[slots] = np.minimum(table.count.array[slots] + lengths, REMEMBERED_BATCHES)
    newest = producers.at[producers.starts + lengths - 1]
    table.last_append.array[slots] = block.append_times[block.file_of[newest]]
    hot.touched.producers.update(slots.tolist())
