"""Which files hold the batches of a user partition: frames of packed little-endian columns.

A frame lists batches that follow each other in offsets, so only the first offset is written. A `run_block` of the store is
one frame or several joined together. Layout: `_HEADER` (batches, first offset of a record, Kafka offset that files are
counted from, time that times are counted from, width in bytes of each column), then per column its values: records less one, size in
bytes, file, time. A file is named by the offset of its entry and its number within the entry: `offset << 8 | index`. The time of a batch is
that by which retention goes.
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

LOG_APPEND_TIME = 1
"""The type of timestamps that the service gives."""

_HEADER = struct.Struct("<IqqqBBBB")
_WIDTHS = ((1 << 8, 1), (1 << 16, 2), (1 << 32, 4))
_SMALL = 12
"""Up to this many batches plain Python packs faster than numpy."""


@dataclass(frozen=True, slots=True)
class Batches:
    """Batches of one user partition in log order; `file` is `offset << 8 | index` of the entry that committed them, `time_ms` see above."""

    base_offset: Int64s
    records: Int64s
    size_bytes: Int64s
    file: Int64s
    time_ms: Int64s

    def keep(self, which: npt.NDArray[np.bool_] | Int64s) -> Batches:
        """The batches where a mask holds, or those at some places."""
        return Batches(self.base_offset[which], self.records[which], self.size_bytes[which], self.file[which], self.time_ms[which])


def file_number(kpart: int, offset: int, index: int) -> int:
    """Return the number of a file in the store, which is unique over all partitions of the metadata topic."""
    return ((offset << KPART_BITS) | kpart) << INDEX_BITS | index


def file_numbers(kpart: int, file: Int64s) -> Int64s:
    """Like `file_number`, for the file column of batches."""
    numbers: Int64s = (((file >> INDEX_BITS) << KPART_BITS) | kpart) << INDEX_BITS | (file & (FILES_PER_ENTRY_MAX - 1))
    return numbers


def retention_times(timestamps: Int64s, types: Int64s, append_times: Int64s, file: Int64s) -> Int64s:
    """Return the time of each batch by which retention goes: its timestamp, or the append time of its `file` where it has no own one."""
    is_of_file = (types == LOG_APPEND_TIME) | (timestamps < 0)
    return np.where(is_of_file, np.maximum(append_times, 0)[file], timestamps) if is_of_file.any() else timestamps


def _width(greatest: int) -> int:
    return next((width for limit, width in _WIDTHS if greatest < limit), 8)


def pack(base_offset: int, counts_minus_one: Int64s, sizes: Int64s, files: Int64s, times_ms: Int64s) -> bytes:
    """Return the frame of batches that follow each other from an offset on. There is one batch at least; times are not negative."""
    first = int(files[0])
    if len(files) <= _SMALL:
        times = times_ms.tolist()
        oldest = min(times)
        distances, ages = [file - first for file in files.tolist()], [time - oldest for time in times]
        if distances[-1] < 1 << 32 and max(ages) < 1 << 32:
            heads = (len(files), base_offset, first, oldest, 4, 4, 4, 4)
            return _few(len(files)).pack(*heads, *counts_minus_one.tolist(), *sizes.tolist(), *distances, *ages)
    oldest = int(times_ms.min())
    columns = (counts_minus_one, sizes, files - first, times_ms - oldest)
    widths = [_width(int(column.max())) for column in columns]
    packed = [column.astype(f"<u{width}").tobytes() for column, width in zip(columns, widths, strict=True)]
    return b"".join((_HEADER.pack(len(files), base_offset, first, oldest, *widths), *packed))


@cache
def _few(size: int) -> struct.Struct:
    """The layout of a frame with columns of 4 bytes."""
    return struct.Struct(f"{_HEADER.format}{4 * size}I")


def pack_batches(batches: Batches) -> bytes:
    """Return the frames of any batches, of which there is one at least."""
    base, records, files = batches.base_offset, batches.records, batches.file
    breaks = (base[1:] != base[:-1] + records[:-1]) | (files[1:] < files[:-1])
    edges = [0, *(breaks.nonzero()[0] + 1).tolist(), len(base)]
    columns = (records - 1, batches.size_bytes, files, batches.time_ms)
    return b"".join([pack(int(base[start]), *(column[start:end] for column in columns)) for start, end in pairwise(edges)])


def unpack(block: bytes) -> Batches:
    """Return the batches of the frames of a block, in the order in which they were joined."""
    frames = list(_frames(block))
    names = ("base_offset", "records", "size_bytes", "file", "time_ms")
    return Batches(*(np.concatenate([np.zeros(0, np.int64), *(getattr(frame, name) for frame in frames)]) for name in names))


def _frames(block: bytes) -> Iterator[Batches]:
    at = 0
    while at < len(block):
        size, base_offset, first, oldest, *widths = _HEADER.unpack_from(block, at)
        at += _HEADER.size
        columns = []
        for width in widths:
            columns.append(np.frombuffer(block, f"<u{width}", size, at).astype(np.int64))
            at += width * size
        records = columns[0] + 1
        yield Batches(base_offset + records.cumsum() - records, records, columns[1], columns[2] + first, columns[3] + oldest)
