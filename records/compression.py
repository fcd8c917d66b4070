"""The compression codecs of Kafka record batches, with the framings that Kafka expects.

Two framings are Kafka's own habit: snappy comes in blocks after the header of xerial's Java library, and an LZ4 frame must
have independent blocks, which the usual writers do not produce, so both are written here by hand.
Invariant: undoing a compression never gives more bytes than its caller allows, however small the data is.
"""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable, Iterator
from enum import IntEnum

import cramjam
import numpy as np

DECOMPRESSED_BYTES_MAX = 256 * 1024 * 1024
"""The records of one batch. Kafka bounds batches as they are sent (a megabyte by default); a kilobyte can expand to gigabytes."""

ZSTD_LEVEL = 3
"""The default of the library and of Kafka's clients."""

_XERIAL = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
_SNAPPY_BLOCK = 32 * 1024
# Magic, version 01 with independent blocks and no checksums, blocks of at most 64 KiB, checksum of these two bytes.
_LZ4_HEADER = bytes.fromhex("04224d18") + b"\x60\x40\x82"
_LZ4_BLOCK = 64 * 1024
_LZ4_UNCOMPRESSED = 0x80000000
_ROOM_BYTES_MIN = 64 * 1024
_ROOM_RATIO = 16
"""Room is made for so many times the compressed bytes; batches that need more are decompressed twice."""
_UNTOUCHED = bytes.fromhex("b6d2a5e913f04c7788e1905b3a6cf72d")
"""Stands at the end of the room for a batch: once it is gone, all of the room was written to."""


class Compression(IntEnum):
    """Numbers are those in a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class CorruptCompression(ValueError):
    """The bytes are not valid in their codec."""


def compress(data: bytes, codec: Compression, *, zstd_level: int = ZSTD_LEVEL) -> bytes:
    """Compress the records of a batch. The same data gives the same bytes with the same libraries."""
    match codec:
        case Compression.NONE:
            return data
        case Compression.GZIP:
            return gzip.compress(data, mtime=0)
        case Compression.SNAPPY:
            blocks = (bytes(cramjam.snappy.compress_raw(part)) for part in _parts(data, _SNAPPY_BLOCK))
            return _XERIAL + b"".join(struct.pack(">i", len(block)) + block for block in blocks)
        case Compression.LZ4:
            return _LZ4_HEADER + b"".join(_lz4_block(part) for part in _parts(data, _LZ4_BLOCK)) + bytes(4)
        case Compression.ZSTD:
            return bytes(cramjam.zstd.compress(data, level=zstd_level))


def decompress(packed: bytes | memoryview, codec: Compression, *, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> memoryview:
    """Undo `compress`, for any writer of Kafka batches. Raises `CorruptCompression`, also for more than `bytes_max`."""
    data = memoryview(packed)
    try:
        match codec:
            case Compression.NONE:
                return data
            case Compression.GZIP:
                return _bounded(codec, cramjam.gzip.decompress_into, data, bytes_max)
            case Compression.SNAPPY:
                return _decompress_snappy(data, bytes_max)
            case Compression.LZ4:
                return _bounded(codec, cramjam.lz4.decompress_into, data, bytes_max)
            case Compression.ZSTD:
                return _bounded(codec, cramjam.zstd.decompress_into, data, bytes_max)
    except (cramjam.DecompressionError, struct.error) as error:
        raise CorruptCompression(f"{codec.name.lower()}: {error}") from error


def _bounded(codec: Compression, decompress_into: Callable[..., int], data: memoryview, bytes_max: int) -> memoryview:
    guess = min(bytes_max, max(_ROOM_BYTES_MIN, _ROOM_RATIO * len(data)))
    try:
        return _into_room(decompress_into, data, guess)
    except _RoomFull:
        pass
    try:
        # Memory that is not written to is not taken, so room for the most there may be costs little.
        return _into_room(decompress_into, data, bytes_max)
    except _RoomFull as error:
        raise _too_large(codec, bytes_max) from error


class _RoomFull(Exception):
    """There is more data than room for it, or the data is damaged there."""


def _into_room(decompress_into: Callable[..., int], data: memoryview, size_bytes: int) -> memoryview:
    room = np.empty(size_bytes, np.uint8)
    end = room[-len(_UNTOUCHED) :]
    end[:] = np.frombuffer(_UNTOUCHED, np.uint8)
    try:
        return room[: decompress_into(data, room)].data
    except cramjam.DecompressionError as error:
        if end.tobytes() == _UNTOUCHED:
            raise
        raise _RoomFull from error


def _too_large(codec: Compression, bytes_max: int) -> CorruptCompression:
    return CorruptCompression(f"{codec.name.lower()}: more than {bytes_max} bytes of records in one batch")


def _decompress_snappy(data: memoryview, bytes_max: int) -> memoryview:
    blocks = list(_xerial_blocks(data)) if data[:8] == _XERIAL[:8] else [data]
    # A block begins with its size, for which the library makes room before it looks at the rest.
    if sum(map(cramjam.snappy.decompress_raw_len, blocks)) > bytes_max:
        raise _too_large(Compression.SNAPPY, bytes_max)
    return memoryview(b"".join(cramjam.snappy.decompress_raw(block) for block in blocks))


def _parts(data: bytes, size: int) -> Iterator[bytes]:
    return (data[start : start + size] for start in range(0, len(data), size))


def _lz4_block(part: bytes) -> bytes:
    packed = bytes(cramjam.lz4.compress_block(part, store_size=False))
    if len(packed) < len(part):
        return struct.pack("<I", len(packed)) + packed
    return struct.pack("<I", len(part) | _LZ4_UNCOMPRESSED) + part


def _xerial_blocks(data: memoryview) -> Iterator[memoryview]:
    position = len(_XERIAL)
    while position < len(data):
        (size,) = struct.unpack_from(">i", data, position)
        position += 4
        if not 0 <= size <= len(data) - position:
            raise CorruptCompression(f"snappy: block of {size} bytes at {position} of {len(data)}")
        yield data[position : position + size]
        position += size
