"""The fast codec of FileCommitted gives the bytes and the records of the general one, whichever technique it picks."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.records_codec import make_file
from records import fast
from records.avro import Primitive
from records.codec import decode_entry
from records.errors import UndecodableEntry, UnreadableEntry
from records.file_checks import NUMBER_COLUMNS, number_columns
from records.general import decode_generally, encode_generally
from records.history import NEWEST, levels, schema_of_level
from records.levels import LEVEL_LATEST
from records.model import FileCommitted, NoOp
from records.varints import SMALL_END, write_number, write_number_array, write_numbers
from records.wire import LONG_MAX, LONG_MIN, read_long, write_long
from tests.records.examples import FILE
from tests.records.strategies import LONGS, files_committed

TECHNIQUES = {"plain": 1 << 60, "vector": 1}


@pytest.fixture(params=TECHNIQUES)
def technique(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Force one technique for files of every size."""
    monkeypatch.setattr(fast, "NUMBERS_VECTOR_MIN", TECHNIQUES[request.param])
    monkeypatch.setattr(fast, "COLUMN_BYTES_VECTOR_MIN", TECHNIQUES[request.param])
    return str(request.param)


# The fixture sets two constants, which stay as they are through all examples.
relaxed = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


def bytes_of(numbers: Iterable[int]) -> bytes:
    return b"".join(map(write_long, numbers))


def read_generally(value: bytes) -> list[object] | None:
    try:
        return list(decode_generally(value))
    except UnreadableEntry:
        return None


def test_every_level_has_the_fast_path() -> None:
    assert set(fast.PREFIX_OF_LEVEL) == set(levels())
    assert len(set(fast.PREFIX_OF_LEVEL.values())) == len(levels())


@relaxed
@given(record=files_committed(max_batches=20), level=st.sampled_from(levels()))
def test_bytes_and_records_equal_the_general_codec(technique: str, record: FileCommitted, level: int) -> None:
    general = encode_generally([record], schema_of_level(level))
    assert fast.encode_file_entry(record, level) == general
    assert decode_entry(general) == decode_generally(general) == [record]
    # numpy may leave text that does not look like numbers to the general decoder, never columns.
    if technique == "plain" or all(message.isascii() for message in record.other_message):
        assert fast.decode_file_entry(general) == record


@pytest.mark.usefixtures("technique")
@pytest.mark.parametrize("num_batches", [1, 10, 100, 1000])
def test_realistic_files_equal_the_general_codec(num_batches: int) -> None:
    record = make_file(random.Random(num_batches), num_batches)
    general = encode_generally([record], NEWEST)
    assert fast.encode_file_entry(record, LEVEL_LATEST) == general
    assert fast.decode_file_entry(general) == record


@pytest.mark.usefixtures("technique")
@relaxed
@given(
    record=files_committed(max_batches=6),
    mutations=st.lists(
        st.tuples(st.integers(0, 2000), st.integers(0, 255) | st.sampled_from([0, 1, 0x7F, 0x80, 0xFF])), min_size=1, max_size=3
    ),
    cut=st.none() | st.integers(12, 2000),
)
def test_what_the_fast_decoder_accepts_the_general_one_reads_alike(
    record: FileCommitted, mutations: list[tuple[int, int]], cut: int | None
) -> None:
    value = bytearray(encode_generally([record], NEWEST))
    for place, byte in mutations:
        value[12 + place % (len(value) - 12)] = byte
    mutated = bytes(value)[:cut]
    accepted = fast.decode_file_entry(mutated)
    assert accepted is None or read_generally(mutated) == [accepted]


@pytest.mark.usefixtures("technique")
def test_every_cut_and_every_appended_byte_is_left_to_the_general_decoder() -> None:
    value = encode_generally([FILE], NEWEST)
    assert fast.decode_file_entry(value) == FILE
    for size in range(len(value)):
        assert fast.decode_file_entry(value[:size]) is None
    assert fast.decode_file_entry(value + b"\0") is None


@pytest.mark.usefixtures("technique")
def test_several_records_and_several_blocks_are_left_to_the_general_decoder() -> None:
    assert fast.decode_file_entry(encode_generally([FILE, NoOp()], NEWEST)) is None
    value = encode_generally([FILE], NEWEST)
    # byte_gap [0, 100, 0] as one block, then as two
    whole, split = write_long(3) + bytes_of([0, 100, 0]) + b"\0", write_long(2) + bytes_of([0, 100]) + write_long(1) + b"\0\0"
    assert value.count(whole) == 1
    in_two_blocks = value.replace(whole, split)
    assert decode_generally(in_two_blocks) == [FILE]
    assert fast.decode_file_entry(in_two_blocks) is None


@pytest.mark.usefixtures("technique")
@pytest.mark.parametrize("padding", [7, 8, 9, 40, 100_000])
def test_padded_numbers_never_read_differently(padding: int) -> None:
    value = encode_generally([FILE], NEWEST)
    sizes = bytes_of(FILE.byte_size)
    assert value.count(sizes) == 1
    padded = sizes[:-1] + bytes([sizes[-1] | 0x80]) + b"\x80" * padding + b"\0"
    mutated = value.replace(sizes, padded)
    accepted = fast.decode_file_entry(mutated)
    assert accepted is None or read_generally(mutated) == [accepted]
    if padding > 7:
        assert accepted is None
        with pytest.raises(UndecodableEntry, match="longer than 10 bytes"):
            decode_generally(mutated)


