"""Batches are checked, numbered and copied by loops: compiled and interpreted alike, and as strictly as the Python client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.client.records.wal_objects import BatchOf, WrongObject, check_batch
from coordinator.protocol.find_batches import BatchLocation
from gateway.fetch import batch_loops
from gateway.fetch.batch_loops import MARK_BYTES
from records.columns import decode_records
from records.compression import Compression
from records.record_batch import Record, TimestampType, encode_batch, parse_headers
from tests.compiled import plain

PLAIN = plain(batch_loops)
BOTH = pytest.mark.parametrize("loops", [batch_loops, PLAIN], ids=["compiled", "interpreted"])
APPEND_MS = 1_234_567


def located(data: bytes, *, start: int = 0, base: int = 0, kind: int = 0, key: str = "wal/1") -> list[BatchLocation]:
    found = []
    for header in parse_headers(data, verify=False):
        place = (start + header.byte_offset, header.size_bytes, base, base + header.last_offset_delta)
        found.append(BatchLocation(1, key, 2, *place, APPEND_MS, header.max_timestamp_ms, kind))
        base = found[-1].last_offset + 1
    return found


def marks_of(data: bytes) -> bytearray:
    return bytearray(len(data) // MARK_BYTES + 1)


def assigned(loops: Any, data: bytes, batches: Sequence[BatchLocation], marks: bytearray | None, start: int = 0) -> tuple[int, bytes]:
    """How many batches are good, and what becomes of the bytes."""
    out = bytearray(data)
    view = memoryview(out)
    return loops.assign_batches(view, view, 0, batches, 0, len(batches), marks, start), bytes(out)


BATCHES = st.lists(st.tuples(st.integers(1, 4), st.binary(max_size=90), st.sampled_from(list(Compression))), min_size=1, max_size=5)


@given(BATCHES, st.integers(0, 2**62), st.integers(0, 2**40), st.sampled_from([0, 1]))
@settings(max_examples=60)
def test_batches_get_what_the_coordinator_assigned(
    given_batches: list[tuple[int, bytes, Compression]], base: int, start: int, kind: int
) -> None:
    data = b"".join(
        encode_batch([Record(timestamp_ms=5_000 + n, value=value) for n in range(count)], compression=compression, partition_leader_epoch=9)
        for count, value, compression in given_batches
    )
    batches = located(data, start=start, base=base, kind=kind)
    results = []
    for loops in (batch_loops, PLAIN):
        marks = marks_of(data)
        results.append((*assigned(loops, data, batches, marks, start), bytes(marks)))
        # Bytes that were checked get the same again, and so do own ones, which have no marks.
        assert assigned(loops, data, batches, marks, start) == assigned(loops, data, batches, None) == results[-1][:2]
    assert results[0] == results[1]
    good, out, marked = results[0]
    assert good == len(batches)
    assert sum(map(bool, marked)) == len(batches)
    before = parse_headers(data)
    for header, origin, batch in zip(parse_headers(out), before, batches, strict=True):
        assert (header.base_offset, header.partition_leader_epoch, header.timestamp_type) == (batch.base_offset, 0, kind)
        records = decode_records(out, header)
        asked = decode_records(data, origin, base_offset=batch.base_offset)
        assert [(one.offset, one.value) for one in records] == [(one.offset, one.value) for one in asked]
        times = {APPEND_MS} if kind == TimestampType.LOG_APPEND_TIME else {one.timestamp_ms for one in asked}
        assert {one.timestamp_ms for one in records} == times


@BOTH
@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
def test_whichever_byte_is_damaged_the_batch_is_refused_as_by_the_python_client(loops: Any, compression: Compression) -> None:
    first = encode_batch([Record(timestamp_ms=1, value=b"first")])
    second = encode_batch([Record(timestamp_ms=1, value=b"second"), Record(timestamp_ms=2, value=b"")], compression=compression)
    data = first + second
    batches = located(data, base=40)
    for place in range(len(first), len(data)):
        damaged = data[:place] + bytes([data[place] ^ 0x41]) + data[place + 1 :]
        good, out = assigned(loops, damaged, batches, marks_of(data))
        try:
            check_batch(BatchOf("orders", 3, batches[1]), damaged[len(first) :])
        except WrongObject:
            assert good == 1
            assert out[: len(first)] == assigned(loops, data, batches, None)[1][: len(first)], "what is before it is given out"
        else:
            assert good == 2


@BOTH
@pytest.mark.parametrize(
    "change",
    [{"byte_size": 60}, {"byte_size": 10**6}, {"byte_size": -5}, {"last_offset": 41}, {"last_offset": 39}, {"last_offset": 2**40}],
)
def test_a_place_that_is_not_the_batchs_is_refused(loops: Any, change: dict[str, int]) -> None:
    data = encode_batch([Record(timestamp_ms=1, value=b"a")])
    [batch] = located(data, base=40)
    assert assigned(loops, data, [batch._replace(**change)], marks_of(data))[0] == 0


@BOTH
def test_a_header_that_lies_with_the_right_checksum_is_refused(loops: Any) -> None:
    from crc32c import crc32c

    data = bytearray(encode_batch([Record(timestamp_ms=1, value=b"a")]))
    for place, value in ((57, 0x7F), (22, 7), (26, 5), (23, 0x80)):
        wrong = bytearray(data)
        wrong[place] = value
        wrong[17:21] = crc32c(bytes(wrong[21:])).to_bytes(4, "big")
        [batch] = located(bytes(data))
        assert assigned(loops, bytes(wrong), [batch], marks_of(data))[0] == 0


@BOTH
def test_marks_are_of_a_batch_that_begins_there_and_of_no_other(loops: Any) -> None:
    data = encode_batch([Record(timestamp_ms=1, value=b"a")]) * 3
    batches = located(data)
    marks = marks_of(data)
    assigned(loops, data, batches, marks)
    damaged = bytearray(data)
    damaged[batches[1].byte_offset + 70] ^= 1
    assert assigned(loops, bytes(damaged), batches, marks)[0] == 3, "it was checked already"
    shifted = batches[1]._replace(byte_offset=batches[1].byte_offset + 1)
    assert assigned(loops, data[shifted.byte_offset :] + b"x", [shifted], marks)[0] == 0


SIZES = st.lists(st.integers(1, 1000), max_size=8)


@given(SIZES, st.integers(0, 3000), st.booleans())
def test_as_many_batches_fit_as_have_room(sizes: list[int], bytes_max: int, is_first_free: bool) -> None:
    batches = [BatchLocation(1, "wal/1", 2, 0, size, 0, 0, 0, 0, 0) for size in sizes]
    found = batch_loops.count_fitting(batches, bytes_max, is_first_free)
    assert found == PLAIN.count_fitting(batches, bytes_max, is_first_free)
    count, size = found
    assert size == sum(sizes[:count])
    assert size <= bytes_max or (is_first_free and count == 1)
    assert count == len(sizes) or size + sizes[count] > bytes_max


@given(st.lists(st.tuples(st.sampled_from("ab"), st.booleans()), max_size=10))
def test_neighbours_are_of_one_object_and_without_a_gap(shape: list[tuple[str, bool]]) -> None:
    batches, ends = [], {"a": 0, "b": 0}
    for key, has_gap in shape:
        start = ends[key] + (5 if has_gap else 0)
        batches.append(BatchLocation(1, key, 2, start, 10, 0, 0, 0, 0, 0))
        ends[key] = start + 10
    for stop in (len(batches), len(batches) // 2):
        starts = batch_loops.neighbours(batches, stop)
        assert starts == PLAIN.neighbours(batches, stop)
        expected = [place for place, (key, has_gap) in enumerate(shape[:stop]) if place == 0 or key != shape[place - 1][0] or has_gap]
        assert starts == [*expected, stop]
