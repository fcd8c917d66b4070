"""Committed files: as a table of lines, as bytes of the log, and as readable objects.

`encode_files` and `read_files` are the only encoder and decoder of `FileCommitted`; `records.codec` uses them too. A table holds
what was decided on every batch of some files; `records.committed_files.lines` explains the numbers, `layouts` beside it the
bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from records.committed_files import file_loops, lines
from records.committed_files.head import FileHead
from records.committed_files.layouts import (
    FILE_BYTES_MAX,
    ID_BYTES,
    INT_BYTES_MAX,
    LAYOUTS,
    LONG_BYTES_MAX,
    Form,
    Kind,
    Layout,
    varint_bytes,
)
from records.committed_files.lines import LINE_WIDTH, BatchVerdict
from records.errors import InvalidRecord
from records.history import EntrySchema, levels, schema_of_level

Int64s = npt.NDArray[np.int64]

SEQUENCE_MASK = 2**31 - 1
"""The sequence after the greatest is 0."""

_RECORD_NAME = "FileCommitted"
PREFIX_BYTES = 12
_FIELD_PREFIX = "layout_"


@dataclass(slots=True)
class FileTable:
    """Some files and their batches. `first_line` has where the lines of each file begin, and where those of the last end."""

    heads: list[FileHead]
    first_line: list[int]
    lines: Int64s

    def __len__(self) -> int:
        return len(self.heads)

    def lines_of(self, file: int) -> Int64s:
        """The lines of one file."""
        return self.lines[self.first_line[file] : self.first_line[file + 1]]


class CommittedBatch(NamedTuple):
    """A line as an object; `records.committed_files.lines` explains the numbers."""

    topic_id: bytes
    partition: int
    verdict: int
    base_offset: int
    record_count: int
    byte_offset: int
    byte_size: int
    timestamp_ms: int
    timestamp_type: int = 0
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    log_start: int = 0
    detail: int = 0

    @property
    def is_accepted(self) -> bool:
        """Whether the batch got offsets in this file."""
        return self.verdict == BatchVerdict.ACCEPTED

    @property
    def next_offset(self) -> int:
        """The offset after the batch."""
        return self.base_offset + self.record_count

    @property
    def last_offset(self) -> int:
        """The offset of its last record."""
        return self.base_offset + self.record_count - 1

    @property
    def last_sequence(self) -> int:
        """The sequence of its last record, -1 if it is not idempotent."""
        return -1 if self.producer_id < 0 else (self.base_sequence + self.record_count - 1) & SEQUENCE_MASK


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCommitted:
    """The outcome of one CommitFile: the head of the file, and what was decided on each of its batches, in the order of the request."""

    object_key: str
    object_format: int
    file_size: int
    uploader_broker_id: int
    owner_ids: list[int]
    created_ms: int
    append_time_ms: int
    content_hash: bytes
    batches: list[CommittedBatch]

    @property
    def head(self) -> FileHead:
        """The properties of the file as a whole."""
        return FileHead(
            self.object_key,
            self.object_format,
            self.file_size,
            self.uploader_broker_id,
            self.owner_ids,
            self.created_ms,
            self.append_time_ms,
            self.content_hash,
        )

    @property
    def accepted(self) -> list[CommittedBatch]:
        """The batches that got offsets in this file."""
        return [batch for batch in self.batches if batch.verdict == BatchVerdict.ACCEPTED]


# ---- objects and tables

_LINE_COLUMNS = (
    lines.PARTITION, lines.VERDICT, lines.BASE_OFFSET, lines.RECORD_COUNT, lines.BYTE_OFFSET, lines.BYTE_SIZE, lines.TIMESTAMP,
    lines.TIMESTAMP_TYPE, lines.PRODUCER_ID, lines.PRODUCER_EPOCH, lines.BASE_SEQUENCE, lines.LOG_START, lines.DETAIL,
)  # fmt: skip
"""The columns of the fields of `CommittedBatch` after the topic id."""


def topic_halves(topic_id: bytes) -> tuple[int, int]:
    """A topic id in the form of lines."""
    return int.from_bytes(topic_id[:8], "big", signed=True), int.from_bytes(topic_id[8:], "big", signed=True)


def topic_id_of(high: int, low: int) -> bytes:
    """The topic id of two numbers of a line."""
    return high.to_bytes(8, "big", signed=True) + low.to_bytes(8, "big", signed=True)


def topic_ids_of(table: Int64s) -> npt.NDArray[np.void]:
    """The topic id of each line, as 16 raw bytes."""
    halves = table[:, lines.TOPIC_HIGH : lines.TOPIC_LOW + 1].astype(">i8", order="C")
    return halves.view("V16").reshape(-1)


def last_sequences(table: Int64s) -> Int64s:
    """The last sequence of each line; means nothing for a batch that is not idempotent."""
    last: Int64s = (table[:, lines.BASE_SEQUENCE] + table[:, lines.RECORD_COUNT] - 1) & SEQUENCE_MASK
    return last


def table_of(files: Sequence[FileCommitted]) -> FileTable:
    """The table of some files. Raises InvalidRecord for a number of more than 64 bits or an id that has not 16 bytes."""
    batches = [batch for file in files for batch in file.batches]
    for batch in batches:
        if len(batch.topic_id) != ID_BYTES:
            raise InvalidRecord(f"FileCommitted: a topic id must be {ID_BYTES} bytes, not {batch.topic_id!r:.60}")
    counts = [len(file.batches) for file in files]
    first_line = [0, *accumulate(counts)]
    table = np.tile(_codec.defaults, (len(batches), 1))
    table[:, lines.FILE] = np.repeat(np.arange(len(files)), counts)
    table[:, lines.TOPIC_HIGH : lines.TOPIC_LOW + 1] = np.frombuffer(b"".join([batch[0] for batch in batches]), ">i8").reshape(-1, 2)
    try:
        table[:, _LINE_COLUMNS] = np.array([batch[1:] for batch in batches], np.int64).reshape(-1, len(_LINE_COLUMNS))
    except OverflowError as error:
        raise InvalidRecord("FileCommitted: a number of a batch has more than 64 bits") from error
    return FileTable([file.head for file in files], first_line, table)


def files_of(table: FileTable) -> list[FileCommitted]:
    """The files of a table as objects."""
    topic_ids = topic_ids_of(table.lines).tolist()
    numbers = table.lines[:, _LINE_COLUMNS].tolist()
    batches = [CommittedBatch(topic_id, *row) for topic_id, row in zip(topic_ids, numbers, strict=True)]
    return [
        FileCommitted(**head._asdict(), batches=batches[start:stop])
        for head, start, stop in zip(table.heads, table.first_line[:-1], table.first_line[1:], strict=True)
    ]


# ---- bytes


class _Codec:
    """The arguments of the loops: the known layouts, by level and by the first bytes of entries, and the defaults of a line."""

    def __init__(self) -> None:
        self.of_level: dict[int, tuple[bytes, Layout]] = {}
        self.of_prefix: dict[bytes, Layout] = {}
        self.defaults: Int64s = np.zeros(LINE_WIDTH, np.int64)

    def know(self, schema: EntrySchema, layout: Layout) -> None:
        """Add a schema level and its layout."""
        prefix = file_prefix(schema)
        self.of_level[schema.level] = prefix, layout
        self.of_prefix[prefix] = layout
        more = np.zeros(max(layout.width - len(self.defaults), 0), np.int64)
        self.defaults = np.concatenate([self.defaults, more])
        for column in layout.columns:
            self.defaults[column.line] = column.default


def file_prefix(schema: EntrySchema) -> bytes:
    """How entries of a schema begin that hold one file and nothing else: header, one record, its place in the union."""
    branch = list(schema.record_types).index(_RECORD_NAME)
    assert branch < 64, "the place of FileCommitted takes one byte"
    return schema.header + bytes((2, 2 * branch))


def file_prefixes() -> list[bytes]:
    """How entries begin that hold a file and nothing else, `PREFIX_BYTES` each, at every level."""
    return list(_codec.of_prefix)


def begins_like_a_file(value: bytes) -> bool:
    """Whether an entry begins as one does that holds a file and nothing else. It may go on in any way."""
    return value[:PREFIX_BYTES] in _codec.of_prefix


def layout_version(schema: EntrySchema) -> int:
    """The version of the layout that a schema names."""
    (field,) = schema.record_types[_RECORD_NAME].fields
    return int(field.name.removeprefix(_FIELD_PREFIX))


_codec = _Codec()
for _level in levels():
    _codec.know(schema_of_level(_level), LAYOUTS[layout_version(schema_of_level(_level))])


def encode_files(table: FileTable, level: int) -> list[bytes]:
    """Return the entry of each file in the schema of a level.

    Lines may lack columns of newer layouts, which then have their defaults. Raises InvalidRecord when the level is unknown or
    lacks a column that is set, or when a file is not lawful: a number out of its column's range, a text that is none.
    """
    prefix, layout = _codec.of_level.get(level) or _unknown(level)
    rows = table.lines
    if rows.shape[1] != layout.width:
        rows = _in_width(rows, layout)
    try:
        return file_loops.write_files(prefix, layout, table.heads, table.first_line, rows)
    except UnicodeEncodeError as error:
        raise InvalidRecord(f"FileCommitted: object_key is not valid text: {error.reason}") from error
    except OverflowError as error:
        raise InvalidRecord(f"FileCommitted: a number of the head has more than 64 bits: {error}") from error


def entry_bytes_max(key_bytes: int, owners: int, rows: Int64s) -> int:
    """How many bytes the entry of a file has at most, whatever is decided on these lines; of their columns only those of the request
    are read. A batch that is accepted takes up to 30 bytes less than is said here, a run up to 20.
    """
    if not len(rows):
        return FILE_BYTES_MAX + key_bytes + INT_BYTES_MAX * owners
    partitions = rows[:, [lines.TOPIC_HIGH, lines.TOPIC_LOW, lines.PARTITION]]
    begins = np.ones((len(rows), 2), bool)
    begins[1:, 0] = (partitions[1:, :2] != partitions[:-1, :2]).any(axis=1)
    begins[1:, 1] = (partitions[1:] != partitions[:-1]).any(axis=1)
    of_kind = {Kind.RUN: rows[begins[:, 1]], Kind.IDEMPOTENT: rows[rows[:, lines.PRODUCER_ID] >= 0]}
    total = FILE_BYTES_MAX + key_bytes + INT_BYTES_MAX * owners + ID_BYTES * int(begins[:, 0].sum())
    for column in LAYOUTS[max(LAYOUTS)].columns:
        some = of_kind.get(column.kind, rows)
        match column.form:
            case Form.PLAIN if column.line not in _DECIDED:
                total += _bytes_of(some[:, column.line])
            case Form.ONE_LESS:
                total += _bytes_of(some[:, column.line] - 1)
            case Form.GAP:
                ends = rows[:, lines.BYTE_OFFSET] + rows[:, lines.BYTE_SIZE]
                total += _bytes_of(rows[:, lines.BYTE_OFFSET] - np.concatenate([[0], ends[:-1]]))
            case Form.LENGTH | Form.DISTANCE:
                total += varint_bytes(len(rows)) * len(some)
            case _:
                total += varint_bytes(column.greatest) * len(some)
    return total


_DECIDED = frozenset({lines.VERDICT, lines.BASE_OFFSET, lines.LOG_START, lines.DETAIL})
"""The columns that a decision sets."""

_VARINT_LIMITS = np.array([1 << 7 * size - 1 for size in range(1, LONG_BYTES_MAX)], np.uint64)


def _bytes_of(numbers: Int64s) -> int:
    """How many bytes the varints of numbers have."""
    sizes = np.searchsorted(_VARINT_LIMITS, np.where(numbers < 0, ~numbers, numbers).astype(np.uint64), side="right")
    return int(sizes.sum()) + len(numbers)


def _unknown(level: int) -> tuple[bytes, Layout]:
    schema_of_level(level)  # raises
    raise AssertionError(f"level {level} has no layout")


def _in_width(rows: Int64s, layout: Layout) -> Int64s:
    """Lines with the columns of a layout. Raises InvalidRecord when one that it lacks is set."""
    lacking = rows[:, layout.width :]
    if (lacking != _codec.defaults[layout.width : rows.shape[1]]).any():
        raise InvalidRecord("FileCommitted: a column is set that this schema level lacks; raise the level first")
    added = np.broadcast_to(_codec.defaults[rows.shape[1] : layout.width], (len(rows), max(layout.width - rows.shape[1], 0)))
    return np.ascontiguousarray(np.concatenate([rows[:, : layout.width], added], axis=1))


def read_files(values: Sequence[bytes]) -> tuple[list[int], FileTable]:
    """Read the values that are entries of one lawful file and nothing else; return which they are, and the files.

    Everything else is left to `records.codec.decode_entry`. Memory is bounded by a multiple of the size of the values.
    """
    taken, heads, first_line, rows = file_loops.read_files(list(values), None, None, _codec.of_prefix, _codec.defaults)
    return taken, FileTable(heads, first_line, rows)


def read_files_at(data: bytes, starts: Int64s, ends: Int64s) -> tuple[list[int], FileTable]:
    """Do the work of `read_files` on the values `data[starts[i]:ends[i]]`; 0 <= start <= end <= len(data) for every one."""
    taken, heads, first_line, rows = file_loops.read_files(
        [data] * len(starts), starts.tolist(), ends.tolist(), _codec.of_prefix, _codec.defaults
    )
    return taken, FileTable(heads, first_line, rows)