BAD_FILES: dict[str, dict[str, object]] = {
    "run_topic holds 2, there are 2 topic ids": {"run_topic": [0, 2]},
    "run_topic holds -1": {"run_topic": [0, -1]},
    "run_partition holds -1": {"run_partition": [-1, 0]},
    "run_length holds 0": {"run_length": [3, 0]},
    "run columns differ": {"run_partition": [5]},
    "run_log_start holds 1 values for 2 runs": {"run_log_start": [1]},
    "run lengths add up to 4": {"run_length": [2, 2]},
    "batch columns differ": {"timestamp_age": [1, 2]},
    "byte_gap or timestamp_type": {"byte_gap": [1]},
    "timestamp_type holds 2": {"timestamp_type": [0, 2, 0]},
    "byte_size holds -1": {"byte_size": [-1, 2, 3]},
    "byte_size holds 2147483648": {"byte_size": [1, 2**31, 3]},
    "producer columns differ": {"producer_id": [1]},
    "producer_index does not name": {"producer_index": [1, 2]},
    "producer_index does not name distinct": {"producer_index": [1, 0]},
    "columns of other batches differ": {"other_message": [""]},
    "other_index does not name": {"other_index": [1, 4]},
    "other_index does not name distinct": {"other_index": [4, 0]},
    "offsets from 9223372036854775807 on": {"run_base_offset": [0, LONG_MAX]},
    "timestamps .* exceed 64 bits": {"timestamp_age": [0, 0, LONG_MIN]},
    "byte positions of batches are negative": {"byte_gap": [0, -1025, 0]},
    "byte positions of batches .* exceed": {"byte_gap": [LONG_MAX, 0, 0]},
}


@pytest.mark.usefixtures("technique")
@pytest.mark.parametrize(("message", "changes"), BAD_FILES.items(), ids=BAD_FILES.keys())
def test_columns_that_contradict_each_other_are_undecodable(
    message: str, changes: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = dataclasses.replace(FILE, **changes)  # type: ignore[arg-type]
    assert fast.encode_file_entry(bad, LEVEL_LATEST) is None
    with monkeypatch.context() as unchecked:  # a writer that does not check
        unchecked.setattr("records.general.find_fault", lambda record: None)
        unchecked.setattr("records.shapes._RANGES", dict.fromkeys(Primitive, (LONG_MIN, LONG_MAX)))
        value = encode_generally([bad], NEWEST)
    assert fast.decode_file_entry(value) is None
    with pytest.raises(UndecodableEntry, match="more than 32 bits" if "2147483648" in message else message):
        decode_generally(value)


def test_number_columns_are_in_the_order_of_the_schema() -> None:
    names = [field.name for field in NEWEST.record_types["FileCommitted"].fields]
    assert names[-len(NUMBER_COLUMNS) - 1 : -1] == list(NUMBER_COLUMNS)
    assert number_columns(FILE) == tuple(getattr(FILE, name) for name in NUMBER_COLUMNS)


@given(st.lists(st.lists(LONGS | st.integers(-70, 70) | st.integers(0, 8191), min_size=1, max_size=20), min_size=1, max_size=4))
def test_varint_writers_agree(columns: list[list[int]]) -> None:
    expected = [b"".join(map(write_long, column)) for column in columns]
    assert write_number_array(np.array([value for column in columns for value in column])) == b"".join(expected)
    assert [write_numbers(column, min(column), max(column)) for column in columns] == expected


@given(st.data(), st.sampled_from([13, 27, 28, 41, 63]))
def test_tables_agree_with_the_plain_writer_at_every_width(data: st.DataObject, bits: int) -> None:
    column = data.draw(st.lists(st.integers(0, 2**bits - 1) | st.sampled_from([0, 2**13, 2**27 - 1, 2**bits - 1]), min_size=1))
    column = [min(value, 2**bits - 1) for value in column]
    assert write_numbers(column, min(column), max(column)) == bytes_of(column)


@given(LONGS | st.sampled_from([sign * 2**bits + step for bits in range(63) for sign in (1, -1) for step in (-1, 0, 1)]))
def test_varint_survives_the_round_trip(value: int) -> None:
    encoded = write_long(value)
    assert write_number(value) == encoded
    assert read_long(encoded, 0) == (value, len(encoded))


def test_table_of_small_numbers_is_right_throughout() -> None:
    values = range(SMALL_END)
    assert write_numbers(values, 0, SMALL_END - 1) == bytes_of(values)


@pytest.mark.usefixtures("technique")
@pytest.mark.parametrize("longer", [0, 1, 8])
@pytest.mark.parametrize("place", [0, 1, len(NUMBER_COLUMNS) - 1])
def test_an_empty_column_may_be_told_in_more_bytes_than_it_needs(place: int, longer: int) -> None:
    empty = dataclasses.replace(FILE, topic_ids=[], other_message=[], **{name: [] for name in NUMBER_COLUMNS})
    value = encode_generally([empty], NEWEST)
    columns_at = len(value) - len(NUMBER_COLUMNS) - 2
    sound = value[: columns_at + place] + b"\x80" * longer + value[columns_at + place :]
    assert decode_entry(sound) == read_generally(sound) == [empty]
    for damaged in (sound + b"\0", sound[:-1]):
        assert read_generally(damaged) is None
        with pytest.raises(UndecodableEntry):
            decode_entry(damaged)
