"""The state database of one replica: one SQLite file, its lock, its writer and its reader.

It is a cache of the log and may be deleted at any time. `open`, `load`, `write` and `close` belong to the writer's
thread, the reader to the event loop. What was written is always the state as of one applied offset, whole.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import apsw

from coordinator.adapters.sqlite.errors import DamagedRow, StateLocked, translated
from coordinator.adapters.sqlite.evidence import SUFFIXES
from coordinator.adapters.sqlite.lock import LockFile, read_boot_id
from coordinator.adapters.sqlite.proofs import file_of, header_proof, run_of, tombstone_of
from coordinator.adapters.sqlite.reader import StateReader
from coordinator.adapters.sqlite.schema import UnknownVersion, connect_writer, fetch
from coordinator.adapters.sqlite.writer import FlushWriter
from coordinator.core.state.damage import DiskFull
from coordinator.core.state.frozen import PartitionRow, ProducerRow
from coordinator.core.state.packing import Flush, TopicRow
from coordinator.core.state.proof import StoredRows, Unproven, prove
from coordinator.core.state.replica_state import Stored
from coordinator.core.tables.stored_rows import Header
from coordinator.core.yielding import Rest, no_rest
from coordinator.kafka.batches import partition_key

TOPIC_ID_BYTES = 16
PARTITION_MAX = (1 << 31) - 1

HEADER_COLUMNS = tuple(field.name for field in fields(Header))
HEADER = f"SELECT {', '.join(HEADER_COLUMNS)}, flushes, proof FROM header"
PARTITIONS = """
    SELECT proof, topic_id, partition, is_dead, id, high_watermark, log_start, first_offset, max_timestamp, max_timestamp_offset,
        trimmed_to
    FROM partition ORDER BY id
"""
PRODUCERS = "SELECT id, partition_id, producer_id, epoch, last_append_ms, remembered FROM producer ORDER BY id"
TOPICS = "SELECT topic_id, name, order_offset, deleted_ms FROM topic ORDER BY topic_id"
DIRECTORY = "SELECT content, proof FROM directory"
TOMBSTONES = "SELECT object_key, reason, time_ms, created_ms, proof FROM tombstone"
RUNS = "SELECT id, partition_id, base_offset, last_offset, max_timestamp, file_base, timestamp_base, batches, proof FROM run"
FILES = """
    SELECT id, object_key, content_hash, object_format, file_size, uploader_broker_id, owner_ids, created_ms, append_time_ms,
        batch_count, live_batches, record, lost_batches, record_proof, proof
    FROM file ORDER BY id
