"""Records of batches as columns: what writers of Kafka write is found, compiled or not, and no damaged byte is read as a record."""

from __future__ import annotations

import random
import struct
from types import ModuleType
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from records import record_loops
from records.columns import decode_records, record_columns
from records.compression import Compression, compress
from records.record_batch import HEADER_BYTES, BatchHeader, CorruptBatch, Record, TimestampType, encode_batch, header_name, parse_header
from tests.compiled import plain

PLAIN = plain(record_loops)
BOTH = pytest.mark.parametrize("loops", [record_loops, PLAIN], ids=["compiled", "interpreted"])
CONTENTS = st.none() | st.binary(max_size=40) | st.integers(120, 300).map(bytes)
NAMES = st.binary(max_size=5).map(header_name)
TIMES = st.integers(0, 2**42) | st.sampled_from([-1, 2**63 - 1])
RECORDS = st.lists(
    st.builds(
        Record,
        timestamp_ms=TIMES,
        key=CONTENTS,
        value=CONTENTS,
        headers=st.lists(st.tuples(NAMES, CONTENTS), max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=20,
)


class Damaged(Exception):
    """The plain reader refuses a record."""


class PlainRecord(NamedTuple):
    offset: int
    time_ms: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[bytes, bytes | None]]


def plain_records(body: bytes, count: int, delta_max: int, base_offset: int, base_ms: int) -> list[PlainRecord]:
    """Read records step by step, by nothing of the product. Raises Damaged."""
    found, place, before = [], 0, -1
    for _ in range(count):
        size, place = _number(body, place)
        if not 0 < size <= len(body) - place:
            raise Damaged
        record, place = body[place : place + size], place + size
        time_delta, at = _number(record, 1)
        delta, at = _number(record, at)
        key, at = _bytes(record, at)
        value, at = _bytes(record, at)
        headers: list[tuple[bytes, bytes | None]] = []
        number, at = _number(record, at)
        if not 0 <= number <= size:
            raise Damaged
        for _ in range(number):
            name, at = _bytes(record, at)
            data, at = _bytes(record, at)
            if name is None:
                raise Damaged
            headers.append((name, data))
        if at != size or not before < delta <= delta_max:
            raise Damaged
        found.append(PlainRecord(_signed(base_offset + delta), _signed(base_ms + time_delta), key, value, headers))
        before = delta
    if place != len(body):
        raise Damaged
    return found


def _signed(number: int) -> int:
    return int(struct.unpack(">q", struct.pack(">Q", number % 2**64))[0])


def _number(data: bytes, at: int) -> tuple[int, int]:
    bits = 0
    for place in range(10):
        if at + place >= len(data):
            raise Damaged
        bits |= (data[at + place] & 0x7F) << 7 * place
        if data[at + place] < 0x80:
            if bits >= 2**64:
                raise Damaged
            return (bits >> 1) ^ -(bits & 1), at + place + 1
    raise Damaged


def _bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = _number(data, at)
    if size == -1:
        return None, at
    if not 0 <= size <= len(data) - at:
        raise Damaged
    return data[at : at + size], at + size


def scanned(loops: ModuleType, body: bytes, count: int, delta_max: int, base_offset: int, base_ms: int) -> list[PlainRecord]:
    """What the loops find, or Damaged."""
    view, state, fields = memoryview(body), np.array([0, -1, 0, 0, 0], np.int64), np.zeros((8, count), np.int64)
    found = loops.scan_records(view, state.data, count, delta_max, base_offset, base_ms, 0, False, fields.data)
    if found < count or state[loops.NEXT_AT] != len(body):
        raise Damaged
    spans = np.zeros((4, int(fields[loops.HEADER_COUNT].sum())), np.int64)
    loops.scan_headers(view, fields.data, 0, count, spans.data)
    names, data = loops.cut(view, spans[0].data, spans[1].data), loops.cut(view, spans[2].data, spans[3].data)
    headers = iter(zip(names, data, strict=True))
    keys, values = (loops.cut(view, fields[line].data, fields[line + 1].data) for line in (loops.KEY_AT, loops.VALUE_AT))
    return [
        PlainRecord(*row[:4], [next(headers) for _ in range(row[4])])
        for row in zip(fields[0].tolist(), fields[1].tolist(), keys, values, fields[7].tolist(), strict=True)
    ]


def body_of(records: list[Record]) -> tuple[bytes, BatchHeader]:
    data = encode_batch(records)
    return data[HEADER_BYTES:], parse_header(data)


@given(RECORDS, st.integers(0, 2**63 - 1))
def test_records_are_found(records: list[Record], base_offset: int) -> None:
    body, header = body_of(records)
    what = (body, len(records), len(records) - 1, base_offset, header.base_timestamp_ms)
    expected = plain_records(*what)
    assert [(one.key, one.value) for one in expected] == [(one.key, one.value) for one in records]
    for loops in (record_loops, PLAIN):
        assert scanned(loops, *what) == expected


@settings(max_examples=400)
@given(RECORDS, st.integers(0, 2**32))
def test_damage_is_seen_as_a_plain_reader_sees_it(records: list[Record], seed: int) -> None:
    body, header = body_of(records)
    chance = random.Random(seed)
    damaged = bytearray(body)
    for _ in range(chance.randint(1, 3)):
        damaged[chance.randrange(len(damaged))] = chance.choice([0, 1, 2, 0x7F, 0x80, 0xFF, chance.randrange(256)])
    if chance.random() < 0.2:
        del damaged[chance.randrange(len(damaged)) :]
    what = (bytes(damaged), len(records), len(records) + chance.randint(-1, 3), 5, header.base_timestamp_ms)
    results = []
    for read in (plain_records, lambda *given: scanned(record_loops, *given), lambda *given: scanned(PLAIN, *given)):
        try:
            results.append(read(*what))
        except Damaged:
            results.append(None)
    assert results[0] == results[1] == results[2]


@given(st.binary(max_size=60), st.integers(1, 4))
def test_any_bytes_are_records_or_are_not(body: bytes, count: int) -> None:
    results = []
    for loops in (record_loops, PLAIN):
        try:
            results.append(scanned(loops, body, count, 1 << 31, 0, 0))
        except Damaged:
            results.append(None)
    assert results[0] == results[1]


def batch(body: bytes, count: int, *, codec: Compression = Compression.NONE, last: int | None = None) -> tuple[bytes, BatchHeader]:
    """A batch with these bytes as its records."""
    data = bytearray(encode_batch([Record(timestamp_ms=0)])[:HEADER_BYTES] + compress(body, codec))
    struct.pack_into(">i", data, 8, len(data) - 12)
    struct.pack_into(">h", data, 21, codec)
    struct.pack_into(">i", data, 23, count - 1 if last is None else last)
    struct.pack_into(">i", data, 57, count)
    return bytes(data), parse_header(data, verify=False)


EMPTY = bytes([12, 0, 0, 0, 1, 1, 0])
"""A record of nothing but nulls: its size 6, attributes, two deltas, two nulls, no headers."""
FAULTS = {
    "a size beyond the end": (bytes([13 * 2]) + EMPTY[1:], "record 0: its size is 13 with 7 bytes left"),
    "a negative size": (b"\x01" + EMPTY[1:], "record 0: its size is -1 with 7 bytes left"),
    "no attributes": (b"\x00" + EMPTY[1:], "record 0: it ends within a number or a field"),
    "a key beyond the record": (bytes([12, 0, 0, 0, 8, 1, 0]), "record 0: it ends within a number or a field"),
    "a key of a negative size": (bytes([12, 0, 0, 0, 3, 1, 0]), "record 0: it ends within a number or a field"),
    "a number that does not end": (bytes([12, 0, 0, 0, 1, 1, 0x80]), "record 0: it ends within a number or a field"),
    "a number of 65 bits": (bytes([30, 0, *[0x80] * 9, 2, 0, 1, 1, 0]), "record 0: it ends within a number or a field"),
    "a key of 2^63 - 1 bytes": (bytes([30, 0, 0, 0, 0xFE, *[0xFF] * 8, 1, 1, 0]), "record 0: it ends within a number or a field"),
    "headers below none": (bytes([12, 0, 0, 0, 1, 1, 1]), "record 0: it has -1 headers in 0 bytes"),
    "headers that there are not": (bytes([12, 0, 0, 0, 1, 1, 8]), "record 0: it has 4 headers in 0 bytes"),
    "a header without a name": (bytes([16, 0, 0, 0, 1, 1, 2, 1, 1]), "record 0: a header has no name"),
    "a header that is cut": (bytes([16, 0, 0, 0, 1, 1, 2, 0, 2]), "record 0: it ends within a number or a field"),
    "bytes within the record": (bytes([14, 0, 0, 0, 1, 1, 0, 0]), "record 0: it has 1 bytes more than its fields"),
    "an offset beyond the batch": (bytes([12, 0, 0, 2, 1, 1, 0]), "record 0: its offset delta 1 is not above -1"),
    "an offset before the batch": (bytes([12, 0, 0, 1, 1, 1, 0]), "record 0: its offset delta -1 is not above -1"),
    "bytes after the records": (EMPTY + b"\x00", "1 bytes after the last of 1 records"),
    "no bytes": (b"", "1 records do not fit into 0 bytes"),
}


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.ZSTD])
@pytest.mark.parametrize("name", FAULTS)
def test_a_damaged_record_is_named_with_the_reason(name: str, codec: Compression) -> None:
    body, reason = FAULTS[name]
    data, header = batch(body, 1, codec=codec)
    with pytest.raises(CorruptBatch, match=reason):
        decode_records(data, header)
    for loops in (record_loops, PLAIN):
        with pytest.raises(Damaged):
            scanned(loops, body, 1, 0, 0, 0)


