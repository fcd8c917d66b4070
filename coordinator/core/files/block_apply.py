"""Applies a block to the hot tables: what `HotState.apply` does for its records one by one, in a few loops over columns."""

from __future__ import annotations

from coordinator.core.files.apply_loops import advance_partitions, find_strangers, remember_batches
from coordinator.core.files.block import CommitBlock, ProducerColumns
from coordinator.core.tables.in_memory import BrokenInvariant, HotState
from coordinator.core.tables.scratch import ITS_ID, ITS_SLOT, PRODUCER_SEGMENT


def apply_block(hot: HotState, block: CommitBlock) -> list[int]:
    """Apply a block and return the rows of its segments' partitions. Raises `BrokenInvariant` when it does not fit."""
    table = hot.partitions
    index = table.index
    try:
        rows = [index[key] for key in block.keys]
    except KeyError as missing:
        raise BrokenInvariant(f"commits to unknown partition {missing}") from None
    columns, append_time_ms = block.columns.data, block.append_time_ms
    wrong = advance_partitions(
        rows,
        columns,
        append_time_ms,
        table.high_watermark.cells,
        table.max_timestamp.cells,
        table.max_timestamp_offset.cells,
    )
    if wrong >= 0:
        base = block.base[block.order[block.starts[wrong]]]
        raise BrokenInvariant(f"offset {base} is assigned where the high watermark is {table.high_watermark.cells[rows[wrong]]}")
    hot.advance_time(append_time_ms, append_time_ms)
    hot.touched.partitions.update(rows)
    if block.producers is not None:
        _remember(hot, block, block.producers, rows, columns)
    return rows


def slots_of(hot: HotState, producers: ProducerColumns, rows: list[int]) -> list[int]:
    """The rows of the producers, made where there are none; `rows` are those of the segments' partitions."""
    table, of_producer = hot.producers, producers.of_producer
    slots: list[int] = of_producer[ITS_SLOT].tolist()
    for number in find_strangers(slots, of_producer.data, rows, table.owner.cells, table.producer.cells, table.top):
        slots[number] = table.add(rows[of_producer[PRODUCER_SEGMENT, number]], int(of_producer[ITS_ID, number]))
    return slots


def _remember(hot: HotState, block: CommitBlock, producers: ProducerColumns, rows: list[int], columns: memoryview[int]) -> None:
    """Put each producer's batches into its ring; only the last ones of many stay."""
    table = hot.producers
    slots = slots_of(hot, producers, rows)
    remember_batches(
        slots,
        producers.of_producer.data,
        producers.of_batch.data,
        producers.of_batch.shape[1],
        columns,
        block.append_time_ms,
        table.epoch.cells,
        table.head.cells,
        table.count.cells,
        table.last_append.cells,
        table.ring_first.cells,
        table.ring_last.cells,
        table.ring_base.cells,
        table.ring_time.cells,
    )
    hot.touched.producers.update(slots)
