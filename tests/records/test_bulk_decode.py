"""The bulk decoder takes exactly the plain files among any messages, and gives for them what the codec gives."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.records_codec import make_file
from records import bulk_decode, decode_loops
from records.avro import Primitive
from records.bulk_decode import OWNERS_MAX, FileColumns, decode_file_entries
from records.bulk_files import files_of, join_files, merge_files
from records.codec import decode_entry, encode_entry
from records.errors import UnreadableEntry
from records.file_checks import NUMBER_COLUMNS
from records.general import encode_generally
from records.history import NEWEST, levels
from records.model import FileCommitted, NoOp
from records.wire import INT_MAX, LONG_MAX, LONG_MIN, write_long
from tests.compiled import plain
from tests.records.examples import FILE
from tests.records.plain_files import assert_equal_columns, plain_file, without_messages
from tests.records.strategies import ANY_RECORD, files_committed
from tests.records.test_fast import BAD_FILES

PLAIN_LOOPS = plain(decode_loops)


def decode(values: Sequence[bytes]) -> tuple[list[bool], FileColumns]:
    """Decode values that stand one after the other between other bytes, with compiled loops and without."""
    data = np.frombuffer(b"\xff\x01" + b"".join(values) + b"\0\x80", np.uint8)
    ends = 2 + np.cumsum([len(value) for value in values], dtype=np.int64)
    starts = ends - np.array([len(value) for value in values], np.int64)
    taken, files = decode_file_entries(data, starts, ends)
    with mock.patch.object(bulk_decode, "decode_loops", PLAIN_LOOPS):
        as_written = decode_file_entries(data, starts, ends)
    assert as_written[0].tolist() == taken.tolist()
    assert_equal_columns(as_written[1], files)
    assert files.message.tolist() == taken.nonzero()[0].tolist()
    return taken.tolist(), files


def assert_judged_as_by_the_codec(values: Sequence[bytes]) -> None:
    plain = [plain_file(value) for value in values]
    taken, files = decode(values)
    assert taken == [record is not None for record in plain]
    assert_equal_columns(files, files_of([(at, record) for at, record in enumerate(plain) if record is not None]))


PLAIN_FILES = files_committed(max_batches=8).map(without_messages)
LEVELS = st.sampled_from(levels())
MESSAGES = st.one_of(
    st.builds(lambda record, level: encode_entry([record], level), PLAIN_FILES, LEVELS),
    st.builds(lambda record, level: encode_entry([record], level), files_committed(max_batches=4), LEVELS),
    ANY_RECORD.map(lambda record: encode_entry([record])),
    st.lists(PLAIN_FILES, min_size=2, max_size=2).map(encode_entry),
    st.binary(max_size=40),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(MESSAGES, max_size=8))
def test_any_messages_are_judged_as_by_the_codec(values: list[bytes]) -> None:
    assert_judged_as_by_the_codec(values)


@settings(deadline=None)
@given(st.lists(st.tuples(PLAIN_FILES, LEVELS), min_size=1, max_size=6))
def test_every_plain_file_of_every_level_is_taken(written: list[tuple[FileCommitted, int]]) -> None:
    records = [record for record, _ in written]
    taken, files = decode([encode_entry([record], level) for record, level in written])
    assert all(taken)
    assert files.object_keys() == [record.object_key for record in records]
    assert files.hash_list() == [record.content_hash for record in records]
    assert files.topic_id_list() == [topic_id for record in records for topic_id in record.topic_ids]


@settings(max_examples=200, deadline=None)
@given(
    records=st.lists(PLAIN_FILES, min_size=1, max_size=3),
    mutations=st.lists(
        st.tuples(st.integers(0, 5000), st.integers(0, 255) | st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF])), min_size=1, max_size=3
    ),
    cut=st.none() | st.integers(0, 400),
)
def test_changed_bytes_are_judged_as_by_the_codec(records: list[FileCommitted], mutations: list[tuple[int, int]], cut: int | None) -> None:
    values = [bytearray(encode_entry([record])) for record in records]
    for place, byte in mutations:
        value = values[place % len(values)]
        value[place % len(value)] = byte
    values[0] = values[0][:cut]
    assert_judged_as_by_the_codec([bytes(value) for value in values])


@pytest.mark.parametrize("num_batches", [1, 10, 100, 1000])
@pytest.mark.parametrize("slice_bytes", [1, 3000, 1 << 22])
def test_realistic_files_in_slices_of_any_size(num_batches: int, slice_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_decode, "SLICE_BYTES", slice_bytes)
    generator = random.Random(num_batches)
    records = [make_file(generator, num_batches) for _ in range(20)]
    values = [encode_entry([record]) for record in records]
    values[7] = values[7][:-1]
    taken, files = decode(values)
    assert [at for at, is_taken in enumerate(taken) if not is_taken] == [7]
    assert_equal_columns(files, files_of([(at, record) for at, record in enumerate(records) if at != 7]))


def test_every_cut_and_every_appended_byte() -> None:
    plain = without_messages(FILE)
    value = encode_entry([plain])
    values = [value[:size] for size in range(len(value))]
    values += [value + bytes([byte]) for byte in range(256)]
    values.append(value)
    taken, files = decode(values)
    assert taken == [False] * (len(values) - 1) + [True]
    assert_equal_columns(files, files_of([(len(values) - 1, plain)]))


def test_no_messages_and_empty_ones() -> None:
    taken, files = decode([])
    assert taken == []
    assert len(files) == 0
    assert_judged_as_by_the_codec([b"", b""])
    nothing = np.zeros(0, np.uint8)
    assert decode_file_entries(nothing, np.zeros(2, np.int64), np.zeros(2, np.int64))[0].tolist() == [False, False]


RECORDS = sum(FILE.record_count_minus_one) + len(FILE.byte_size)
BEYOND: dict[str, dict[str, object]] = {
    "greatest offset": {"run_base_offset": [0, LONG_MAX - RECORDS + 1]},
    "earliest timestamp": {"append_time_ms": -2, "timestamp_age": [0, 0, LONG_MAX]},
    "latest timestamp": {"append_time_ms": 0, "timestamp_age": [0, 0, LONG_MIN]},
    "last position": {"byte_gap": [LONG_MAX - INT_MAX, 0, 1], "byte_size": [0, 0, INT_MAX]},
    "position": {"byte_gap": [LONG_MAX, 0, LONG_MIN], "byte_size": [0, 1, 0]},
    "gap backwards": {"byte_gap": [100, -50, -51], "byte_size": [0, 0, 7]},
}


@pytest.mark.parametrize("changes", [*BAD_FILES.values(), *BEYOND.values(), {"other_message": []}])
def test_columns_that_contradict_each_other_are_left(changes: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    plain = without_messages(FILE)
    with monkeypatch.context() as unchecked:  # a writer that does not check
        unchecked.setattr("records.general.find_fault", lambda record: None)
        unchecked.setattr("records.shapes._RANGES", dict.fromkeys(Primitive, (LONG_MIN, LONG_MAX)))
        bad = encode_generally([dataclasses.replace(plain, **changes)], NEWEST)  # type: ignore[arg-type]
    with pytest.raises(UnreadableEntry):
        decode_entry(bad)
    good = encode_entry([plain])
    taken, files = decode([good, bad, good])
    assert taken == [True, False, True]
    assert_equal_columns(files, files_of([(0, plain), (2, plain)]))


LIMITS: dict[str, dict[str, object]] = {
    "greatest offset": {"run_base_offset": [0, LONG_MAX - RECORDS]},
    "earliest timestamp": {"append_time_ms": -1, "timestamp_age": [0, 0, LONG_MAX]},
    "latest timestamp": {"append_time_ms": -1, "timestamp_age": [0, 0, LONG_MIN]},
    "last position": {"byte_gap": [LONG_MAX - INT_MAX, 0, 0], "byte_size": [0, 0, INT_MAX]},
    "gap backwards": {"byte_gap": [100, -50, -50], "byte_size": [0, 0, 7]},
    "many owners": {"owner_ids": list(range(OWNERS_MAX))},
    "too many owners": {"owner_ids": list(range(OWNERS_MAX + 1))},
    "empty run_log_start": {"run_log_start": []},
    "key beyond ASCII": {"object_key": "wal/é/ß"},
    "no batches": {name: [] for name in (*NUMBER_COLUMNS, "other_message")},
}


@pytest.mark.parametrize("changes", LIMITS.values(), ids=LIMITS.keys())
def test_values_at_the_limits(changes: dict[str, object]) -> None:
    record = dataclasses.replace(without_messages(FILE), **changes)  # type: ignore[arg-type]
    usual = encode_entry([without_messages(FILE)])
    value = encode_entry([record])
    assert (plain_file(value) is None) == (len(record.owner_ids) > OWNERS_MAX)
    assert_judged_as_by_the_codec([usual, value, usual])


def test_text_that_is_not_utf8_is_left_alone() -> None:
    value = encode_entry([dataclasses.replace(without_messages(FILE), object_key="wal/é")])
    broken = value.replace("é".encode(), b"\xc3\x28")
    assert_judged_as_by_the_codec([value, broken, value])
    assert decode([value, broken, value])[0] == [True, False, True]


@pytest.mark.parametrize("padding", [0, 1, 7, 8, 9, 5000])
def test_padded_numbers_are_left(padding: int) -> None:
    plain = without_messages(FILE)
    value = encode_entry([plain])
    for numbers in (plain.byte_size, [plain.file_size], [plain.append_time_ms]):
        written = b"".join(map(write_long, numbers))
        assert written in value
        padded = value.replace(written, written[:-1] + bytes([written[-1] | 0x80]) + b"\x80" * padding + b"\0", 1)
        assert decode([value, padded, value])[0] == [True, False, True]


def test_other_entries_are_left() -> None:
    plain = without_messages(FILE)
    value = encode_entry([plain])
    whole, split = (b"".join(map(write_long, numbers)) for numbers in ([3, 0, 100, 0, 0], [2, 0, 100, 1, 0, 0]))
    assert value.count(whole) == 1
    others = [
        encode_entry([plain, NoOp()]),
        encode_entry([NoOp()]),
        encode_entry([FILE]),
        value.replace(whole, split),
        b"\xc3\x01" + bytes(8) + value[10:],
    ]
    assert decode([value, *others])[0] == [True] + [False] * len(others)


def test_files_are_picked_joined_and_merged() -> None:
    records = [make_file(random.Random(size), size) for size in (3, 1, 20, 7)]
    records[2] = without_messages(FILE)
    files = files_of(list(enumerate(records)))
    order = [3, 0, 2]
    assert_equal_columns(files.take(np.array(order)), files_of([(at, records[at]) for at in order]))
    odd, even = files.take(np.array([1, 3])), files.take(np.array([0, 2]))
    assert_equal_columns(merge_files(odd, even), files)
    assert_equal_columns(merge_files(odd, odd.take(np.zeros(0, np.int64))), odd)
    assert_equal_columns(join_files([even, odd]), files_of([(at, records[at]) for at in (0, 2, 1, 3)]))
