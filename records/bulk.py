"""Many `FileCommitted` entries in one vectorised pass, for files whose batches were all accepted.

The bytes are those of `records.codec.encode_entry` for the same records; tests hold them equal. Column by column the
numbers of all files become varints together and are cut into one piece per file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import repeat
from typing import NamedTuple

import numpy as np

from records.fast import PREFIX_OF_LEVEL
from records.history import LATEST
from records.varints import Int64s, write_number, write_number_array_with_ends

_NO_VALUES = b"\0"
_OTHERS_EMPTY = bytes(7)
"""Five empty columns, the empty messages, and the end of the entry's array of records."""
_ONE_BYTE_END = 64
_ZERO = np.zeros(1, np.int64)


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
    return list(map(b"".join, zip(_encode_heads(heads, topic_ids), *_encode_columns(numbers), repeat(_OTHERS_EMPTY), strict=False)))


def _encode_columns(numbers: FileNumbers) -> list[Iterable[bytes]]:
    """Each column as one piece of bytes per file: the count, the values and an end, or the end alone when there are none."""
    runs, batches, producers = map(_Shares, (numbers.runs_of_file, numbers.batches_of_file, numbers.producers_of_file))
    columns = [
        (runs, numbers.run_topic),
        (runs, numbers.run_partition),
        (runs, numbers.run_length),
        (runs, numbers.run_base_offset),
        runs.of_sparse(numbers.run_log_start),
        batches.of_sparse(numbers.byte_gap),
        (batches, numbers.byte_size),
        (batches, numbers.record_count_minus_one),
        (batches, numbers.timestamp_age),
        batches.of_sparse(numbers.timestamp_type),
        (producers, numbers.producer_index),
        (producers, numbers.producer_id),
        (producers, numbers.producer_epoch),
        (producers, numbers.base_sequence),
    ]
    is_large = [len(values) > 0 and not _are_one_byte_each(values) for _, values in columns]
    data, bounds = _encode_together([values for (_, values), large in zip(columns, is_large, strict=True) if large])
    pieces: list[Iterable[bytes]] = []
    first = 0
    for (shares, values), large in zip(columns, is_large, strict=True):
        if not len(values):
            pieces.append(repeat(_NO_VALUES))
        elif large:
            pieces.append(shares.cut(data, int(bounds[first]), bounds[first + shares.ends]))
            first += len(values)
        else:
            pieces.append(shares.cut((values.astype(np.uint8) << 1).tobytes(), 0, shares.ends))
    return pieces


def _are_one_byte_each(values: Int64s) -> bool:
    return int(values.max()) < _ONE_BYTE_END and int(values.min()) >= 0


def _encode_together(columns: Sequence[Int64s]) -> tuple[bytes, Int64s]:
    """The varints of all columns, and where each begins, with the end of the last."""
    if not columns:
        return b"", _ZERO
    data, ends = write_number_array_with_ends(np.concatenate(columns))
    return data, np.concatenate((_ZERO, ends))


class _Shares:
    """How many values of a column each file has; `ends` is where those of each file end."""

    def __init__(self, lengths: Int64s) -> None:
        self.ends: Int64s = lengths.cumsum()
        self._lengths = lengths
        self._counts = [write_number(length) if length else b"" for length in lengths.tolist()]

    def of_sparse(self, values: Int64s) -> tuple[_Shares, Int64s]:
        """A column that is left out for files where all its values are 0."""
        if not values.any():
            return self, values[:0]
        file_of = np.repeat(np.arange(len(self._lengths)), self._lengths)
        used = np.bincount(file_of, weights=values != 0, minlength=len(self._lengths)) > 0
        return _Shares(np.where(used, self._lengths, 0)), values[used[file_of]]

    def cut(self, data: bytes, start: int, stops: Int64s) -> list[bytes]:
        """Cut encoded values that begin at `start` where each file's end."""
        pieces: list[bytes] = []
        for count, stop in zip(self._counts, stops.tolist(), strict=True):
            pieces.append(count + data[start:stop] + _NO_VALUES if count else _NO_VALUES)
            start = stop
        return pieces


def _encode_heads(heads: Sequence[FileHead], topic_ids: Sequence[Sequence[bytes]]) -> Iterator[bytes]:
    topics: Sequence[bytes] = ()
    encoded_topics = _encode_topics(topics)
    for head, topics_of_file in zip(heads, topic_ids, strict=True):
        if topics_of_file is not topics:
            topics, encoded_topics = topics_of_file, _encode_topics(topics_of_file)
        yield _encode_head(head, encoded_topics)


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
