"""Rows that are written to the state database, and what the core reads back from it.

A *run* is the live batches of one user partition that were written together: consecutive in offsets, packed 24 bytes
each. A *file* is a committed WAL file; its id comes from the offset of the entry that committed it (`HotState.file_id_base`),
so it is the same on every replica.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import compress
from operator import add
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

PACKED = np.dtype(
    [
        ("count", "<u4"),  # records in the batch, less one; the highest bit says LogAppendTime
        ("byte_offset", "<u4"),
        ("size", "<u4"),
        ("file", "<u4"),  # file id, counted from the run's file_base
        ("timestamp", "<i4"),  # the batch's largest timestamp, counted from the run's timestamp_base
        ("index", "<u4"),  # place in the request, whose batches the entry has all
    ]
)
APPEND_TIME_BIT = 0x80000000
PACKED_CELLS = PACKED.itemsize // 4
"""A packed batch as numbers of 32 bits: a distance of timestamps has 31 at most."""

ROW = np.dtype(
    [
        ("base", "<i8"),
        ("count", "<i8"),
        ("byte_offset", "<i8"),
        ("size", "<i8"),
        ("file", "<i8"),
        ("index", "<i8"),
        ("timestamp", "<i8"),
        ("append_time", "<i8"),
        ("type", "<i8"),
    ]
)
Rows: TypeAlias = npt.NDArray[np.void]
"""Live batches in offset order, dtype `ROW`; `append_time` is 0 where the file's time has to be looked up."""


