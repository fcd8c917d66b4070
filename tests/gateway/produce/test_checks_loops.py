"""Batches as Produce takes them: what is lawful becomes the row that a reader of its header would make, all else has a fault of its own."""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import numpy as np
import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.kafka.errors import ErrorCode
from coordinator.protocol.commit_file import BATCH
from gateway.produce import checks_loops, faults
from gateway.produce.faults import BatchFault, refusal_of
from records.columns import decode_records
from records.compression import Compression
from records.record_batch import CorruptBatch, ProducerSequence, Record, TimestampType, encode_batch, parse_header
from tests.compiled import plain

PLAIN = plain(checks_loops)
BOTH = pytest.mark.parametrize("loops", [checks_loops, PLAIN], ids=["compiled", "interpreted"])
TOPIC_ID = bytes(range(16))
NOW_MS = 1_700_000_000_000
FAR = 1 << 62
KAFKA_BATCHES = json.loads((Path(__file__).parents[2] / "records/kafka_batches.json").read_text("utf-8"))


class Checked(NamedTuple):
    rows: np.ndarray  # type: ignore[type-arg]
    places: list[int]
    faults: list[tuple[int, int, int, int]]
    bad_records: list[tuple[int, int, int]]


def check(
    loops: ModuleType,
    *records: bytes,
    version: int = 9,
    partitions: int = 100,
    bytes_max: int = 1 << 20,
    is_append_time: bool = False,
    oldest_ms: int = -FAR,
    newest_ms: int = FAR,
) -> Checked:
    """Check one batch for each partition, from number 0 on."""
    data, spans = b"?" * 7, []
    for index, one in enumerate(records):
        spans += [index, len(data), len(one)]
        data += one
    data += b"!"
    count = len(records)
    rows, starts, places = bytearray(count * 77), np.zeros(count, np.int64), np.zeros(count, np.int64)
    found: list[tuple[int, int, int, int]] = []
    bad_records: list[tuple[int, int, int]] = []
    times, out = (is_append_time, oldest_ms, newest_ms), (memoryview(rows), 0, starts.data, places.data)
    end = loops.check_batches(
        data, spans, 0, count, version, TOPIC_ID, partitions, bytes_max, *times, *out, found, bad_records
    )  # fmt: skip
    assert [int(start) for start in starts[:end]] == [spans[3 * place + 1] for place in places[:end]]
    return Checked(np.frombuffer(rows, BATCH, end), places[:end].tolist(), found, bad_records)


def fault_of(loops: ModuleType, records: bytes, **options: int) -> tuple[int, int, int]:
    """The only fault: reason and its two numbers; 0 for none."""
    checked = check(loops, records, **options)
    return checked.faults[0][1:] if checked.faults else (0, 0, 0)


def signed(batch: bytes | bytearray) -> bytes:
    """The batch with the checksum that it should have."""
    return bytes(batch[:17]) + struct.pack(">I", crc32c(bytes(batch[21:]))) + bytes(batch[21:])


def changed(batch: bytes, at: int, layout: str, value: int) -> bytes:
    """The batch with another value of a field, and the right checksum."""
    found = bytearray(batch)
    struct.pack_into(layout, found, at, value)
    return signed(found)


TIMES = st.integers(0, 1 << 45)
RECORDS = st.lists(
    st.builds(
        Record,
        timestamp_ms=TIMES | st.just(-1),
        key=st.none() | st.binary(max_size=5),
        value=st.none() | st.binary(max_size=200),
        headers=st.lists(st.tuples(st.text(st.characters(codec="utf-8"), max_size=3), st.none() | st.binary(max_size=3)), max_size=2).map(
            tuple
        ),
    ),
    min_size=1,
    max_size=5,
)
PRODUCERS = st.none() | st.builds(
    ProducerSequence,
    producer_id=st.integers(0, (1 << 63) - 1),
    producer_epoch=st.integers(0, 32767),
    base_sequence=st.integers(0, (1 << 31) - 1),
)


