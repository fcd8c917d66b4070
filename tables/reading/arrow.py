"""Batches become Arrow's columns: the schema of Spark's Kafka source, in `RecordBatch`es of bounded size.

Equal to what Spark's source gives: a record without headers has null there, names of headers are UTF-8 with U+FFFD for what is not,
records of control batches are left out, and in a topic of LogAppendTime the timestamp is the coordinator's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from coordinator.client.records.wal_objects import WrongObject, check_batch
from coordinator.protocol.find_batches import BatchLocation
from records.record_batch import CorruptBatch, StoredRecord, TimestampType, decode_records, header_name_bytes
from tables.reading.fetching import FetchedBatch, skip
from tables.reading.span import Damage, ReadCounts, ReadOptions

_HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
_TYPES = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": pa.list_(pa.field("element", _HEADER)),
}
_US_MAX = (1 << 63) - 1


def schema_of(options: ReadOptions) -> pa.Schema:
    """The schema of what is read."""
    return pa.schema([pa.field(name, _TYPES[name]) for name in options.names])


def record_batches(fetched: Sequence[FetchedBatch], options: ReadOptions, counts: ReadCounts) -> Iterator[pa.RecordBatch]:
    """Decode batches. Runs in any thread. Raises WrongObject, which names partition, offsets and object, unless damage is skipped."""
    schema = schema_of(options)
    rows: list[tuple[FetchedBatch, StoredRecord]] = []
    size = 0
    for one in fetched:
        try:
            records = _records(one)
        except WrongObject as error:
            if options.on_damage is Damage.FAIL:
                raise
            skip(error, counts)
            continue
        for record in records:
            more = len(record.key or b"") + len(record.value or b"")
            if rows and (len(rows) == options.batch_rows or size + more > options.batch_bytes):
                yield _built(rows, schema)
                rows, size = [], 0
            rows.append((one, record))
            size += more
    if rows:
        yield _built(rows, schema)


def _records(one: FetchedBatch) -> list[StoredRecord]:
    header = check_batch(one.batch, one.data)
    if header.is_control:
        return []
    try:
        records = decode_records(one.data, header, base_offset=one.batch.location.base_offset)
    except CorruptBatch as error:
        raise WrongObject(f"{one.batch}: {error}") from error
    return [record for record in records if one.span.from_offset <= record.offset < one.span.to_offset]


def _built(rows: Sequence[tuple[FetchedBatch, StoredRecord]], schema: pa.Schema) -> pa.RecordBatch:
    values = {
        "key": lambda _, record: record.key,
        "value": lambda _, record: record.value,
        "topic": lambda one, _: one.span.topic,
        "partition": lambda one, _: one.span.partition,
        "offset": lambda _, record: record.offset,
        "timestamp": lambda one, record: min(_time_ms(one.batch.location, record) * 1000, _US_MAX),
        "timestampType": lambda one, _: one.batch.location.timestamp_type,
        "headers": lambda _, record: _headers(record),
    }
    columns: list[Any] = [pa.array([values[field.name](*row) for row in rows], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _time_ms(location: BatchLocation, record: StoredRecord) -> int:
    return location.log_append_timestamp if location.timestamp_type == TimestampType.LOG_APPEND_TIME else record.timestamp_ms


def _headers(record: StoredRecord) -> list[dict[str, object]] | None:
    named = [{"key": header_name_bytes(name).decode("utf-8", "replace"), "value": value} for name, value in record.headers]
    return named or None
