"""The topics that a request for partitions names, found in one pass that reads nothing else. Compiled when installed (`setup.py`); the
`.pxd` has the types.
"""

from __future__ import annotations

VARINT_BYTES_MAX = 5
UUID_BYTES = 16


def named_topics(data: bytes, at: int, has_id: bool, partition_bytes: int, has_records: bool, is_flexible: bool, found: list[bytes]) -> int:
    """Add the names or ids of a request's array of topics, which begins at a place; returns where it ends, -1 if it is damaged.

    A partition has `partition_bytes` of fixed size, then records, then tagged fields, as the request's version has them.
    """
    end = len(data)
    count, at = _count(data, at, end, is_flexible)
    if at < 0:
        return -1
    while count > 0:
        count -= 1
        size = UUID_BYTES
        if not has_id:
            size, at = _text_size(data, at, end, is_flexible)
        if at < 0 or size < 0 or size > end - at:
            return -1
        found.append(data[at : at + size])
        at += size
        partitions, at = _count(data, at, end, is_flexible)
        if at < 0:
            return -1
        if not has_records and not is_flexible:
            if partitions > (end - at) // partition_bytes:
                return -1
            at += partitions * partition_bytes
            continue
        while partitions > 0:
            partitions -= 1
            at += partition_bytes
            if has_records:
                size, at = _records_size(data, at, end, is_flexible)
                if at < 0 or size > end - at:
                    return -1
                at += size
            if is_flexible:
                at = _after_tags(data, at, end)
            if at < 0 or at > end:
                return -1
        if is_flexible:
            at = _after_tags(data, at, end)
            if at < 0:
                return -1
    return at


def _count(data: bytes, at: int, end: int, is_flexible: bool) -> tuple[int, int]:
    """The length of an array, none for null, and the place after it; -1 for damage."""
    if is_flexible:
        value, at = _varint(data, at, end)
        return (value - 1 if value > 0 else 0), at
    if at < 0 or end - at < 4:
        return 0, -1
    value = _int32(data, at)
    return (value if value > 0 else 0), at + 4


def _records_size(data: bytes, at: int, end: int, is_flexible: bool) -> tuple[int, int]:
    return _count(data, at, end, is_flexible)


def _text_size(data: bytes, at: int, end: int, is_flexible: bool) -> tuple[int, int]:
    if is_flexible:
        value, at = _varint(data, at, end)
        return value - 1, at
    if end - at < 2:
        return -1, -1
    value = data[at] * 256 + data[at + 1]
    return (value if value < 32768 else -1), at + 2


def _after_tags(data: bytes, at: int, end: int) -> int:
    """The place after a section of tagged fields; -1 for damage."""
    if at < 0 or at >= end:
        return -1
    if data[at] == 0:
        return at + 1
    count, at = _varint(data, at, end)
    while count > 0 and at >= 0:
        count -= 1
        size, at = _varint(data, at, end)
        if at < 0:
            return -1
        size, at = _varint(data, at, end)
        if at < 0 or size > end - at:
            return -1
        at += size
    return at


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    if at < 0:
        return 0, -1
    while shift < 7 * VARINT_BYTES_MAX:
        if at >= end:
            return 0, -1
        byte = data[at]
        at += 1
        value += (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            if value >= 2147483648:
                return 0, -1
            return value, at
    return 0, -1


def _int32(data: bytes, at: int) -> int:
    value = -1 if data[at] & 0x80 else 0
    for place in range(at, at + 4):
        value = value * 256 + data[place]
    return value
