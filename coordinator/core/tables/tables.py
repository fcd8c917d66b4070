"""The tables every decision needs: user partitions and idempotent producers, dense and in memory.

Rows are small integers that are local to this process: they never enter the log, a digest or an answer.
A row of a deleted topic is freed only by `PartitionTable.release`, after its batches were purged.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from coordinator.core.tables.columns import Column

REMEMBERED_BATCHES = 5
"""Batches remembered per producer and partition, as in Kafka."""

NO_TIMESTAMP = -1

_GUESSES_MIN = 64


class PartitionTable:
    """One row per user partition this coordinator owns, found by its 20-byte key."""

    __slots__ = ("_free", "first_offset", "high_watermark", "index", "keys", "log_start", "mark", "max_timestamp", "max_timestamp_offset")

    def __init__(self) -> None:
        self.index: dict[bytes, int] = {}
        self.keys: list[bytes] = []
        self.high_watermark = Column()
        self.log_start = Column()
        self.first_offset = Column()
        self.max_timestamp = Column(fill=NO_TIMESTAMP)
        self.max_timestamp_offset = Column(fill=-1)
        self.mark = Column()  # scratch of a loop over a group: 0 whenever none runs
        self._free: list[int] = []

    def _columns(self) -> tuple[Column, ...]:
        return (self.high_watermark, self.log_start, self.first_offset, self.max_timestamp, self.max_timestamp_offset, self.mark)

    def add(self, key: bytes, *, row: int | None = None) -> int:
        """Add a partition and return its row; an existing one keeps its row and values."""
        known = self.index.get(key)
        if known is not None:
            return known
        if row is None:
            row = self._free.pop() if self._free else len(self.keys)
        while len(self.keys) <= row:
            self.keys.append(b"")
        for column in self._columns():
            column.reserve(row + 1)
            column.cells[row] = column.fill
        self.keys[row] = key
        self.index[key] = row
        return row

    def forget(self, key: bytes) -> int | None:
        """Make a partition unknown at once; its row stays reserved until `release`."""
        return self.index.pop(key, None)

    def release(self, row: int) -> None:
        """Give back the row of a forgotten partition whose batches are gone."""
        self.keys[row] = b""
        self._free.append(row)

    def collect_free(self) -> None:
        """After restoring rows by number: rows that nobody has are free."""
        self._free = [row for row, key in enumerate(self.keys) if not key]

    def copy(self) -> PartitionTable:
        """An independent table with the same rows."""
        twin = PartitionTable()
        twin.index = dict(self.index)
        twin.keys = list(self.keys)
        twin.high_watermark = self.high_watermark.copy()
        twin.log_start = self.log_start.copy()
        twin.first_offset = self.first_offset.copy()
        twin.max_timestamp = self.max_timestamp.copy()
        twin.max_timestamp_offset = self.max_timestamp_offset.copy()
        twin.mark = self.mark.copy()
        twin._free = list(self._free)
        return twin


class RememberedBatch(NamedTuple):
    """A batch a producer wrote: what a duplicate of it is answered with."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    timestamp_ms: int