def test_offsets_within_a_batch_rise_and_may_have_gaps() -> None:
    """As compaction leaves them; equal offsets would be one record twice."""
    first, second, same = EMPTY, bytes([12, 0, 0, 6, 1, 1, 0]), bytes([12, 0, 0, 0, 1, 1, 0])
    data, header = batch(first + second, 2, last=4)
    assert [one.offset for one in decode_records(data, header, base_offset=100)] == [100, 103]
    data, header = batch(first + same, 2, last=4)
    with pytest.raises(CorruptBatch, match="record 1: its offset delta 0 is not above 0"):
        decode_records(data, header)


def test_a_batch_that_says_it_has_many_records_takes_no_room() -> None:
    data, header = batch(EMPTY, 2**31 - 1)
    with pytest.raises(CorruptBatch, match="2147483647 records do not fit into 7 bytes"):
        decode_records(data, header)


def test_a_batch_without_records_has_none() -> None:
    assert decode_records(*batch(b"", 0, last=3)) == []
    assert [one.fields.shape for one in record_columns(*batch(b"", 0, last=3))] == [(8, 0)]


def test_a_large_batch_comes_in_parts_once_all_of_it_is_sound() -> None:
    records = [Record(timestamp_ms=1_000 + n, value=b"%d" % n, headers=(("h", b"%d" % n),)) for n in range(10)]
    data = encode_batch(records, compression=Compression.LZ4)
    parts = list(record_columns(data, parse_header(data), base_offset=50, rows_max=4))
    assert [part.fields[record_loops.OFFSET].tolist() for part in parts] == [[50, 51, 52, 53], [54, 55, 56, 57], [58, 59]]
    spans = parts[1].headers(1, 3)
    assert record_loops.cut(parts[1].body, spans[record_loops.DATA_AT], spans[record_loops.DATA_SIZE]) == [b"5", b"6"]
    body = data_of(records)
    damaged, header = batch(body[:-1], 10)
    with pytest.raises(CorruptBatch, match="record 9"):
        next(record_columns(damaged, header, rows_max=4))


