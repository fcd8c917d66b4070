"""Batches as Arrow's columns: equal to the records that the Python client decodes, whatever the sizes of batches and `RecordBatch`es."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.client.records.wal_objects import BatchOf, WrongObject
from coordinator.protocol.find_batches import BatchLocation
from records.columns import decode_records
from records.compression import Compression
from records.record_batch import Record, TimestampType, encode_batch, header_name, header_name_bytes, parse_header
from tables.reading.arrow import record_batches, schema_of
from tables.reading.fetching import FetchedBatch
from tables.reading.span import COLUMNS, Damage, ReadCounts, ReadOptions, Span

CONTENTS = st.none() | st.binary(max_size=40)
RECORDS = st.lists(
    st.builds(
        Record,
        timestamp_ms=st.integers(0, 2**42) | st.just(-1),
        key=CONTENTS,
        value=CONTENTS,
        headers=st.lists(st.tuples(st.binary(max_size=4).map(header_name), CONTENTS), max_size=2).map(tuple),
    ),
    min_size=1,
    max_size=12,
)


def fetched(data: bytes, base: int = 0, *, count: int = 1, span: tuple[int, int] = (0, 1 << 40), **location: Any) -> FetchedBatch:
    """A batch of `count` offsets as the store gives it."""
    place = BatchLocation(1, "wal/1", 2, 0, len(data), base, base + count - 1, 0, 0, 0)._replace(**location)
    wanted = Span(topic="orders", topic_id=bytes(16), partition=3, from_offset=span[0], to_offset=span[1])
    return FetchedBatch(wanted, BatchOf("orders", 3, place), memoryview(data), max(base, span[0]))


def decoded(*batches: FetchedBatch, counts: ReadCounts | None = None, **options: Any) -> list[pa.RecordBatch]:
    found = list(record_batches(batches, ReadOptions(**options), counts or ReadCounts()))
    for one in found:
        one.validate(full=True)
    return found


def rows(*batches: FetchedBatch, **options: Any) -> list[dict[str, Any]]:
    return [row for one in decoded(*batches, **options) for row in one.to_pylist()]


def offsets(*batches: FetchedBatch, **options: Any) -> list[list[int]]:
    return [one.column("offset").to_pylist() for one in decoded(*batches, columns=("offset",), **options)]


@settings(max_examples=150)
@given(
    batches=st.lists(st.tuples(RECORDS, st.sampled_from(Compression), st.booleans()), min_size=1, max_size=4),
    ends=st.tuples(st.integers(0, 40), st.integers(0, 40)),
    batch_rows=st.integers(1, 20),
    batch_bytes=st.integers(1, 200),
)
def test_columns_are_the_records(
    batches: list[tuple[list[Record], Compression, bool]], ends: tuple[int, int], batch_rows: int, batch_bytes: int
) -> None:
    span, base, expected, given = (min(ends), max(ends)), 5, [], []
    for records, codec, is_appended in batches:
        data = encode_batch(records, compression=codec)
        kind = {"timestamp_type": int(is_appended), "log_append_timestamp": 77_000}
        given.append(fetched(data, base, count=len(records), span=span, **kind))
        append_ms = 77_000 if is_appended else None
        for one in decode_records(data, parse_header(data), base_offset=base, append_ms=append_ms):
            headers = [{"key": header_name_bytes(name).decode("utf-8", "replace"), "value": value} for name, value in one.headers]
            if span[0] <= one.offset < span[1]:
                expected.append((one.offset, one.timestamp_ms, one.key, one.value, headers or None, int(is_appended)))
        base += len(records)
    found = decoded(*given, include_headers=True, batch_rows=batch_rows, batch_bytes=batch_bytes)
    assert all(0 < one.num_rows <= batch_rows for one in found)
    listed = [row for one in found for row in one.to_pylist()]
    assert [
        (row["offset"], round(row["timestamp"].timestamp() * 1000), row["key"], row["value"], row["headers"], row["timestampType"])
        for row in listed
    ] == expected
    assert {(row["topic"], row["partition"]) for row in listed} <= {("orders", 3)}


def test_the_schema_is_that_of_sparks_kafka_source() -> None:
    expected = [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
    ]
    assert schema_of(ReadOptions()) == pa.schema(expected)
    element = pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())]))
    assert schema_of(ReadOptions(include_headers=True)) == pa.schema([*expected, ("headers", pa.list_(element))])


def test_rows_of_several_topics_name_theirs() -> None:
    data = encode_batch([Record(timestamp_ms=1)])
    one = fetched(data)
    other = one._replace(span=Span(topic="clicks", topic_id=bytes(16), partition=9, from_offset=0, to_offset=5))
    [found] = decoded(one, other, one, columns=("partition", "topic"))
    assert found.to_pydict() == {"partition": [3, 9, 3], "topic": ["orders", "clicks", "orders"]}


@pytest.mark.parametrize(
    ("time_ms", "shown"),
    [
        (0, datetime(1970, 1, 1, tzinfo=UTC)),
        (-1, datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC)),
        (2**62, None),
        (2**63 - 1, None),
    ],
)
def test_times_beyond_microseconds_of_64_bits_are_the_last_ones(time_ms: int, shown: datetime | None) -> None:
    [found] = decoded(fetched(encode_batch([Record(timestamp_ms=time_ms)])), columns=("timestamp",))
    column = found.column("timestamp")
    if shown is not None:
        assert column.to_pylist() == [shown]
    else:
        assert column.cast(pa.int64()).to_pylist() == [(2**63 // 1000 - 1) * 1000]


def test_times_of_the_log_are_the_coordinators_whatever_the_batch_says() -> None:
    data = encode_batch([Record(timestamp_ms=5)], timestamp_type=TimestampType.CREATE_TIME)
    [row] = rows(fetched(data, timestamp_type=1, log_append_timestamp=1_500))
    assert (row["timestamp"], row["timestampType"]) == (datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC), 1)


def test_control_batches_and_batches_without_records_give_no_rows() -> None:
    control = encode_batch([Record(timestamp_ms=1, key=bytes(4))], is_control=True)
    empty = bytearray(encode_batch([Record(timestamp_ms=1)])[:61])
    empty[8:12], empty[57:61] = (49).to_bytes(4, "big"), bytes(4)
    empty[17:21] = _crc(empty)
    data = encode_batch([Record(timestamp_ms=1)])
    assert offsets(fetched(control), fetched(bytes(empty), 1), fetched(data, 2)) == [[2]]
    assert offsets(fetched(control), fetched(bytes(empty), 1)) == []


def _crc(batch: bytearray) -> bytes:
    from crc32c import crc32c

    return crc32c(bytes(batch[21:])).to_bytes(4, "big")


def test_a_large_batch_is_many_record_batches() -> None:
    data = encode_batch([Record(timestamp_ms=n, value=b"%d" % n) for n in range(25)], compression=Compression.ZSTD)
    assert offsets(fetched(data, count=25), batch_rows=10) == [[*range(10)], [*range(10, 20)], [*range(20, 25)]]
    sizes = [3, 90, 3, 3, 40, 40, 3]
    data = encode_batch([Record(timestamp_ms=0, value=bytes(size)) for size in sizes])
    assert offsets(fetched(data, count=7), batch_bytes=70) == [[0], [1], [2, 3, 4], [5, 6]]


def test_a_damaged_batch_gives_no_row_and_leaves_the_others() -> None:
    data = encode_batch([Record(timestamp_ms=1, value=b"v")])
    damaged = data[:-1] + b"\x02"  # of which one header is not there
    signed = bytearray(damaged)
    signed[17:21] = _crc(signed)
    for bad, reason in ((damaged, "CRC32C is"), (bytes(signed), "record 0: it has 1 headers in 0 bytes")):
        with pytest.raises(WrongObject, match=rf"orders-3 offsets 1 to 1: wal/1 \[0, \+{len(data)}\): .*{reason}"):
            decoded(fetched(data), fetched(bad, 1), fetched(data, 2))
        counts = ReadCounts()
        assert offsets(fetched(data), fetched(bad, 1), fetched(data, 2), on_damage=Damage.SKIP, counts=counts) == [[0, 2]]
        assert counts.damaged_batches == 1


def test_columns_are_chosen() -> None:
    data = encode_batch([Record(timestamp_ms=1, headers=(("h", b"1"),))])
    for names in (("offset",), ("headers", "value"), COLUMNS):
        [found] = decoded(fetched(data), columns=names, include_headers="headers" in names)
        assert tuple(found.schema.names) == names
