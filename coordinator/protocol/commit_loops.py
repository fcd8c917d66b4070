"""CommitFile's bytes in one pass each: the whole body of a request, and the answers of many requests. Compiled when installed
(`setup.py`); the `.pxd` has the types.

Only the usual is read here, by the layout of `commit_file.py`. A body that is anything else, damaged ones included, is
the general codec's to judge.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

Body: TypeAlias = tuple[str, int, int, list[int], int, int, int, int, int]
"""Object key, format, file size, owner ids, where the batches begin, how many, timeout, uploading broker and creation time (or -1)."""

BATCH_BYTES = 77
RESULT_BYTES = 29
ANSWER_BYTES = 10
"""At most, of an answer beside its results: throttle time, count, tagged fields."""


def read_bodies(frames: Sequence[bytes], offset: int, key_bytes_max: int, elements_max: int) -> list[Body | None]:
    """Read the bodies that fill frames from `offset` on; None for one that is not the usual one."""
    found: list[Body | None] = []
    for frame in frames:
        try:
            found.append(_body(frame, offset, key_bytes_max, elements_max))
        except UnicodeDecodeError:
            found.append(None)
    return found


def _body(data: bytes, offset: int, key_bytes_max: int, elements_max: int) -> Body | None:
    """None when it is not the usual one. Raises UnicodeDecodeError for the key."""
    end, row = len(data), BATCH_BYTES
    key_start = _after_varint(data, offset, end)
    if key_start < 0:
        return None
    key_bytes = _varint(data, offset, key_start) - 1
    at = key_start + key_bytes
    if key_bytes < 0 or key_bytes > key_bytes_max or end - at < 9:
        return None
    object_key = str(data[key_start:at], "utf-8")
    object_format = _int(data, at, 1)
    file_size = _int(data, at + 1, 8)
    at += 9
    first = _after_varint(data, at, end)
    if first < 0:
        return None
    owners = _varint(data, at, first) - 1
    if owners < 0 or owners > elements_max or end - first < 4 * owners:
        return None
    at = first + 4 * owners
    owner_ids = [_int(data, owner, 4) for owner in range(first, at, 4)]
    first = _after_varint(data, at, end)
    if first < 0:
        return None
    count = _varint(data, at, first) - 1
    at = first + row * count
    if count < 0 or owners + count > elements_max or end - at < 5:
        return None
    # Rows of 77 bytes up to here, so this byte is a tag count; the first that is not 0 ends the pattern.
    tags = first + row - 1
    while tags < at:
        if data[tags]:
            return None
        tags += row
    timeout_ms = _int(data, at, 4)
    at += 4
    broker_id, created_ms = -1, -1
    fields = data[at]
    at += 1
    for tag in range(2):
        size = 4 if tag == 0 else 8
        if fields and end - at >= 2 + size and data[at] == tag and data[at + 1] == size:
            if tag == 0:
                broker_id = _int(data, at + 2, size)
            else:
                created_ms = _int(data, at + 2, size)
            fields -= 1
            at += 2 + size
    if fields or at != end:
        return None
    return object_key, object_format, file_size, owner_ids, first, count, timeout_ms, broker_id, created_ms


def write_answers(
    lines: memoryview[int],
    verdict_cell: int,
    base_cell: int,
    type_cell: int,
    log_start_cell: int,
    time_cell: int,
    append_times: memoryview[int],
    first_line: list[int],
    out: bytearray,
) -> list[int]:
    """Write the bodies of answers without errors, one after the other; returns where each begins, and the end.

    The cells are those of `commit_file.AnswerCells`. `out` is zeros, RESULT_BYTES for each batch and ANSWER_BYTES for each request.
    """
    at, row, stop = 0, RESULT_BYTES, first_line[0]
    starts: list[int] = []
    for request in range(len(first_line) - 1):
        starts.append(at)
        at += 4
        start, stop = stop, first_line[request + 1]
        number = stop - start + 1
        while number > 0x7F:
            out[at] = number & 0x7F | 0x80
            number >>= 7
            at += 1
        out[at] = number
        at += 1
        for line in range(start, stop):
            time = append_times[request] if lines[line, type_cell] == 1 else -1
            if lines[line, verdict_cell] == 1:
                time = lines[line, time_cell]
                out[at + 27] = 1
            _put(lines[line, base_cell], out, at + 3)
            _put(time, out, at + 11)
            _put(lines[line, log_start_cell], out, at + 19)
            at += row
        at += 1
    starts.append(at)
    return starts


def _after_varint(data: bytes, at: int, end: int) -> int:
    """Where a varint of at most four bytes ends, or -1."""
    for stop in range(at, min(at + 4, end)):
        if data[stop] < 0x80:
            return stop + 1
    return -1


def _varint(data: bytes, at: int, stop: int) -> int:
    value = 0
    while stop > at:
        stop -= 1
        value = value << 7 | data[stop] & 0x7F
    return value


def _int(data: bytes, at: int, size: int) -> int:
    """A signed integer, most significant byte first."""
    value = -1 if data[at] & 0x80 else 0
    for place in range(at, at + size):
        value = value * 256 + data[place]
    return value


def _put(value: int, out: bytearray, at: int) -> None:
    """The eight bytes of an integer, most significant byte first."""
    for place in range(at + 7, at - 1, -1):
        out[place] = value & 0xFF
        value >>= 8
