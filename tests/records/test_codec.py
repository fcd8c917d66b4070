"""Round trips, refusals of bad records, and that no bytes raise anything but the two errors."""

from __future__ import annotations

import dataclasses
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from records.codec import InvalidRecord, UndecodableEntry, UnknownSchema, decode_entry, decode_key, encode_entry, encode_key
from records.entry_key import EntryKey
from records.history import NEWEST, levels, schema_of_level
from records.model import (
    FeatureLevelSet,
    FilesFenced,
    FilesHandedOver,
    NoOp,
    PartitionCreated,
    Record,
    TopicConfigured,
    TopicDeleting,
    TransactionBegan,
)
from tests.records.examples import EXAMPLES, FILE, TOPIC_A, examples_of
from tests.records.plain_files import varint
from tests.records.strategies import ANY_RECORD, KEYS, RECORD_CLASSES, records_of

FILE_ENTRY = encode_entry([FILE])
MIXED_ENTRY = encode_entry(EXAMPLES)
ENTRIES_OF_LEVELS = [encode_entry(records, level) for level in levels() for records in ([FILE], examples_of(level))]
BODY = 10


def entry(body: bytes) -> bytes:
    return NEWEST.header + body


@pytest.mark.parametrize("name", sorted(RECORD_CLASSES))
@given(data=st.data())
@settings(max_examples=25)
def test_every_record_type_survives_the_round_trip(name: str, data: st.DataObject) -> None:
    record = data.draw(records_of(name))
    assert decode_entry(encode_entry([record])) == [record]


@given(st.lists(ANY_RECORD, max_size=5))
@settings(max_examples=50)
def test_records_of_one_entry_keep_their_order(records: list[Record]) -> None:
    assert decode_entry(encode_entry(records)) == records


@given(KEYS)
def test_key_survives_the_round_trip(key: EntryKey) -> None:
    assert len(encode_key(key)) == 20
    assert decode_key(encode_key(key)) == key


@given(st.binary(max_size=24) | st.binary(min_size=20, max_size=20))
def test_key_is_well_formed_or_none(raw: bytes) -> None:
    key = decode_key(raw)
    well_formed = len(raw) == 20 and raw[0] < 0x80 and raw[12] < 0x80
    assert (key is not None) == well_formed
    assert key is None or encode_key(key) == raw


def test_absent_key_is_none() -> None:
    assert decode_key(None) is None


@pytest.mark.parametrize("key", [EntryKey(-1, 0, 0), EntryKey(0, 0, -1), EntryKey(2**31, 0, 0), EntryKey(0, 2**63, 0)])
def test_key_out_of_range_is_refused(key: EntryKey) -> None:
    with pytest.raises(InvalidRecord):
        encode_key(key)


def test_unknown_fingerprint_is_named() -> None:
    with pytest.raises(UnknownSchema, match="00000000deadbeef") as caught:
        decode_entry(b"\xc3\x01" + 0xDEADBEEF.to_bytes(8, "little") + b"\0")
    assert caught.value.fingerprint == 0xDEADBEEF


@pytest.mark.parametrize("value", [b"", b"\xc3", b"\xc3\x01", b"\xc3\x01" + bytes(7), b"\xc3\x02" + bytes(9), b"plain text, no entry"])
def test_value_without_a_header_is_undecodable(value: bytes) -> None:
    with pytest.raises(UndecodableEntry, match="does not start with"):
        decode_entry(value)


@pytest.mark.parametrize("value", [FILE_ENTRY, MIXED_ENTRY], ids=["file", "mixed"])
def test_every_cut_is_undecodable(value: bytes) -> None:
    for size in range(len(value)):
        with pytest.raises(UndecodableEntry):
            decode_entry(value[:size])


@pytest.mark.parametrize("value", [FILE_ENTRY, MIXED_ENTRY, entry(b"\0")], ids=["file", "mixed", "empty"])
def test_trailing_bytes_are_undecodable(value: bytes) -> None:
    for trailing in (b"\0", b"\2", value):
        with pytest.raises(UndecodableEntry):
            decode_entry(value + trailing)


NOOP = 17
BAD_BODIES = {
    "record type beyond the union": b"\2" + varint(25) + b"\0",
    "negative record type": b"\2" + varint(-8) + b"\0",
    "count beyond the bytes": varint(2**40),
    "negative count beyond the bytes": varint(-(2**63)) + b"\0",
    "block with its size": varint(-1) + varint(1) + varint(NOOP) + b"\0",
    "two blocks": b"\2" + varint(NOOP) + b"\2" + varint(NOOP) + b"\0",
    "number of eleven bytes": b"\x80" * 10 + b"\0",
    "number of 65 bits": b"\xff" * 9 + b"\x02",
    "number in more bytes than it needs": b"\x82\0" + varint(NOOP) + b"\0",
    "int of 33 bits": b"\2" + varint(24) + varint(2**31) + b"\0",
    "boolean neither 0 nor 1": b"\2" + varint(20) + TOPIC_A + b"\2\0",
    "string that is not UTF-8": b"\2" + varint(14) + b"\4\xff\xfe\0",
    "string of negative size": b"\2" + varint(14) + b"\1\0",
    "string longer than the entry": b"\2" + varint(14) + varint(2**50) + b"\0",
    "columns of two lengths": b"\2" + varint(5) + b"\2\2a\0\0\0",
}


