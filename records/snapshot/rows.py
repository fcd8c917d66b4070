"""Rows of tables as records: the key of a record tells how its value is read, the value has the columns one after the other.

Invariant: a record has at most `CHUNK_BYTES` of columns, or one row. So a record takes memory in proportion to what it says,
which is checked before it is decoded.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from enum import Enum
from io import BytesIO
from itertools import accumulate, pairwise
from typing import Final, NamedTuple, cast

import numpy as np
import numpy.typing as npt
from fastavro import parse_schema, schemaless_reader, schemaless_writer

from records.history import read_schema_text
from records.snapshot.errors import MalformedRecord

CHUNK_BYTES: Final = 1 << 20
ROW_BYTES_MAX: Final = 64 << 20
"""Limit of the columns of one row. The directory of a cluster is one row."""
KEY_BYTES_MAX: Final = 1 << 16

_SCHEMA = parse_schema(json.loads(read_schema_text("snapshot-rows-v1.avsc")))
_INT64 = np.dtype("<i8")
_LENGTH = np.dtype("<u4")

ColumnValues = Sequence[int] | Sequence[bytes] | Sequence[str]


class TableRows(NamedTuple):
    """Rows of one table as columns of equal length. Every column has one type: int (64 bits), bytes or str."""

    table: str
    columns: dict[str, ColumnValues]


class RowChunk(NamedTuple):
    """The record of some rows."""

    key: bytes
    value: bytes


class _Kind(Enum):
    """The type of a column; the value is its name in the schema."""

    INT64 = "INT64"
    BYTES = "BYTES"
    STRING = "STRING"


_KIND_OF_TYPE = {int: _Kind.INT64, bytes: _Kind.BYTES, str: _Kind.STRING}


class _Packed(NamedTuple):
    """A column as bytes: its numbers, or the lengths of its values and the values one after the other."""

    name: str
    kind: _Kind
    numbers: npt.NDArray[np.int64]
    values: bytes

    def row_bytes(self) -> npt.NDArray[np.int64]:
        """How many bytes each row takes."""
        if self.kind is _Kind.INT64:
            return np.full(len(self.numbers), _INT64.itemsize, np.int64)
        return self.numbers + _LENGTH.itemsize

    def part(self, start: int, stop: int, ends: npt.NDArray[np.int64]) -> bytes:
        """Return the bytes of some rows; `ends` has the place after each value, after a 0."""
        numbers = self.numbers[start:stop]
        if self.kind is _Kind.INT64:
            return numbers.astype(_INT64).tobytes()
        return numbers.astype(_LENGTH).tobytes() + self.values[ends[start] : ends[stop]]


def encode_rows(rows: TableRows) -> Iterator[RowChunk]:
    """Return the records of these rows, none for no rows.

    Raises ValueError when columns differ in length, a column mixes types, a number has more than 64 bits, a text is not valid, or
    a row is larger than `ROW_BYTES_MAX`.
    """
    packed = [_pack(rows.table, name, column) for name, column in rows.columns.items() if column]
    counts = {len(column) for column in rows.columns.values()}
    if len(counts) != 1:
        raise ValueError(f"columns of {rows.table} have {sorted(counts)} rows")
    if packed:
        yield from _cut(rows.table, packed)


def decode_rows(chunk: RowChunk) -> TableRows:
    """Return the rows of a record. Raises `MalformedRecord`."""
    if len(chunk.key) > KEY_BYTES_MAX:
        raise MalformedRecord(f"the key has {len(chunk.key)} bytes, at most {KEY_BYTES_MAX} are allowed")
    body = BytesIO(chunk.key)
    try:
        found = cast(dict[str, object], schemaless_reader(body, _SCHEMA, None))
    except Exception as error:  # fastavro meets bytes that are no Avro with whatever they make it run into
        raise MalformedRecord(f"the key cannot be read: {error!r:.200}") from error
    table, row_count = cast(str, found["table"]), cast(int, found["row_count"])
    columns = cast(list[dict[str, object]], found["columns"])
    if body.tell() != len(chunk.key):
        raise MalformedRecord(f"{len(chunk.key) - body.tell()} bytes follow the key's record")
    if row_count < 1 or not columns or (row_count > 1 and len(chunk.value) > CHUNK_BYTES):
        raise MalformedRecord(f"{row_count} rows of {table} in {len(columns)} columns and {len(chunk.value)} bytes")
    if len({column["name"] for column in columns}) != len(columns):
        raise MalformedRecord(f"two columns of {table} have one name")
    sizes = [cast(int, column["size_bytes"]) for column in columns]
    if min(sizes) < 0 or sum(sizes) != len(chunk.value):
        raise MalformedRecord(f"columns of {table} with {sizes} bytes in {len(chunk.value)} bytes")
    read: dict[str, ColumnValues] = {}
    for column, (start, stop) in zip(columns, pairwise(accumulate(sizes, initial=0)), strict=True):
        name = cast(str, column["name"])
        try:
            read[name] = _unpack(_Kind(column["kind"]), row_count, chunk.value[start:stop])
        except ValueError as error:
            raise MalformedRecord(f"column {name} of {row_count} rows of {table}: {error}") from error
    return TableRows(table, read)


def _pack(table: str, name: str, column: ColumnValues) -> _Packed:
    types = set(map(type, column))
    kind = _KIND_OF_TYPE.get(next(iter(types))) if len(types) == 1 else None
    if kind is None:
        found = ", ".join(sorted(one.__name__ for one in types))
        raise ValueError(f"column {name} of {table} has values of the types {found}; it must have one: int, bytes or str")
    if kind is _Kind.INT64:
        try:
            return _Packed(name, kind, np.array(column, np.int64), b"")
        except OverflowError as error:
            raise ValueError(f"column {name} of {table} has a number of more than 64 bits") from error
    values = [text.encode() for text in cast(Sequence[str], column)] if kind is _Kind.STRING else cast(Sequence[bytes], column)
    return _Packed(name, kind, np.fromiter(map(len, values), np.int64, len(values)), b"".join(values))


def _cut(table: str, packed: list[_Packed]) -> Iterator[RowChunk]:
    ends_of = [np.concatenate(([0], np.cumsum(column.numbers))) for column in packed]
    row_ends = np.cumsum(sum(column.row_bytes() for column in packed))
    start, taken = 0, 0
    while start < len(row_ends):
        stop = max(start + 1, int(np.searchsorted(row_ends, taken + CHUNK_BYTES, side="right")))
        if row_ends[start] - taken > ROW_BYTES_MAX:
            raise ValueError(f"a row of {table} has {row_ends[start] - taken} bytes, a snapshot takes at most {ROW_BYTES_MAX}")
        parts = [column.part(start, stop, ends) for column, ends in zip(packed, ends_of, strict=True)]
        columns = [
            {"name": column.name, "kind": column.kind.value, "size_bytes": len(part)} for column, part in zip(packed, parts, strict=True)
        ]
        key = BytesIO()
        schemaless_writer(key, _SCHEMA, {"table": table, "row_count": stop - start, "columns": columns})
        if key.tell() > KEY_BYTES_MAX:
            raise ValueError(f"the names of the columns of {table} take more than {KEY_BYTES_MAX} bytes")
        yield RowChunk(key.getvalue(), b"".join(parts))
        start, taken = stop, int(row_ends[stop - 1])


def _unpack(kind: _Kind, row_count: int, data: bytes) -> ColumnValues:
    """Raises ValueError, of which UnicodeDecodeError is one."""
    if kind is _Kind.INT64:
        if len(data) != row_count * _INT64.itemsize:
            raise ValueError(f"{len(data)} bytes of numbers")
        numbers: list[int] = np.frombuffer(data, _INT64).tolist()
        return numbers
    lengths_bytes = row_count * _LENGTH.itemsize
    if len(data) < lengths_bytes:
        raise ValueError(f"{len(data)} bytes are too few for the lengths")
    lengths = np.frombuffer(data, _LENGTH, row_count).astype(np.int64)
    ends = lengths_bytes + np.cumsum(lengths)
    if ends[-1] != len(data):
        raise ValueError(f"values of {ends[-1] - lengths_bytes} bytes in {len(data) - lengths_bytes}")
    places = zip((ends - lengths).tolist(), ends.tolist(), strict=True)
    values = [data[start:stop] for start, stop in places]
    return [value.decode() for value in values] if kind is _Kind.STRING else values
