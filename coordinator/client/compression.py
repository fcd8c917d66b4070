"""The compression codecs of Kafka record batches, with the framings that Kafka expects.

Two framings are Kafka's own habit: snappy comes in blocks behind the header of xerial's Java library, and an LZ4 frame must
have independent blocks, which the usual writers do not produce, so both are written here by hand.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Iterator
from enum import IntEnum

import cramjam

_XERIAL = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
_SNAPPY_BLOCK = 32 * 1024
# Magic, version 01 with independent blocks and no checksums, blocks of at most 64 KiB, checksum of these two bytes.
_LZ4_HEADER = bytes.fromhex("04224d18") + b"\x60\x40\x82"
_LZ4_BLOCK = 64 * 1024
_LZ4_UNCOMPRESSED = 0x80000000


class Compression(IntEnum):
    """Numbers are those in a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class CorruptCompression(ValueError):
    """The bytes are not what the codec writes."""


def compress(data: bytes, codec: Compression) -> bytes:
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
            return bytes(cramjam.zstd.compress(data))


def decompress(data: bytes, codec: Compression) -> bytes:
    """Undo `compress`, for any writer of Kafka batches. Raises `CorruptCompression`."""
    try:
        match codec:
            case Compression.NONE:
                return data
            case Compression.GZIP:
                return gzip.decompress(data)
            case Compression.SNAPPY:
                if data.startswith(_XERIAL[:8]):
                    return b"".join(bytes(cramjam.snappy.decompress_raw(block)) for block in _xerial_blocks(data))
                return bytes(cramjam.snappy.decompress_raw(data))
            case Compression.LZ4:
                return bytes(cramjam.lz4.decompress(data))
            case Compression.ZSTD:
                return bytes(cramjam.zstd.decompress(data))
    except (cramjam.DecompressionError, OSError, EOFError, zlib.error, struct.error) as error:
        raise CorruptCompression(f"{codec.name.lower()}: {error}") from error


def _parts(data: bytes, size: int) -> Iterator[bytes]:
    return (data[start : start + size] for start in range(0, len(data), size))


def _lz4_block(part: bytes) -> bytes:
    packed = bytes(cramjam.lz4.compress_block(part, store_size=False))
    if len(packed) < len(part):
        return struct.pack("<I", len(packed)) + packed
    return struct.pack("<I", len(part) | _LZ4_UNCOMPRESSED) + part


def _xerial_blocks(data: bytes) -> Iterator[bytes]:
    position = len(_XERIAL)
    while position < len(data):
        (size,) = struct.unpack_from(">i", data, position)
        position += 4
        if not 0 <= size <= len(data) - position:
            raise CorruptCompression(f"snappy: block of {size} bytes at {position} of {len(data)}")
        yield data[position : position + size]
        position += size
