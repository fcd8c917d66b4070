"""WAL files: a concatenation of Kafka record batches of several topic partitions, and a manifest that says of which.

    builder = WalFileBuilder(max_batch_bytes=1_048_576)
    builder.add(TopicPartition("orders", 0), Record(value=b"..."))
    builder.add_batch(TopicPartition("clicks", 0), batch)  # bytes of a batch as a producer made it
    write_wal_file(path, *builder.build(created_ms=now_ms))
    for batch in read_wal_file(path).batches: ...

Invariant: batches of one topic partition lie side by side and in the order in which they were added; the same records
give the same bytes. A `WalFile` only exists when every batch on disk passed its checksum and agrees with the manifest.
"""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from coordinator.client.records.wal_manifest import (
    Manifest,
    ManifestBatch,
    ManifestError,
    TopicPartition,
    decode_manifest,
    encode_manifest,
    manifest_path,
)
from coordinator.errors import DisklessError
from records.compression import Compression
from records.durable import write_whole
from records.record_batch import (
    SEQUENCES,
    WHEN_WRITTEN,
    BatchHeader,
    CorruptBatch,
    ProducerSequence,
    Record,
    TimestampType,
    encode_batch,
    header_name_bytes,
    parse_header,
    parse_headers,
)

FILE_BYTES_MAX = 2**31 - 1  # CommitFile gives a batch's place in the file as int32
TIMESTAMP_MS_MAX = 2**63 - 1
_RECORD_OVERHEAD_BYTES = 32  # upper bound of a record's own varints and attributes
_HEADER_OVERHEAD_BYTES = 10