class ProducerTable:
    """One row per (user partition, producer id): epoch, time of the last batch and a ring of the last five batches."""

    __slots__ = (
        "_free",
        "_guesses",
        "_top",
        "count",
        "epoch",
        "head",
        "index",
        "last_append",
        "mark",
        "owner",
        "producer",
        "ring_base",
        "ring_first",
        "ring_last",
        "ring_time",
    )

    def __init__(self) -> None:
        self.index: dict[int, dict[int, int]] = {}
        self.owner = Column(fill=-1)
        self.producer = Column(fill=-1)
        self.epoch = Column(fill=-1)
        self.head = Column()
        self.count = Column()
        self.last_append = Column(fill=-1)
        self.mark = Column()  # as in `PartitionTable`
        self.ring_first = Column(width=REMEMBERED_BATCHES, fill=-1)
        self.ring_last = Column(width=REMEMBERED_BATCHES, fill=-1)
        self.ring_base = Column(width=REMEMBERED_BATCHES, fill=-1)
        self.ring_time = Column(width=REMEMBERED_BATCHES, fill=-1)
        self._free: list[int] = []
        self._guesses = np.zeros(_GUESSES_MIN, np.int64)
        self._top = 0

    def _columns(self) -> tuple[Column, ...]:
        return (
            self.owner,
            self.producer,
            self.epoch,
            self.head,
            self.count,
            self.last_append,
            self.mark,
            self.ring_first,
            self.ring_last,
            self.ring_base,
            self.ring_time,
        )

    def find(self, partition_row: int, producer_id: int) -> int | None:
        """The row of a producer, or None when nothing is remembered of it."""
        of_partition = self.index.get(partition_row)
        return None if of_partition is None else of_partition.get(producer_id)

    @property
    def top(self) -> int:
        """Rows from here on were never used."""
        return self._top

    def guesses(self) -> memoryview[int]:
        """Rows, by a few bits of partition and producer, where a loop found a producer before; at least two for each row."""
        if len(self._guesses) < 2 * self._top:
            self._guesses = np.zeros(1 << (2 * self._top).bit_length(), np.int64)
        return self._guesses.data

    def add(self, partition_row: int, producer_id: int, *, row: int | None = None) -> int:
        """The row of a producer, made empty when new."""
        of_partition = self.index.setdefault(partition_row, {})
        known = of_partition.get(producer_id)
        if known is not None:
            return known
        if row is None:
            row = self._free.pop() if self._free else self._top
        if row >= self._top:
            self._top = row + 1
            for column in self._columns():
                column.reserve(row + 1)
        of_partition[producer_id] = row
        self.owner.cells[row] = partition_row
        self.producer.cells[row] = producer_id
        self.epoch.cells[row] = -1
        self.count.cells[row] = 0
        self.head.cells[row] = 0
        self.last_append.cells[row] = -1
        return row

    def remember(self, row: int, epoch: int, batch: RememberedBatch, append_time_ms: int) -> None:
        """Record an accepted batch; a new epoch drops what was remembered before."""
        if epoch != self.epoch.cells[row]:
            self.epoch.cells[row] = epoch
            self.count.cells[row] = 0
            self.head.cells[row] = 0
        head = self.head.cells[row]
        at = row * REMEMBERED_BATCHES + head
        self.ring_first.cells[at] = batch.base_sequence
        self.ring_last.cells[at] = batch.last_sequence
        self.ring_base.cells[at] = batch.base_offset
        self.ring_time.cells[at] = batch.timestamp_ms
        self.head.cells[row] = (head + 1) % REMEMBERED_BATCHES
        if self.count.cells[row] < REMEMBERED_BATCHES:
            self.count.cells[row] += 1
        self.last_append.cells[row] = append_time_ms

    def remembered(self, row: int) -> Iterator[RememberedBatch]:
        """The remembered batches, newest first."""
        start = row * REMEMBERED_BATCHES
        head = self.head.cells[row]
        for back in range(1, self.count.cells[row] + 1):
            at = start + (head - back) % REMEMBERED_BATCHES
            yield RememberedBatch(self.ring_first.cells[at], self.ring_last.cells[at], self.ring_base.cells[at], self.ring_time.cells[at])

    def last_sequence(self, row: int) -> int:
        """Last sequence of the newest remembered batch."""
        at = row * REMEMBERED_BATCHES + (self.head.cells[row] - 1) % REMEMBERED_BATCHES
        return self.ring_last.cells[at]

    def idle_since(self, before_ms: int) -> npt.NDArray[np.intp]:
        """The rows of producers whose newest batch was appended before a time."""
        owner, last_append = self.owner.array[: self._top], self.last_append.array[: self._top]
        return np.flatnonzero((owner >= 0) & (last_append < before_ms))

    def drop(self, row: int) -> None:
        """Forget a producer."""
        owner = self.owner.cells[row]
        of_partition = self.index[owner]
        del of_partition[self.producer.cells[row]]
        if not of_partition:
            del self.index[owner]
        self.owner.cells[row] = -1
        self._free.append(row)

    def collect_free(self) -> None:
        """After restoring rows by number: rows that nobody has are free."""
        taken = {row for rows in self.index.values() for row in rows.values()}
        self._free = [row for row in range(self._top) if row not in taken]

    def copy(self) -> ProducerTable:
        """An independent table with the same rows."""
        twin = ProducerTable()
        twin.index = {owner: dict(rows) for owner, rows in self.index.items()}
        for name in (
            "owner",
            "producer",
            "epoch",
            "head",
            "count",
            "last_append",
            "mark",
            "ring_first",
            "ring_last",
            "ring_base",
            "ring_time",
        ):
            setattr(twin, name, getattr(self, name).copy())
        twin._free = list(self._free)
        twin._top = self._top
        return twin
