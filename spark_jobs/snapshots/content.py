"""The content of a snapshot as jobs read it: the rows of the state's tables, in memory but for the batches, which pass in chunks.

Apart on purpose from the service's reader of its tables (`coordinator.adapters.sqlite`): jobs know the file format and the
columns, and find out if the service gets them wrong.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from records.snapshot import BadSnapshot, SnapshotHead, SnapshotReader, TableRows
from records.state_digest import hash_record
from spark_jobs.log_begin import Start
from spark_jobs.migration import PENDING
from spark_jobs.snapshots.shipping import local

Int64s = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

TABLE_VERSION = 5
"""The version of the state's tables that is read here."""

TABLES: Mapping[str, tuple[str, ...]] = {
    "topic": ("topic_id", "name", "order_offset", "deleted_ms"),
    "partition": (
        "id",
        "topic_id",
        "partition",
        "high_watermark",
        "log_start",
        "first_offset",
        "prefix_start",
        "leader_epoch",
        "max_timestamp",
        "max_timestamp_offset",
        "trimmed_to",
        "is_dead",
    ),
    "run": ("partition_id", "base_offset", "file_base", "timestamp_base", "batches"),
    "file": (
        "id",
        "object_key",
        "content_hash",
        "object_format",
        "file_size",
        "uploader_broker_id",
        "owner_ids",
        "created_ms",
        "append_time_ms",
        "batch_count",
        "record",
        "record_proof",
    ),
    "producer": ("partition_id", "producer_id", "epoch", "last_append_ms", "remembered"),
    "tombstone": ("object_key", "reason", "time_ms", "created_ms"),
    "directory": ("content",),
}
"""The columns that are read of each table."""

_PACKED = np.dtype([("count", "<u4"), ("byte_offset", "<u4"), ("size", "<u4"), ("file", "<u4"), ("timestamp", "<i4"), ("index", "<u4")])
_APPEND_TIME_BIT = 31
"""The bit of the packed count that says LogAppendTime; the other bits are the number of records less one."""


class SnapshotTopicRow(NamedTuple):
    """A topic with partitions here (`deleted_ms` -1), or a deleted one that is remembered."""

    topic_id: bytes
    name: str
    order_offset: int
    deleted_ms: int


class SnapshotPartitionRow(NamedTuple):
    """A user partition. Batches of a dead one, and those before the log start, are deleted; they are trimmed up to `trimmed_to`."""

    row: int
    topic_id: bytes
    partition: int
    high_watermark: int
    log_start: int
    first_offset: int
    prefix_start: int
    leader_epoch: int
    max_timestamp: int
    max_timestamp_offset: int
    trimmed_to: int
    is_dead: int

    @property
    def is_migrated(self) -> bool:
        """Whether it is, or was, a classic partition."""
        return self.leader_epoch >= 0 or self.first_offset == PENDING

    @property
    def key(self) -> bytes:
        """The 20 bytes that name the partition."""
        return self.topic_id + self.partition.to_bytes(4, "big", signed=True)


class SnapshotFileRow(NamedTuple):
    """A known file; `record_hash` is that of the entry that committed it."""

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
    record_hash: bytes


class SnapshotProducerRow(NamedTuple):
    """A producer of a user partition; `ring` are its remembered batches as `PRODUCER_RING`."""

    partition_row: int
    producer_id: int
    epoch: int
    last_append_ms: int
    ring: bytes


class SnapshotTombstoneRow(NamedTuple):
    """Why an object key may not be committed (again)."""

    object_key: str
    reason: str
    time_ms: int
    created_ms: int


class BatchChunk(NamedTuple):
    """Some stored batches, those of a partition in offset order. `columns` are `BATCH_COLUMNS`.

    `partition` and `file` are places in the lists of the content. Batches that are not `live` are deleted, and their files may be gone.
    """

    partition: Int64s
    file: Int64s
    columns: dict[str, Int64s]
    live: Mask


@dataclass(slots=True)
class SnapshotContent:
    """A whole snapshot; the batches are read again from the file each time.

    `file_id_base` is the id of a file less the offset of its entry in the log after the snapshot: offsets of files from before a restore
    are less than 0.
    """

    path: Path
    head: SnapshotHead
    topics: list[SnapshotTopicRow]
    partitions: list[SnapshotPartitionRow]
    files: list[SnapshotFileRow]
    producers: list[SnapshotProducerRow]
    tombstones: list[SnapshotTombstoneRow]
    directory: dict[str, Any] | None
    file_id_base: int

    def batches(self) -> Iterator[BatchChunk]:
        """The stored batches of all partitions. Raises `BadSnapshot`, OSError."""
        rows = _Places(self.path, "partition", [one.row for one in self.partitions])
        files = _Places(self.path, "file", [one.file_id for one in self.files])
        starts = np.array([one.high_watermark if one.is_dead else one.log_start for one in self.partitions], np.int64)
        with SnapshotReader(self.path) as reader:
            for table in reader.rows():
                if table.table == "run":
                    chunk = _unpacked(self.path, _columns(self.path, table))
                    partition, columns = rows.of(chunk.partition_id), chunk.columns
                    live = columns["base"] + columns["count"] > starts[partition]
                    file = np.full(len(partition), -1, np.int64)
                    file[live] = files.of(columns["file"][live])
                    yield BatchChunk(partition, file, columns, live)

    def trimming(self, chunk: BatchChunk) -> Mask:
        """Which batches are deleted and still counted: the digest that a replica keeps has those of partitions that exist."""
        trimmed_to = np.array([one.trimmed_to for one in self.partitions], np.int64)[chunk.partition]
        is_dead = np.array([one.is_dead for one in self.partitions], bool)[chunk.partition]
        found: Mask = ~chunk.live & ~is_dead & (chunk.columns["base"] + chunk.columns["count"] > trimmed_to)
        return found