@pytest.mark.parametrize("body", BAD_BODIES.values(), ids=BAD_BODIES.keys())
def test_bad_body_is_undecodable(body: bytes) -> None:
    with pytest.raises(UndecodableEntry, match=f"entry of {BODY + len(body)} bytes is not"):
        decode_entry(entry(body))


def test_promised_counts_take_no_memory() -> None:
    tracemalloc.start()
    try:
        for count in (2**30, 2**62, -(2**62)):
            with pytest.raises(UndecodableEntry):
                decode_entry(entry(varint(count) + b"\0" * 100))
            with pytest.raises(UndecodableEntry):
                decode_entry(FILE_ENTRY[:12] + varint(count) + b"\0" * 100)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


MUTATION = st.tuples(st.integers(0, 4000), st.integers(0, 255) | st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))


@given(
    st.sampled_from([*ENTRIES_OF_LEVELS, *map(encode_entry, ([record] for record in EXAMPLES))]),
    st.lists(MUTATION, min_size=1, max_size=4),
)
@settings(max_examples=400)
def test_mutated_entry_decodes_or_is_unreadable(value: bytes, mutations: list[tuple[int, int]]) -> None:
    mutated = bytearray(value)
    for place, byte in mutations:
        mutated[BODY + place % (len(value) - BODY)] = byte
    try:
        records = decode_entry(bytes(mutated))
    except UndecodableEntry:
        return
    level = next(level for level in levels() if schema_of_level(level).header == value[:BODY])
    assert encode_entry(records, level) == mutated  # what is read is what could have been written


@given(st.binary(max_size=200), st.booleans())
@settings(max_examples=300)
def test_random_bytes_decode_or_are_unreadable(raw: bytes, with_header: bool) -> None:
    try:
        records = decode_entry(entry(raw) if with_header else raw)
    except (UndecodableEntry, UnknownSchema):
        return
    assert decode_entry(encode_entry(records)) == records


BAD_RECORDS: list[tuple[Record, str]] = [
    (FeatureLevelSet(level=2**31), "FeatureLevelSet.level must be int"),
    (TransactionBegan(name="\ud800"), "TransactionBegan.name is not valid text"),
    (TopicDeleting(topic_id=b"short", confirmed=True), "topic_id must be 16 bytes"),
    (PartitionCreated(topic_id=TOPIC_A, name="n", first_partition=0, num_partitions=1, order_offset=2**63), "order_offset must be long"),
    (FilesFenced(object_keys=["a"], created_ms=[]), "1 object_keys with 0 created_ms"),
    (TopicConfigured(topic_id=bytes(16), names=["a"], values=[]), "1 names with 0 values"),
    (FilesHandedOver(object_keys=["a"], next_owner_ids=[1, 2]), "1 object_keys with 2 next_owner_ids"),
    (dataclasses.replace(FILE, object_key="\ud800"), "object_key is not valid text"),
    (dataclasses.replace(FILE, object_format=2**31), "object_format is 2147483648; it has 32 bits"),
    (dataclasses.replace(FILE, file_size=-(2**63) - 1), "a number of the head has more than 64 bits"),
    (dataclasses.replace(FILE, content_hash=b""), "content_hash has 0 bytes; it has 16"),
]


@pytest.mark.parametrize(("record", "message"), BAD_RECORDS, ids=[message for _, message in BAD_RECORDS])
def test_record_that_no_reader_would_take_is_refused(record: Record, message: str) -> None:
    with pytest.raises(InvalidRecord, match=message):
        encode_entry([record])


def test_unknown_level_is_refused() -> None:
    for records in ([NoOp()], [FILE]):
        with pytest.raises(InvalidRecord, match="unknown schema level 99"):
            encode_entry(records, level=99)


def test_field_that_a_level_lacks_is_only_written_where_it_says_nothing() -> None:
    silent, telling = TransactionBegan(name="t"), TransactionBegan(name="t", num_chunks=3)
    assert decode_entry(encode_entry([silent], level=1)) == [silent] == decode_entry(encode_entry([silent], level=2))
    assert decode_entry(encode_entry([telling], level=2)) == [telling]
    with pytest.raises(InvalidRecord, match=r"TransactionBegan.num_chunks = 3 cannot be written at this schema level; raise the level"):
        encode_entry([telling], level=1)
