"""Stretches: what a coordinator has of a user partition that moved, what the records of a move change, and which are unlawful.

A partition that moves goes on in another coordinator. Its batches stay where they were committed, so its log is a chain of *stretches*:
each coordinator but the last has *released* the partition, which it never takes up again in that stretch; the last one has *adopted* it,
and decides its offsets, its producers and where it starts.

FIRST_OFFSET of a released partition is RELEASED, so that the loops of commits refuse its batches as those of a pending one.
The leader asks these functions before it logs a record, and every replica before it applies one.
"""

from __future__ import annotations

from collections.abc import Sequence

from coordinator.core.moves import Stretch
from coordinator.core.tables.diskless_log import OFFSETS_MAX, RELEASED, UNSET, fault_of_seeds
from coordinator.core.tables.tables import PartitionTable
from records.model import PartitionAdopted, SeededProducerBatch


def is_released(table: PartitionTable, row: int) -> bool:
    """Whether the partition of a row has gone on elsewhere."""
    return table.first_offset.cells[row] == RELEASED


def release(table: PartitionTable, row: int) -> None:
    """Let the partition of a row take no more batches."""
    table.first_offset.cells[row] = RELEASED
    table.rows.touch(row)


def fault_of_release(table: PartitionTable, row: int | None, known: Stretch, move_id: int) -> str | None:
    """Return why a partition may not be released, None if it may. A move takes effect once, and none after a later one."""
    if row is None:
        return "it is not here"
    if is_released(table, row):
        return f"move {known.newest_move} has released it already"
    if move_id <= known.newest_move:
        return f"move {move_id} is over: move {known.newest_move} came after it"
    if table.first_offset.cells[row] == UNSET or table.leader_epoch.cells[row] != UNSET:
        return "it is, or was, a classic partition, and those do not move"
    return None


def fault_of_adoption(table: PartitionTable, row: int | None, known: Stretch, record: PartitionAdopted) -> str | None:
    """Return why a partition may not be adopted, None if it may: it is not here, or only as an earlier stretch that is empty."""
    if not 0 <= record.start_offset <= record.base_offset < OFFSETS_MAX:
        return f"start {record.start_offset} and base {record.base_offset} do not fit: 0 <= start <= base < {OFFSETS_MAX}"
    if row is None:
        return None
    if record.move_id <= known.newest_move:
        return f"move {record.move_id} is over: move {known.newest_move} came after it"
    if not is_released(table, row):
        return "it is here already"
    if table.log_start.cells[row] < table.high_watermark.cells[row]:
        return f"an earlier stretch of it, up to offset {table.high_watermark.cells[row]}, is still here"
    return None


def fault_of_producers(batches: Sequence[SeededProducerBatch], end_offset: int) -> str | None:
    """Return why what is said of producers of a partition that begins at an offset may not be."""
    fault = fault_of_seeds(batches, end_offset)
    return None if fault is None else fault.message
