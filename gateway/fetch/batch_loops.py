"""Batches on their way from objects to answers, many in one pass. Compiled when installed (`setup.py`); the `.pxd` has the types.

A batch is a `coordinator.protocol.find_batches.BatchLocation`, whose fields are taken by their places.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from crc32c import crc32c

from coordinator.protocol.find_batches import BatchLocation

_OBJECT_KEY: Final = 1
_BYTE_OFFSET: Final = 3
_BYTE_SIZE: Final = 4
_BASE_OFFSET: Final = 5
_LAST_OFFSET: Final = 6
_LOG_APPEND_TIMESTAMP: Final = 7
_TIMESTAMP_TYPE: Final = 9

BATCH_BYTES_MIN = 61
"""The bytes of a header, of which a batch has at least these."""
MARK_BYTES = 32
"""A mark says where among so many bytes a batch begins that was checked: no two batches begin there."""


def count_fitting(batches: Sequence[BatchLocation], bytes_max: int, is_first_free: bool) -> tuple[int, int]:
    """How many batches have `bytes_max` bytes together at most, and their bytes; with `is_first_free` the first is one of them anyway."""
    count = size = 0
    for batch in batches:
        more = size + batch[_BYTE_SIZE]
        if more > bytes_max and not (is_first_free and count == 0):
            break
        size = more
        count += 1
    return count, size


def neighbours(batches: Sequence[BatchLocation], stop: int) -> list[int]:
    """Where each run of neighbouring batches of one object begins among the first `stop` batches, and where the last one ends."""
    starts: list[int] = []
    key: object = None
    due = -1
    for place in range(stop):
        batch = batches[place]
        start = batch[_BYTE_OFFSET]
        if start != due or batch[_OBJECT_KEY] != key:
            starts.append(place)
            key = batch[_OBJECT_KEY]
        due = start + batch[_BYTE_SIZE]
    starts.append(stop)
    return starts


def assign_batches(
    raw: memoryview, out: memoryview, at: int, batches: Sequence[BatchLocation], first: int, stop: int, marks: bytearray | None, start: int
) -> int:
    """Give batches, which fill `out` from a place on, what the coordinator assigned: offset, leader epoch 0, append time, checksum.

    `raw` and `out` are the same bytes. A batch without a mark is checked and marked before that: its checksum, and that it is what
    the coordinator says. `marks` are those of bytes that begin at `start` of the object, and None says that all were checked. Returns
    which batch is damaged, or `stop`. Raises `IndexError` when batches are not within these bytes.
    """
    size_min, mark_bytes = BATCH_BYTES_MIN, MARK_BYTES
    for number in range(first, stop):
        batch = batches[number]
        size, base, last = batch[_BYTE_SIZE], batch[_BASE_OFFSET], batch[_LAST_OFFSET]
        if size < size_min or size > len(out) - at or at < 0:
            return number
        if marks is not None:
            place = batch[_BYTE_OFFSET] - start
            mark = place % mark_bytes + 1
            if marks[place // mark_bytes] != mark:
                if not _is_sound(out, at, size, last - base) or crc32c(raw[at + 21 : at + size]) != _int(out, at + 17, 4) & 0xFFFFFFFF:
                    return number
                marks[place // mark_bytes] = mark
        elif _int(out, at + 8, 4) != size - 12:
            return number
        _put(base, out, at, 8)
        _put(0, out, at + 12, 4)
        if batch[_TIMESTAMP_TYPE] == 1:
            out[at + 22] |= 8
            _put(batch[_LOG_APPEND_TIMESTAMP], out, at + 35, 8)
            _put(crc32c(raw[at + 21 : at + size]), out, at + 17, 4)
        at += size
    return stop


def _is_sound(out: memoryview, at: int, size: int, last_offset_delta: int) -> bool:
    """Whether the header is that of a batch of this size and this many offsets."""
    delta, count = _int(out, at + 23, 4), _int(out, at + 57, 4)
    return (
        _int(out, at + 8, 4) == size - 12
        and out[at + 16] == 2
        and out[at + 22] & 7 <= 4
        and delta == last_offset_delta
        and delta >= 0
        and 0 <= count <= delta + 1
    )


def _int(data: memoryview, at: int, size: int) -> int:
    """A signed integer, most significant byte first."""
    value = -1 if data[at] & 0x80 else 0
    for place in range(at, at + size):
        value = value * 256 + data[place]
    return value


def _put(value: int, out: memoryview, at: int, size: int) -> None:
    """Put the bytes of an integer, most significant byte first."""
    for place in range(at + size - 1, at - 1, -1):
        out[place] = value & 0xFF
        value >>= 8
