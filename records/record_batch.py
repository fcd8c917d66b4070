"""Kafka record batches, format version 2: encode, parse headers with their checksum.

Owns the bytes of one batch and nothing around it; `records.columns` decodes its records. Invariant: a `BatchHeader` only exists for bytes
whose CRC32C was right (unless the caller waived the check).

    base offset 8 | length 4 | leader epoch 4 | magic 1 | crc 4 | attributes 2 | last offset delta 4 | base timestamp 8
    | max timestamp 8 | producer id 8 | producer epoch 2 | base sequence 4 | record count 4 | records

The checksum covers everything after itself, so base offset and leader epoch can be assigned later without touching it.

To Kafka the name of a header is bytes, mostly UTF-8. Here it is a text: bytes that are no UTF-8 become lone surrogates (PEP 383), from
which `header_name_bytes` makes the same bytes again. A text with them cannot be printed; show it with replacement characters.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from crc32c import crc32c

from records.compression import ZSTD_LEVEL, Compression, compress

_HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES = _HEADER.size
_LENGTH_FROM = 12  # the length field counts what follows it
_CRC_FROM = 21  # the checksum covers what follows it
MAGIC = 2
WHEN_WRITTEN = -(2**63)
"""The timestamp of a record that gets the time at which it is written."""
SEQUENCES = 2**31  # sequence numbers run from 0 to 2^31 - 1 and then start again

_COMPRESSION_BITS = 0x07
_LOG_APPEND_TIME_BIT = 0x08
_TRANSACTIONAL_BIT = 0x10
_CONTROL_BIT = 0x20


class TimestampType(IntEnum):
    """The side that set the timestamps of a batch."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


def header_name(data: bytes) -> str:
    """Make a text of the name of a header, whatever its bytes are."""
    return data.decode("utf-8", "surrogateescape")


def header_name_bytes(name: str) -> bytes:
    """Return the bytes of a name. Raises UnicodeEncodeError for a surrogate that represents no byte."""
    return name.encode("utf-8", "surrogateescape")


