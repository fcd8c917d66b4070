"""What a client that does one thing after the other must be told: offsets, batches and files, kept apart from the product."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import NamedTuple


class Batch(NamedTuple):
    """One accepted batch."""

    object_key: str
    base: int
    last: int
    timestamp: int


@dataclass(slots=True)
class Partition:
    """The batches of a partition, all that were ever accepted; those that end before `log_start` are deleted."""

    batches: list[Batch] = field(default_factory=list)
    bases: list[int] = field(default_factory=list)
    log_start: int = 0
    high_watermark: int = 0

    def append(self, object_key: str, count: int, timestamp: int) -> int:
        """Accept a batch; returns its base offset."""
        base = self.high_watermark
        self.batches.append(Batch(object_key, base, base + count - 1, timestamp))
        self.bases.append(base)
        self.high_watermark += count
        return base

    def from_offset(self, offset: int) -> list[Batch]:
        """The batches that hold an offset and what follows it."""
        return self.batches[bisect_right(self.bases, offset) - 1 :] if offset < self.high_watermark else []

    def reaching(self, timestamp: int) -> tuple[int, int]:
        """ListOffsets by time: timestamp and offset of the first live batch that reaches it."""
        for batch in self.batches:
            if batch.last >= self.log_start and batch.timestamp >= timestamp:
                return batch.timestamp, max(self.log_start, batch.base)
        return -1, -1


@dataclass(slots=True)
class File:
    """A committed file: per batch its partition, its count, its timestamp and its base offset."""

    key: str
    batches: list[tuple[int, int, int]]
    bases: list[int]