class WalFileError(DisklessError, ValueError):
    """The file cannot be built or read; the text names the file, the limit and the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WalBatch:
    """One batch of a WAL file and the partition it belongs to."""

    topic: str
    partition: int
    header: BatchHeader


@dataclass(frozen=True, slots=True, kw_only=True)
class WalFile:
    """A verified WAL file on disk."""

    path: Path
    size_bytes: int
    created_ms: int
    batches: tuple[WalBatch, ...]


@dataclass(slots=True)
class _OpenBatch:
    """Records that will become one batch."""

    producer: ProducerSequence | None
    timestamp_type: TimestampType
    records: list[Record] = field(default_factory=list)
    size_bytes: int = 0

    @property
    def record_count(self) -> int:
        return len(self.records)

    def continues(self, producer: ProducerSequence | None, timestamp_type: TimestampType) -> bool:
        """Tell whether a record with this sequence and type of timestamp is the next one of the batch."""
        if self.timestamp_type is not timestamp_type:
            return False
        if self.producer is None or producer is None:
            return self.producer is producer
        expected = (self.producer.base_sequence + len(self.records)) % SEQUENCES
        return replace(self.producer, base_sequence=expected) == producer


@dataclass(frozen=True, slots=True)
class _RawBatch:
    """A batch that was encoded before."""

    data: bytes
    record_count: int


class WalFileBuilder:
    """Collects records, which it packs into batches by topic partition, and batches that are packed already."""

    def __init__(self, *, max_batch_bytes: int = 1024 * 1024, compression: Compression = Compression.NONE) -> None:
        """`max_batch_bytes` bounds a batch before compression; a single larger record still gets a batch of its own.

        Raises WalFileError unless it is positive.
        """
        if max_batch_bytes <= 0:
            raise WalFileError(f"max_batch_bytes {max_batch_bytes}: must be positive")
        self._max_batch_bytes = max_batch_bytes
        self._compression = compression
        self._batches: dict[TopicPartition, list[_OpenBatch | _RawBatch]] = {}

    def add(
        self,
        partition: TopicPartition,
        record: Record,
        producer: ProducerSequence | None = None,
        *,
        timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    ) -> None:
        """Add one record. `producer` carries the record's own sequence number; a jump in it starts a new batch.

        Raises WalFileError for an empty topic, a negative number, and a timestamp or a name of a header that no record can have.
        """
        batches = self._of(partition)
        if not (-1 <= record.timestamp_ms <= TIMESTAMP_MS_MAX or record.timestamp_ms == WHEN_WRITTEN):
            limit = f"it must be -1, for none, or 0 to {TIMESTAMP_MS_MAX} milliseconds"
            raise WalFileError(f"{partition}: a record has the timestamp {record.timestamp_ms}; {limit}")
        if producer is not None and not (producer.producer_id >= 0 and producer.producer_epoch >= 0 and producer.base_sequence >= 0):
            raise WalFileError(f"{partition}: producer id, epoch and sequence must not be negative: {producer}")
        try:
            size = _size_bound(record)
        except UnicodeEncodeError as error:
            raise WalFileError(f"{partition}: the name of a header is no valid text: {error}; make it with header_name(bytes)") from error
        last = batches[-1] if batches else None
        is_full = isinstance(last, _OpenBatch) and last.size_bytes + size > self._max_batch_bytes
        if not isinstance(last, _OpenBatch) or is_full or not last.continues(producer, timestamp_type):
            last = _OpenBatch(producer, timestamp_type)
            batches.append(last)
        last.records.append(record)
        last.size_bytes += size

    def add_batch(self, partition: TopicPartition, batch: bytes, *, verify: bool = True) -> BatchHeader:
        """Add an encoded batch, which becomes part of the file as it is, and return its header. `verify` compares its checksum.

        Raises WalFileError for bytes that are not exactly one batch, and for a batch that cannot be committed.
        """
        batches = self._of(partition)
        try:
            header = parse_header(batch, verify=verify)
        except CorruptBatch as error:
            raise WalFileError(f"{partition}: {error}") from error
        if header.size_bytes != len(batch):
            raise WalFileError(f"{partition}: {len(batch) - header.size_bytes} bytes follow the batch; add one batch at a time")
        if fault := _batch_fault(header):
            raise WalFileError(f"{partition}: {fault}")
        batches.append(_RawBatch(batch, header.record_count))
        return header

    def _of(self, partition: TopicPartition) -> list[_OpenBatch | _RawBatch]:
        if partition.partition < 0 or not partition.topic:
            raise WalFileError(f"{partition}: the topic must not be empty, the partition not negative")
        return self._batches.setdefault(partition, [])

    def build(self, *, created_ms: int) -> tuple[bytes, Manifest]:
        """Pack everything added so far: partitions sorted by topic and number, records in the order they came.

        Records without a timestamp get `created_ms`. Raises WalFileError when nothing was added, or too much for one file.
        """
        data = bytearray()
        entries = []
        for partition in sorted(self._batches):
            for batch in self._batches[partition]:
                encoded = batch.data if isinstance(batch, _RawBatch) else self._encoded(batch, created_ms)
                entries.append(_entry(partition, encoded, len(data), batch.record_count))
                data += encoded
        if not entries:
            raise WalFileError("a WAL file needs at least one record")
        if len(data) > FILE_BYTES_MAX:
            raise WalFileError(f"the file would have {len(data)} bytes, the limit is {FILE_BYTES_MAX}; pack fewer records")
        return bytes(data), Manifest(created_ms=created_ms, size_bytes=len(data), batches=tuple(entries))

    def _encoded(self, batch: _OpenBatch, created_ms: int) -> bytes:
        records = [replace(one, timestamp_ms=created_ms) if one.timestamp_ms == WHEN_WRITTEN else one for one in batch.records]
        return encode_batch(records, compression=self._compression, producer=batch.producer, timestamp_type=batch.timestamp_type)


def write_wal_file(path: Path, data: bytes, manifest: Manifest, *, overwrite: bool = True) -> None:
    """Write file and manifest, each whole or not at all; the manifest comes last, so its presence means both are there.

    Without `overwrite` neither may exist, and of two writers at once one wins. Raises OSError; FileExistsError names the one that exists.
    """
    _write(path, data, overwrite=overwrite)
    try:
        _write(manifest_path(path), encode_manifest(manifest).encode(), overwrite=overwrite)
    except BaseException:
        # Made a moment ago under a name that nobody had: left alone it would seem to belong to a manifest of another.
        if not overwrite:
            path.resolve().unlink(missing_ok=True)
        raise


def read_wal_file(path: Path) -> WalFile:
    """Read a WAL file and its manifest, and verify that they agree. Raises `WalFileError`."""
    beside = manifest_path(path)
    try:
        manifest = decode_manifest(beside.read_text(encoding="utf-8"), str(beside))
        size = path.stat().st_size
        headers = _read_headers(path, size)
    except FileNotFoundError as error:
        raise WalFileError(f"{error.filename} is missing; `diskless files pack` writes a WAL file with its manifest") from error
    except (ManifestError, CorruptBatch, UnicodeDecodeError) as error:
        raise WalFileError(f"{path}: {error}") from error
    _compare(path, size, headers, manifest)
    return WalFile(
        path=path,
        size_bytes=size,
        created_ms=manifest.created_ms,
        batches=wal_batches(manifest, headers),
    )


def wal_batches(manifest: Manifest, headers: Sequence[BatchHeader]) -> tuple[WalBatch, ...]:
    """Return the batches of a file, whose headers are given in file order, with the partitions that its manifest names."""
    return tuple(
        WalBatch(topic=entry.topic, partition=entry.partition, header=header)
        for entry, header in zip(manifest.batches, headers, strict=True)
    )


def _read_headers(path: Path, size: int) -> list[BatchHeader]:
    if size == 0:
        return []
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as view:
        return parse_headers(view)


def _compare(path: Path, size: int, headers: Sequence[BatchHeader], manifest: Manifest) -> None:
    remedy = "the manifest belongs to another file, or one of them was changed; pack the file again"
    if size != manifest.size_bytes or len(headers) != len(manifest.batches):
        raise WalFileError(
            f"{path} has {size} bytes in {len(headers)} batches, its manifest says {manifest.size_bytes} in "
            f"{len(manifest.batches)}; {remedy}"
        )
    if not headers:
        raise WalFileError(f"{path} is empty; a WAL file has at least one batch")
    for place, (header, entry) in enumerate(zip(headers, manifest.batches, strict=True)):
        found = (header.byte_offset, header.size_bytes, header.record_count, header.crc)
        expected = (entry.byte_offset, entry.size_bytes, entry.record_count, entry.crc)
        if found != expected:
            raise WalFileError(
                f"{path}, batch {place}: (byte offset, size, records, CRC) are {found}, the manifest says {expected}; {remedy}"
            )
        if fault := _batch_fault(header):
            raise WalFileError(f"{path}, batch {place}: {fault}")


def _batch_fault(header: BatchHeader) -> str:
    """Why a batch cannot be committed; empty if it can."""
    if header.record_count != header.last_offset_delta + 1:
        holes = f"{header.record_count} records with a last offset delta of {header.last_offset_delta}"
        return f"{holes}; only batches without holes can be committed"
    if header.is_control or header.is_transactional:
        kind = "control batch" if header.is_control else "batch of a transaction"
        why = "diskless topics have no transactions; write its records without a transactional.id"
        return f"a {kind} cannot be committed, because {why}"
    return ""


def _entry(partition: TopicPartition, encoded: bytes, byte_offset: int, record_count: int) -> ManifestBatch:
    return ManifestBatch(
        topic=partition.topic,
        partition=partition.partition,
        byte_offset=byte_offset,
        size_bytes=len(encoded),
        record_count=record_count,
        crc=int.from_bytes(encoded[17:21], "big"),
    )


def _size_bound(record: Record) -> int:
    headers = sum(len(header_name_bytes(name)) + len(value or b"") + _HEADER_OVERHEAD_BYTES for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers + _RECORD_OVERHEAD_BYTES


def _write(path: Path, data: bytes, *, overwrite: bool) -> None:
    # A link stays one: the file it leads to is replaced.
    try:
        write_whole(path.resolve(), data, replace=overwrite)
    except FileExistsError as error:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from error
