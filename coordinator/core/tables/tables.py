"""The tables every decision needs: user partitions and idempotent producers, as numbers in memory.

Rows are small integers that are local to this process: they never enter the log, a digest or an answer. The row of a deleted
topic is freed only by `PartitionTable.release`, after its batches were purged.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from coordinator.core.tables.cells import (
    FIRST_OFFSET,
    HIGH_WATERMARK,
    KNOWN_EPOCH,
    LAST_APPEND,
    LEADER_EPOCH,
    MAX_TIMESTAMP,
    MAX_TIMESTAMP_OFFSET,
    OWNER,
    PARTITION_WIDTH,
    PREFIX_START,
    PRODUCER,
    PRODUCER_WIDTH,
    REMEMBERED_BATCHES,
    RING,
    RING_COUNT,
    RING_HEAD,
    RING_WIDTH,
    START_OFFSET,
)
from coordinator.core.tables.keyed_loops import KeyedRows
from coordinator.kafka.batches import split_partition_key
from records.committed_files.codec import topic_halves

Int64s = npt.NDArray[np.int64]

NO_TIMESTAMP = -1


class TableColumn(NamedTuple):
    """One column of a table: `cells[row]` is a plain int for single rows, `array` is for many. Neither is kept across an addition."""

    cells: memoryview[int]
    array: Int64s


class MigrationCounts(NamedTuple):
    """How many partitions are classic ones that take nothing yet, and how many were migrated."""

    pending: int
    initialised: int


class PartitionTable:
    """One row per user partition this coordinator owns, found by topic id and partition index. `rows` are the cells, for loops."""

    __slots__ = (
        "first_offset",
        "forgotten",
        "high_watermark",
        "keys",
        "leader_epoch",
        "log_start",
        "max_timestamp",
        "max_timestamp_offset",
        "prefix_start",
        "rows",
    )

    def __init__(self) -> None:
        self.rows = KeyedRows(PARTITION_WIDTH)
        self.keys: list[bytes] = []
        """Topic id and partition index of each row, 20 bytes; empty for a free row."""
        self.forgotten = 0
        """How many partitions were forgotten since the table was made."""
        self._name_columns()

    def _name_columns(self) -> None:
        array = self.rows.array
        columns = [TableColumn(array[:, cell].data, array[:, cell]) for cell in range(PARTITION_WIDTH)]
        self.high_watermark = columns[HIGH_WATERMARK]
        self.log_start = columns[START_OFFSET]
        self.first_offset = columns[FIRST_OFFSET]
        self.prefix_start = columns[PREFIX_START]
        self.leader_epoch = columns[LEADER_EPOCH]
        self.max_timestamp = columns[MAX_TIMESTAMP]
        self.max_timestamp_offset = columns[MAX_TIMESTAMP_OFFSET]

    def __len__(self) -> int:
        return self.rows.count

    def find(self, topic_id: bytes, partition: int) -> int | None:
        """The row of a partition, None when it is not here."""
        row = self.rows.find(*topic_halves(topic_id), partition)
        return None if row < 0 else row

    def add(self, key: bytes, *, row: int | None = None) -> int:
        """Add a partition and return its row; an existing one keeps its row and values."""
        topic_id, partition = split_partition_key(key)
        numbers = (*topic_halves(topic_id), partition)
        known = self.rows.find(*numbers)
        if known >= 0:
            return known
        has_grown = self.rows.reserve(1)
        if row is None:
            row = self.rows.take_row()
            self.rows.set_key(row, *numbers)
        else:
            self.rows.restore(row, *numbers)
        if has_grown or len(self.rows.array) != len(self.high_watermark.array):
            self._name_columns()
        while len(self.keys) <= row:
            self.keys.append(b"")
        self.keys[row] = key
        self.prefix_start.cells[row] = self.leader_epoch.cells[row] = -1
        self.max_timestamp.cells[row] = NO_TIMESTAMP
        self.max_timestamp_offset.cells[row] = -1
        return row

    def forget(self, topic_id: bytes, partitions: Collection[int]) -> Int64s:
        """Make partitions of a topic unknown at once; returns the rows of those that were here, ascending.

        They stay reserved until `release`. One call for all of them: a topic may have a hundred thousand.
        """
        numbers = np.fromiter(partitions, np.int64, len(partitions))
        rows = np.empty(len(numbers), np.int64)
        found = rows[: self.rows.forget(*topic_halves(topic_id), numbers.data, rows.data)]
        found.sort()
        self.forgotten += len(found)
        return found

    def release(self, row: int) -> None:
        """Give back the row of a forgotten partition whose batches are gone."""
        self.keys[row] = b""
        self.rows.release(row)

    def collect_free(self, reserved: Collection[int]) -> None:
        """After restoring rows by number: unused ones that are not `reserved` are free."""
        self.rows.collect_free(np.array(sorted(reserved), np.int64))

    def migration_counts(self) -> MigrationCounts:
        """How many partitions are to be migrated, and how many were."""
        rows = self.rows.rows()
        is_pending = self.first_offset.array[rows] == -1
        is_begun = ~is_pending & (self.leader_epoch.array[rows] >= 0)
        return MigrationCounts(int(is_pending.sum()), int(is_begun.sum()))

    def rows_with_prefix(self) -> list[int]:
        """The rows of migrated partitions of which Kafka has records before B0, as far as is known here."""
        rows = self.rows.rows()
        first, prefix = self.first_offset.array[rows], self.prefix_start.array[rows]
        found: list[int] = rows[(prefix >= 0) & (prefix < first)].tolist()
        return found

    def copy(self) -> PartitionTable:
        """An independent table with the same rows."""
        twin = PartitionTable()
        twin.rows.copy_from(self.rows)
        twin.keys = list(self.keys)
        twin._name_columns()
        return twin


class RememberedBatch(NamedTuple):
    """A batch a producer wrote: what a duplicate of it is answered with. `timestamp_ms` is its append time, -1 for CreateTime."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    timestamp_ms: int


