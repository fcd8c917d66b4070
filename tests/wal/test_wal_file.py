"""WAL files: packing is deterministic and groups by partition; a file that disagrees with its manifest is refused."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from coordinator.client.records.record_lines import InputError, parse_lines, record_fields
from coordinator.client.records.wal_file import WalFileBuilder, WalFileError, read_wal_file, write_wal_file
from coordinator.client.records.wal_manifest import (
    Manifest,
    ManifestBatch,
    ManifestError,
    TopicPartition,
    decode_manifest,
    encode_manifest,
    manifest_path,
)
from records.columns import decode_records
from records.compression import Compression
from records.record_batch import ProducerSequence, Record, StoredRecord, TimestampType, encode_batch, header_name, parse_headers

NOW_MS = 1_700_000_000_000


def record(value: bytes) -> Record:
    return Record(timestamp_ms=NOW_MS, value=value)


def sequence(number: int, producer_id: int = 7, epoch: int = 0) -> ProducerSequence:
    return ProducerSequence(producer_id=producer_id, producer_epoch=epoch, base_sequence=number)


def packed(folder: Path, builder: WalFileBuilder) -> Path:
    path = folder / "a.wal"
    write_wal_file(path, *builder.build(created_ms=NOW_MS))
    return path


additions = st.lists(
    st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 2), st.binary(max_size=40), st.none() | st.integers(0, 3)),
    min_size=1,
    max_size=40,
)


@given(additions, st.integers(1, 300), st.sampled_from([Compression.NONE, Compression.ZSTD]))
def test_packing_keeps_order_and_groups_partitions(
    tmp_path_factory: pytest.TempPathFactory,
    added: list[tuple[str, int, bytes, int | None]],
    max_batch_bytes: int,
    codec: Compression,
) -> None:
    builder = WalFileBuilder(max_batch_bytes=max_batch_bytes, compression=codec)
    for topic, partition, value, number in added:
        builder.add(TopicPartition(topic, partition), record(value), None if number is None else sequence(number))
    path = packed(tmp_path_factory.mktemp("wal"), builder)
    wal = read_wal_file(path)
    data = path.read_bytes()
    assert wal.size_bytes == len(data)
    assert wal.created_ms == NOW_MS
    places = [(batch.topic, batch.partition) for batch in wal.batches]
    assert places == sorted(places)
    found = [
        (batch.topic, batch.partition, one.value, None if batch.header.base_sequence < 0 else batch.header.base_sequence + n)
        for batch in wal.batches
        for n, one in enumerate(decode_records(data, batch.header))
    ]
    assert found == sorted(added, key=lambda one: one[:2])  # a stable sort keeps the order within a partition
    ends = [(batch.header.byte_offset, batch.header.byte_offset + batch.header.size_bytes) for batch in wal.batches]
    assert ends[0][0] == 0
    assert ends[-1][1] == len(data)
    assert all(left[1] == right[0] for left, right in pairwise(ends))


def test_batch_ends_where_the_producers_sequence_jumps() -> None:
    builder = WalFileBuilder()
    numbers = [sequence(2**31 - 1), sequence(0), sequence(1), sequence(3), sequence(4, epoch=1), sequence(5, 8), None, None]
    for number in numbers:
        builder.add(TopicPartition("a", 0), record(b"x"), number)
    _data, manifest = builder.build(created_ms=NOW_MS)
    assert [batch.record_count for batch in manifest.batches] == [3, 1, 1, 1, 2]


def test_batches_stay_below_the_limit_and_a_larger_record_stands_alone() -> None:
    builder = WalFileBuilder(max_batch_bytes=1000)
    for size in (400, 400, 400, 5000, 10):
        builder.add(TopicPartition("a", 0), record(bytes(size)))
    _data, manifest = builder.build(created_ms=NOW_MS)
    assert [batch.record_count for batch in manifest.batches] == [2, 1, 1, 1]
    assert all(batch.size_bytes <= 1000 + 61 for batch in manifest.batches if batch.size_bytes < 5000)


def test_same_records_give_the_same_bytes() -> None:
    def build() -> tuple[bytes, Manifest]:
        builder = WalFileBuilder(compression=Compression.GZIP)
        for n in range(10):
            builder.add(TopicPartition("t", n % 3), record(b"%d" % n))
        return builder.build(created_ms=NOW_MS)

    assert build() == build()


def two_batches(folder: Path) -> Path:
    builder = WalFileBuilder()
    builder.add(TopicPartition("a", 0), record(b"one"))
    builder.add(TopicPartition("b", 0), record(b"two"))
    return packed(folder, builder)


def test_manifest_round_trip(tmp_path: Path) -> None:
    text = manifest_path(two_batches(tmp_path)).read_text()
    manifest = decode_manifest(text, "x")
    assert encode_manifest(manifest) == text
    assert len(text.splitlines()) == 9
    assert [batch.topic for batch in manifest.batches] == ["a", "b"]


def test_cut_or_damaged_file_is_refused(tmp_path: Path) -> None:
    path = two_batches(tmp_path)
    data = path.read_bytes()
    for damaged, reason in (
        (data[:-1], "truncated"),
        (data[: len(data) // 2], "has 71 bytes in 1 batches, its manifest says 142 in 2"),
        (data[:-1] + b"\x7f", "CRC32C"),
        (b"", "has 0 bytes in 0 batches"),
        (data[71:] + data[:71], r"batch 0: \(byte offset, size, records, CRC\) are"),
    ):
        path.write_bytes(damaged)
        with pytest.raises(WalFileError, match=reason):
            read_wal_file(path)


def test_missing_parts_are_named(tmp_path: Path) -> None:
    path = two_batches(tmp_path)
    manifest_path(path).unlink()
    with pytest.raises(WalFileError, match=r"a\.wal\.json is missing; `diskless files pack`"):
        read_wal_file(path)
    path = two_batches(tmp_path)
    path.unlink()
    with pytest.raises(WalFileError, match=r"a\.wal is missing"):
        read_wal_file(path)


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("version", 2, "only version 1 is known"),
        ("object_format", 2, "only 1 is known"),
        ("batches", {}, "no list of batches"),
        ("batches", [{"topic": ""}], "batch 0: topic name"),
        ("batches", [{"topic": "a", "partition": True}], "partition must be a number"),
        ("size_bytes", -1, "size_bytes must be a number"),
    ],
)
def test_wrong_manifest_is_refused(tmp_path: Path, key: str, value: object, reason: str) -> None:
    path = two_batches(tmp_path)
    beside = manifest_path(path)
    beside.write_text(json.dumps(json.loads(beside.read_text()) | {key: value}))
    with pytest.raises(WalFileError, match=reason):
        read_wal_file(path)
    beside.write_text("{")
    with pytest.raises(WalFileError, match="not JSON"):
        read_wal_file(path)


@pytest.mark.parametrize(("attributes", "what"), [(0x20, "a control batch"), (0x30, "a control batch"), (0x10, "a batch of a transaction")])
def test_batches_of_transactions_cannot_be_committed(tmp_path: Path, attributes: int, what: str) -> None:
    path = two_batches(tmp_path)
    batch = bytearray(encode_batch([record(b"x")], producer=sequence(0)))
    batch[21:23] = attributes.to_bytes(2, "big")
    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    path.write_bytes(batch)
    manifest = json.loads(manifest_path(path).read_text())
    manifest["size_bytes"] = len(batch)
    crc = int.from_bytes(batch[17:21], "big")
    manifest["batches"] = [manifest["batches"][0] | {"size_bytes": len(batch), "crc": crc}]
    manifest_path(path).write_text(json.dumps(manifest))
    with pytest.raises(WalFileError, match=f"batch 0: {what} cannot be committed, because diskless topics have no transactions"):
        read_wal_file(path)


def test_builder_checks_its_input() -> None:
    builder = WalFileBuilder()
    with pytest.raises(WalFileError, match="at least one record"):
        builder.build(created_ms=NOW_MS)
    with pytest.raises(WalFileError, match="partition not negative"):
        builder.add(TopicPartition("a", -1), record(b""))
    with pytest.raises(WalFileError, match="must not be negative"):
        builder.add(TopicPartition("a", 0), record(b""), sequence(-1))
    with pytest.raises(WalFileError, match="the name of a header is no valid text"):
        builder.add(TopicPartition("a", 0), Record(timestamp_ms=NOW_MS, headers=(("\ud800", b"x"),)))
    with pytest.raises(WalFileError, match="must be positive"):
        WalFileBuilder(max_batch_bytes=0)


def test_json_lines() -> None:
    lines = [
        '{"topic": "t", "partition": 1, "key": "k", "value": "v\\u00e9", "headers": {"h": "x", "n": null}, "timestamp": 5}\n',
        "\n",
        '{"topic": "t", "partition": 0, "value_base64": "/w==", "producer_id": 7, "producer_epoch": 1, "sequence": 9}\n',
    ]
    lines.append(
        '{"topic": "t", "partition": 0, "timestamp": -1, "headers": [["h", "x"], ["h", {"base64": "/w=="}], [{"base64": "/g=="}, null]]}'
    )
    first, second, third = parse_lines(lines, now_ms=NOW_MS)
    assert first.partition == TopicPartition("t", 1)
    assert first.record == Record(timestamp_ms=5, key=b"k", value="vé".encode(), headers=(("h", b"x"), ("n", None)))
    assert first.producer is None
    assert second.record == Record(timestamp_ms=NOW_MS, value=b"\xff")
    assert second.producer == sequence(9, epoch=1)
    assert third.record == Record(timestamp_ms=-1, headers=(("h", b"x"), ("h", b"\xff"), (header_name(b"\xfe"), None)))


# Bytes that are text and bytes that are not, more than chance would give of each.
contents = st.binary(max_size=30) | st.text(max_size=20).map(str.encode)
stored_records = st.builds(
    StoredRecord,
    offset=st.integers(0, 2**63 - 1),
    timestamp_ms=st.sampled_from([-1, 0, NOW_MS, 2**63 - 1]) | st.integers(-1, 2**63 - 1),
    key=st.none() | contents,
    value=st.none() | contents,
    headers=st.lists(st.tuples((st.just(b"h") | contents).map(header_name), st.none() | contents), max_size=4).map(tuple),
)


@given(st.lists(st.tuples(stored_records, st.sampled_from(TimestampType)), min_size=1, max_size=8))
def test_records_that_were_read_are_packed_again_as_they_were(given: list[tuple[StoredRecord, TimestampType]]) -> None:
    lines = [json.dumps(record_fields("t", 0, one, kind)) for one, kind in given]
    builder = WalFileBuilder()
    for line in parse_lines(lines, now_ms=NOW_MS):
        builder.add(line.partition, line.record, line.producer, timestamp_type=line.timestamp_type)
    data, _ = builder.build(created_ms=NOW_MS)
    headers = parse_headers(data)
    assert [kind for header in headers for kind in [header.timestamp_type] * header.record_count] == [kind for _, kind in given]
    # A batch of LogAppendTime shows its greatest timestamp for every record; its records have theirs nevertheless.
    plain = [replace(one, attributes=one.attributes & ~0x08) for one in headers]
    packed_records = [one for header in plain for one in decode_records(data, header)]
    assert [replace(one, offset=0) for one in packed_records] == [replace(one, offset=0) for one, _ in given]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("x", "line 2: not JSON"),
        ("[]", "a record is a JSON object"),
        ('{"topic": "t", "partition": 0, "valeu": "x"}', "unknown field 'valeu'"),
        ('{"topic": "", "partition": 0}', "topic name '' is not allowed"),
        ('{"topic": "t"}', "partition must be a whole number"),
        ('{"topic": "t", "partition": true}', "partition must be a whole number"),
        ('{"topic": "t", "partition": 0, "producer_id": 1}', "producer_id without the rest"),
        ('{"topic": "t", "partition": 0, "value": 1}', "value must be a text or null"),
        ('{"topic": "t", "partition": 0, "value": "\\ud800"}', "use value_base64"),
        ('{"topic": "\\ud800", "partition": 0}', "has characters other than ASCII letters"),
        ('{"topic": "t", "partition": 0, "headers": {"\\ud800": "x"}}', "the name of a header is no valid text"),
        ('{"topic": "t", "partition": 0, "headers": [[null, "x"]]}', "the name of a header must not be null"),
        ('{"topic": "t", "partition": 0, "headers": [["h", "x", "y"]]}', "headers must be a list of pairs"),
        ('{"topic": "t", "partition": 0, "headers": ["hx"]}', "headers must be a list of pairs"),
        ('{"topic": "t", "partition": 0, "headers": [["h", {"base64": "?"}]]}', "header 'h' is not base64"),
        ('{"topic": "t", "partition": 0, "headers": [["h", {"base64": "eA==", "text": "x"}]]}', "header 'h' must be a text or null"),
        ('{"topic": "t", "partition": 0, "headers": [["h", "\\ud800"]]}', 'no valid text: .*; use {"base64": ...} for bytes'),
        ('{"topic": "t", "partition": ' + "1" * 5000 + "}", "not JSON that can be read: Exceeds the limit"),
        ("[" * 100_000, "not JSON that can be read: maximum recursion"),
        ('{"topic": "t", "partition": 0, "value": "x", "value_base64": "eA=="}', "not both"),
        ('{"topic": "t", "partition": 0, "key_base64": "?"}', "key_base64 is not base64"),
        ('{"topic": "t", "partition": 0, "headers": "h"}', "headers must be a list of pairs"),
        ('{"topic": "t", "partition": 0, "timestamp": -2}', "timestamp must be a whole number from -1"),
        ('{"topic": "t", "partition": 0, "timestamp_type": "Create"}', "timestamp_type must be CreateTime or LogAppendTime, not 'Create'"),
        ('{"topic": "t", "partition": 0, "timestamp_type": []}', "timestamp_type must be CreateTime or LogAppendTime"),
    ],
)
def test_wrong_line_is_named(line: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        list(parse_lines(['{"topic": "t", "partition": 0}', line], now_ms=NOW_MS))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("70", "1" * 5000), "not JSON that can be read: Exceeds the limit"),
        (("[", "[" * 100_000), "not JSON that can be read: maximum recursion"),
        (('"t"', '"\\ud800"'), "batch 0: topic name"),
        (('"partition": 0', '"partition": 2147483648'), "partition must be a number from 0 to 2147483647"),
        (('"created_ms": 5', '"created_ms": 9223372036854775808'), "created_ms must be a number from 0 to"),
    ],
    ids=["digits", "depth", "half a character", "partition", "time"],
)
def test_a_manifest_nobody_wrote_is_refused(change: tuple[str, str], reason: str) -> None:
    batch = ManifestBatch(topic="t", partition=0, byte_offset=0, size_bytes=70, record_count=1, crc=7)
    text = encode_manifest(Manifest(created_ms=5, size_bytes=70, batches=(batch,)))
    assert change[0] in text
    with pytest.raises(ManifestError, match=reason):
        decode_manifest(text.replace(*change, 1), "it")


def no_links(*_: object) -> None:
    raise OSError(errno.EPERM, "Operation not permitted")


@pytest.fixture(params=["links", "no links"])
def names_of_files(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], list[str]]:
    """Lists the folder; the tests run on a file system with links, and on one without."""
    if request.param == "no links":
        monkeypatch.setattr("coordinator.client.records.wal_file.os.link", no_links)
    return lambda: sorted(path.name for path in tmp_path.iterdir())


def built(value: bytes) -> tuple[bytes, Manifest]:
    builder = WalFileBuilder()
    builder.add(TopicPartition("t", 0), record(value))
    return builder.build(created_ms=NOW_MS)


def test_of_writers_at_once_one_wins_and_its_file_is_whole(tmp_path: Path, names_of_files: Callable[[], list[str]]) -> None:
    path = tmp_path / "a.wal"

    def write(number: int) -> int | None:
        try:
            write_wal_file(path, *built(b"%d" % number * 10_000), overwrite=False)
        except FileExistsError:
            return None
        return number

    with ThreadPoolExecutor(8) as pool:
        (winner,) = [number for number in pool.map(write, range(16)) if number is not None]
    (batch,) = read_wal_file(path).batches
    assert [one.value for one in decode_records(path.read_bytes(), batch.header)] == [b"%d" % winner * 10_000]
    assert names_of_files() == ["a.wal", "a.wal.json"]


def test_a_file_that_exists_is_kept_or_replaced_as_wanted(tmp_path: Path, names_of_files: Callable[[], list[str]]) -> None:
    path = tmp_path / "a.wal"
    write_wal_file(path, *built(b"first"), overwrite=False)
    first = path.read_bytes()
    with pytest.raises(FileExistsError) as refused:
        write_wal_file(path, *built(b"second"), overwrite=False)
    assert refused.value.filename == str(path)
    assert path.read_bytes() == first
    path.unlink()
    with pytest.raises(FileExistsError) as refused:
        write_wal_file(path, *built(b"second"), overwrite=False)
    assert refused.value.filename == str(manifest_path(path))
    assert names_of_files() == ["a.wal.json"]  # no file beside the manifest of another
    write_wal_file(path, *built(b"second"))
    assert len(read_wal_file(path).batches) == 1
    assert names_of_files() == ["a.wal", "a.wal.json"]


def test_a_write_that_fails_leaves_nothing(
    tmp_path: Path, names_of_files: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    monkeypatch.setattr("coordinator.client.records.wal_file.os.link", no_links)
    for overwrite in (False, True):
        with pytest.raises(OSError, match="No space left"):
            write_wal_file(tmp_path / "a.wal", *built(b"x"), overwrite=overwrite)
        assert names_of_files() == []


def test_encoded_batches_are_taken_as_they_are_beside_records(tmp_path: Path) -> None:
    builder = WalFileBuilder()
    raw = encode_batch([record(b"1"), record(b"2")], compression=Compression.ZSTD, producer=sequence(5))
    orders = TopicPartition("orders", 0)
    builder.add(orders, record(b"0"))
    header = builder.add_batch(orders, raw)
    builder.add(orders, record(b"3"))
    builder.add_batch(TopicPartition("clicks", 1), raw)
    assert (header.record_count, header.base_sequence, header.producer_id) == (2, 5, 7)
    path = packed(tmp_path, builder)
    data, file = path.read_bytes(), read_wal_file(path)
    assert [(one.topic, one.partition, one.header.record_count) for one in file.batches] == [
        ("clicks", 1, 2),
        ("orders", 0, 1),
        ("orders", 0, 2),
        ("orders", 0, 1),
    ]
    for place in (0, 2):
        where = file.batches[place].header
        assert data[where.byte_offset : where.byte_offset + where.size_bytes] == raw


def _with_attributes(batch: bytes, bits: int) -> bytes:
    changed = batch[:21] + (int.from_bytes(batch[21:23], "big") | bits).to_bytes(2, "big") + batch[23:]
    return changed[:17] + crc32c(changed[21:]).to_bytes(4, "big") + changed[21:]


def test_an_encoded_batch_that_cannot_be_committed_is_refused() -> None:
    raw = encode_batch([record(b"1"), record(b"2")])
    faults = (
        (raw[:-1] + b"x", "CRC32C"),
        (raw[:40], "truncated"),
        (raw + raw, f"{len(raw)} bytes follow the batch; add one batch at a time"),
        (_with_attributes(raw, 0x10), "a batch of a transaction cannot be committed"),
        (_with_attributes(raw, 0x20), "a control batch cannot be committed"),
    )
    builder = WalFileBuilder()
    for data, text in faults:
        with pytest.raises(WalFileError, match=f"orders.*{text}"):
            builder.add_batch(TopicPartition("orders", 0), data)
    builder.add_batch(TopicPartition("orders", 0), raw[:-1] + b"x", verify=False)
    with pytest.raises(WalFileError, match="not negative"):
        builder.add_batch(TopicPartition("orders", -1), raw)


def test_records_without_a_timestamp_get_that_of_the_file() -> None:
    builder = WalFileBuilder()
    builder.add(TopicPartition("orders", 0), Record(value=b"1"))
    data, _ = builder.build(created_ms=NOW_MS)
    [header] = parse_headers(data)
    assert [one.timestamp_ms for one in decode_records(data, header)] == [NOW_MS]
    with pytest.raises(ValueError, match="no timestamp_ms"):
        encode_batch([Record(value=b"1")])
