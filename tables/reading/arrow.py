"""Batches become Arrow's columns: the schema of Spark's Kafka source, in `RecordBatch`es of bounded size.

Equal to what Spark's source gives: a record without headers has null there, names of headers are UTF-8 with U+FFFD for what is not,
records of control batches are left out, and in a topic of LogAppendTime the timestamp is the coordinator's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from coordinator.client.records.wal_objects import WrongObject, append_ms_of, check_batch
from records import record_loops as loops
from records.columns import RecordColumns, record_columns
from records.record_batch import CorruptBatch
from tables.reading.fetching import FetchedBatch, skip
from tables.reading.span import BYTES_MAX, HEADERS, Damage, ReadCounts, ReadOptions

_HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
_TYPES: Final = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    HEADERS: pa.list_(pa.field("element", _HEADER)),
}
_MS_MAX: Final = (1 << 63) // 1000 - 1
"""Times beyond what 64 bits of microseconds can say, in the year 294247, are the last ones that they can."""


class _Part(NamedTuple):
    """Rows from `first` to before `stop` of a batch, whose keys, values and headers have about `size_bytes`."""

    one: FetchedBatch
    columns: RecordColumns
    first: int
    stop: int
    size_bytes: int

    def line(self, number: int) -> npt.NDArray[np.int64]:
        """A field of the rows."""
        return self.columns.fields[number, self.first : self.stop]


def schema_of(options: ReadOptions) -> pa.Schema:
    """The schema of what is read."""
    return pa.schema([pa.field(name, _TYPES[name]) for name in options.names])


def record_batches(fetched: Sequence[FetchedBatch], options: ReadOptions, counts: ReadCounts) -> Iterator[pa.RecordBatch]:
    """Decode batches. Runs in any thread. Raises WrongObject, which names partition, offsets and object, unless damage is skipped."""
    schema = schema_of(options)
    parts: list[_Part] = []
    rows = size = 0
    for part in (part for one in fetched for part in _parts(one, options, counts)):
        more = part.stop - part.first
        if parts and (rows + more > options.batch_rows or size + part.size_bytes > options.batch_bytes):
            yield _built(parts, rows, schema)
            parts, rows, size = [], 0, 0
        parts.append(part)
        rows, size = rows + more, size + part.size_bytes
    if parts:
        yield _built(parts, rows, schema)


def _parts(one: FetchedBatch, options: ReadOptions, counts: ReadCounts) -> Iterator[_Part]:
    """Yield the wanted rows of a batch, in parts each of which fits into a `RecordBatch`."""
    location = one.batch.location
    try:
        header = check_batch(one.batch, one.data)
        if header.is_control:
            return
        assigned = (location.base_offset, append_ms_of(location))
        found = record_columns(one.data, header, base_offset=assigned[0], append_ms=assigned[1], rows_max=options.batch_rows)
        is_whole = one.first_offset <= location.base_offset and location.last_offset < one.span.to_offset
        for columns in found:
            first, stop = 0, columns.fields.shape[1]
            if not is_whole:
                bounds = (one.first_offset, one.span.to_offset)
                first, stop = np.searchsorted(columns.fields[loops.OFFSET], bounds).tolist()
            if first < stop:
                yield from _cut(one, columns, first, stop, options.batch_bytes)
    except (WrongObject, CorruptBatch) as error:
        named = error if isinstance(error, WrongObject) else WrongObject(f"{one.batch}: {error}")
        if options.on_damage is Damage.FAIL:
            raise named from error
        skip(one.batch, named, counts)


def _cut(one: FetchedBatch, columns: RecordColumns, first: int, stop: int, bytes_max: int) -> Iterator[_Part]:
    if len(columns.body) <= bytes_max:
        yield _Part(one, columns, first, stop, len(columns.body) * (stop - first) // columns.fields.shape[1])
        return
    # What lies between a key and the end of a later value is copied, but for a few bytes of each record.
    begin = columns.fields[loops.KEY_AT, first:stop]
    end = columns.fields[loops.VALUE_AT, first:stop] + np.maximum(columns.fields[loops.VALUE_SIZE, first:stop], 0)
    place = 0
    while place < stop - first:
        after = max(place + 1, int(np.searchsorted(end, begin[place] + bytes_max, "right")))
        yield _Part(one, columns, first + place, first + after, int(end[after - 1] - begin[place]))
        place = after


def _built(parts: Sequence[_Part], rows: int, schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([_column(name, parts, rows) for name in schema.names], schema=schema)


def _column(name: str, parts: Sequence[_Part], rows: int) -> pa.Array:
    match name:
        case "key":
            return _bytes([(one.columns, one.line(loops.KEY_AT), one.line(loops.KEY_SIZE)) for one in parts], rows)
        case "value":
            return _bytes([(one.columns, one.line(loops.VALUE_AT), one.line(loops.VALUE_SIZE)) for one in parts], rows)
        case "topic":
            return _repeated([one.one.span.topic for one in parts], parts)
        case "headers":
            return _headers(parts)
        case "offset":
            return _fixed(name, np.concatenate([one.line(loops.OFFSET) for one in parts]))
        case "timestamp":
            times = np.concatenate([one.line(loops.TIMESTAMP_MS) for one in parts])
            return _fixed(name, np.clip(times, -_MS_MAX, _MS_MAX) * 1000)
    numbers = [one.one.span.partition if name == "partition" else one.one.batch.location.timestamp_type for one in parts]
    return _fixed(name, np.repeat(np.array(numbers, np.int32), [one.stop - one.first for one in parts]))


def _fixed(name: str, numbers: npt.NDArray[np.int64] | npt.NDArray[np.int32]) -> pa.Array:
    return pa.Array.from_buffers(_TYPES[name], len(numbers), [None, pa.py_buffer(numbers)])


def _bytes(stretches: Sequence[tuple[RecordColumns, npt.NDArray[np.int64], npt.NDArray[np.int64]]], rows: int) -> pa.Array:
    """A binary column of stretches of bodies: places and sizes; the size -1 is null."""
    size_bytes = int(np.maximum(np.concatenate([sizes for _, _, sizes in stretches]), 0).sum())
    if size_bytes > 2 * BYTES_MAX - 1:
        raise ValueError(f"a column of {size_bytes} bytes; an Arrow column of this type has at most {2 * BYTES_MAX - 1}")
    data, ends, valid = pa.allocate_buffer(size_bytes), np.zeros(rows + 1, np.int32), np.zeros((rows + 7) // 8, np.uint8)
    out = memoryview(data).cast("B")
    at = row = 0
    for columns, places, sizes in stretches:
        at = loops.gather(columns.body, places.data, sizes.data, 0, len(places), out, at, ends[1:].data, valid.data, row)
        row += len(places)
    return pa.Array.from_buffers(pa.binary(), rows, [pa.py_buffer(valid), pa.py_buffer(ends), data])


def _repeated(texts: Sequence[str], parts: Sequence[_Part]) -> pa.Array:
    chosen, places = np.unique(np.array(texts, object), return_inverse=True)
    places = np.repeat(places.astype(np.int32), [one.stop - one.first for one in parts])
    return pa.DictionaryArray.from_arrays(places, pa.array(chosen, pa.string())).dictionary_decode()


def _headers(parts: Sequence[_Part]) -> pa.Array:
    found = [(one.columns, one.columns.headers(one.first, one.stop)) for one in parts]
    rows = sum(spans.shape[1] for _, spans in found)
    names = _texts(_bytes([(columns, spans[loops.NAME_AT], spans[loops.NAME_SIZE]) for columns, spans in found], rows))
    data = _bytes([(columns, spans[loops.DATA_AT], spans[loops.DATA_SIZE]) for columns, spans in found], rows)
    counts = np.concatenate([one.line(loops.HEADER_COUNT) for one in parts])
    ends = np.concatenate(([0], counts.cumsum())).astype(np.int32)
    elements = pa.StructArray.from_arrays([names, data], fields=list(_HEADER))
    valid = pa.py_buffer(np.packbits(counts > 0, bitorder="little"))
    return pa.Array.from_buffers(_TYPES[HEADERS], len(counts), [valid, pa.py_buffer(ends)], children=[elements])


def _texts(names: pa.Array) -> pa.Array:
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        # A name in another encoding is rare, and read as Java reads it.
        return pa.array([name.decode("utf-8", "replace") for name in names.to_pylist()], pa.string())
