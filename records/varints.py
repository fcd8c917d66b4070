"""Columns of zigzag varints, many numbers at a time; the bytes are those of Avro longs.

Two techniques: tables and plain loops, which win while there are few numbers, and arrays (a compiled loop, numpy), which
have a fixed price per call. Both give the same bytes and the same numbers; the callers choose.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from records.entry_loops import write_varints

Int64s = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

SMALL_END = 1 << 13
"""Numbers in [0, SMALL_END) have at most two bytes, and those bytes come from a table."""

_NUMBER_BYTES_MAX = 10

_SEVEN_BITS = 0x7F
_SHIFT_MAX = 63
_GROUP = 1 << 14
_LOW_GROUP = _GROUP - 1
_FIRST_TWO = [bytes((low & _SEVEN_BITS | 0x80, low >> 7 | 0x80)) for low in range(_GROUP)]
_LAST_TWO = [bytes((last,)) if last <= _SEVEN_BITS else bytes((last & _SEVEN_BITS | 0x80, last >> 7)) for last in range(_GROUP)]
_SMALL = _LAST_TWO[::2]
_SIGNED_OF_BYTE = [(byte >> 1) ^ -(byte & 1) for byte in range(0x80)]

_SHIFTS = np.arange(10, dtype=np.uint64) * np.uint64(7)


def write_number(value: int) -> bytes:
    """Return the varint of a 64-bit integer."""
    unsigned = value << 1 if value >= 0 else ~(value << 1)
    out = b""
    while unsigned >= _GROUP:
        out += _FIRST_TWO[unsigned & _LOW_GROUP]
        unsigned >>= 14
    return out + _LAST_TWO[unsigned]


def _write_large(value: int) -> bytes:
    """Return the varint of a number in [0, 2^41)."""
    if value < SMALL_END:
        return _SMALL[value]
    unsigned = value << 1
    if unsigned < 1 << 28:
        return _FIRST_TWO[unsigned & _LOW_GROUP] + _LAST_TWO[unsigned >> 14]
    return _FIRST_TWO[unsigned & _LOW_GROUP] + _FIRST_TWO[unsigned >> 14 & _LOW_GROUP] + _LAST_TWO[unsigned >> 28]


def write_numbers(values: Sequence[int], least: int, greatest: int) -> bytes:
    """Return the varints of 64-bit integers, whose extremes are given, by table."""
    if least < 0:
        return b"".join(map(write_number, values))
    if greatest < SMALL_END:
        return b"".join(map(_SMALL.__getitem__, values))
    if greatest < 1 << 27:
        first, last, small = _FIRST_TWO, _LAST_TWO, _SMALL
        return b"".join([small[value] if value < SMALL_END else first[(value << 1) & _LOW_GROUP] + last[value >> 13] for value in values])
    if greatest < 1 << 41:
        return b"".join([_write_large(value) for value in values])
    return b"".join(map(write_number, values))


def write_number_array(numbers: Int64s) -> bytes:
    """Return the varints of any 64-bit integers, written by a compiled loop."""
    out = np.empty(_NUMBER_BYTES_MAX * len(numbers), np.uint8).data
    return bytes(out[: write_varints(numbers.data, out)])


def read_number(data: bytes, position: int) -> tuple[int, int]:
    """Return the number at a position and the position after it.

    Raises IndexError when the bytes end before it does or it is longer than 10 bytes. The last of 10 bytes may carry
    it beyond 64 bits; the caller checks ranges.
    """
    byte = data[position]
    if byte <= _SEVEN_BITS:
        return _SIGNED_OF_BYTE[byte], position + 1
    return _read_long_number(data, position)


def read_numbers(data: bytes, position: int, count: int) -> tuple[list[int], int]:
    """Return `count` numbers from a position on and the position after them. Raises IndexError as `read_number` does."""
    column = data[position : position + count]
    if column.isascii():  # one byte each
        if len(column) < count:
            raise IndexError(f"{count} numbers at byte {position} of {len(data)}")
        return [_SIGNED_OF_BYTE[byte] for byte in column], position + count
    values = []
    for _ in range(count):
        first = data[position]
        if first <= _SEVEN_BITS:
            values.append(_SIGNED_OF_BYTE[first])
            position += 1
            continue
        second = data[position + 1]
        if second <= _SEVEN_BITS:
            unsigned = first & _SEVEN_BITS | second << 7
            values.append((unsigned >> 1) ^ -(unsigned & 1))
            position += 2
            continue
        third = data[position + 2]
        if third <= _SEVEN_BITS:
            unsigned = first & _SEVEN_BITS | (second & _SEVEN_BITS) << 7 | third << 14
            values.append((unsigned >> 1) ^ -(unsigned & 1))
            position += 3
            continue
        value, position = _read_long_number(data, position)
        values.append(value)
    return values, position


def _read_long_number(data: bytes, position: int) -> tuple[int, int]:
    unsigned = shift = 0
    while True:
        byte = data[position]
        position += 1
        unsigned |= (byte & _SEVEN_BITS) << shift
        if byte <= _SEVEN_BITS:
            return (unsigned >> 1) ^ -(unsigned & 1), position
        shift += 7
        if shift > _SHIFT_MAX:
            raise IndexError(f"number before byte {position} is longer than 10 bytes")


def find_number_ends(encoded: Bytes) -> Int64s:
    """Return where each varint ends (index of its last byte)."""
    return np.flatnonzero(encoded <= _SEVEN_BITS)


def read_all_numbers(encoded: Bytes, ends: Int64s) -> Int64s | None:
    """Return the numbers of varints that end at `ends`, which is not empty; None when one has more than 64 bits."""
    lengths = np.diff(ends, prepend=-1)
    longest = int(lengths.max())
    # Nine bytes hold 63 bits; a tenth may only add the last one.
    if longest > 10 or (longest == 10 and int(encoded[ends[lengths == 10]].max()) > 1):
        return None
    starts = ends - lengths + 1
    size = int(ends[-1]) + 1
    group = np.arange(size) - starts.repeat(lengths)
    bits = (encoded[:size] & np.uint8(_SEVEN_BITS)).astype(np.uint64) << _SHIFTS[group]
    unsigned = np.bitwise_or.reduceat(bits, starts)
    return (unsigned >> np.uint64(1)).view(np.int64) ^ -(unsigned & np.uint64(1)).view(np.int64)