def read_start(start: Start) -> SnapshotContent:
    """Read the snapshot that reading begins with: as of before the first entry, if that restores it into another log.

    Raises `BadSnapshot`, OSError.
    """
    assert start.snapshot is not None, start
    content = read_content(local(start.snapshot))
    if start.restored is not None:
        content.head = content.head._replace(end_offset=start.offset, epoch=0, term=0, seq=0, header={})
        content.file_id_base = start.restored.file_id_base
        if content.directory is not None:
            content.directory["snapshots"] = []
    return content


def read_content(path: Path) -> SnapshotContent:
    """Read a snapshot whole, but keep no batches. Raises `BadSnapshot`, also for tables of another version, and OSError."""
    found: dict[str, list[tuple[Any, ...]]] = {name: [] for name in TABLES}
    with SnapshotReader(path) as reader:
        head = reader.head
        if head.table_version != TABLE_VERSION:
            raise BadSnapshot(f"snapshot {path}: its tables have version {head.table_version}, this version reads version {TABLE_VERSION}")
        for table in reader.rows():
            columns = _columns(path, table)
            if table.table == "file":
                records, proofs = columns.pop("record"), columns.pop("record_proof")
                columns["record_hash"] = [hash_record(one) if one else proof for one, proof in zip(records, proofs, strict=True)]
            if table.table != "run":
                found[table.table] += zip(*columns.values(), strict=True)
    directory = _directory(path, found["directory"])
    restored = None if directory is None else directory.get("restored")
    return SnapshotContent(
        path,
        head,
        [SnapshotTopicRow(*row) for row in found["topic"]],
        [SnapshotPartitionRow(*row) for row in found["partition"]],
        [SnapshotFileRow(*row) for row in found["file"]],
        [SnapshotProducerRow(*row) for row in found["producer"]],
        [SnapshotTombstoneRow(*row) for row in found["tombstone"]],
        directory,
        0 if restored is None else restored["file_id_base"],
    )


def _columns(path: Path, table: TableRows) -> dict[str, Sequence[Any]]:
    """The columns of rows that are read, in order."""
    names = TABLES.get(table.table)
    if names is None or not set(names) <= set(table.columns):
        raise BadSnapshot(f"snapshot {path}: its rows of a table {table.table!r:.100} have the columns {sorted(table.columns)}")
    return {name: table.columns[name] for name in names}


def _directory(path: Path, rows: Sequence[tuple[Any, ...]]) -> dict[str, Any] | None:
    if not rows:
        return None
    try:
        return cast(dict[str, Any], json.loads(rows[0][0]))
    except (ValueError, TypeError) as error:
        raise BadSnapshot(f"snapshot {path}: the directory cannot be read: {error}") from error


class _Unpacked(NamedTuple):
    partition_id: Int64s
    columns: dict[str, Int64s]


def _unpacked(path: Path, runs: Mapping[str, Sequence[Any]]) -> _Unpacked:
    """The batches of some runs: each run has its first offset, and numbers to count files and timestamps from."""
    try:
        packed = np.frombuffer(b"".join(runs["batches"]), _PACKED)
        sizes = np.fromiter(map(len, runs["batches"]), np.int64, len(runs["batches"]))
        first, rest = np.divmod(sizes, _PACKED.itemsize)
        if rest.any():
            raise ValueError("a run has a part of a batch")
        partition_id, base, file_base, timestamp_base = (
            np.repeat(np.array(runs[name], np.int64), first) for name in ("partition_id", "base_offset", "file_base", "timestamp_base")
        )
    except (ValueError, TypeError, OverflowError) as error:
        raise BadSnapshot(f"snapshot {path}: packed batches cannot be read: {error}") from error
    stored = packed["count"].astype(np.int64)
    count = (stored & ((1 << _APPEND_TIME_BIT) - 1)) + 1
    before = np.cumsum(count) - count
    # Offsets are counted from the beginning of each run.
    starts = np.cumsum(first) - first
    filled = first > 0
    before -= np.repeat(before[starts[filled]], first[filled])
    columns = {
        "base": base + before,
        "count": count,
        "byte_offset": packed["byte_offset"].astype(np.int64),
        "size": packed["size"].astype(np.int64),
        "file": packed["file"].astype(np.int64) + file_base,
        "index": packed["index"].astype(np.int64),
        "timestamp": packed["timestamp"].astype(np.int64) + timestamp_base,
        "type": stored >> _APPEND_TIME_BIT,
    }
    return _Unpacked(partition_id, columns)


class _Places:
    """Finds the places of rows by their numbers."""

    def __init__(self, path: Path, table: str, numbers: Sequence[int]) -> None:
        self._path, self._table = path, table
        unsorted = np.array(numbers, np.int64)
        self._order = np.argsort(unsorted, kind="stable")
        self._numbers = unsorted[self._order]

    def of(self, wanted: Int64s) -> Int64s:
        """The places of rows. Raises `BadSnapshot` for a number that no row has."""
        at = np.searchsorted(self._numbers, wanted)
        known = at < len(self._numbers)
        known[known] = self._numbers[at[known]] == wanted[known]
        if not known.all():
            raise BadSnapshot(f"snapshot {self._path}: batches are of the {self._table} {wanted[~known][0]}, of which it has no row")
        places: Int64s = self._order[at]
        return places
