"""Many `FileCommitted` entries in one vectorised pass, for files whose batches were all accepted.

The bytes are those of `records.codec.encode_entry` for the same records; tests hold them equal. The numbers of all
files are laid out in one array, in the order in which they stand in the entries, and become varints together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from records.fast import PREFIX_OF_LEVEL
from records.history import LATEST
from records.varints import Int64s, write_number, write_number_array_with_ends

FEW_FILES = 24

_OTHERS_EMPTY = 7
"""Five empty columns, the empty messages, and the end of the entry's array of records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileNumbers:
    """Columns over all files together; `*_of_file` are how many values of a kind each file has."""

    runs_of_file: Int64s
    batches_of_file: Int64s
    producers_of_file: Int64s
    run_topic: Int64s
    run_partition: Int64s
    run_length: Int64s
    run_base_offset: Int64s
    run_log_start: Int64s
    byte_gap: Int64s
    byte_size: Int64s
    record_count_minus_one: Int64s
    timestamp_age: Int64s
    timestamp_type: Int64s
    producer_index: Int64s
    producer_id: Int64s
    producer_epoch: Int64s
    base_sequence: Int64s


class FileHead(NamedTuple):
    """What an entry says of a file as a whole."""

    object_key: str
    object_format: int
    file_size: int
    uploader_broker_id: int
    owner_ids: list[int]
    created_ms: int
    append_time_ms: int
    content_hash: bytes


def encode_file_entries(heads: Sequence[FileHead], topic_ids: Sequence[Sequence[bytes]], numbers: FileNumbers) -> list[bytes]:
    """Encode one entry per file. `topic_ids` are the topics of each file in the order of `run_topic`."""
    flat, last_of_file = _lay_out(numbers)
    data, ends = write_number_array_with_ends(flat)
    stops = ends[last_of_file].tolist()
    entries: list[bytes] = []
    start = 0
    topics: Sequence[bytes] = ()
    encoded_topics = _encode_topics(topics)
    for head, topics_of_file, stop in zip(heads, topic_ids, stops, strict=True):
        if topics_of_file is not topics:
            topics, encoded_topics = topics_of_file, _encode_topics(topics_of_file)
        entries.append(_encode_head(head, encoded_topics) + data[start:stop])
        start = stop
    return entries


def _encode_head(head: FileHead, topics: bytes) -> bytes:
    key = head.object_key.encode()
    return b"".join(
        (
            PREFIX_OF_LEVEL[LATEST],
            write_number(len(key)),
            key,
            write_number(head.object_format),
            write_number(head.file_size),
            write_number(head.uploader_broker_id),
            _owners(tuple(head.owner_ids)),
            _time(head.created_ms),
            _time(head.append_time_ms),
            head.content_hash,
            topics,
        )
    )


@lru_cache(maxsize=1024)
def _owners(owner_ids: tuple[int, ...]) -> bytes:
    """The owners, which are those of many files."""
    return b"".join((write_number(len(owner_ids)), *map(write_number, owner_ids), b"\0")) if owner_ids else b"\0"


@lru_cache(maxsize=1024)
def _time(time_ms: int) -> bytes:
    """A time, which is that of many files."""
    return write_number(time_ms)


def _encode_topics(topics: Sequence[bytes]) -> bytes:
    return b"".join((write_number(len(topics)), *topics, b"\0"))


def _lay_out(numbers: FileNumbers) -> tuple[Int64s, Int64s]:
    """All numbers in the order of the entries: per column its count, its values and an end, or the end alone when empty.

    Returns them and the index of the last number of each file.
    """
    runs, batches, producers = numbers.runs_of_file, numbers.batches_of_file, numbers.producers_of_file
    columns = [
        (numbers.run_topic, runs),
        (numbers.run_partition, runs),
        (numbers.run_length, runs),
        (numbers.run_base_offset, runs),
        _sparse(numbers.run_log_start, runs),
        _sparse(numbers.byte_gap, batches),
        (numbers.byte_size, batches),
        (numbers.record_count_minus_one, batches),
        (numbers.timestamp_age, batches),
        _sparse(numbers.timestamp_type, batches),
        (numbers.producer_index, producers),
        (numbers.producer_id, producers),
        (numbers.producer_epoch, producers),
        (numbers.base_sequence, producers),
    ]
    return _lay_out_few(columns, len(runs)) if len(runs) <= FEW_FILES else _lay_out_many(columns)


def _lay_out_few(columns: Sequence[tuple[Int64s, Int64s]], files: int) -> tuple[Int64s, Int64s]:
    """File by file: with few of them, copying slices is cheaper than computing where every number goes."""
    lengths = [of_file.tolist() for _, of_file in columns]
    slots = sum(n + 2 if n else 1 for column in lengths for n in column)
    flat = np.zeros(slots + _OTHERS_EMPTY * files, np.int64)
    taken = [0] * len(columns)
    last_of_file: list[int] = []
    at = 0
    for file in range(files):
        for place, (values, _) in enumerate(columns):
            n = lengths[place][file]
            if not n:
                at += 1
                continue
            start = taken[place]
            taken[place] = start + n
            flat[at] = n
            flat[at + 1 : at + 1 + n] = values[start : start + n]
            at += n + 2
        at += _OTHERS_EMPTY
        last_of_file.append(at - 1)
    return flat, np.array(last_of_file, np.int64)


def _lay_out_many(columns: Sequence[tuple[Int64s, Int64s]]) -> tuple[Int64s, Int64s]:
    """Column by column, all files at once."""
    slots = np.stack([np.where(lengths > 0, lengths + 2, 1) for _, lengths in columns], axis=1)
    per_file = slots.sum(axis=1) + _OTHERS_EMPTY
    ends = per_file.cumsum()
    starts = (ends - per_file)[:, None] + np.cumsum(slots, axis=1) - slots
    flat = np.zeros(int(ends[-1]), np.int64)
    for place, (values, lengths) in enumerate(columns):
        if not len(values):
            continue
        start = starts[:, place]
        filled = lengths > 0
        flat[start[filled]] = lengths[filled]
        # Where a file's values begin, less how many values of other files come before them in the column.
        shift = start + 1 - (lengths.cumsum() - lengths)
        flat[shift.repeat(lengths) + np.arange(len(values))] = values
    return flat, ends - 1


def _sparse(values: Int64s, lengths: Int64s) -> tuple[Int64s, Int64s]:
    """A column that is left out for files where all its values are 0."""
    if not values.any():
        return values[:0], np.zeros_like(lengths)
    file_of = np.repeat(np.arange(len(lengths)), lengths)
    used = np.bincount(file_of, weights=values != 0, minlength=len(lengths)) > 0
    return values[used[file_of]], np.where(used, lengths, 0)
