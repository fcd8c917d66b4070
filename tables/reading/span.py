"""What is read into a table: spans of partitions, and how. Imports no Arrow, so that planners can use it anywhere."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from threading import Lock
from typing import Final

from coordinator.errors import DisklessError

COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
"""The columns of Spark's Kafka source, in its order."""
HEADERS: Final = "headers"
BYTES_MAX: Final = 1 << 30
"""The offsets of Arrow's binary columns are 32-bit numbers: a column stays below 2 GiB."""


class OffsetsDeleted(DisklessError):
    """Records of a span were deleted before they were read; the text names the partition, the offsets and the bounds of the log."""


class BelowMigration(DisklessError):
    """A span begins in the classic part of a migrated partition, which Kafka has and this reader has not; the text names both parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The offsets of a partition from `from_offset` to before `to_offset`. Raises ValueError when these are no offsets."""

    topic: str
    topic_id: bytes
    partition: int
    from_offset: int
    to_offset: int

    def __post_init__(self) -> None:
        if not 0 <= self.from_offset <= self.to_offset < 1 << 63:
            raise ValueError(f"{self}: offsets are 0 to 2^63 - 1, and the first is not after the end")

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} offsets [{self.from_offset}, {self.to_offset})"


class Damage(Enum):
    """What becomes of a read that meets a damaged batch."""

    FAIL = "fail"
    SKIP = "skip"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """How spans are read. Raises ValueError for a column that there is not, or a limit out of its bounds.

    `fetch_bytes` bounds the bytes of batches that are fetched ahead, `batch_rows` and `batch_bytes` a `RecordBatch`; one batch or record
    that is larger comes alone. `timeout_s` is how long nodes and the store may fail without progress.
    """

    columns: tuple[str, ...] = COLUMNS
    include_headers: bool = False
    fetch_bytes: int = 32 * 1024 * 1024
    batch_rows: int = 8192
    batch_bytes: int = 8 * 1024 * 1024
    fail_on_data_loss: bool = True
    on_damage: Damage = Damage.FAIL
    timeout_s: float = 60

    def __post_init__(self) -> None:
        known = (*COLUMNS, HEADERS) if self.include_headers else COLUMNS
        unknown = [name for name in self.columns if name not in known]
        if unknown or len(set(self.columns)) != len(self.columns):
            text = f"columns {', '.join(self.columns)}: each is there once, and is one of {', '.join(known)}"
            raise ValueError(text if self.include_headers else f"{text}, or with headers included {HEADERS}")
        for name in ("fetch_bytes", "batch_rows", "batch_bytes"):
            if not 1 <= getattr(self, name) <= BYTES_MAX:
                raise ValueError(f"{name}={getattr(self, name)}: it must be 1 to {BYTES_MAX}")

    @property
    def names(self) -> tuple[str, ...]:
        """The columns, headers at the end where they are included."""
        return (*self.columns, HEADERS) if self.include_headers and HEADERS not in self.columns else self.columns


class ReadCounts:
    """What reads left out, as their options allow it: damaged batches, and offsets that were deleted. Used from several threads.

    Each is counted once, however often it is read again: after an outage, or since an object of another batch was missing.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._damaged: set[tuple[str, int, int]] = set()
        self._deleted_to: dict[tuple[str, int], int] = {}
        self.deleted_offsets = 0

    @property
    def damaged_batches(self) -> int:
        """How many batches are damaged."""
        return len(self._damaged)

    def damage(self, topic: str, partition: int, base_offset: int) -> bool:
        """Count a damaged batch; return whether it was not counted before."""
        with self._lock:
            known = len(self._damaged)
            self._damaged.add((topic, partition, base_offset))
            return len(self._damaged) > known

    def deleted(self, topic: str, partition: int, first: int, stop: int) -> None:
        """Count the offsets from `first` to before `stop` as deleted. Those of a partition are counted in their order."""
        with self._lock:
            counted = self._deleted_to.get((topic, partition), 0)
            self.deleted_offsets += max(0, stop - max(first, counted))
            self._deleted_to[topic, partition] = max(stop, counted)