class ProducerTable:
    """One row per (user partition, producer id): epoch, time of the last batch and a ring of the last five batches.

    A row is found by the row of its partition and the producer id. `rows` are the cells, for loops.
    """

    __slots__ = ("count", "epoch", "last_append", "owner", "producer", "rows")

    def __init__(self) -> None:
        self.rows = KeyedRows(PRODUCER_WIDTH)
        self.name_columns()

    def name_columns(self) -> None:
        """Name the columns anew, after rows were reserved."""
        array = self.rows.array
        columns = [TableColumn(array[:, cell].data, array[:, cell]) for cell in range(RING)]
        self.owner, self.producer, self.epoch = columns[OWNER], columns[PRODUCER], columns[KNOWN_EPOCH]
        self.count, self.last_append = columns[RING_COUNT], columns[LAST_APPEND]

    def __len__(self) -> int:
        return self.rows.count

    def reserve(self, more: int) -> None:
        """Make room for so many more producers."""
        if self.rows.reserve(more):
            self.name_columns()

    def find(self, partition_row: int, producer_id: int) -> int | None:
        """The row of a producer, or None when nothing is remembered of it."""
        row = self.rows.find(partition_row, producer_id, 0)
        return None if row < 0 else row

    def restore(self, row: int, partition_row: int, producer_id: int, epoch: int, last_append_ms: int, ring: Int64s) -> None:
        """Add a producer with the number of its row and its remembered batches, oldest first: lines of `RememberedBatch`."""
        self.rows.restore(row, partition_row, producer_id, 0)
        self._fill(row, epoch, last_append_ms, ring)

    def seed(self, partition_row: int, producer_id: int, epoch: int, last_append_ms: int, ring: Sequence[RememberedBatch]) -> None:
        """Add a producer, of which nothing is known, with its remembered batches, oldest first; `reserve` has made room for it."""
        row = self.rows.take_row()
        self.rows.set_key(row, partition_row, producer_id, 0)
        self._fill(row, epoch, last_append_ms, np.array(ring, np.int64))
        self.rows.touch(row)

    def _fill(self, row: int, epoch: int, last_append_ms: int, ring: Int64s) -> None:
        cells = self.rows.array[row]
        cells[KNOWN_EPOCH], cells[LAST_APPEND] = epoch, last_append_ms
        cells[RING_COUNT], cells[RING_HEAD] = len(ring), len(ring) % REMEMBERED_BATCHES
        cells[RING : RING + RING_WIDTH * len(ring)] = ring.reshape(-1)

    def restored(self) -> None:
        """All rows were restored."""
        self.rows.collect_free(np.empty(0, np.int64))
        self.name_columns()

    def remembered(self, row: int) -> Iterator[RememberedBatch]:
        """The remembered batches, newest first."""
        cells = self.rows.array[row].tolist()
        for back in range(1, cells[RING_COUNT] + 1):
            at = RING + (cells[RING_HEAD] - back) % REMEMBERED_BATCHES * RING_WIDTH
            yield RememberedBatch(*cells[at : at + RING_WIDTH])

    def idle_since(self, before_ms: int) -> Int64s:
        """The rows of producers whose newest batch was appended before a time, ascending."""
        rows = self.rows.rows()
        idle: Int64s = rows[self.rows.array[rows, LAST_APPEND] < before_ms]
        idle.sort()
        return idle

    def of_partitions(self, partition_rows: Int64s) -> Int64s:
        """The rows of the producers of some partitions, ascending."""
        rows = self.rows.rows()
        found: Int64s = rows[np.isin(self.rows.array[rows, OWNER], partition_rows)]
        found.sort()
        return found

    def drop(self, rows: Int64s) -> None:
        """Forget producers, in one call: a topic may have very many."""
        self.rows.drop(rows.data)

    def copy(self) -> ProducerTable:
        """An independent table with the same rows."""
        twin = ProducerTable()
        twin.rows.copy_from(self.rows)
        twin.name_columns()
        return twin
