"""Entries as Spark hands them over, read without copying: Arrow columns as numpy arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from records.entry_key import KEY_SIZE_BYTES
from spark_jobs.scan.columns import Int64s
from spark_jobs.scan.force import Keys

_KEY = np.dtype([("epoch", ">i4"), ("term", ">i8"), ("seq", ">i8")])


@dataclass(slots=True)
class Piece:
    """Contiguous fresh entries."""

    offsets: Int64s
    append_ms: Int64s
    at: Int64s
    data: npt.NDArray[np.uint8]
    starts: Int64s
    ends: Int64s
    is_null: npt.NDArray[np.bool_]

    def part(self, start: int, stop: int) -> Piece:
        """The entries `[start, stop)`."""
        which = slice(start, stop)
        return Piece(
            self.offsets[which], self.append_ms[which], self.at[which], self.data, self.starts[which], self.ends[which], self.is_null[which]
        )

    def bytes_of(self, which: Int64s) -> tuple[bytes, Int64s, Int64s]:
        """Bytes with the values of some entries, and where each begins and ends in them."""
        if not len(which):
            return b"", which, which
        starts, ends = self.starts[which], self.ends[which]
        first = int(starts.min())
        return self.data[first : int(ends.max())].tobytes(), starts - first, ends - first

    def value(self, index: int) -> bytes | None:
        """The value of an entry; None for a tombstone."""
        return None if self.is_null[index] else self.data[self.starts[index] : self.ends[index]].tobytes()


def numbers_of(column: pa.Array) -> Int64s:
    """The values of a column of integers."""
    numbers: Int64s = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return numbers


def bytes_of(column: pa.Array) -> tuple[npt.NDArray[np.uint8], Int64s, Int64s, npt.NDArray[np.bool_]]:
    """The data of a binary column, where its values begin and end, and which of them are null."""
    width = np.int64 if pa.types.is_large_binary(column.type) else np.int32
    buffers, size = column.buffers(), len(column)
    edges = np.frombuffer(buffers[1], width, size + 1, column.offset * np.dtype(width).itemsize).astype(np.int64)
    data = np.frombuffer(buffers[2], np.uint8) if buffers[2] is not None and buffers[2].size else np.zeros(0, np.uint8)
    is_null = np.asarray(column.is_null()) if column.null_count else np.zeros(size, bool)
    return data, edges[:-1], edges[1:], is_null


def keys_of(column: pa.Array) -> Keys:
    """The keys of entries, whatever their bytes are."""
    data, starts, ends, is_null = bytes_of(column)
    is_well_formed = (ends - starts == KEY_SIZE_BYTES) & ~is_null
    raw = np.zeros((len(starts), KEY_SIZE_BYTES), np.uint8)
    if is_well_formed.all() and (np.diff(starts) == KEY_SIZE_BYTES).all():
        raw = data[starts[0] : ends[-1]].reshape(-1, KEY_SIZE_BYTES)
    elif is_well_formed.any():
        raw[is_well_formed] = data[starts[is_well_formed, None] + np.arange(KEY_SIZE_BYTES)]
    keys = np.ascontiguousarray(raw).view(_KEY).ravel()
    epoch, term, seq = (keys[name].astype(np.int64) for name in ("epoch", "term", "seq"))
    return Keys(epoch, term, seq, is_well_formed & (epoch >= 0) & (seq >= 0))
