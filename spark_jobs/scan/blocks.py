"""Which files hold the batches of a user partition: frames of packed little-endian columns.

A frame lists batches that follow each other in offsets, so only the first offset is written. A `run_block` of the store is
one frame or several joined together. Layout: `_HEADER` (batches, first offset of a record, Kafka offset that files are
counted from, width in bytes of each column), then per column its values: records less one, size in bytes, file.
A file is named by the offset of its entry and its number within the entry: `offset << 8 | index`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]

INDEX_BITS = 8
FILES_PER_ENTRY_MAX = 1 << INDEX_BITS
KPART_BITS = 10

_HEADER = struct.Struct("<IqqBBB")
_WIDTHS = ((1 << 8, 1), (1 << 16, 2), (1 << 32, 4))
_SMALL = 12
"""Up to this many batches plain Python packs faster than numpy."""


@dataclass(frozen=True, slots=True)
class Batches:
    """Batches of one user partition in log order; `file` is `offset << 8 | index` of the entry that committed them."""

    base_offset: Int64s
    records: Int64s
    size_bytes: Int64s
    file: Int64s

    def keep(self, mask: npt.NDArray[np.bool_]) -> Batches:
        """The batches where a mask holds."""
        return Batches(self.base_offset[mask], self.records[mask], self.size_bytes[mask], self.file[mask])


def file_number(kpart: int, offset: int, index: int) -> int:
    """Return the number of a file in the store, which is unique over all partitions of the metadata topic."""
    return ((offset << KPART_BITS) | kpart) << INDEX_BITS | index


def file_numbers(kpart: int, file: Int64s) -> Int64s:
    """Like `file_number`, for the file column of batches."""
    numbers: Int64s = (((file >> INDEX_BITS) << KPART_BITS) | kpart) << INDEX_BITS | (file & (FILES_PER_ENTRY_MAX - 1))
    return numbers


def _width(greatest: int) -> int:
    return next((width for limit, width in _WIDTHS if greatest < limit), 8)


def pack(base_offset: int, counts_minus_one: Int64s, sizes: Int64s, files: Int64s) -> bytes:
    """Return the frame of batches that follow each other from an offset on. There is one batch at least."""
    first = int(files[0])
    if len(files) <= _SMALL:
        distances = [file - first for file in files.tolist()]
        if distances[-1] < 1 << 32:
            return _few(len(files)).pack(len(files), base_offset, first, 4, 4, 4, *counts_minus_one.tolist(), *sizes.tolist(), *distances)
    columns = (counts_minus_one, sizes, files - first)
    widths = [_width(int(column.max())) for column in columns]
    packed = [column.astype(f"<u{width}").tobytes() for column, width in zip(columns, widths, strict=True)]
    return b"".join((_HEADER.pack(len(files), base_offset, first, *widths), *packed))


@cache
def _few(size: int) -> struct.Struct:
    """The layout of a frame with columns of 4 bytes."""
    return struct.Struct(f"{_HEADER.format}{3 * size}I")


def pack_batches(batches: Batches) -> bytes:
    """Return the frames of any batches, of which there is one at least."""
    base, records, files = batches.base_offset, batches.records, batches.file
    breaks = (base[1:] != base[:-1] + records[:-1]) | (files[1:] < files[:-1])
    edges = [0, *(breaks.nonzero()[0] + 1).tolist(), len(base)]
    parts = [slice(*edge) for edge in pairwise(edges)]
    return b"".join([pack(int(base[part][0]), records[part] - 1, batches.size_bytes[part], files[part]) for part in parts])


def unpack(block: bytes) -> Batches:
    """Return the batches of the frames of a block, in the order in which they were joined."""
    frames = list(_frames(block))
    names = ("base_offset", "records", "size_bytes", "file")
    return Batches(*(np.concatenate([getattr(frame, name) for frame in frames]) for name in names))


def _frames(block: bytes) -> Iterator[Batches]:
    at = 0
    while at < len(block):
        size, base_offset, first, *widths = _HEADER.unpack_from(block, at)
        at += _HEADER.size
        columns = []
        for width in widths:
            columns.append(np.frombuffer(block, f"<u{width}", size, at).astype(np.int64))
            at += width * size
        records = columns[0] + 1
        yield Batches(base_offset + records.cumsum() - records, records, columns[1], columns[2] + first)