"""
CHECK = "PRAGMA integrity_check(1)"
"""Whether the pages hang together, every index has exactly the rows of its table, and every column is of its type."""
ANY_ROW = "SELECT 1 FROM " + " UNION ALL SELECT 1 FROM ".join(("partition", "run", "file", "producer", "topic", "tombstone")) + " LIMIT 1"


class StateDatabase:
    """See the module's text.

    `boot_id` identifies this run of the machine; tests give their own. `make_room` removes what may go from a full disk, and says
    whether there was anything.
    """

    def __init__(
        self,
        path: Path,
        *,
        cluster_id: str,
        topic_id: bytes,
        metadata_partition: int,
        boot_id: str | None = None,
        make_room: Callable[[], bool] = lambda: False,
    ) -> None:
        self.path = path
        self._make_room = make_room
        self._identity = (cluster_id, topic_id, metadata_partition)
        self._boot_id = read_boot_id() if boot_id is None else boot_id
        self._lock = LockFile(path.with_name(path.name + ".lock"))
        self._connection: apsw.Connection | None = None
        self._writer: FlushWriter | None = None
        self._reader: StateReader | None = None
        self._is_corrupt = False
        self._header: Header | None = None

    def open(self) -> str | None:
        """Open or create the file; returns why an earlier one was discarded, or None.

        Raises `StateCorrupt` when it is damaged and has to be set aside, `StateLocked` when another process or object has it open,
        `DirectoryFailed` when the directory cannot be used.
        """
        self._lock.acquire()
        try:
            self._is_corrupt = False
            reason = self._lock.distrust(self._boot_id) if self.path.exists() else None
            self._lock.mark_open(self._boot_id)
            with translated(self.path, self._mark_corrupt):
                if reason is None:
                    reason = self._connect_to_own()
                if reason is not None:
                    self._delete_files()
                    self._connect()
        except BaseException:
            self._disconnect()
            self._lock.release()
            raise
        return reason

    def load(self) -> Stored | None:
        """Read the tables of the database, all rows proven; None when nothing was written yet.

        Raises `StateCorrupt`, `DirectoryFailed`.
        """
        with translated(self.path, self._mark_corrupt):
            connection = self._connected()
            complaint = fetch(connection, CHECK)[0][0]
            if complaint != "ok":
                raise DamagedRow(f"{complaint!r:.200}")
            header = self._read_header()
            if header is None:
                if fetch(connection, ANY_ROW):
                    raise DamagedRow("it has rows and no header")
                return None
            directory = fetch(connection, DIRECTORY)
            try:
                return prove(
                    StoredRows(
                        header=header,
                        partitions=[_partition(*row) for row in fetch(connection, PARTITIONS)],
                        producers=[ProducerRow(*row) for row in fetch(connection, PRODUCERS)],
                        topics=[TopicRow(*row) for row in fetch(connection, TOPICS)],
                        directory=directory[0] if directory else None,
                        runs=(run_of(row[0], row[1:]) for row in connection.execute(RUNS)),
                        files=map(file_of, connection.execute(FILES)),
                        tombstones=[tombstone_of(row) for row in fetch(connection, TOMBSTONES)],
                    )
                )
            except Unproven as unproven:
                raise DamagedRow(str(unproven)) from unproven

    def write(self, flush: Flush, rest: Rest = no_rest) -> None:
        """Write one flush and the applied offset in one transaction. Raises `StateCorrupt`, `DirectoryFailed`."""
        try:
            self._write(flush, rest)
        except DiskFull:
            if not self._make_room():
                raise
            self._write(flush, rest)

    def _write(self, flush: Flush, rest: Rest) -> None:
        if self._writer is None:
            raise StateLocked(f"the state database {self.path} is not open")
        with translated(self.path, self._mark_corrupt):
            if self._reader is not None:
                self._reader.announce(self._writer.flushes + 1, dict(flush.live_lost))
            committed = self._writer.write(flush, rest)
            if self._reader is not None:
                self._reader.report(committed)

    def reader(self) -> StateReader:
        """The reads of the event loop, on a connection of their own; the same one every time."""
        if self._reader is None:
            self._connected()
            self._reader = StateReader(self.path, self._mark_corrupt)
        return self._reader

    def close(self, *, clean: bool = True) -> None:
        """Close (idempotent). Only a clean close, which waits for the disk, lets the file survive a crash of the machine."""
        if self._connection is None:
            return
        try:
            self._disconnect()
            if clean and not self._is_corrupt:
                self._sync_files()
                self._lock.mark_clean()
        finally:
            self._lock.release()

    # ---- helpers

    def _connected(self) -> apsw.Connection:
        if self._connection is None:
            raise StateLocked(f"the state database {self.path} is not open")
        return self._connection

    def _connect(self) -> None:
        self._connection = connect_writer(self.path)
        # Not before the header is proven: the writer goes on from what it says.
        self._header = self._read_header()
        self._writer = FlushWriter(self._connection)

    def _connect_to_own(self) -> str | None:
        """Connect if the file is of this log; returns why it is not. Raises `DamagedRow` and the library's errors."""
        try:
            self._connect()
        except UnknownVersion as error:
            return str(error)
        header = self._header
        if header is None:
            return None
        for name, found, own in zip(
            ("cluster id", "topic id", "metadata partition"),
            (header.cluster_id, header.topic_id.hex(), header.metadata_partition),
            (self._identity[0], self._identity[1].hex(), self._identity[2]),
            strict=True,
        ):
            if found != own:
                return f"it belongs to {name} {found}, not {own}"
        return None

    def _disconnect(self) -> None:
        if self._reader is not None:
            self._reader.close()
        if self._connection is not None:
            self._connection.close(True)
        self._reader = self._writer = self._connection = None

    def _delete_files(self) -> None:
        self._disconnect()
        for suffix in SUFFIXES:
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)

    def _sync_files(self) -> None:
        """Closing brought the write-ahead log into the file, unless somebody else still reads it."""
        for suffix in ("", "-wal"):
            path = self.path.with_name(self.path.name + suffix)
            if path.exists():
                _sync(path, os.O_RDWR)
        _sync(self.path.parent, os.O_RDONLY)

    def _mark_corrupt(self, reason: str) -> None:
        self._is_corrupt = True
        self._lock.mark_corrupt(reason)

    def _read_header(self) -> Header | None:
        rows = fetch(self._connected(), HEADER)
        if not rows:
            return None
        *columns, proof = rows[0]
        if header_proof(tuple(columns)) != proof:
            raise DamagedRow("its header is not the one that was written")
        return Header(**dict(zip(HEADER_COLUMNS, columns, strict=False)))


def _partition(proof: int, topic_id: bytes, partition: int, is_dead: int, row: int, *numbers: int) -> tuple[PartitionRow, int]:
    if len(topic_id) != TOPIC_ID_BYTES or not 0 <= partition <= PARTITION_MAX:
        raise DamagedRow(f"the row of partition {partition} of topic {topic_id.hex()} was changed")
    high_watermark, log_start, first_offset, max_timestamp, max_timestamp_offset, trimmed_to = numbers
    stored = PartitionRow(
        row,
        partition_key(topic_id, partition),
        high_watermark,
        log_start,
        first_offset,
        max_timestamp,
        max_timestamp_offset,
        trimmed_to,
        bool(is_dead),
    )
    return stored, proof


def _sync(path: Path, flags: int) -> None:
    fd = os.open(path, flags)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
