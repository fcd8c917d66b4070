"""The body of a Fetch answer in one pass, but for the records, which stay where they are. Compiled when installed (`setup.py`); the
`.pxd` has the types.
"""

from __future__ import annotations

from typing import TypeAlias

Told: TypeAlias = tuple[int, int, int, int, int, bytes]
"""What a partition is answered: its index, error code, high watermark, log start offset, how many bytes of records there are, and the
encoded list of its aborted transactions, which is empty bytes when there are none."""

FIRST_WITH_LOG_START = 5
FIRST_WITH_SESSIONS = 7
FIRST_WITH_PREFERRED_REPLICA = 11
FIRST_FLEXIBLE = 12
FIRST_WITH_TOPIC_IDS = 13

HEAD_BYTES = 16
TOPIC_BYTES = 12
PARTITION_BYTES = 48
"""As many bytes as there can be of an answer, of a topic besides its name, and of a partition besides its records."""


def write_body(version: int, error_code: int, has_aborted: int, topics: list[tuple[bytes, list[Told]]], cuts: list[int]) -> bytearray:
    """Write an answer without the records; `cuts` gets the places in it where records belong, one for each partition that has some.

    `topics` are by name, or by id from version 13 on. With `has_aborted` the list of aborted transactions is empty instead of null.
    """
    size, flexible, aborted = HEAD_BYTES, version >= FIRST_FLEXIBLE, 0 if has_aborted else -1
    has_log_start, has_preferred = version >= FIRST_WITH_LOG_START, version >= FIRST_WITH_PREFERRED_REPLICA
    for name, rows in topics:
        size += TOPIC_BYTES + len(name) + PARTITION_BYTES * len(rows)
        for row in rows:
            size += len(row[5])
    out = bytearray(size)
    at = 4  # the client is not throttled
    if version >= FIRST_WITH_SESSIONS:
        at = _put(error_code, out, at, 2)
        at = _put(0, out, at, 4)  # no session
    at = _put_count(len(topics), out, at, flexible)
    for name, rows in topics:
        if version < FIRST_FLEXIBLE:
            at = _put(len(name), out, at, 2)
        elif version < FIRST_WITH_TOPIC_IDS:
            at = _put_count(len(name), out, at, flexible)
        out[at : at + len(name)] = name
        at += len(name)
        at = _put_count(len(rows), out, at, flexible)
        for index, error, high_watermark, log_start, record_bytes, transactions in rows:
            at = _put(index, out, at, 4)
            at = _put(error, out, at, 2)
            at = _put(high_watermark, out, at, 8)
            at = _put(high_watermark, out, at, 8)  # the last stable offset
            if has_log_start:
                at = _put(log_start, out, at, 8)
            if transactions:
                out[at : at + len(transactions)] = transactions
                at += len(transactions)
            else:
                at = _put_count(aborted, out, at, flexible)
            if has_preferred:
                at = _put(-1, out, at, 4)
            at = _put_count(record_bytes, out, at, flexible)
            if record_bytes:
                cuts.append(at)
            at += flexible  # no tagged fields
        at += flexible
    at += flexible
    del out[at:]
    return out


def _put_count(count: int, out: bytearray, at: int, flexible: int) -> int:
    """Put the length of an array, a string or bytes, -1 for null; returns where it ends."""
    if not flexible:
        return _put(count, out, at, 4)
    count += 1
    while count > 0x7F:
        out[at] = count & 0x7F | 0x80
        count >>= 7
        at += 1
    out[at] = count
    return at + 1


def _put(value: int, out: bytearray, at: int, size: int) -> int:
    """Put the bytes of an integer, most significant byte first; returns where they end."""
    for place in range(at + size - 1, at - 1, -1):
        out[place] = value & 0xFF
        value >>= 8
    return at + size
