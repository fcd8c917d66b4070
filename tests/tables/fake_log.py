"""A log in memory that an export reads; it passes the contract of the real one (`test_export_source.py`)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from tables.export.columns import READ
from tables.export.source import PartitionBounds, TopicGoneError
from tables.export.target import Position
from tables.reading.arrow import schema_of
from tables.reading.span import ReadCounts

FIRST = datetime(2026, 1, 1, 23, 59, 50, tzinfo=UTC)
SCHEMA = schema_of(READ)


@dataclass(slots=True, kw_only=True)
class FakeLog:
    """`RecordSource` whose partitions are lists of values; records are `seconds_apart`, the first one at `FIRST`."""

    name: str = "orders"
    partitions: list[list[bytes]] = field(default_factory=lambda: [[], []])
    starts: dict[int, int] = field(default_factory=dict)
    batch_rows: int = 3
    seconds_apart: int = 1
    counts: ReadCounts = field(default_factory=ReadCounts)
    left: Mapping[int, float] = field(default_factory=dict)
    damaged: set[tuple[int, int]] = field(default_factory=set)
    """Partitions and offsets that reads leave out."""
    is_gone: bool = False
    trouble: list[Exception] = field(default_factory=list)
    """Raised by the next reads, each after its first batch."""
    on_batch: Callable[[], None] = lambda: None

    async def bounds(self) -> Sequence[PartitionBounds]:
        if self.is_gone:
            raise TopicGoneError(f"topic {self.name} was deleted")
        return [PartitionBounds(place, self.starts.get(place, 0), len(values)) for place, values in enumerate(self.partitions)]

    async def read(self, position: Position, bounds: Sequence[PartitionBounds]) -> AsyncGenerator[pa.RecordBatch]:
        trouble = self.trouble.pop(0) if self.trouble else None
        at = {one.partition: position[one.partition] for one in bounds}
        while left := [one for one in bounds if at[one.partition] < one.end]:
            for one in left:
                stop = min(one.end, at[one.partition] + self.batch_rows)
                wanted = [offset for offset in range(at[one.partition], stop) if (one.partition, offset) not in self.damaged]
                rows = [self.row(one.partition, offset) for offset in wanted]
                yield pa.RecordBatch.from_pylist(rows, SCHEMA)
                at[one.partition] = stop
                self.on_batch()
                if trouble is not None:
                    raise trouble

    async def seconds_left(self, position: Position, bounds: Sequence[PartitionBounds]) -> Mapping[int, float]:
        return self.left

    def row(self, partition: int, offset: int) -> dict[str, Any]:
        """A record as a row."""
        return {
            "key": b"k",
            "value": self.partitions[partition][offset],
            "topic": self.name,
            "partition": partition,
            "offset": offset,
            "timestamp": FIRST + timedelta(seconds=offset * self.seconds_apart),
            "timestampType": 0,
            "headers": None,
        }

    def add(self, partition: int, count: int) -> None:
        """Append records, whose values are their offsets."""
        values = self.partitions[partition]
        values += [str(offset).encode() for offset in range(len(values), len(values) + count)]
