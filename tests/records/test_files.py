"""Committed files as bytes: the product's loops against the plain codec of the tests, on lawful files and on any bytes."""

from __future__ import annotations

import dataclasses
import tracemalloc
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from records.codec import decode_entry, encode_entry
from records.committed_files import file_loops
from records.committed_files.codec import (
    CommittedBatch,
    FileCommitted,
    FileTable,
    encode_files,
    entry_bytes_max,
    file_prefix,
    files_of,
    read_files,
    read_files_at,
    table_of,
)
from records.committed_files.layouts import LAYOUT_1
from records.committed_files.lines import BASE_OFFSET, BYTE_SIZE, DETAIL, FILE, LINE_WIDTH, LOG_START, ROW, VERDICT, BatchVerdict
from records.errors import InvalidRecord, UndecodableEntry
from records.history import levels, schema_of_level
from records.model import NoOp
from tests.compiled import plain
from tests.records import plain_files
from tests.records.examples import FILE as EXAMPLE
from tests.records.examples import NOW_MS, TOPIC_A, TOPIC_B
from tests.records.plain_files import INT_MAX, LONG_MAX, NotAFile
from tests.records.strategies import files_committed

LEVEL = max(levels())
VALUE = encode_entry([EXAMPLE])
PLAIN_LOOPS = plain(file_loops)
LAYOUTS = {file_prefix(schema_of_level(level)): LAYOUT_1 for level in levels()}
DEFAULTS = np.array([0, -1, 0, 0, 0, 0, -1, 0, 0, 0, 0, 0, -1, -1, -1, 0, 0])


def plain_file(value: bytes) -> FileCommitted | None:
    try:
        return plain_files.read(value)
    except NotAFile:
        return None


def judge(values: Sequence[bytes]) -> list[bool]:
    """Which values are files: so says the plain codec, and so do the loops, compiled and not, one value by one and all together."""
    expected = [plain_file(value) for value in values]
    taken, table = read_files(values)
    assert taken == [at for at, file in enumerate(expected) if file is not None]
    assert files_of(table) == [file for file in expected if file is not None]
    assert table.lines[:, ROW].tolist() == [-1] * len(table.lines)
    assert table.lines[:, FILE].tolist() == [at for at in range(len(taken)) for _ in table.lines_of(at)]
    joined = b"\xff\x01" + b"".join(values) + b"\0\x80"
    ends = 2 + np.cumsum([len(value) for value in values], dtype=np.int64)
    at_places = read_files_at(joined, ends - np.array([len(value) for value in values], np.int64), ends)
    interpreted = PLAIN_LOOPS.read_files(list(values), None, None, LAYOUTS, DEFAULTS)
    for found, heads, first_line, lines in ((at_places[0], *_parts(at_places[1])), interpreted):
        assert (found, heads, first_line, lines.tolist()) == (taken, table.heads, table.first_line, table.lines.tolist())
    for value, file in zip(values, expected, strict=True):
        if file is not None:
            level = next(level for level in levels() if value.startswith(schema_of_level(level).header))
            assert encode_entry([file], level) == value
    return [file is not None for file in expected]


def _parts(table: FileTable) -> tuple[object, ...]:
    return table.heads, table.first_line, table.lines


@given(st.lists(files_committed(), max_size=3), st.sampled_from(levels()))
@settings(max_examples=60)
def test_files_are_written_and_read_as_the_plain_codec_does(files: list[FileCommitted], level: int) -> None:
    table = table_of(files)
    assert files_of(table) == files
    entries = encode_files(table, level)
    assert entries == [plain_files.write(file, level) for file in files]
    assert PLAIN_LOOPS.write_files(entries[0][:12] if entries else b"", LAYOUT_1, table.heads, table.first_line, table.lines) == entries
    assert judge(entries) == [True] * len(files)


BYTES = st.integers(0, 255) | st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF])
FILE_VALUES = st.builds(lambda file, level: encode_entry([file], level), files_committed(max_batches=4), st.sampled_from(levels()))


@given(FILE_VALUES, st.lists(st.tuples(st.integers(0, 10_000), BYTES), min_size=1, max_size=3))
@settings(max_examples=200)
def test_changed_bytes_are_judged_as_by_the_plain_codec(value: bytes, changes: list[tuple[int, int]]) -> None:
    changed = bytearray(value)
    for place, byte in changes:
        changed[10 + place % (len(value) - 10)] = byte
    judge([value, bytes(changed), value])


@given(FILE_VALUES, st.integers(0, 10_000), st.integers(0, 12), st.integers(-3, 3) | st.sampled_from([INT_MAX, LONG_MAX, -LONG_MAX - 1]))
@settings(max_examples=300)
def test_changed_numbers_are_judged_as_by_the_plain_codec(value: bytes, place: int, taken: int, number: int) -> None:
    """A number stands where others stood, and the size of the record is right."""
    record = value[12 + len(plain_files.varint(len(value))) :][:-1] if len(value) > 12 + 2 + 63 else value[13:-1]
    at = 2 + place % (len(record) - 2)
    changed = record[:at] + plain_files.varint(number) + record[at + taken :]
    judge([value, value[:12] + plain_files.varint(len(changed)) + changed + b"\0", value])


