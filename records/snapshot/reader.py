"""Reads a snapshot and refuses everything that is not one, whole and undamaged.

Checksums cover a batch but for its offset and epoch; those must be the ones that the writer gives. So no bit of a file can change
unnoticed, and no batch can be missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple

from records.columns import decode_records
from records.record_batch import CorruptBatch, parse_header
from records.snapshot.control import FOOTER, FOOTER_KEY, HEADER_KEY, decode_header
from records.snapshot.errors import BadSnapshot, MalformedRecord, NewerFormat
from records.snapshot.head import HEAD_KEY, SnapshotHead, decode_head
from records.snapshot.rows import KEY_BYTES_MAX, ROW_BYTES_MAX, RowChunk, TableRows, decode_rows

BATCH_BYTES_MAX: Final = ROW_BYTES_MAX + 2 * KEY_BYTES_MAX
"""Limit of a batch, and of its records when they are decompressed: the largest row with a key and the framing around them."""

_LENGTH_ENDS = 12  # the length field counts what follows it


class _Batch(NamedTuple):
    """A batch of one record, and where the next one begins."""

    key: bytes | None
    value: bytes | None
    epoch: int
    is_control: bool
    end: int


class SnapshotReader:
    """An open snapshot file; use as a context manager. Nothing it gave counts before `rows` has come to its end without an error."""

    head: SnapshotHead
    log_timestamp_ms: int
    size_bytes: int
    position: int
    """Where in the file the batch begins whose rows come next."""

    def __init__(self, path: Path) -> None:
        """Open a file and read its header and head. Raises `BadSnapshot`, `NewerFormat`, OSError."""
        self._path = path
        self._file = path.open("rb")
        try:
            self.size_bytes = self._file.seek(0, 2)
            header = self._read(0, 0)
            if not header.is_control or header.key != HEADER_KEY:
                raise self._bad("it does not begin with the header of a snapshot")
            head = self._read(header.end, 1)
            if head.is_control or head.key != HEAD_KEY or head.value is None:
                raise self._bad("it has another program's content")
            try:
                self.log_timestamp_ms = decode_header(header.value)
                self.head = decode_head(head.value)
            except MalformedRecord as error:
                raise self._bad(str(error)) from error
            except NewerFormat as error:
                raise NewerFormat(f"snapshot {path}: {error}") from error
            if (header.epoch, head.epoch) != (self.head.epoch, self.head.epoch):
                raise self._bad(f"batches of epochs {header.epoch} and {head.epoch}, the head has epoch {self.head.epoch}")
            self.position = self._rows_begin = head.end
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> SnapshotReader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def rows(self) -> Iterator[TableRows]:
        """Return the rows in their order, and at last check that the snapshot is whole. Raises `BadSnapshot`, OSError."""
        position, offset = self._rows_begin, 2
        while True:
            batch = self._read(position, offset)
            if batch.epoch != self.head.epoch:
                raise self._bad(f"batch at byte {position}: epoch {batch.epoch}, the head has epoch {self.head.epoch}")
            if batch.is_control:
                break
            if batch.key is None or batch.value is None:
                raise self._bad(f"batch at byte {position}: a record without key or value")
            try:
                rows = decode_rows(RowChunk(batch.key, batch.value))
            except MalformedRecord as error:
                raise self._bad(f"batch at byte {position}: {error}") from error
            self.position = batch.end
            yield rows
            position, offset = batch.end, offset + 1
        if (batch.key, batch.value) != (FOOTER_KEY, FOOTER):
            raise self._bad(f"batch at byte {position}: a control record that is not the footer")
        if batch.end != self.size_bytes:
            raise self._bad(f"{self.size_bytes - batch.end} bytes follow the footer")

    def _read(self, position: int, offset: int) -> _Batch:
        """Read the batch at a position, which must have this offset. Raises `BadSnapshot`, OSError."""
        left = self.size_bytes - position
        if left == 0:
            raise self._bad("it is incomplete: it ends without a footer")
        self._file.seek(position)
        beginning = self._file.read(_LENGTH_ENDS)
        size = _LENGTH_ENDS + int.from_bytes(beginning[8:], "big", signed=True)
        if size > BATCH_BYTES_MAX:
            raise self._bad(f"batch at byte {position}: {size} bytes, a batch of a snapshot has at most {BATCH_BYTES_MAX}")
        data = beginning + self._file.read(max(0, min(size, left) - _LENGTH_ENDS))
        try:
            header = parse_header(data)
            if header.record_count != 1 or header.base_offset != offset or header.last_offset_delta != 0:
                raise CorruptBatch(0, f"{header.record_count} records from offset {header.base_offset} on, expected one at {offset}")
            (record,) = decode_records(data, header, bytes_max=BATCH_BYTES_MAX)
        except CorruptBatch as error:
            raise self._bad(f"batch at byte {position}: {error.reason}") from error
        return _Batch(record.key, record.value, header.partition_leader_epoch, header.is_control, position + size)

    def _bad(self, reason: str) -> BadSnapshot:
        return BadSnapshot(f"snapshot {self._path}: {reason}")
