"""Classic parts of migrated topics: their columns, and a Kafka that does not answer."""

from __future__ import annotations

import socket

import pytest

from records.record_batch import StoredRecord, TimestampType
from tables.reading.arrow import schema_of
from tables.reading.span import HEADERS, ReadOptions
from tables.source.classic import ClassicReader, KafkaSaysNo, batch_of
from tables.source.offsets import TopicPlace
from tests.tables.source.given import batch, span


def test_records_of_kafka_are_rows_as_others() -> None:
    records = [
        StoredRecord(offset=3, timestamp_ms=1_760_000_000_001, key=None, value=b"v", headers=()),
        StoredRecord(
            offset=5, timestamp_ms=1 << 62, key=b"k", value=None, headers=(("a", None),), timestamp_type=TimestampType.LOG_APPEND_TIME
        ),
    ]
    options = ReadOptions(columns=("offset", "timestampType", "key", "value", "timestamp", "topic", "partition"), include_headers=True)
    made = batch_of(span(1, 0, 9), records, options)
    assert made.schema == schema_of(options)
    times = made.column("timestamp").cast("int64").to_pylist()
    assert times == [1_760_000_000_001_000, ((1 << 63) // 1000 - 1) * 1000]
    assert made.drop_columns("timestamp").to_pylist() == [
        {"offset": 3, "timestampType": 0, "key": None, "value": b"v", "topic": "orders", "partition": 1, HEADERS: None},
        {
            "offset": 5,
            "timestampType": 1,
            "key": b"k",
            "value": None,
            "topic": "orders",
            "partition": 1,
            HEADERS: [{"key": "a", "value": None}],
        },
    ]


async def test_a_kafka_that_does_not_answer_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    parts = ClassicReader(batch(**{"diskless.kafka.bootstrap.servers": address, "diskless.timeout": "1s"}))
    with pytest.raises(KafkaSaysNo, match=r"orders-0 was migrated, .*; look at diskless\.kafka\.bootstrap\.servers"):
        await parts.first_offset(TopicPlace("orders", 0))