def test_every_cut_and_every_appended_byte() -> None:
    values = [VALUE[:size] for size in range(len(VALUE))]
    values += [VALUE + bytes([byte]) for byte in range(256)]
    assert judge([*values, VALUE]) == [False] * len(values) + [True]
    for value in values:
        with pytest.raises(UndecodableEntry):
            decode_entry(value)


def test_no_values_and_empty_ones() -> None:
    assert judge([]) == []
    assert judge([b"", b""]) == [False, False]
    assert encode_files(table_of([]), LEVEL) == []


def test_other_entries_are_left() -> None:
    others = [encode_entry([EXAMPLE, NoOp()]), encode_entry([NoOp()]), encode_entry([]), b"\xc3\x01" + bytes(8) + VALUE[10:]]
    assert judge([VALUE, *others]) == [True] + [False] * len(others)
    assert decode_entry(others[0]) == [EXAMPLE, NoOp()]


def test_a_file_beside_other_records_has_the_same_form() -> None:
    mixed = encode_entry([NoOp(), EXAMPLE])
    at = mixed.index(EXAMPLE.object_key.encode())
    assert decode_entry(mixed) == [NoOp(), EXAMPLE]
    with pytest.raises(UndecodableEntry):
        decode_entry(mixed[:at] + b"\xff" + mixed[at + 1 :])


def test_text_that_is_not_utf8_is_no_file() -> None:
    value = encode_entry([dataclasses.replace(EXAMPLE, object_key="wal/é")])
    assert judge([value, value.replace("é".encode(), b"\xc3\x28"), value]) == [True, False, True]


@pytest.mark.parametrize("padding", [0, 1, 7, 8, 9, 5000])
def test_padded_numbers_are_no_file(padding: int) -> None:
    for number in (EXAMPLE.file_size, EXAMPLE.append_time_ms, EXAMPLE.batches[4].byte_size):
        written = plain_files.varint(number)
        record = VALUE[14:-1]
        assert written in record
        padded = record.replace(written, written[:-1] + bytes([written[-1] | 0x80]) + b"\x80" * padding + b"\0", 1)
        assert judge([VALUE, VALUE[:12] + plain_files.varint(len(padded)) + padded + b"\0"]) == [True, False]


def test_promised_counts_take_no_memory() -> None:
    tracemalloc.start()
    try:
        for count in (2**20, 2**30, 2**62, -(2**62)):
            for place in range(12):
                numbers = [0] * place + [count] + [0] * (11 - place)
                record = b"\1\0" + b"".join(map(plain_files.varint, numbers)) + bytes(100)
                value = VALUE[:12] + plain_files.varint(len(record)) + record + b"\0"
                assert read_files([value])[0] == []
                with pytest.raises(UndecodableEntry):
                    decode_entry(value)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def changed(place: int, **changes: int | bytes) -> FileCommitted:
    """The example with another batch."""
    batches = list(EXAMPLE.batches)
    batches[place] = batches[place]._replace(**changes)  # type: ignore[arg-type]
    return dataclasses.replace(EXAMPLE, batches=batches)


UNLAWFUL: dict[str, FileCommitted] = {
    "negative offset": changed(0, base_offset=-1),
    "offsets beyond 64 bits": changed(4, base_offset=LONG_MAX, record_count=1),
    "offset of a refused batch": changed(3, base_offset=5),
    "duplicate without an offset": changed(1, base_offset=-1),
    "detail of an accepted batch": changed(0, detail=1),
    "unknown verdict": changed(3, verdict=7),
    "negative verdict": changed(3, verdict=-1),
    "no records": changed(0, record_count=0),
    "too many records": changed(0, record_count=INT_MAX + 2),
    "negative size": changed(0, byte_size=-1),
    "size of 32 bits": changed(0, byte_size=INT_MAX + 1),
    "negative position": changed(0, byte_offset=-1),
    "position beyond 64 bits": changed(0, byte_offset=LONG_MAX),
    "epoch without a producer": changed(2, producer_epoch=0),
    "sequence without a producer": changed(2, base_sequence=0),
    "producer below -1": changed(2, producer_id=-2),
    "producer without an epoch": changed(0, producer_epoch=-1),
    "negative sequence of an accepted batch": changed(0, base_sequence=-1),
    "negative sequence of a duplicate": changed(1, base_sequence=-1),
    "epoch of 33 bits": changed(0, producer_epoch=INT_MAX + 1),
    "negative partition": changed(0, partition=-1),
    "negative log start": changed(0, log_start=-1),
    "unknown type of timestamp": changed(0, timestamp_type=2),
    "timestamp too early": dataclasses.replace(changed(0, timestamp_ms=-LONG_MAX), append_time_ms=1),
    "timestamp too late": dataclasses.replace(changed(0, timestamp_ms=LONG_MAX), append_time_ms=-2),
    "number beyond 64 bits": changed(0, timestamp_ms=LONG_MAX + 1),
    "short topic id": changed(0, topic_id=b"short"),
    "short hash": dataclasses.replace(EXAMPLE, content_hash=b""),
    "format of 33 bits": dataclasses.replace(EXAMPLE, object_format=INT_MAX + 1),
    "broker of 33 bits": dataclasses.replace(EXAMPLE, uploader_broker_id=-INT_MAX - 2),
    "owner of 33 bits": dataclasses.replace(EXAMPLE, owner_ids=[0, INT_MAX + 1]),
    "size beyond 64 bits": dataclasses.replace(EXAMPLE, file_size=LONG_MAX + 1),
    "key that is no text": dataclasses.replace(EXAMPLE, object_key="\ud800"),
}