class CorruptBatch(ValueError):
    """The bytes at `byte_offset` are not a whole, valid record batch of version 2."""

    def __init__(self, byte_offset: int, reason: str) -> None:
        super().__init__(f"record batch at byte {byte_offset}: {reason}")
        self.byte_offset = byte_offset
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record as a producer gives it. Raises TypeError, which names the field, for a value of another type."""

    timestamp_ms: int = WHEN_WRITTEN
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.timestamp_ms, int):
            raise _wrong_type("timestamp_ms", self.timestamp_ms, "int (milliseconds since the epoch)")
        for name in ("key", "value"):
            if not isinstance(given := getattr(self, name), bytes | None):
                raise _wrong_type(name, given, "bytes or None; encode a text first, as with text.encode()")
        for header in self.headers:
            if not (len(header) == 2 and isinstance(header[0], str) and isinstance(header[1], bytes | None)):
                raise _wrong_type("headers", header, "pairs of a name (str) and a value (bytes or None)")


def _wrong_type(field_name: str, given: object, wanted: str) -> TypeError:
    return TypeError(f"Record({field_name}=...) is {given!r} of type {type(given).__name__}; wanted: {wanted}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRecord:
    """One record as a consumer sees it."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    partition: int = field(default=-1, compare=False)
    """The partition that the record was read from; -1 where a batch was decoded alone. Copies of a record in two partitions are equal."""
    timestamp_type: TimestampType = field(default=TimestampType.CREATE_TIME, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSequence:
    """The idempotent producer of a batch, and the sequence number of its first record."""

    producer_id: int
    producer_epoch: int
    base_sequence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchHeader:
    """The header of one batch, and where the batch lies in its buffer. Producer fields are -1 without idempotence."""

    byte_offset: int
    size_bytes: int
    base_offset: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record; -1 without idempotence. After 2147483647 comes 0."""
        return -1 if self.base_sequence < 0 else (self.base_sequence + self.last_offset_delta) % SEQUENCES

    @property
    def compression(self) -> Compression:
        return Compression(self.attributes & _COMPRESSION_BITS)

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType.LOG_APPEND_TIME if self.attributes & _LOG_APPEND_TIME_BIT else TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & _TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & _CONTROL_BIT)


def encode_batch(
    records: Sequence[Record],
    *,
    compression: Compression = Compression.NONE,
    zstd_level: int = ZSTD_LEVEL,
    producer: ProducerSequence | None = None,
    base_offset: int = 0,
    partition_leader_epoch: int = -1,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    is_control: bool = False,
) -> bytes:
    """Encode records as one batch with dense offsets from `base_offset`.

    Raises ValueError without records or timestamps, and as `header_name_bytes`.
    """
    if not records:
        raise ValueError("a record batch needs at least one record")
    # From -1, which means none, the delta to the greatest timestamp would not fit 64 bits.
    base_timestamp = max(records[0].timestamp_ms, 0)
    body = bytearray()
    for offset_delta, record in enumerate(records):
        if record.timestamp_ms == WHEN_WRITTEN:
            raise ValueError("a record has no timestamp_ms; -1 says that it has none, and a writer sets the time at which it writes")
        _write_record(body, record, record.timestamp_ms - base_timestamp, offset_delta)
    payload = compress(bytes(body), compression, zstd_level=zstd_level)
    attributes = int(compression)
    attributes |= _LOG_APPEND_TIME_BIT if timestamp_type is TimestampType.LOG_APPEND_TIME else 0
    attributes |= _CONTROL_BIT if is_control else 0
    who = producer or ProducerSequence(producer_id=-1, producer_epoch=-1, base_sequence=-1)
    header = _HEADER.pack(
        base_offset,
        HEADER_BYTES - _LENGTH_FROM + len(payload),
        partition_leader_epoch,
        MAGIC,
        0,
        attributes,
        len(records) - 1,
        base_timestamp,
        max(record.timestamp_ms for record in records),
        who.producer_id,
        who.producer_epoch,
        who.base_sequence,
        len(records),
    )
    batch = bytearray(header + payload)
    struct.pack_into(">I", batch, _CRC_FROM - 4, crc32c(memoryview(batch)[_CRC_FROM:]))
    return bytes(batch)


def parse_header(buffer: bytes | memoryview, byte_offset: int = 0, *, verify: bool = True) -> BatchHeader:
    """Read the batch that starts at `byte_offset`. Raises `CorruptBatch`; the checksum is compared unless `verify` is off."""
    left = len(buffer) - byte_offset
    # Magic is at the same place in all versions; an old batch may be shorter than a header of version 2.
    if left > 16 and buffer[byte_offset + 16] != MAGIC:
        raise CorruptBatch(byte_offset, f"magic {buffer[byte_offset + 16]}, only magic {MAGIC} is supported")
    if left < HEADER_BYTES:
        raise CorruptBatch(byte_offset, f"truncated: {left} bytes left, a header has {HEADER_BYTES}")
    values = _HEADER.unpack_from(buffer, byte_offset)
    size = values[1] + _LENGTH_FROM
    if size < HEADER_BYTES:
        raise CorruptBatch(byte_offset, f"length {values[1]} is less than a header")
    if size > left:
        raise CorruptBatch(byte_offset, f"truncated: the batch has {size} bytes, {left} are left")
    header = BatchHeader(
        byte_offset=byte_offset,
        size_bytes=size,
        base_offset=values[0],
        partition_leader_epoch=values[2],
        magic=values[3],
        crc=values[4],
        attributes=values[5],
        last_offset_delta=values[6],
        base_timestamp_ms=values[7],
        max_timestamp_ms=values[8],
        producer_id=values[9],
        producer_epoch=values[10],
        base_sequence=values[11],
        record_count=values[12],
    )
    if verify:
        found = crc32c(memoryview(buffer)[byte_offset + _CRC_FROM : byte_offset + size])
        if found != header.crc:
            raise CorruptBatch(byte_offset, f"CRC32C is {found:#010x}, the header says {header.crc:#010x}")
    _check_fields(header)
    return header


def parse_headers(buffer: bytes | memoryview, *, verify: bool = True) -> list[BatchHeader]:
    """Read all batches of a buffer, which must end with the last one. Raises `CorruptBatch`."""
    headers = []
    position = 0
    while position < len(buffer):
        header = parse_header(buffer, position, verify=verify)
        headers.append(header)
        position += header.size_bytes
    return headers


def _check_fields(header: BatchHeader) -> None:
    if header.attributes & _COMPRESSION_BITS > Compression.ZSTD:
        raise CorruptBatch(header.byte_offset, f"compression {header.attributes & _COMPRESSION_BITS} is unknown")
    if header.last_offset_delta < 0 or not 0 <= header.record_count <= header.last_offset_delta + 1:
        raise CorruptBatch(
            header.byte_offset, f"{header.record_count} records cannot have a last offset delta of {header.last_offset_delta}"
        )


def _write_record(out: bytearray, record: Record, timestamp_delta: int, offset_delta: int) -> None:
    body = bytearray(b"\x00")
    _write_varint(body, timestamp_delta)
    _write_varint(body, offset_delta)
    _write_bytes(body, record.key)
    _write_bytes(body, record.value)
    _write_varint(body, len(record.headers))
    for name, value in record.headers:
        _write_bytes(body, header_name_bytes(name))
        _write_bytes(body, value)
    _write_varint(out, len(body))
    out += body


def _write_varint(out: bytearray, value: int) -> None:
    """Zigzag, then seven bits a byte, lowest first."""
    rest = value << 1 if value >= 0 else (-value << 1) - 1
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)


def _write_bytes(out: bytearray, value: bytes | None) -> None:
    if value is None:
        _write_varint(out, -1)
        return
    _write_varint(out, len(value))
    out += value