@settings(max_examples=60)
@given(records=RECORDS, codec=st.sampled_from(Compression), producer=PRODUCERS, is_append_time=st.booleans())
def test_a_lawful_batch_becomes_the_row_that_its_header_says(
    records: list[Record], codec: Compression, producer: ProducerSequence | None, is_append_time: bool
) -> None:
    batch = encode_batch(records, compression=codec, producer=producer)
    header = parse_header(batch)
    for loops in (checks_loops, PLAIN):
        checked = check(loops, b"", batch, is_append_time=is_append_time)
        assert checked.places == [1]
        [row] = checked.rows
        assert row["topic_id"].item() == TOPIC_ID
        assert row["magic"] == 2
        found = {name: int(row[name]) for name in BATCH.names or () if name not in ("topic_id", "topic_partition", "magic")}
        assert found == {
            "request_id": 0,
            "partition": 1,
            "byte_offset": 0,
            "size": len(batch),
            "base_offset": 0,
            "last_offset": len(records) - 1,
            "max_timestamp": header.max_timestamp_ms,
            "timestamp_type": int(is_append_time),
            "producer_id": header.producer_id,
            "producer_epoch": header.producer_epoch,
            "base_sequence": header.base_sequence,
            "last_sequence": header.last_sequence,
            "tags": 0,
        }


@BOTH
@pytest.mark.parametrize("name", sorted(KAFKA_BATCHES))
def test_batches_of_kafkas_own_client_are_lawful(loops: ModuleType, name: str) -> None:
    checked = check(loops, bytes.fromhex(KAFKA_BATCHES[name]))
    # What a producer never sends is a broker's.
    expected = {"log-append-time": [faults.APPEND_TIME_SET], "control": [faults.CONTROL], "transactional": [faults.TRANSACTIONAL]}
    assert [fault[1] for fault in checked.faults] == expected.get(name, [])


ONE = encode_batch([Record(timestamp_ms=NOW_MS, value=b"v")])
IDEMPOTENT = encode_batch(
    [Record(timestamp_ms=NOW_MS, value=b"v")], producer=ProducerSequence(producer_id=7, producer_epoch=1, base_sequence=3)
)
ZSTD = encode_batch([Record(timestamp_ms=NOW_MS, value=b"v" * 50)], compression=Compression.ZSTD)
LARGE = encode_batch([Record(timestamp_ms=0, value=bytes(1 << 20))])
UNLAWFUL = {
    "nothing": (b"", faults.NO_BATCH, 0, 0),
    "half a header": (ONE[:40], faults.NO_BATCH, len(ONE) - 12, 40),
    "a cut batch": (ONE[:-1], faults.NO_BATCH, len(ONE) - 12, len(ONE) - 1),
    "no length": (changed(ONE, 8, ">i", 13), faults.BAD_LENGTH, 13, len(ONE)),
    "a negative length": (changed(ONE, 8, ">i", -5), faults.BAD_LENGTH, -5, len(ONE)),
    "less than a header": (changed(ONE, 8, ">i", 48), faults.BAD_LENGTH, 48, len(ONE)),
    "magic 1": (changed(ONE, 16, ">b", 1), faults.OLD_MAGIC, 1, len(ONE)),
    "magic 3": (changed(ONE, 16, ">b", 3), faults.BAD_MAGIC, 3, len(ONE)),
    "negative magic": (changed(ONE, 16, ">b", -1), faults.BAD_MAGIC, -1, len(ONE)),
    "two batches": (ONE + ONE, faults.BYTES_AFTER, len(ONE), 2 * len(ONE)),
    "an offset": (changed(ONE, 0, ">q", 5), faults.BASE_OFFSET_SET, 5, len(ONE)),
    "too large": (LARGE, faults.TOO_LARGE, len(LARGE), 1 << 20),
    "an unknown codec": (changed(ONE, 21, ">h", 5), faults.BAD_CODEC, 5, 0),
    "no records": (changed(ONE, 57, ">i", 0), faults.BAD_COUNT, 0, 0),
    "too many records": (changed(ONE, 57, ">i", 2), faults.BAD_COUNT, 2, 0),
    "a negative last offset": (changed(ONE, 23, ">i", -1), faults.BAD_COUNT, 1, -1),
    "more offsets than records": (changed(ONE, 23, ">i", 3), faults.BAD_COUNT, 1, 3),
    "control": (changed(ONE, 21, ">h", 0x20), faults.CONTROL, 0, 0),
    "transactional": (changed(ONE, 21, ">h", 0x10), faults.TRANSACTIONAL, 0, 0),
    "append time": (changed(ONE, 21, ">h", 8), faults.APPEND_TIME_SET, 0, 0),
    "no sequence": (changed(IDEMPOTENT, 53, ">i", -1), faults.BAD_SEQUENCE, -1, 7),
    "no epoch": (changed(IDEMPOTENT, 51, ">h", -1), faults.BAD_EPOCH, -1, 7),
    "a base time below -1": (changed(ONE, 27, ">q", -2), faults.BATCH_TIMES, -2, NOW_MS),
    "a largest time below -1": (changed(ONE, 35, ">q", -2), faults.BATCH_TIMES, NOW_MS, -2),
    "an absurd base time": (changed(ONE, 27, ">q", (1 << 63) - 1), faults.BATCH_TIMES, (1 << 63) - 1, NOW_MS),
}


