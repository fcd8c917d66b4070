"""Hot rows as they were when a generation was frozen: columns, so that the event loop only copies numbers.

The writer's thread makes rows of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from coordinator.core.state.packing_loops import copy_rings
from coordinator.core.tables.cells import REMEMBERED_BATCHES
from coordinator.core.tables.stored_rows import Columns
from coordinator.core.tables.tables import Int64s, PartitionTable, ProducerTable
from records.state_digest import PRODUCER_RING


class PartitionRow(NamedTuple):
    """A user partition as it is stored. Batches before `trimmed_to` are taken out of their files' counts."""

    row: int
    key: bytes
    high_watermark: int
    log_start: int
    first_offset: int
    prefix_start: int
    leader_epoch: int
    max_timestamp: int
    max_timestamp_offset: int
    trimmed_to: int
    is_dead: bool = False


class ProducerRow(NamedTuple):
    """A producer as it is stored; `ring` holds its remembered batches, oldest first."""

    row: int
    partition_row: int
    producer_id: int
    epoch: int
    last_append_ms: int
    ring: bytes


class FrozenPartitions(NamedTuple):
    """Partitions that changed; `numbers` are the columns of `PartitionRow` between its key and `trimmed_to`."""

    rows: Int64s
    keys: list[bytes]
    numbers: Int64s
    trimmed_to: Mapping[int, int]
    dead: frozenset[int]

    def stored(self) -> Iterator[PartitionRow]:
        """The partitions as they are stored."""
        for row, key, numbers in zip(self.rows.tolist(), self.keys, self.numbers.T.tolist(), strict=True):
            high_watermark, log_start, *_ = numbers
            is_dead = row in self.dead
            trimmed_to = self.trimmed_to.get(row, high_watermark if is_dead else log_start)
            yield PartitionRow._make((row, key, *numbers, trimmed_to, is_dead))


class FrozenProducers(NamedTuple):
    """Producers that changed; `numbers` are the columns of `ProducerRow` but for the rings, which stand in `rings` up to `ends`."""

    numbers: Int64s
    rings: npt.NDArray[np.void]
    ends: Int64s

    def stored(self) -> Columns[ProducerRow]:
        """The producers as they are stored."""
        raw, stops = self.rings.tobytes(), (self.ends * PRODUCER_RING.itemsize).tolist()
        rings = [raw[start:stop] for start, stop in zip([0, *stops], stops, strict=False)]
        return Columns(ProducerRow, [*self.numbers.tolist(), rings])


def freeze_partitions(table: PartitionTable, live: Int64s, dead: list[int], trimming: Mapping[int, int]) -> FrozenPartitions:
    """Copy partitions; of those that are in `trimming`, the batches before its offset are taken out of their files' counts."""
    rows = np.concatenate((live, np.array(dead, np.int64)))
    trimmed_to = {row: trimming[row] for row in rows.tolist() if row in trimming} if trimming else {}
    columns = (
        table.high_watermark,
        table.log_start,
        table.first_offset,
        table.prefix_start,
        table.leader_epoch,
        table.max_timestamp,
        table.max_timestamp_offset,
    )
    numbers = np.array([column.array[rows] for column in columns])
    keys = list(map(table.keys.__getitem__, rows.tolist()))
    return FrozenPartitions(rows, keys, numbers, trimmed_to, frozenset(dead))


def freeze_producers(table: ProducerTable, rows: Int64s) -> FrozenProducers:
    """Copy producers; a busy coordinator changes thousands between two writes."""
    numbers = np.array([rows, *(column.array[rows] for column in (table.owner, table.producer, table.epoch, table.last_append))])
    rings, ends = np.empty(len(rows) * REMEMBERED_BATCHES, PRODUCER_RING), np.empty(len(rows), np.int64)
    used = copy_rings(rows.data, table.rows, rings.view(np.int32).reshape(-1, 6).data, rings.view(np.int64).reshape(-1, 3).data, ends.data)
    return FrozenProducers(numbers, rings[:used], ends)