def numbers_of(rows: Rows) -> npt.NDArray[np.int64]:
    """Return rows as lines of numbers, for loops."""
    return rows.view(np.int64).reshape(-1, ROW.itemsize // 8)


RowT = TypeVar("RowT", bound=tuple[Any, ...])


@dataclass(slots=True)
class Columns(Generic[RowT]):
    """Rows of one kind as lists, one for each field: numbers and texts are copied and hashed a column at a time."""

    kind: type[RowT]
    lists: Sequence[list[Any]]

    @staticmethod
    def of(kind: type[RowT], rows: Collection[RowT]) -> Columns[RowT]:
        """Rows as columns. There may be thousands: unlike `zip`, this lets other threads run between two rows."""
        return Columns(kind, [[row[field] for row in rows] for field in range(len(_fields_of(kind)))])

    def __len__(self) -> int:
        return len(self.lists[0])

    def __getitem__(self, field: str) -> list[Any]:
        return self.lists[_fields_of(self.kind).index(field)]

    def row(self, at: int) -> RowT:
        """One of the rows."""
        return self.kind(*[column[at] for column in self.lists])

    def rows(self) -> list[RowT]:
        """All rows."""
        return list(map(self.kind, *self.lists))

    def part(self, start: int, stop: int) -> Columns[RowT]:
        """The rows `[start, stop)`."""
        return Columns(self.kind, [column[start:stop] for column in self.lists])

    def chosen(self, is_chosen: Sequence[bool]) -> Columns[RowT]:
        """The rows that are marked."""
        return Columns(self.kind, [list(compress(column, is_chosen)) for column in self.lists])

    def extend(self, more: Columns[RowT]) -> None:
        """Add rows behind these."""
        for column, added in zip(self.lists, more.lists, strict=True):
            column += added


def _fields_of(kind: type[tuple[Any, ...]]) -> tuple[str, ...]:
    fields: tuple[str, ...] = kind._fields  # type: ignore[attr-defined]  # of a NamedTuple
    return fields


class RunRow(NamedTuple):
    """A packed run. `max_timestamp` is the greatest effective timestamp in it."""

    partition_row: int
    base: int
    last: int
    max_timestamp: int
    file_base: int
    timestamp_base: int
    data: bytes


class FileRow(NamedTuple):
    """A known file. `record` is the committed record's encoding while its results are kept, else empty.

    `emptied_ms` is -1 while there are live batches and until the end of the last one is written; then a time that is not before that
    of the entry that emptied the file. Replicas differ in it.
    """

    file_id: int
    object_key: str
    content_hash: bytes
    object_format: int
    file_size: int
    uploader_broker_id: int
    owner_ids: str
    created_ms: int
    append_time_ms: int
    batch_count: int
    live_batches: int
    record: bytes
    emptied_ms: int


class EmptyFilesPage(NamedTuple):
    """Files without live batches; `last` is the `emptied_ms` and the id after which the next page begins, None when there is none."""

    rows: list[FileRow]
    last: tuple[int, int] | None


class FileTotals(NamedTuple):
    """How many files there are with and without live batches, and the sizes of their objects; also how such figures change."""

    live: int = 0
    empty: int = 0
    bytes_live: int = 0
    bytes_empty: int = 0

    def plus(self, other: FileTotals) -> FileTotals:
        return FileTotals(*map(add, self, other))


NO_FILES = FileTotals()


class FileName(NamedTuple):
    """The properties of a file that never change and that every found batch of it needs."""

    object_key: str
    append_time_ms: int


class Tombstone(NamedTuple):
    """A key that may never be committed (again). `reason`: fenced, removed, handed over."""

    object_key: str
    reason: str
    time_ms: int
    created_ms: int


def unpack(run: RunRow) -> Rows:
    """The batches of a packed run."""
    packed = np.frombuffer(run.data, PACKED)
    rows = np.zeros(len(packed), ROW)
    count = packed["count"].astype(np.int64)
    rows["type"] = count >> 31
    count = (count & (APPEND_TIME_BIT - 1)) + 1
    rows["count"] = count
    rows["base"] = run.base + np.cumsum(count) - count
    rows["byte_offset"] = packed["byte_offset"]
    rows["size"] = packed["size"]
    rows["file"] = packed["file"].astype(np.int64) + run.file_base
    rows["index"] = packed["index"]
    rows["timestamp"] = packed["timestamp"].astype(np.int64) + run.timestamp_base
    return rows


class WrittenRun(NamedTuple):
    """A packed run as far as it counts: batches that begin at `end` or later are seen elsewhere."""

    run: RunRow
    end: int

    def rows(self) -> Rows:
        """The batches that count."""
        rows = unpack(self.run)
        return rows if self.run.last < self.end else rows[rows["base"] < self.end]


class ColdStore(Protocol):
    """Synchronous, bounded reads of what was written; implemented by the state database and by a fake."""

    def run_covering(self, partition_row: int, offset: int) -> RunRow | None:
        """The first run whose last offset is at or after `offset`."""

    def run_reaching(self, partition_row: int, from_offset: int, timestamp_ms: int) -> RunRow | None:
        """The first run that ends at or after `from_offset` and has a batch at or after a time, by `max_timestamp`."""

    def max_run(self, partition_row: int, from_offset: int) -> RunRow | None:
        """The first run with the greatest `max_timestamp` among those that end at or after `from_offset`."""

    def file_by_key(self, object_key: str) -> FileRow | None: ...

    def files_by_key(self, object_keys: Sequence[str]) -> list[FileRow]:
        """Return the written files among those with some keys, in any order."""

    def file_name(self, file_id: int) -> FileName | None:
        """A written file by the offset of its entry."""

    def files_after(self, object_key: str, limit: int) -> list[FileRow]:
        """Files in key order after a key ('' = from the start)."""

    def tombstone(self, object_key: str) -> Tombstone | None: ...

    def empty_files(self, before_ms: int, after: tuple[int, int], limit: int) -> list[FileRow]:
        """Files with `emptied_ms` below `before_ms`, ordered by it and the file id, after that pair."""

    def file_changes(self) -> FileTotals:
        """How the files changed that are stored, since the store was opened."""

    def tombstones_after(self, object_key: str, limit: int) -> list[Tombstone]:
        """Tombstones in key order after a key ('' = from the start)."""

    def written(self) -> None:
        """The state has let go of the frozen generation.

        Until then a store may show what the flush under way has written, except that `live_batches` are given without its
        losses: the state takes those away itself, and a file must not look dead because they were taken away twice.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The position of a state database: its log, offset and claim."""

    cluster_id: str
    topic_id: bytes
    metadata_partition: int
    applied_offset: int
    epoch: int
    term: int
    seq: int
    leader_node_id: int
    leader_endpoints: str
    log_time_ms: int
    last_entry_hash: bytes
    digest: bytes
