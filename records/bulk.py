"""Many `FileCommitted` entries in one pass, for files whose batches were all accepted.

The bytes are those of `records.codec.encode_entry` for the same records; tests hold them equal.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import islice
from operator import attrgetter

import numpy as np

from records.entry_loops import write_entries
from records.fast import PREFIX_OF_LEVEL
from records.file_head import FileHead
from records.varints import Int64s

_OTHERS_EMPTY = bytes(7)
"""Five empty columns, the empty messages, and the end of the entry's array of records."""
_FILE_BYTES_MAX = 256
"""Of a file besides what has a length of its own: numbers, counts and ends of columns, prefix and hash."""
_BATCH_BYTES_MAX = 140
"""Of a batch: at most 14 numbers of 10 bytes, with a run and a producer of its own."""
_TOPIC_BYTES = 16
_NUMBER_BYTES_MAX = 10


@dataclass(slots=True, kw_only=True)
class FileNumbers:
    """Columns over all files together, in the order of an entry; `*_of_file` are how many values of a kind each file has."""

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


_columns = attrgetter(*(one.name for one in fields(FileNumbers)))
_ROWS_OF_TABLES = (3, 5, 5, 4)
"""The fields of `FileNumbers` by kind, as `file_tables` has them."""


def encode_file_entries(heads: list[FileHead], topic_ids: list[list[bytes]], numbers: FileNumbers, level: int) -> list[bytes]:
    """Encode one entry per file in the schema of a level. `topic_ids` are the topics of each file in the order of `run_topic`."""
    columns = iter(_columns(numbers))
    tables = [np.stack(list(islice(columns, rows))).data for rows in _ROWS_OF_TABLES]
    return encode_tables(heads, topic_ids, len(numbers.byte_size), tables, level)


def encode_tables(
    heads: list[FileHead], topic_ids: list[list[bytes]], batches: int, tables: Sequence[memoryview[int]], level: int
) -> list[bytes]:
    """Encode from the columns of files, runs, batches and idempotent batches as rows of tables, which may have more rows."""
    room = _BATCH_BYTES_MAX * batches
    for head, ids in zip(heads, topic_ids, strict=True):
        room += 4 * len(head.object_key) + _NUMBER_BYTES_MAX * len(head.owner_ids) + _TOPIC_BYTES * len(ids) + _FILE_BYTES_MAX
    out = np.empty(room, np.uint8).data
    ends = memoryview(array("q", bytes(8 * len(heads))))
    size = write_entries(out, ends, PREFIX_OF_LEVEL[level], _OTHERS_EMPTY, heads, topic_ids, *tables)
    data = bytes(out[:size])
    stops = ends.tolist()
    return [data[start:stop] for start, stop in zip([0, *stops[:-1]], stops, strict=True)]
