"""A state database as logical rows: the state by the log, without row numbers, packing and housekeeping that is under way.

For tools that compare states (`diskless db digest`, `diskless monitor verify`), also while the service runs: everything
is read in one read transaction. Batches that were deleted but not yet subtracted from their files ("trimming") are given
as gone, so that two replicas at one offset have the same rows however far their housekeeping is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import NamedTuple

import apsw
import numpy as np

from coordinator.adapters.sqlite.schema import connect_interruptible, fetch
from coordinator.core.directory.content import Content
from coordinator.core.state.frozen import PartitionRow, ProducerRow
from coordinator.core.state.packing import TopicRow
from coordinator.core.tables.stored_rows import FileRow, Header, Rows, RunRow, Tombstone, unpack
from coordinator.kafka.batches import partition_key
from records.durable import part_file, publish_new, sync

_HEADER_COLUMNS = tuple(field.name for field in fields(Header))
_HEADER = f"SELECT {', '.join(_HEADER_COLUMNS)} FROM header"
_PARTITIONS = """
    SELECT id, topic_id, partition, high_watermark, log_start, first_offset, prefix_start, leader_epoch, max_timestamp,
        max_timestamp_offset, trimmed_to, is_dead
    FROM partition ORDER BY topic_id, partition
"""
_RUNS = """
    SELECT partition_id, base_offset, last_offset, max_timestamp, file_base, timestamp_base, batches
    FROM run WHERE partition_id = ? AND last_offset >= ? ORDER BY last_offset
"""
_PRODUCERS = "SELECT id, partition_id, producer_id, epoch, last_append_ms, remembered FROM producer"
_FILES = """
    SELECT id, object_key, content_hash, object_format, file_size, uploader_broker_id, owner_ids, created_ms, append_time_ms,
        batch_count, live_batches, record, emptied_ms, lost_batches, record_proof, proof FROM file ORDER BY id
"""
_FILE_FIELDS = len(FileRow._fields)
_TOMBSTONES = "SELECT object_key, reason, time_ms, created_ms FROM tombstone"
_TOPICS = "SELECT topic_id, name, order_offset, deleted_ms FROM topic"
_DIRECTORY = "SELECT content FROM directory"


class FileProofs(NamedTuple):
    """The columns beside a file in its row: how many batches it lost, the hash of the results that were kept, and that of the row."""

    lost_batches: int
    record_proof: bytes
    proof: bytes


class LogicalState:
    """See the module's text. Close it: an open read transaction keeps the write-ahead log from being reset."""

    def __init__(self, path: Path) -> None:
        """Open. Raises FileNotFoundError when there is no file or nothing was written to it, and the library's errors."""
        if not path.exists():
            raise FileNotFoundError(f"there is no state database {path}; name a file partition-<n>.db in a data directory")
        self._connection = connect_interruptible(path)
        try:
            self._connection.execute("BEGIN")
            rows = fetch(self._connection, _HEADER)
            if not rows:
                raise FileNotFoundError(f"nothing was written to the state database {path} yet")
            self.header = Header(**dict(zip(_HEADER_COLUMNS, rows[0], strict=True)))
            self._stored = [_partition(*row) for row in fetch(self._connection, _PARTITIONS)]
        except BaseException:
            self._connection.close(True)
            raise

    def close(self) -> None:
        """End the read transaction."""
        self._connection.close(True)

    def partitions(self) -> list[PartitionRow]:
        """The user partitions that exist."""
        return [one for one in self._stored if not one.is_dead]

    def batches(self, partition: PartitionRow) -> Iterator[Rows]:
        """The live batches of a partition in offset order, run by run."""
        for run in self._runs(partition.row, partition.log_start):
            rows = unpack(run)
            yield rows[rows["base"] + rows["count"] > partition.log_start]

    def trimming(self) -> Iterator[tuple[PartitionRow, Rows]]:
        """Batches that are deleted but still counted in their files; those of partitions that exist are in the stored digest."""
        for one in self._stored:
            end = one.high_watermark if one.is_dead else one.log_start
            if one.trimmed_to < end:
                for run in self._runs(one.row, one.trimmed_to):
                    rows = unpack(run)
                    next_offset = rows["base"] + rows["count"]
                    yield one, rows[(next_offset > one.trimmed_to) & (next_offset <= end)]

    def producers(self) -> Iterator[tuple[bytes, ProducerRow]]:
        """The producers with the keys of their partitions."""
        keys = {one.row: one.key for one in self._stored}
        for row in self._connection.execute(_PRODUCERS):
            producer = ProducerRow(*row)
            yield keys[producer.partition_row], producer

    def files(self) -> Iterator[tuple[FileRow, FileProofs]]:
        """The known files with their proofs, none of which is checked; batches that are being trimmed count as lost."""
        losses: dict[int, int] = {}
        for _, rows in self.trimming():
            ids, counts = np.unique(rows["file"], return_counts=True)
            for file_id, count in zip(ids.tolist(), counts.tolist(), strict=True):
                losses[file_id] = losses.get(file_id, 0) + count
        for row in self._connection.execute(_FILES):
            file = FileRow(*row[:_FILE_FIELDS])
            lost_batches, of_record, proof = row[_FILE_FIELDS:]
            trimming = losses.get(file.file_id, 0)
            yield file._replace(live_batches=file.live_batches - trimming), FileProofs(lost_batches + trimming, of_record, proof)

    def tombstones(self) -> Iterator[Tombstone]:
        """The tombstones of object keys."""
        for row in self._connection.execute(_TOMBSTONES):
            yield Tombstone(*row)

    def topics(self) -> Iterator[TopicRow]:
        """Topics with partitions here, and remembered deleted ones."""
        for row in self._connection.execute(_TOPICS):
            yield TopicRow(*row)

    def directory(self) -> Content | None:
        """The directory as it is stored: placements, deletions, nodes, schema_level; None where there is none."""
        rows = fetch(self._connection, _DIRECTORY)
        content: Content | None = json.loads(rows[0][0]) if rows else None
        return content

    def _runs(self, partition_row: int, offset: int) -> Iterator[RunRow]:
        # A cursor of its own: several are read at a time.
        for row in self._connection.cursor().execute(_RUNS, (partition_row, offset)):
            yield RunRow(*row)


def copy_database(source: Path, target: Path) -> None:
    """Copy a state database into a new file, as of one moment, also while it is written. It has its name when it is whole.

    Raises FileNotFoundError, FileExistsError, OSError and the library's errors.
    """
    if not source.exists():
        raise FileNotFoundError(f"there is no state database {source}; name a file partition-<n>.db in a data directory")
    if target.exists():
        raise FileExistsError(f"{target} exists; name a new file")
    if not target.parent.is_dir():
        raise NotADirectoryError(f"{target.parent} is no folder")
    with part_file(target) as part:
        connection = connect_interruptible(source, apsw.SQLITE_OPEN_URI)
        try:
            # SQLite needs no lock of its own, and on a network's file system, where all locks are of one kind, ours would refuse it.
            connection.execute("VACUUM INTO ?", (f"{part.absolute().as_uri()}?nolock=1",)).fetchall()
        finally:
            connection.close(True)
        sync(part)
        try:
            publish_new(part, target)
        except FileExistsError as error:
            raise FileExistsError(f"{target} exists; name a new file") from error
    sync(target.absolute().parent)


def _partition(row: int, topic_id: bytes, partition: int, *numbers: int) -> PartitionRow:
    *columns, is_dead = numbers
    return PartitionRow._make((row, partition_key(topic_id, partition), *columns, bool(is_dead)))