@BOTH
@pytest.mark.parametrize("name", UNLAWFUL)
def test_an_unlawful_batch_is_refused_alone(loops: ModuleType, name: str) -> None:
    records, *fault = UNLAWFUL[name]
    checked = check(loops, ONE, records, IDEMPOTENT)
    assert checked.places == [0, 2]
    assert [list(one) for one in checked.faults] == [[1, *fault]]
    refusal = refusal_of(BatchFault(*checked.faults[0]), "orders", 1, [], (0, 9))
    assert refusal.code is not ErrorCode.NONE
    assert refusal.message.startswith("orders-1: ")


@BOTH
def test_a_wrong_checksum_names_both(loops: ModuleType) -> None:
    damaged = ONE[:-1] + bytes([ONE[-1] ^ 1])
    reason, said, found = fault_of(loops, damaged)
    assert (reason, said, found) == (faults.BAD_CRC, parse_header(ONE).crc, crc32c(damaged[21:]))


@BOTH
def test_zstd_needs_version_7(loops: ModuleType) -> None:
    assert fault_of(loops, ZSTD, version=6) == (faults.OLD_ZSTD, 6, len(ZSTD))
    assert fault_of(loops, ZSTD, version=7) == (0, 0, 0)


@BOTH
def test_partitions_that_the_topic_does_not_have_are_passed_by(loops: ModuleType) -> None:
    checked = check(loops, ONE, ONE, b"", partitions=1)
    assert (checked.places, checked.faults) == ([0], [])


@BOTH
def test_timestamps_of_single_records_are_told(loops: ModuleType) -> None:
    times = [NOW_MS, NOW_MS + 11, -1, NOW_MS - 6, NOW_MS + 10, NOW_MS - 5]
    batch = encode_batch([Record(timestamp_ms=time) for time in times])
    span = {"oldest_ms": NOW_MS - 5, "newest_ms": NOW_MS + 10}
    checked = check(loops, ONE, batch, **span)
    assert [fault[:2] for fault in checked.faults] == [(1, faults.BAD_TIMES)]
    assert checked.bad_records == [(1, 1, NOW_MS + 11), (1, 3, NOW_MS - 6)]
    records = [(record, time) for _, record, time in checked.bad_records]
    refusal = refusal_of(BatchFault(*checked.faults[0]), "orders", 1, records, (NOW_MS - 5, NOW_MS + 10))
    assert refusal.code is ErrorCode.INVALID_TIMESTAMP
    assert [place for place, _ in refusal.records] == [1, 3]
    assert f"[{NOW_MS - 5}, {NOW_MS + 10}]" in refusal.records[0][1]
    assert not check(loops, batch, is_append_time=True, **span).faults


