"""The records of batches as columns: offsets, times, and where keys, values and headers lie in the decompressed bytes.

Invariant: records are given only of a batch all of whose records are sound: sizes add up, offsets rise and are within the batch.
`decode_records(encode_batch(records))` gives the records back.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from records import record_loops as loops
from records.compression import DECOMPRESSED_BYTES_MAX, CorruptCompression, decompress
from records.record_batch import HEADER_BYTES, BatchHeader, CorruptBatch, StoredRecord, TimestampType, header_name

RECORD_BYTES_MIN: Final = 7
"""Size, attributes, the two deltas, two lengths and the number of headers."""

_FAULTS: Final = {
    loops.BAD_SIZE: "its size is {0} with {1} bytes left",
    loops.CUT: "it ends within a number or a field",
    loops.BAD_HEADER_COUNT: "it has {0} headers in {1} bytes",
    loops.NO_NAME: "a header has no name",
    loops.TOO_SHORT: "it has {0} bytes more than its fields",
    loops.BAD_OFFSET: "its offset delta {0} is not above {1} of the record before, or not within the batch",
}


class RecordColumns(NamedTuple):
    """Some records of a batch. `fields` has a line of numbers for each field (`record_loops.OFFSET` and so on); `body` has the bytes."""

    body: memoryview
    fields: npt.NDArray[np.int64]

    def headers(self, first: int, stop: int) -> npt.NDArray[np.int64]:
        """The places and sizes of the headers of records, a line of numbers for each (`record_loops.NAME_AT` and so on)."""
        spans = np.empty((4, int(self.fields[loops.HEADER_COUNT, first:stop].sum())), np.int64)
        loops.scan_headers(self.body, self.fields.data, first, stop, spans.data)
        return spans


def record_columns(
    buffer: bytes | memoryview,
    header: BatchHeader,
    *,
    base_offset: int | None = None,
    append_ms: int | None = None,
    rows_max: int = 1 << 31,
    bytes_max: int = DECOMPRESSED_BYTES_MAX,
) -> Iterator[RecordColumns]:
    """Yield the records of a batch, at most `rows_max` at a time, with the offsets and the append time that the coordinator assigned.

    Offsets begin at `base_offset` and all times are `append_ms` where these are given; else the header has them. Raises `CorruptBatch`,
    before anything is given, also when compressed records have more than `bytes_max`.
    """
    start = header.byte_offset
    try:
        body = decompress(memoryview(buffer)[start + HEADER_BYTES : start + header.size_bytes], header.compression, bytes_max=bytes_max)
    except CorruptCompression as error:
        raise CorruptBatch(start, str(error)) from error
    count = header.record_count
    if count * RECORD_BYTES_MIN > len(body):
        raise CorruptBatch(start, f"{count} records do not fit into {len(body)} bytes")
    if append_ms is None and header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        append_ms = header.max_timestamp_ms
    first = header.base_offset if base_offset is None else base_offset
    if count > rows_max:
        # All of it is looked through first: a part of a batch is never given.
        for _ in _scan(body, header, first, append_ms, rows_max):
            pass
    yield from _scan(body, header, first, append_ms, rows_max)


def _scan(body: memoryview, header: BatchHeader, base_offset: int, append_ms: int | None, rows_max: int) -> Iterator[RecordColumns]:
    state = np.array([0, -1, 0, 0, 0], np.int64)
    done, count = 0, header.record_count
    while True:
        rows = min(rows_max, count - done)
        fields = np.empty((8, rows), np.int64)
        times = (header.base_timestamp_ms, append_ms or 0, append_ms is not None)
        found = loops.scan_records(body, state.data, rows, header.last_offset_delta, base_offset, *times, fields.data)
        if found < rows:
            reason = _FAULTS[int(state[loops.FAULT])].format(state[loops.FOUND], state[loops.LIMIT])
            raise CorruptBatch(header.byte_offset, f"record {done + found}: {reason}")
        done += rows
        if done == count and (left := len(body) - int(state[loops.NEXT_AT])):
            raise CorruptBatch(header.byte_offset, f"{left} bytes after the last of {count} records")
        yield RecordColumns(body, fields)
        if done == count:
            return


def first_record(columns: RecordColumns, *, time_ms: int | None, from_offset: int) -> tuple[int, int] | None:
    """Return offset and time of the first record, from an offset on, that has a time or a later one; without a time, the greatest one.

    None when there is no such record.
    """
    offsets, times = columns.fields[loops.OFFSET], columns.fields[loops.TIMESTAMP_MS]
    is_there = offsets >= from_offset
    if time_ms is None:
        time_ms = int(times[is_there].max(initial=-(1 << 63)))
    found = (is_there & (times >= time_ms)).nonzero()[0][:1]
    return (int(offsets[found[0]]), int(times[found[0]])) if found.size else None


def decode_records(
    buffer: bytes | memoryview,
    header: BatchHeader,
    *,
    base_offset: int | None = None,
    append_ms: int | None = None,
    bytes_max: int = DECOMPRESSED_BYTES_MAX,
    partition: int = -1,
) -> list[StoredRecord]:
    """Decode the records of a batch of `partition` as `record_columns` does. Raises `CorruptBatch`."""
    [columns] = record_columns(buffer, header, base_offset=base_offset, append_ms=append_ms, bytes_max=bytes_max)
    body, fields = columns
    keys = loops.cut(body, fields[loops.KEY_AT].data, fields[loops.KEY_SIZE].data)
    values = loops.cut(body, fields[loops.VALUE_AT].data, fields[loops.VALUE_SIZE].data)
    offsets, times, counts = (fields[line].tolist() for line in (loops.OFFSET, loops.TIMESTAMP_MS, loops.HEADER_COUNT))
    headers = _headers(columns) if any(counts) else iter(())
    timestamp_type = header.timestamp_type if append_ms is None else TimestampType.LOG_APPEND_TIME
    return [
        StoredRecord(
            offset=offset,
            timestamp_ms=time_ms,
            key=key,
            value=value,
            headers=tuple(next(headers) for _ in range(count)) if count else (),
            partition=partition,
            timestamp_type=timestamp_type,
        )
        for offset, time_ms, key, value, count in zip(offsets, times, keys, values, counts, strict=True)
    ]


def _headers(columns: RecordColumns) -> Iterator[tuple[str, bytes | None]]:
    spans = columns.headers(0, columns.fields.shape[1])
    names = loops.cut(columns.body, spans[loops.NAME_AT].data, spans[loops.NAME_SIZE].data)
    data = loops.cut(columns.body, spans[loops.DATA_AT].data, spans[loops.DATA_SIZE].data)
    return ((header_name(name or b""), value) for name, value in zip(names, data, strict=True))
