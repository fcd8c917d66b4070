"""The columns of an exported table: those of the reader, the headers, and the date, by which the table is partitioned."""

from __future__ import annotations

from enum import Enum
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from tables.errors import TableError
from tables.reading.arrow import schema_of
from tables.reading.span import ReadOptions

DATE: Final = "date"
READ: Final = ReadOptions(include_headers=True)
"""What is read of the records: every column."""
_FIRST_DAY_US, _END_US = -62_135_596_800_000_000, 253_402_300_800_000_000
"""The years 1 to 9999; after them a date has no text that engines agree on."""


class ValueType(Enum):
    """The type of the column `value`."""

    BINARY = "binary"
    UTF8 = "utf8"


class NotTextError(TableError):
    """A value is not UTF-8, and the table has texts."""


def table_schema(value_type: ValueType) -> pa.Schema:
    """Return the columns of a table. All may be null, since engines disagree on what they do with those that may not."""
    read = schema_of(READ)
    value = pa.field("value", pa.string() if value_type is ValueType.UTF8 else pa.binary())
    return read.set(read.get_field_index("value"), value).append(pa.field(DATE, pa.date32()))


def no_rows(schema: pa.Schema) -> pa.RecordBatch:
    """Return rows for a commit that only moves a position."""
    return pa.RecordBatch.from_pylist([], schema)


def table_rows(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return records as rows of a table; timestamps outside of the years 1 to 9999 have no date. Raises `NotTextError`."""
    times = batch.column("timestamp")
    microseconds = times.cast(pa.int64())
    has_date = pc.and_(pc.greater_equal(microseconds, _FIRST_DAY_US), pc.less(microseconds, _END_US))
    dates = pc.if_else(has_date, times, None).cast(pa.date32())
    columns = [dates if field.name == DATE else _column(batch, field) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _column(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    column = batch.column(field.name)
    if column.type == field.type:
        return column
    try:
        return column.cast(field.type)
    except pa.ArrowInvalid as error:
        place = next(place for place, value in enumerate(column) if not _is_text(value.as_py()))
        where = f"{batch.column('topic')[place]}-{batch.column('partition')[place]} offset {batch.column('offset')[place]}"
        raise NotTextError(f"{where}: the value is not UTF-8; export with --value binary, into another table") from error


def _is_text(value: bytes | None) -> bool:
    try:
        (value or b"").decode()
    except UnicodeDecodeError:
        return False
    return True