def data_of(records: list[Record]) -> bytes:
    return encode_batch(records)[HEADER_BYTES:]


def test_times_are_the_records_the_batchs_or_the_coordinators() -> None:
    records = [Record(timestamp_ms=5), Record(timestamp_ms=9)]
    for kind, times in ((TimestampType.CREATE_TIME, [5, 9]), (TimestampType.LOG_APPEND_TIME, [9, 9])):
        data = encode_batch(records, timestamp_type=kind)
        header = parse_header(data)
        assert [one.timestamp_ms for one in decode_records(data, header)] == times
        assert [one.timestamp_ms for one in decode_records(data, header, append_ms=77)] == [77, 77]


@BOTH
@given(stretches=st.lists(CONTENTS, max_size=20), skipped=st.integers(0, 3), row=st.integers(0, 9))
def test_stretches_are_gathered(loops: ModuleType, stretches: list[bytes | None], skipped: int, row: int) -> None:
    body, places = b"", []
    for one in stretches:
        places.append(len(body) + 1)
        body += b"?" + (one or b"")
    sizes = np.array([-1 if one is None else len(one) for one in stretches], np.int64)
    wanted = stretches[skipped:]
    out, ends, bits = bytearray(len(body) + 5), np.zeros(row + len(wanted) + 1, np.int32), np.zeros(4, np.uint8)
    view = memoryview(body)
    first, stop = min(skipped, len(stretches)), len(stretches)
    starts = np.array(places, np.int64).data
    end = loops.gather(view, starts, sizes.data, first, stop, memoryview(out), 5, ends.data, bits.data, row)
    assert out[5:end] == b"".join(one or b"" for one in wanted)
    assert np.diff(ends[row : row + len(wanted)], prepend=5).tolist() == [len(one or b"") for one in wanted]
    expected = [False] * row + [one is not None for one in wanted]
    assert np.unpackbits(bits, bitorder="little")[: len(expected)].tolist() == expected
    assert loops.cut(view, starts, sizes.data) == stretches