@pytest.mark.parametrize("file", UNLAWFUL.values(), ids=UNLAWFUL.keys())
def test_unlawful_files_are_not_written(file: FileCommitted) -> None:
    with pytest.raises(NotAFile):
        plain_files.write(file, LEVEL)
    with pytest.raises(InvalidRecord):
        encode_entry([file])


LAWFUL: dict[str, FileCommitted] = {
    "greatest offset": changed(4, base_offset=LONG_MAX - 10_001),
    "last position": changed(4, byte_offset=LONG_MAX - 40_000),
    "overlapping batches": changed(4, byte_offset=0),
    "most records": changed(0, record_count=INT_MAX + 1, base_offset=2**40),
    "earliest timestamp": dataclasses.replace(changed(0, timestamp_ms=-LONG_MAX - 1), append_time_ms=-1),
    "latest timestamp": dataclasses.replace(changed(0, timestamp_ms=LONG_MAX), append_time_ms=0),
    "greatest details": changed(3, detail=-LONG_MAX - 1),
    "negative sequence of a refused batch": changed(3, base_sequence=-5),
    "many owners": dataclasses.replace(EXAMPLE, owner_ids=list(range(1000))),
    "key beyond ASCII": dataclasses.replace(EXAMPLE, object_key="wal/é/ß" * 30),
    "no batches": dataclasses.replace(EXAMPLE, batches=[]),
    "gap in offsets": changed(2, base_offset=1_000_005),
    "offsets backwards": changed(2, base_offset=0),
    "another log start": changed(2, log_start=11),
    "topics in turn": dataclasses.replace(EXAMPLE, batches=EXAMPLE.batches * 3),
    "all duplicates": dataclasses.replace(EXAMPLE, batches=[EXAMPLE.batches[1]] * 3),
}


@pytest.mark.parametrize("file", LAWFUL.values(), ids=LAWFUL.keys())
def test_files_at_the_limits(file: FileCommitted) -> None:
    value = encode_entry([file])
    assert value == plain_files.write(file, LEVEL)
    assert judge([VALUE, value, VALUE]) == [True] * 3


def test_lines_of_a_file() -> None:
    table = table_of([EXAMPLE, EXAMPLE])
    assert table.first_line == [0, 5, 10]
    assert table.lines.shape == (10, LINE_WIDTH)
    assert table.lines_of(1)[:, [FILE, ROW, VERDICT, BYTE_SIZE]].tolist() == [
        [1, -1, 0, 1024],
        [1, -1, 1, 100],
        [1, -1, 0, 9000],
        [1, -1, 2, 60],
        [1, -1, 0, 40_000],
    ]
    assert [batch.topic_id for batch in EXAMPLE.accepted] == [TOPIC_A, TOPIC_A, TOPIC_B]
    batch = EXAMPLE.batches[4]
    assert (batch.last_offset, batch.next_offset, batch.last_sequence) == (2**40 + 10_000, 2**40 + 10_001, 9995)
    assert EXAMPLE.batches[2].last_sequence == -1


@given(files_committed())
def test_bound_of_an_entry_is_known_before_it_is_decided(file: FileCommitted) -> None:
    table = table_of([file])
    undecided = table.lines.copy()
    undecided[:, [VERDICT, BASE_OFFSET, LOG_START, DETAIL]] = 0
    decided = [_decided(one, at % 3) for at, one in enumerate(file.batches)]
    (entry,) = encode_files(table_of([dataclasses.replace(file, batches=decided)]), LEVEL)
    assert len(entry) <= entry_bytes_max(len(file.object_key.encode()), len(file.owner_ids), undecided)


def _decided(batch: CommittedBatch, verdict: int) -> CommittedBatch:
    if batch.producer_id >= 0 > batch.base_sequence:
        verdict = 2
    return batch._replace(verdict=verdict, base_offset=-1 if verdict == 2 else 2**62, log_start=7, detail=0 if verdict == 0 else LONG_MAX)


def test_bound_of_an_entry_is_close() -> None:
    batches = [
        CommittedBatch(TOPIC_A, at // 10, BatchVerdict.ACCEPTED, 100 + at % 10, 1, 50 * at, 50, NOW_MS, 0, -1, -1, -1, 0, 0)
        for at in range(100)
    ]
    file = dataclasses.replace(EXAMPLE, batches=batches)
    table = table_of([file])
    size = len(encode_files(table, LEVEL)[0])
    assert 0 <= entry_bytes_max(len(file.object_key), len(file.owner_ids), table.lines) - size <= 100 + 20 * 10 + 40 * 100
