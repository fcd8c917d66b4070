"""Record batches against Kafka's own: `kafka_batches.json` holds segment files of a real Kafka 4.3.1, written by
librdkafka with each codec, recompressed by the broker (java-*), by an idempotent producer, and with log append time."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st
from kio.records.readers import read_batch

from records.columns import decode_records
from records.compression import Compression, CorruptCompression, compress, decompress
from records.record_batch import (
    BatchHeader,
    CorruptBatch,
    ProducerSequence,
    Record,
    StoredRecord,
    TimestampType,
    encode_batch,
    header_name,
    header_name_bytes,
    parse_header,
    parse_headers,
)

GOLDEN = {name: bytes.fromhex(text) for name, text in json.loads((Path(__file__).parent / "kafka_batches.json").read_text()).items()}
NOW_MS = 1_700_000_000_000
RECORDS = [
    Record(timestamp_ms=NOW_MS, key=None, value=b"value-0 " * 8),
    Record(timestamp_ms=NOW_MS - 7, key=b"k1", value=b"value-1 " * 8, headers=(("h", b"x"), ("n", None))),
    Record(timestamp_ms=NOW_MS - 14, key=b"k2", value=None),
]


def as_stored(records: list[Record], base_offset: int = 0) -> list[StoredRecord]:
    return [
        StoredRecord(offset=base_offset + n, timestamp_ms=one.timestamp_ms, key=one.key, value=one.value, headers=one.headers)
        for n, one in enumerate(records)
    ]


@pytest.mark.parametrize("name", [name for name in GOLDEN if name != "log-append-time"])
def test_batch_of_kafka_is_decoded(name: str) -> None:
    (header,) = parse_headers(GOLDEN[name])
    assert decode_records(GOLDEN[name], header) == as_stored(RECORDS)
    assert (header.record_count, header.last_offset_delta, header.timestamp_type) == (3, 2, TimestampType.CREATE_TIME)
    codec = name.removeprefix("java-").upper()
    assert header.compression.name == (codec if codec in Compression.__members__ else "NONE")


def test_log_append_time_replaces_the_records_own() -> None:
    golden = GOLDEN["log-append-time"]
    header = parse_header(golden)
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert {record.timestamp_ms for record in decode_records(golden, header)} == {header.max_timestamp_ms}
    assert header.max_timestamp_ms > NOW_MS


def test_encoder_gives_kafkas_bytes() -> None:
    plain = parse_header(GOLDEN["none"])
    assert encode_batch(RECORDS, partition_leader_epoch=plain.partition_leader_epoch) == GOLDEN["none"]


def test_encoder_gives_kafkas_bytes_for_an_idempotent_producer() -> None:
    header = parse_header(GOLDEN["idempotent"])
    assert header.producer_id >= 0
    assert (header.producer_epoch, header.base_sequence, header.last_sequence) == (0, 0, 2)
    producer = ProducerSequence(producer_id=header.producer_id, producer_epoch=0, base_sequence=0)
    assert encode_batch(RECORDS, producer=producer, partition_leader_epoch=header.partition_leader_epoch) == GOLDEN["idempotent"]


names = st.text(max_size=20) | st.binary(max_size=20).map(header_name)
times = st.integers(0, 2**42)
contents = st.none() | st.binary(max_size=300)


def lists_of_records(times: st.SearchStrategy[int]) -> st.SearchStrategy[list[Record]]:
    headers = st.lists(st.tuples(names, contents), max_size=3).map(tuple)
    record = st.builds(Record, timestamp_ms=times, key=contents, value=contents, headers=headers)
    return st.lists(record, min_size=1, max_size=20)


producers = st.none() | st.builds(
    ProducerSequence,
    producer_id=st.integers(0, 2**63 - 1),
    producer_epoch=st.integers(0, 2**15 - 1),
    base_sequence=st.integers(0, 2**31 - 1),
)


@given(lists_of_records(times | st.sampled_from([-1, 2**63 - 1])), st.sampled_from(Compression), producers, st.integers(0, 2**60))
def test_batch_round_trip(records: list[Record], codec: Compression, producer: ProducerSequence | None, base_offset: int) -> None:
    data = encode_batch(records, compression=codec, producer=producer, base_offset=base_offset)
    header = parse_header(data)
    assert decode_records(data, header) == as_stored(records, base_offset)
    assert decode_records(data, header, base_offset=5) == as_stored(records, 5)
    assert header.size_bytes == len(data)
    assert header.last_offset == base_offset + len(records) - 1
    assert header.max_timestamp_ms == max(record.timestamp_ms for record in records)
    if producer is None:
        assert (header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence) == (-1, -1, -1, -1)
    else:
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (
            producer.producer_id,
            producer.producer_epoch,
            producer.base_sequence,
        )


@given(lists_of_records(times), producers)
def test_independent_decoder_reads_the_same(records: list[Record], producer: ProducerSequence | None) -> None:
    data = encode_batch(records, producer=producer, base_offset=9)
    batch, size = read_batch(data, 0)
    assert size == len(data)
    assert [(record.key, record.value, int(record.offset)) for record in batch.records] == [
        (record.key, record.value, 9 + n) for n, record in enumerate(records)
    ]
    assert [tuple((h.key, h.value) for h in record.headers) for record in batch.records] == [
        tuple((header_name_bytes(name), value) for name, value in record.headers) for record in records
    ]


@given(st.binary(max_size=20))
def test_the_name_of_a_header_is_any_bytes(name: bytes) -> None:
    assert header_name_bytes(header_name(name)) == name


def test_a_time_far_from_none_fits_the_64_bits_of_a_delta() -> None:
    header = parse_header(encode_batch([Record(timestamp_ms=-1), Record(timestamp_ms=2**63 - 1)]))
    assert header.max_timestamp_ms - header.base_timestamp_ms < 2**63


def test_sequence_wraps_after_the_largest() -> None:
    producer = ProducerSequence(producer_id=1, producer_epoch=0, base_sequence=2**31 - 1)
    assert parse_header(encode_batch(RECORDS, producer=producer)).last_sequence == 1


def test_control_bit_and_log_append_time_are_kept() -> None:
    header = parse_header(encode_batch(RECORDS[:1], is_control=True, timestamp_type=TimestampType.LOG_APPEND_TIME))
    assert header.is_control
    assert not header.is_transactional
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME


def test_headers_of_a_buffer_with_several_batches() -> None:
    data = b"".join(GOLDEN.values())
    headers = parse_headers(memoryview(data))
    assert [header.size_bytes for header in headers] == [len(golden) for golden in GOLDEN.values()]
    assert headers[-1].byte_offset + headers[-1].size_bytes == len(data)


def patched(data: bytes, place: int, value: bytes) -> bytes:
    """The bytes with a field overwritten and the checksum made right again."""
    changed = bytearray(data)
    changed[place : place + len(value)] = value
    changed[17:21] = crc32c(bytes(changed[21:])).to_bytes(4, "big")
    return bytes(changed)


BATCH = encode_batch(RECORDS)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (BATCH[:60], "truncated: 60 bytes left, a header has 61"),
        (BATCH[:-1], "truncated: the batch has 225 bytes, 224 are left"),
        (BATCH + b"\x00", "record batch at byte 225: truncated: 1 bytes left"),
        (BATCH[:16] + b"\x01" + BATCH[17:], "magic 1, only magic 2"),
        (BATCH[:16] + b"\x00" + BATCH[17:20], "magic 0, only magic 2"),
        (BATCH[:-1] + b"\x01", "CRC32C is"),
        (BATCH[:8] + b"\x00\x00\x00\x00" + BATCH[12:], "length 0 is less than a header"),
        (BATCH[:8] + b"\xff\xff\xff\xff" + BATCH[12:], "length -1 is less than a header"),
        (patched(BATCH, 21, b"\x00\x07"), "compression 7 is unknown"),
        (patched(BATCH, 57, b"\xff\xff\xff\xff"), "-1 records cannot have"),
        (patched(BATCH, 57, b"\x00\x00\x00\x04"), "4 records cannot have a last offset delta of 2"),
        (patched(BATCH, 23, b"\xff\xff\xff\xff"), "a last offset delta of -1"),
    ],
)
def test_damaged_batch_is_refused_with_the_reason(data: bytes, reason: str) -> None:
    with pytest.raises(CorruptBatch, match=reason):
        parse_headers(data)


@given(st.integers(0, len(BATCH) - 1), st.integers(1, 255))
def test_any_flipped_byte_is_noticed_or_outside_the_checksum(place: int, bits: int) -> None:
    damaged = bytearray(BATCH)
    damaged[place] ^= bits
    unchecked = place < 8 or 12 <= place < 16  # base offset and leader epoch are assigned later
    if unchecked:
        assert decode_records(bytes(damaged), parse_header(bytes(damaged)), base_offset=0) == as_stored(RECORDS)
    else:
        with pytest.raises(CorruptBatch):
            parse_headers(bytes(damaged))


@given(st.binary(max_size=200), st.sampled_from(Compression), st.integers(1, 20))
def test_garbage_records_never_give_another_error(payload: bytes, codec: Compression, count: int) -> None:
    header = BATCH[:61] + payload
    data = patched(
        patched(
            patched(patched(header, 8, (49 + len(payload)).to_bytes(4, "big")), 21, int(codec).to_bytes(2, "big")),
            57,
            count.to_bytes(4, "big"),
        ),
        23,
        (count - 1).to_bytes(4, "big"),
    )
    parsed = parse_header(data)
    try:
        found = decode_records(data, parsed)
    except CorruptBatch:
        return
    assert len(found) == count


def test_unverified_header_skips_only_the_checksum() -> None:
    damaged = BATCH[:-1] + b"\x01"
    header = parse_header(damaged, verify=False)
    assert isinstance(header, BatchHeader)
    assert header == replace(parse_header(BATCH), crc=header.crc)


def test_empty_batch_cannot_be_encoded() -> None:
    with pytest.raises(ValueError, match="at least one record"):
        encode_batch([])


@given(st.binary(max_size=200_000) | st.integers(0, 300_000).map(bytes), st.sampled_from(Compression))
def test_compression_round_trip(data: bytes, codec: Compression) -> None:
    assert decompress(compress(data, codec), codec) == data


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec is not Compression.NONE])
def test_garbage_is_no_compressed_data(codec: Compression) -> None:
    with pytest.raises(CorruptCompression, match=codec.name.lower()):
        decompress(b"\xffgarbage" * 5, codec)


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec is not Compression.NONE])
def test_small_data_that_stands_for_much_is_refused(codec: Compression) -> None:
    assert decompress(compress(bytes(100_000), codec), codec, bytes_max=100_000) == bytes(100_000)
    with pytest.raises(CorruptCompression, match=f"{codec.name.lower()}: more than .* bytes of records in one batch"):
        decompress(compress(bytes(100_001), codec), codec, bytes_max=100_000)


def test_a_snappy_block_that_only_says_it_is_large_takes_no_room() -> None:
    with pytest.raises(CorruptCompression, match="snappy: more than 268435456 bytes"):
        decompress(b"\xff\xff\xff\xff\x0f" + bytes(10), Compression.SNAPPY)
