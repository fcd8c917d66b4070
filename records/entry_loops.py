"""Varints and, with them, `FileCommitted` entries of many files into one buffer. Compiled when installed; the `.pxd` has the types.

The bytes of entries are those of `records.codec.encode_entry`: Avro arrays as one block each, left out where a column is empty.
Arrays are memoryviews, so that the same lines see plain ints when not compiled. Nothing is written past the buffer: an
index out of range is an IndexError.
"""

from __future__ import annotations

from records.file_head import FileHead
from records.file_tables import (
    BASE_SEQUENCE,
    BATCHES_OF_FILE,
    BYTE_GAP,
    BYTE_SIZE,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    PRODUCER_INDEX,
    PRODUCERS_OF_FILE,
    RECORD_COUNT_MINUS_ONE,
    RUN_BASE_OFFSET,
    RUN_LENGTH,
    RUN_LOG_START,
    RUN_PARTITION,
    RUN_TOPIC,
    RUNS_OF_FILE,
    TIMESTAMP_AGE,
    TIMESTAMP_TYPE,
)


def _put(out: memoryview[int], at: int, number: int) -> int:
    """Write a zigzag varint; returns where it ends, as all of these do."""
    unsigned = number if number >= 0 else ~number
    unsigned = unsigned << 1 if number >= 0 else unsigned << 1 | 1  # only now: a C number with a sign has no room for another bit
    while unsigned > 0x7F:
        out[at] = unsigned & 0x7F | 0x80
        unsigned >>= 7
        at += 1
    out[at] = unsigned
    return at + 1


def write_varints(numbers: memoryview[int], out: memoryview[int]) -> int:
    """Write the varints of 64-bit integers to `out`, which has 10 bytes for each; returns where they end."""
    at = 0
    for place in range(len(numbers)):
        at = _put(out, at, numbers[place])
    return at


def _put_bytes(out: memoryview[int], at: int, data: bytes) -> int:
    for place in range(len(data)):
        out[at + place] = data[place]
    return at + len(data)


def _put_column(out: memoryview[int], at: int, table: memoryview[int], row: int, start: int, stop: int) -> int:
    """An array of numbers: their count, themselves, and an end; the end alone when there are none."""
    if start < stop:
        at = _put(out, at, stop - start)
        for place in range(start, stop):
            at = _put(out, at, table[row, place])
    out[at] = 0
    return at + 1


def _put_sparse(out: memoryview[int], at: int, table: memoryview[int], row: int, start: int, stop: int) -> int:
    """A column that is left out where all its values are 0."""
    for place in range(start, stop):
        if table[row, place] != 0:
            return _put_column(out, at, table, row, start, stop)
    out[at] = 0
    return at + 1


def _put_head(out: memoryview[int], at: int, head: FileHead, topic_ids: list[bytes]) -> int:
    key, content_hash = head[0].encode(), head[7]
    at = _put(out, at, len(key))
    at = _put_bytes(out, at, key)
    at = _put(out, at, head[1])
    at = _put(out, at, head[2])
    at = _put(out, at, head[3])
    owner_ids = head[4]
    if owner_ids:
        at = _put(out, at, len(owner_ids))
        for owner_id in owner_ids:
            at = _put(out, at, owner_id)
    out[at] = 0
    at = _put(out, at + 1, head[5])
    at = _put(out, at, head[6])
    at = _put_bytes(out, at, content_hash)
    at = _put(out, at, len(topic_ids))
    for topic_id in topic_ids:
        at = _put_bytes(out, at, topic_id)
    out[at] = 0
    return at + 1


def write_entries(
    out: memoryview[int],
    ends: memoryview[int],
    prefix: bytes,
    suffix: bytes,
    heads: list[FileHead],
    topic_ids: list[list[bytes]],
    files: memoryview[int],
    runs: memoryview[int],
    batches: memoryview[int],
    idempotent: memoryview[int],
) -> int:
    """Write one entry per file, `prefix` before and `suffix` behind what is its own; `ends` gets where each ends.

    The tables have the rows of `file_tables`, and perhaps more, and places enough.
    """
    at = run = batch = producer = 0
    for file in range(len(ends)):
        run_stop, batch_stop = run + files[RUNS_OF_FILE, file], batch + files[BATCHES_OF_FILE, file]
        producer_stop = producer + files[PRODUCERS_OF_FILE, file]
        at = _put_bytes(out, at, prefix)
        at = _put_head(out, at, heads[file], topic_ids[file])
        at = _put_column(out, at, runs, RUN_TOPIC, run, run_stop)
        at = _put_column(out, at, runs, RUN_PARTITION, run, run_stop)
        at = _put_column(out, at, runs, RUN_LENGTH, run, run_stop)
        at = _put_column(out, at, runs, RUN_BASE_OFFSET, run, run_stop)
        at = _put_sparse(out, at, runs, RUN_LOG_START, run, run_stop)
        at = _put_sparse(out, at, batches, BYTE_GAP, batch, batch_stop)
        at = _put_column(out, at, batches, BYTE_SIZE, batch, batch_stop)
        at = _put_column(out, at, batches, RECORD_COUNT_MINUS_ONE, batch, batch_stop)
        at = _put_column(out, at, batches, TIMESTAMP_AGE, batch, batch_stop)
        at = _put_sparse(out, at, batches, TIMESTAMP_TYPE, batch, batch_stop)
        at = _put_column(out, at, idempotent, PRODUCER_INDEX, producer, producer_stop)
        at = _put_column(out, at, idempotent, PRODUCER_ID, producer, producer_stop)
        at = _put_column(out, at, idempotent, PRODUCER_EPOCH, producer, producer_stop)
        at = _put_column(out, at, idempotent, BASE_SEQUENCE, producer, producer_stop)
        at = _put_bytes(out, at, suffix)
        ends[file] = at
        run, batch, producer = run_stop, batch_stop, producer_stop
    return at