@BOTH
def test_only_so_many_records_of_a_batch_are_told(loops: ModuleType) -> None:
    batch = encode_batch([Record(timestamp_ms=5)] * 1000)
    assert len(check(loops, batch, oldest_ms=6).bad_records) == faults.RECORD_ERRORS_MAX


@BOTH
@pytest.mark.parametrize("codec", [one for one in Compression if one])
def test_compressed_batches_are_judged_by_the_times_of_their_header(loops: ModuleType, codec: Compression) -> None:
    batch = encode_batch([Record(timestamp_ms=NOW_MS), Record(timestamp_ms=NOW_MS + 20)], compression=codec)
    assert fault_of(loops, batch, newest_ms=NOW_MS + 19) == (faults.BATCH_TIMES, NOW_MS, NOW_MS + 20)
    assert fault_of(loops, batch, oldest_ms=NOW_MS + 1) == (faults.BATCH_TIMES, NOW_MS, NOW_MS + 20)
    assert fault_of(loops, batch, oldest_ms=NOW_MS, newest_ms=NOW_MS + 20) == (0, 0, 0)
    assert not check(loops, batch, newest_ms=NOW_MS, is_append_time=True).faults


@BOTH
def test_the_largest_time_is_that_of_the_records(loops: ModuleType) -> None:
    batch = changed(encode_batch([Record(timestamp_ms=NOW_MS), Record(timestamp_ms=NOW_MS + 20)]), 35, ">q", 3)
    assert check(loops, batch).rows["max_timestamp"].tolist() == [NOW_MS + 20]


@BOTH
def test_offsets_within_a_batch_are_dense(loops: ModuleType) -> None:
    batch = bytearray(encode_batch([Record(timestamp_ms=NOW_MS, value=b"v"), Record(timestamp_ms=NOW_MS, value=b"w")]))
    second = 61 + (len(batch) - 61) // 2
    assert batch[second + 3] == 2
    batch[second + 3] = 4  # an offset delta of 2 instead of 1, in zigzag
    assert fault_of(loops, signed(batch)) == (faults.BAD_RECORD, 1, second)


@settings(max_examples=300)
@given(records=RECORDS, seed=st.integers(0, 1 << 32), fixes_count=st.booleans())
def test_damage_within_records_is_seen_as_a_reader_sees_it(records: list[Record], seed: int, fixes_count: bool) -> None:
    """Bytes are damaged under a right checksum: what passes can be decoded, and both ways to run the loops agree."""
    chance = random.Random(seed)
    batch = bytearray(encode_batch(records))
    for _ in range(chance.randint(1, 3)):
        batch[chance.randrange(61 if fixes_count else 21, len(batch))] = chance.choice([0, 1, 2, 0x7F, 0x80, 0xFF, chance.randrange(256)])
    damaged = signed(batch)
    compiled, interpreted = (check(loops, damaged) for loops in (checks_loops, PLAIN))
    assert compiled.faults == interpreted.faults
    assert compiled.bad_records == interpreted.bad_records
    assert compiled.rows.tobytes() == interpreted.rows.tobytes()
    if not compiled.faults:
        header = parse_header(damaged)
        decoded = decode_records(damaged, header) if header.compression is Compression.NONE else []
        assert [one.offset for one in decoded] == list(range(len(decoded)))
        if decoded:
            assert compiled.rows["max_timestamp"].tolist() == [max(-1, *(one.timestamp_ms for one in decoded))]
    else:
        header_or_fault = _parsed(damaged)
        assert header_or_fault is None or compiled.faults[0][1] != faults.BAD_RECORD or not _decodes(damaged)


def _parsed(batch: bytes) -> object | None:
    try:
        return parse_header(batch)
    except CorruptBatch:
        return None


def _decodes(batch: bytes) -> bool:
    try:
        header = parse_header(batch)
        records = decode_records(batch, header)
    except CorruptBatch:
        return False
    offsets = [one.offset for one in records]
    return offsets == list(range(len(records))) and header.timestamp_type is TimestampType.CREATE_TIME
