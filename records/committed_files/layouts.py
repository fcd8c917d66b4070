"""The columns of a `FileCommitted` in the log, declared once; the loops of `file_loops` read and write by this declaration.

A *layout* is a version of the record: a tuple of columns. A schema names its layout in the name of the only field of
`FileCommitted`, `layout_1`. A released layout never changes. A field that the record gets is a column of a new layout, with a column
of lines of its own after those of `records.committed_files.lines`: files of older layouts have its default there.

The bytes of a record, numbers being zigzag varints in their shortest form:

    version (1 byte), mask of the sparse columns that are present (1 byte, the first is bit 0)
    how many batches, runs, topic ids, idempotent batches and batches not accepted there are
    object_format, file_size, uploader_broker_id, created_ms, append_time_ms
    how many bytes the key has, and how many owners there are; the owners
    key (UTF-8), content hash (16 bytes), topic ids (16 bytes each)
    the columns one after the other, each with a number per run, batch, idempotent batch or batch not accepted

A *run* is a stretch of batches of one partition with one log start whose accepted batches have offsets without gaps; it is as long
as it can be. The topic ids are those of the runs, neighbours with the same topic sharing one. A file has exactly one form: bytes
that differ from what `encode_files` writes of the same file are no record.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np

from records.avro import INT_MAX, INT_MIN, LONG_MAX, LONG_MIN
from records.committed_files import lines

ID_BYTES: Final = 16
INT_BYTES_MAX: Final = 5
LONG_BYTES_MAX: Final = 10
"""Bytes of the varint of a number of 32 and of 64 bits."""

FILE_BYTES_MAX: Final = 12 + INT_BYTES_MAX + 2 + 7 * INT_BYTES_MAX + 2 * INT_BYTES_MAX + 3 * LONG_BYTES_MAX + ID_BYTES + 1
"""Bytes of an entry besides key, owners and batches: prefix, size, version and mask, counts, numbers of the head, hash, end."""

SPARSE_MAX: Final = 8
"""The mask of a layout is one byte."""


class Kind(IntEnum):
    """The things that a column has a number of: of each run, batch, idempotent batch, or batch that was not accepted.

    The columns of a layout are in this order.
    """

    RUN = 0
    BATCH = 1
    IDEMPOTENT = 2
    OTHER = 3
    """A batch that was not accepted."""


class Form(IntEnum):
    """How a column's numbers come from the lines."""

    PLAIN = 0
    """The numbers as in the line."""
    LENGTH = 1
    """How many batches the run has. The first column of runs."""
    TOPIC_STEP = 2
    """1 when the run begins the next topic id, else 0."""
    FIRST_OFFSET = 3
    """The offset of the run's first accepted batch, 0 when there is none."""
    GAP = 4
    """Bytes between the end of the batch before (0 at first) and this batch."""
    ONE_LESS = 5
    """One less than in the line."""
    AGE = 6
    """The file's append time less the number in the line."""
    DISTANCE = 7
    """From the place of the batch before in this kind (0 at first) to the place of this one. The first column of its kind."""


class Column(NamedTuple):
    """A column. `line` is the column of a line that it fills, `default` its value where the layout lacks it, then its range."""

    name: str
    kind: Kind
    form: Form
    line: int
    least: int
    greatest: int
    sparse: bool = False
    """Left out when all its numbers are 0."""
    default: int = 0


def varint_bytes(number: int) -> int:
    """How many bytes the zigzag varint of a number has."""
    bits = (number if number >= 0 else ~number).bit_length() + 1
    return (bits + 6) // 7


class Layout:
    """A version of the record, as the loops take it: `numbers` has a row per column: KIND and so on.

    `batch_bytes_max` is what a batch takes at most, with a run, a topic id and a producer of its own.
    """

    def __init__(self, version: int, columns: tuple[Column, ...]) -> None:
        sparse = [column for column in columns if column.sparse]
        assert len(sparse) <= SPARSE_MAX, f"layout {version} has {len(sparse)} sparse columns"
        assert [column.kind for column in columns] == sorted(column.kind for column in columns), f"layout {version} mixes kinds"
        self.version = version
        self.columns = columns
        self.names = [column.name for column in columns]
        self.width = max(lines.LINE_WIDTH, *(column.line + 1 for column in columns))
        self.batch_bytes_max = ID_BYTES + sum(max(varint_bytes(column.least), varint_bytes(column.greatest)) for column in columns)
        bits = {column: 1 << bit for bit, column in enumerate(sparse)}
        numbers = [(one.kind, one.form, one.line, one.least, one.greatest, bits.get(one, 0)) for one in columns]
        self.numbers = np.array(numbers, np.int64).data


KIND, FORM, LINE, LEAST, GREATEST, BIT = range(6)
"""The numbers of a column in `Layout.numbers`; BIT is 0 for a column that is always present."""

LAYOUT_1: Final = Layout(
    1,
    (
        Column("run_length", Kind.RUN, Form.LENGTH, lines.ROW, 1, INT_MAX, default=-1),
        Column("run_topic", Kind.RUN, Form.TOPIC_STEP, lines.TOPIC_HIGH, 0, 1),
        Column("run_partition", Kind.RUN, Form.PLAIN, lines.PARTITION, 0, INT_MAX),
        Column("run_offset", Kind.RUN, Form.FIRST_OFFSET, lines.BASE_OFFSET, 0, LONG_MAX, default=-1),
        Column("run_log_start", Kind.RUN, Form.PLAIN, lines.LOG_START, 0, LONG_MAX, sparse=True),
        Column("byte_gap", Kind.BATCH, Form.GAP, lines.BYTE_OFFSET, LONG_MIN, LONG_MAX, sparse=True),
        Column("byte_size", Kind.BATCH, Form.PLAIN, lines.BYTE_SIZE, 0, INT_MAX),
        Column("record_count", Kind.BATCH, Form.ONE_LESS, lines.RECORD_COUNT, 0, INT_MAX),
        Column("timestamp_age", Kind.BATCH, Form.AGE, lines.TIMESTAMP, LONG_MIN, LONG_MAX),
        Column("timestamp_type", Kind.BATCH, Form.PLAIN, lines.TIMESTAMP_TYPE, 0, 1, sparse=True),
        Column("idempotent", Kind.IDEMPOTENT, Form.DISTANCE, lines.PRODUCER_ID, 0, INT_MAX, default=-1),
        Column("producer_id", Kind.IDEMPOTENT, Form.PLAIN, lines.PRODUCER_ID, 0, LONG_MAX, default=-1),
        Column("producer_epoch", Kind.IDEMPOTENT, Form.PLAIN, lines.PRODUCER_EPOCH, 0, INT_MAX, default=-1),
        Column("base_sequence", Kind.IDEMPOTENT, Form.PLAIN, lines.BASE_SEQUENCE, INT_MIN, INT_MAX, default=-1),
        Column("other", Kind.OTHER, Form.DISTANCE, lines.VERDICT, 0, INT_MAX),
        Column("verdict", Kind.OTHER, Form.PLAIN, lines.VERDICT, 1, max(lines.BatchVerdict)),
        Column("other_offset", Kind.OTHER, Form.PLAIN, lines.BASE_OFFSET, -1, LONG_MAX, default=-1),
        Column("detail", Kind.OTHER, Form.PLAIN, lines.DETAIL, LONG_MIN, LONG_MAX),
    ),
)

LAYOUTS: Final[Mapping[int, Layout]] = {1: LAYOUT_1}
"""Every layout that was ever written, by version."""
