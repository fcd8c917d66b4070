"""The body of a Fetch request in one pass. Compiled when installed (`setup.py`); the `.pxd` has the types.

Only the usual is read here: whole bodies whose tagged fields are empty. A body that is anything else, damaged ones included, is the
general codec's to judge.
"""

from __future__ import annotations

from typing import TypeAlias

Asked: TypeAlias = tuple[int, int, int, int]
"""A partition that is asked for: its index, the leader epoch that the client knows, the offset, and how many bytes at most."""

Body: TypeAlias = tuple[int, int, int, int, int, int, int, list[tuple[bytes, list[Asked]]]]
"""Replica id, longest wait, fewest and most bytes, isolation level, session id and epoch, and the partitions by name or id of topics."""

FIRST_WITH_LOG_START = 5
FIRST_WITH_SESSIONS = 7
FIRST_WITH_LEADER_EPOCHS = 9
FIRST_WITH_RACK = 11
FIRST_FLEXIBLE = 12
FIRST_WITH_TOPIC_IDS = 13
FIRST_WITHOUT_REPLICA_ID = 15


def read_body(data: bytes, offset: int, version: int, elements_max: int) -> Body | None:
    """Read a body that fills `data` from `offset` on; None for one that the general codec has to read."""
    at, end, flexible, has_ids = offset, len(data), version >= FIRST_FLEXIBLE, version >= FIRST_WITH_TOPIC_IDS
    replica_id, isolation, session_id, session_epoch = -1, 0, 0, -1
    if end - at < 13 + (4 if version < FIRST_WITHOUT_REPLICA_ID else 0) + (8 if version >= FIRST_WITH_SESSIONS else 0):
        return None
    if version < FIRST_WITHOUT_REPLICA_ID:
        replica_id = _int(data, at, 4)
        at += 4
    max_wait_ms = _int(data, at, 4)
    min_bytes = _int(data, at + 4, 4)
    max_bytes = _int(data, at + 8, 4)
    isolation = _int(data, at + 12, 1)
    at += 13
    if version >= FIRST_WITH_SESSIONS:
        session_id = _int(data, at, 4)
        session_epoch = _int(data, at + 4, 4)
        at += 8
    # Where the fields of a partition are, which has the same size in all plain requests of a version.
    row, epoch_at, offset_at, bytes_at = 16, -1, 4, 12
    if version >= FIRST_FLEXIBLE:
        row, epoch_at, offset_at, bytes_at = 33, 4, 8, 28
    elif version >= FIRST_WITH_LEADER_EPOCHS:
        row, epoch_at, offset_at, bytes_at = 28, 4, 8, 24
    elif version >= FIRST_WITH_LOG_START:
        row, bytes_at = 24, 20
    topics: list[tuple[bytes, list[Asked]]] = []
    at, topic_count = _count(data, at, end, flexible)
    elements = topic_count
    if at < 0 or elements > elements_max:
        return None
    for _ in range(topic_count):
        if has_ids:
            start = at
            at += 16
        else:
            start, size = _text(data, at, end, flexible)
            if start < 0:
                return None
            at = start + size
        stop = at
        at, count = _count(data, at, end, flexible)
        elements += count
        if at < 0 or elements > elements_max or count * row > end - at:
            return None
        rows: list[Asked] = []
        for _ in range(count):
            if flexible and data[at + row - 1]:
                return None
            epoch = -1 if epoch_at < 0 else _int(data, at + epoch_at, 4)
            rows.append((_int(data, at, 4), epoch, _int(data, at + offset_at, 8), _int(data, at + bytes_at, 4)))
            at += row
        topics.append((data[start:stop], rows))
        if flexible:
            if at >= end or data[at]:
                return None
            at += 1
    at = _after_the_rest(data, at, end, version, elements_max - elements)
    if at != end:
        return None
    return replica_id, max_wait_ms, min_bytes, max_bytes, isolation, session_id, session_epoch, topics


def _after_the_rest(data: bytes, at: int, end: int, version: int, elements_max: int) -> int:
    """Where forgotten partitions, rack and tagged fields end, or -1 for what is not plain."""
    flexible, has_ids = version >= FIRST_FLEXIBLE, version >= FIRST_WITH_TOPIC_IDS
    if version >= FIRST_WITH_SESSIONS:
        at, topics = _count(data, at, end, flexible)
        if at < 0 or topics > elements_max:
            return -1
        for _ in range(topics):
            if has_ids:
                at += 16
            else:
                start, size = _text(data, at, end, flexible)
                if start < 0:
                    return -1
                at = start + size
            at, count = _count(data, at, end, flexible)
            elements_max -= count
            if at < 0 or count > elements_max or 4 * count > end - at:
                return -1
            at += 4 * count
            if flexible:
                if at >= end or data[at]:
                    return -1
                at += 1
    if version >= FIRST_WITH_RACK:
        start, size = _text(data, at, end, flexible)
        if start < 0:
            return -1
        at = start + size
    if flexible:
        if at >= end or data[at]:
            return -1
        at += 1
    return at


def _count(data: bytes, at: int, end: int, flexible: int) -> tuple[int, int]:
    """Where the elements of an array begin, and how many they are; a negative place for null, and for what is damaged."""
    if flexible:
        at, count = _varint(data, at, end)
        if count == 0:
            return -1, 0
        return at, count - 1
    if end - at < 4:
        return -1, 0
    count = _int(data, at, 4)
    if count < 0:
        return -1, 0
    return at + 4, count


def _text(data: bytes, at: int, end: int, flexible: int) -> tuple[int, int]:
    """Where the bytes of a string begin, and how many they are; a negative place for null, and for what is damaged."""
    if flexible:
        at, size = _varint(data, at, end)
        size -= 1
    elif end - at < 2:
        return -1, 0
    else:
        size = _int(data, at, 2)
        at += 2
    # Kafka's strings have 32767 bytes at most.
    if at < 0 or size < 0 or size > 32767 or size > end - at:
        return -1, 0
    return at, size


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Where a varint of at most four bytes ends, and its value; a negative place, and 0, for another one."""
    value = 0
    for place in range(4):
        if at + place >= end or at < 0:
            break
        byte = data[at + place]
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return at + place + 1, value
    return -1, 0


def _int(data: bytes, at: int, size: int) -> int:
    """A signed integer, most significant byte first."""
    value = -1 if data[at] & 0x80 else 0
    for place in range(at, at + size):
        value = value * 256 + data[place]
    return value