OUTSIDE = {
    "before the body": (-1, 3, 10),
    "across the end": (6, 3, 10),
    "after the body": (9, 1, 10),
    "larger than all": (0, 1 << 62, 10),
    "beyond the room": (0, 8, 7),
}


@BOTH
@pytest.mark.parametrize("name", OUTSIDE)
def test_a_stretch_outside_is_an_error(loops: ModuleType, name: str) -> None:
    start, size, room = OUTSIDE[name]
    places, sizes, body = np.array([start], np.int64), np.array([size], np.int64), memoryview(b"12345678")
    with pytest.raises(IndexError, match="a stretch is not within 8 bytes, or there are more than"):
        loops.gather(body, places.data, sizes.data, 0, 1, memoryview(bytearray(room)), 0, np.zeros(1, np.int32).data, bytearray(1), 0)
    if room == 10:
        with pytest.raises(IndexError, match="is not within 8 bytes"):
            loops.cut(body, places.data, sizes.data)


NO_ROWS = {
    "more stretches than there are": (0, 2, 0, 9, 9, 0),
    "before the first stretch": (-1, 1, 0, 9, 9, 0),
    "before the room": (0, 1, -1, 9, 9, 0),
    "no room for ends": (0, 1, 0, 0, 9, 0),
    "no room for bits": (0, 1, 0, 9, 0, 0),
    "before the first row": (0, 1, 0, 9, 9, -1),
}


@BOTH
@pytest.mark.parametrize("name", NO_ROWS)
def test_rows_that_there_are_not_are_an_error(loops: ModuleType, name: str) -> None:
    first, stop, at, rows, bits, row = NO_ROWS[name]
    one, out, ends = np.zeros(1, np.int64).data, memoryview(bytearray(9)), np.zeros(rows, np.int32).data
    with pytest.raises(IndexError, match=r"no stretches|no room"):
        loops.gather(memoryview(b"12"), one, one, first, stop, out, at, ends, bytearray(bits), row)


@BOTH
def test_a_column_stays_below_what_its_ends_can_say(loops: ModuleType) -> None:
    one, room = np.zeros(1, np.int64), np.empty(1 << 31, np.uint8)  # memory that nobody writes to
    with pytest.raises(IndexError, match="no room for them"):
        loops.gather(memoryview(b"12"), one.data, one.data, 0, 1, room.data, 0, np.zeros(1, np.int32).data, bytearray(1), 0)


@BOTH
def test_headers_of_records_that_were_not_scanned_are_an_error(loops: ModuleType) -> None:
    fields = np.zeros((8, 1), np.int64)
    fields[loops.HEADERS_AT], fields[loops.HEADER_COUNT] = 0, 3
    with pytest.raises(IndexError, match="record 0 of 5 bytes has no 3 headers at 0"):
        loops.scan_headers(memoryview(bytes([0, 0, 0, 0, 9])), fields.data, 0, 1, np.zeros((4, 3), np.int64).data)
    fields[loops.HEADERS_AT] = -5
    with pytest.raises(IndexError):
        loops.scan_headers(memoryview(b"12345"), fields.data, 0, 1, np.zeros((4, 3), np.int64).data)
    fields[loops.HEADERS_AT] = 0
    with pytest.raises(IndexError):
        loops.scan_headers(memoryview(bytes(20)), fields.data, 0, 1, np.zeros((4, 2), np.int64).data)
