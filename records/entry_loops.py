"""Varints and, with them, `FileCommitted` entries of many files into one buffer. Compiled when installed; the `.pxd` has the types.

The bytes of entries are those of `records.codec.encode_entry`: Avro arrays as one block each, left out where a column is empty.
Arrays are memoryviews, so that the same lines see plain ints when not compiled. Nothing is written past the buffer: an
index out of range is an IndexError.
"""

from __future__ import annotations

from records.file_head import FileHead


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


def _put_column(out: memoryview[int], at: int, values: memoryview[int], start: int, stop: int) -> int:
    """An array of numbers: their count, themselves, and an end; the end alone when there are none."""
    if start < stop:
        at = _put(out, at, stop - start)
        for place in range(start, stop):
            at = _put(out, at, values[place])
    out[at] = 0
    return at + 1


def _put_sparse(out: memoryview[int], at: int, values: memoryview[int], start: int, stop: int) -> int:
    """A column that is left out where all its values are 0."""
    for place in range(start, stop):
        if values[place] != 0:
            return _put_column(out, at, values, start, stop)
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
    runs_of_file: memoryview[int],
    batches_of_file: memoryview[int],
    producers_of_file: memoryview[int],
    run_topic: memoryview[int],
    run_partition: memoryview[int],
    run_length: memoryview[int],
    run_base_offset: memoryview[int],
    run_log_start: memoryview[int],
    byte_gap: memoryview[int],
    byte_size: memoryview[int],
    record_count_minus_one: memoryview[int],
    timestamp_age: memoryview[int],
    timestamp_type: memoryview[int],
    producer_index: memoryview[int],
    producer_id: memoryview[int],
    producer_epoch: memoryview[int],
    base_sequence: memoryview[int],
) -> int:
    """Write one entry per file, `prefix` before and `suffix` behind what is its own; `ends` gets where each ends."""
    at = run = batch = producer = 0
    for file in range(len(ends)):
        runs, batches, producers = run + runs_of_file[file], batch + batches_of_file[file], producer + producers_of_file[file]
        at = _put_bytes(out, at, prefix)
        at = _put_head(out, at, heads[file], topic_ids[file])
        at = _put_column(out, at, run_topic, run, runs)
        at = _put_column(out, at, run_partition, run, runs)
        at = _put_column(out, at, run_length, run, runs)
        at = _put_column(out, at, run_base_offset, run, runs)
        at = _put_sparse(out, at, run_log_start, run, runs)
        at = _put_sparse(out, at, byte_gap, batch, batches)
        at = _put_column(out, at, byte_size, batch, batches)
        at = _put_column(out, at, record_count_minus_one, batch, batches)
        at = _put_column(out, at, timestamp_age, batch, batches)
        at = _put_sparse(out, at, timestamp_type, batch, batches)
        at = _put_column(out, at, producer_index, producer, producers)
        at = _put_column(out, at, producer_id, producer, producers)
        at = _put_column(out, at, producer_epoch, producer, producers)
        at = _put_column(out, at, base_sequence, producer, producers)
        at = _put_bytes(out, at, suffix)
        ends[file] = at
        run, batch, producer = runs, batches, producers
    return at
