"""What the columns of FileCommitted mean, by example and as agreement between the two readings."""

from __future__ import annotations

import dataclasses

from hypothesis import given, settings

from records.file_columns import CommittedBatch, CommittedBatches, batch_count, expand, iterate, request_order
from records.model import FileCommitted
from tests.records.examples import FILE, NOW_MS
from tests.records.strategies import files_committed

FIRST = CommittedBatch(
    run=0,
    topic_index=0,
    partition=5,
    log_start=10,
    base_offset=1_000_000,
    record_count=1,
    byte_offset=0,
    byte_size=1024,
    timestamp_ms=NOW_MS - 5,
    timestamp_type=0,
    producer_id=4711,
    producer_epoch=0,
    base_sequence=0,
    last_sequence=0,
)
SECOND = FIRST._replace(
    base_offset=1_000_001,
    record_count=100,
    byte_offset=1124,
    byte_size=9000,
    timestamp_ms=NOW_MS + 3,
    producer_id=-1,
    producer_epoch=-1,
    base_sequence=-1,
    last_sequence=-1,
)
THIRD = CommittedBatch(
    run=1,
    topic_index=1,
    partition=300,
    log_start=0,
    base_offset=2**40,
    record_count=10_001,
    byte_offset=10_124,
    byte_size=40_000,
    timestamp_ms=NOW_MS - 70_000,
    timestamp_type=1,
    producer_id=2**33,
    producer_epoch=12,
    base_sequence=2**31 - 5,
    last_sequence=9995,
)


def rows(batches: CommittedBatches) -> list[CommittedBatch]:
    columns = [getattr(batches, name).tolist() for name in CommittedBatch._fields]
    return [CommittedBatch(*row) for row in zip(*columns, strict=True)]


def test_columns_mean_these_batches() -> None:
    assert list(iterate(FILE)) == [FIRST, SECOND, THIRD]
    assert rows(expand(FILE)) == [FIRST, SECOND, THIRD]


def test_empty_columns_mean_zero() -> None:
    bare = dataclasses.replace(FILE, run_log_start=[], byte_gap=[], timestamp_type=[])
    assert [batch.byte_offset for batch in iterate(bare)] == [0, 1024, 10_024]
    assert [(batch.log_start, batch.timestamp_type) for batch in iterate(bare)] == [(0, 0)] * 3
    assert rows(expand(bare)) == list(iterate(bare))


def test_fields_of_both_readings_are_the_same() -> None:
    assert CommittedBatch._fields == tuple(field.name for field in dataclasses.fields(CommittedBatches))


@settings(max_examples=80)
@given(files_committed(max_batches=30))
def test_both_readings_agree(record: FileCommitted) -> None:
    batches = expand(record)
    assert rows(batches) == list(iterate(record))
    assert len(batches) == len(record.byte_size)
    assert all(getattr(batches, name).dtype == "int64" for name in CommittedBatch._fields)


def test_request_order_interleaves_accepted_and_others() -> None:
    assert batch_count(FILE) == 5
    assert request_order(FILE) == [(True, 0), (False, 0), (True, 1), (False, 1), (True, 2)]


@settings(max_examples=100)
@given(files_committed(max_batches=10))
def test_request_order_names_each_batch_once(record: FileCommitted) -> None:
    order = request_order(record)
    assert len(order) == batch_count(record)
    assert [place.ordinal for place in order if place.is_accepted] == list(range(len(record.byte_size)))
    assert [place.ordinal for place in order if not place.is_accepted] == list(range(len(record.other_index)))
    places = [index for index, place in enumerate(order) if not place.is_accepted]
    assert [after - before for before, after in zip([0, *places], places, strict=False)] == record.other_index
