"""The file of a snapshot: what is written is read, and nothing that is not whole, undamaged and ours."""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from records.columns import decode_records
from records.compression import Compression
from records.record_batch import Record, encode_batch, parse_header, parse_headers
from records.snapshot import BadSnapshot, NewerFormat, SnapshotHead, SnapshotReader, TableRows, check_identity
from records.snapshot.control import FOOTER, FOOTER_KEY, HEADER_KEY, encode_header
from records.snapshot.errors import MalformedRecord
from records.snapshot.head import HEAD_KEY, encode_head
from records.snapshot.reader import BATCH_BYTES_MAX
from records.snapshot.rows import CHUNK_BYTES, ROW_BYTES_MAX, RowChunk, decode_rows, encode_rows
from tests.snapshot.files import BEGIN, END, HEAD, NOW_MS, SMALL, Entry, forge, head_entry, write

ROWS: list[Entry] = [(chunk.key, chunk.value, False) for rows in SMALL for chunk in encode_rows(rows)]
WHOLE: list[Entry] = [BEGIN, head_entry(), *ROWS, END]


def read(path: Path) -> tuple[SnapshotHead, list[TableRows]]:
    with SnapshotReader(path) as reader:
        return reader.head, list(reader.rows())


# ---- what is written is read


def test_a_snapshot_is_read_as_it_was_written(tmp_path: Path) -> None:
    file = write(tmp_path)
    assert read(file.path) == (HEAD, SMALL)
    content = file.path.read_bytes()
    assert file.path == tmp_path / "00000000000005120793-0000000002.checkpoint"
    assert (file.size_bytes, file.sha256) == (len(content), hashlib.sha256(content).digest())
    with SnapshotReader(file.path) as reader:
        assert (reader.log_timestamp_ms, reader.size_bytes) == (NOW_MS, len(content))
        assert list(reader.rows()) == list(reader.rows())
    assert forge(tmp_path / "forged", WHOLE, compression=Compression.NONE).exists()
    assert read(tmp_path / "forged") == (HEAD, SMALL), "the damaged files below are made from this one"


def test_the_same_snapshot_has_the_same_bytes(tmp_path: Path) -> None:
    first = write(tmp_path)
    content = first.path.read_bytes()
    assert write(tmp_path) == first
    assert first.path.read_bytes() == content


def test_a_snapshot_may_be_empty(tmp_path: Path) -> None:
    assert read(write(tmp_path, []).path) == (HEAD, [])
    assert read(write(tmp_path, [TableRows("topic", {"name": [], "topic_id": []})]).path) == (HEAD, [])


int64s = st.integers(-(2**63), 2**63 - 1)
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@st.composite
def table_rows(draw: st.DrawFn) -> TableRows:
    count = draw(st.integers(1, 6))
    one_column = st.one_of(
        [st.lists(values, min_size=count, max_size=count) for values in (int64s, st.binary(max_size=20), names)],
    )
    return TableRows(draw(names), draw(st.dictionaries(names, one_column, min_size=1, max_size=4)))


heads = st.builds(
    SnapshotHead,
    cluster_id=names,
    topic_id=st.binary(min_size=16, max_size=16),
    metadata_partition=st.integers(0, 2**31 - 1),
    end_offset=st.integers(0, 2**63 - 1),
    epoch=st.integers(0, 2**31 - 1),
    term=int64s,
    seq=int64s,
    log_time_ms=int64s,
    last_entry_hash=st.binary(min_size=16, max_size=16),
    digest=st.binary(min_size=16, max_size=16),
    table_version=st.integers(0, 2**31 - 1),
    header=st.dictionaries(names, int64s | names, max_size=3),
)


@given(heads, st.lists(table_rows(), max_size=4))
@settings(max_examples=60, deadline=None)
def test_every_snapshot_round_trips(head: SnapshotHead, rows: list[TableRows]) -> None:
    with TemporaryDirectory() as folder:
        assert read(write(Path(folder), rows, head).path) == (head, rows)


def test_large_pieces_are_cut_into_chunks_and_a_large_row_stands_alone(tmp_path: Path) -> None:
    at_random = random.Random(1)
    sizes = [1000] * 1500 + [CHUNK_BYTES * 2] + [1000] * 3 + [0] * 100_000
    columns = {"id": list(range(len(sizes))), "content": [at_random.randbytes(size) for size in sizes]}
    path = write(tmp_path, [TableRows("file", columns)]).path
    _, pieces = read(path)
    found = {name: list(chain.from_iterable(piece.columns[name] for piece in pieces)) for name in columns}
    assert found == columns
    counts = [len(piece.columns["id"]) for piece in pieces]
    assert counts == [1036, 464, 1, 87131, 12872]
    assert max(header.size_bytes for header in parse_headers(path.read_bytes())) < CHUNK_BYTES * 2 + 1000


KAFKAS_HEADER = bytes.fromhex(
    "0000000000000000000000470000000002d7180474002000000000000001a2032ea533000001a2032ea533ffffffffffffff"
    "ffffffffffffff000000012a000000080000000316000000000000000000000000"
)
KAFKAS_FOOTER = bytes.fromhex(
    "00000000000000070000003f0000000002bde9243c002000000000000001a2032ea565000001a2032ea565ffffffffffffff"
    "ffffffffffffff000000011a00000008000000040600000000"
)
"""The first and the last batch of a `bootstrap.checkpoint` by the StorageTool of Kafka 4.3.1."""


def test_header_and_footer_are_kafkas(tmp_path: Path) -> None:
    content = write(tmp_path).path.read_bytes()
    for ours, kafkas in ((parse_headers(content)[0], KAFKAS_HEADER), (parse_headers(content)[-1], KAFKAS_FOOTER)):
        header = parse_header(kafkas)
        (kafkas_record,) = decode_records(kafkas, header)
        (our_record,) = decode_records(content, ours)
        assert (our_record.key, len(our_record.value)) == (kafkas_record.key, len(kafkas_record.value))
        again = Record(timestamp_ms=kafkas_record.timestamp_ms, key=our_record.key, value=kafkas_record.value)
        batch = encode_batch([again], is_control=True, base_offset=header.base_offset, partition_leader_epoch=0)
        assert batch == kafkas
    assert decode_records(KAFKAS_HEADER, parse_header(KAFKAS_HEADER))[0].value == encode_header(0)
    assert decode_records(KAFKAS_FOOTER, parse_header(KAFKAS_FOOTER))[0].value == FOOTER


def test_a_snapshot_of_kafkas_own_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "kafkas"
    path.write_bytes(KAFKAS_HEADER + KAFKAS_FOOTER)
    with pytest.raises(BadSnapshot, match="1 records from offset 7 on, expected one at 1"):
        read(path)


# ---- what cannot be written


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({}, r"columns of file have \[\] rows"),
        ({"id": [1, 2], "size": [1]}, r"columns of file have \[1, 2\] rows"),
        ({"id": [1], "size": []}, r"columns of file have \[0, 1\] rows"),
        ({"id": [1, b"2"]}, "column id of file has values of the types bytes, int; it must have one"),
        ({"id": [None]}, "column id of file has values of the types NoneType; it must have one"),
        ({"id": [True]}, "column id of file has values of the types bool; it must have one"),
        ({"id": [2**63]}, "column id of file has a number of more than 64 bits"),
        ({"id": ["\ud800"]}, "surrogates not allowed"),
        ({"id" * 40_000: [1]}, "the names of the columns of file take more than 65536 bytes"),
        ({"id": [bytes(ROW_BYTES_MAX)]}, f"a row of file has {ROW_BYTES_MAX + 4} bytes, a snapshot takes at most {ROW_BYTES_MAX}"),
    ],
)
def test_rows_that_the_format_cannot_hold_are_refused_and_leave_no_file(tmp_path: Path, columns: dict, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        write(tmp_path, [*SMALL, TableRows("file", columns)])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"digest": b"short"},
        {"term": 2**63},
        {"metadata_partition": 2**31},
        {"cluster_id": None},
        {"header": {"a": b"bytes"}},
        {"header": {"a": "x" * 2**20}},
        {"epoch": -1},
        {"end_offset": -1},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_a_head_that_the_format_cannot_hold_is_refused_and_leaves_no_file(tmp_path: Path, wrong: dict) -> None:
    with pytest.raises(ValueError, match=r"no (head of a snapshot|snapshot has end offset)"):
        write(tmp_path, SMALL, HEAD._replace(**wrong))
    assert list(tmp_path.iterdir()) == []


def test_a_source_that_fails_leaves_no_file_and_the_old_one_as_it_was(tmp_path: Path) -> None:
    def failing() -> Iterator[TableRows]:
        yield SMALL[0]
        raise OSError("disk gone")

    old = write(tmp_path)
    with pytest.raises(OSError, match="disk gone"):
        write(tmp_path, failing())
    assert list(tmp_path.iterdir()) == [old.path]
    assert read(old.path) == (HEAD, SMALL)


# ---- what is refused


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    content = write(tmp_path).path.read_bytes()
    path = tmp_path / "cut"
    for size in range(len(content)):
        path.write_bytes(content[:size])
        with pytest.raises(BadSnapshot, match=f"snapshot {path}: .*(truncated|without a footer)"):
            read(path)


@pytest.mark.parametrize("bit", [0, 3, 7])
def test_a_flipped_bit_of_any_byte_is_refused(tmp_path: Path, bit: int) -> None:
    content = write(tmp_path).path.read_bytes()
    path = tmp_path / "flipped"
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 1 << bit
        path.write_bytes(damaged)
        with pytest.raises(BadSnapshot, match=f"snapshot {path}: "):
            read(path)


@given(st.binary(max_size=300), st.integers(0, 2000), st.integers(0, 50))
@settings(deadline=None)
def test_bytes_put_in_anywhere_are_refused(some: bytes, place: int, removed: int) -> None:
    with TemporaryDirectory() as folder:
        path = write(Path(folder)).path
        content = path.read_bytes()
        place %= len(content) + 1
        damaged = content[:place] + some + content[place + removed :]
        path.write_bytes(damaged)
        if damaged == content:
            assert read(path) == (HEAD, SMALL)
        else:
            with pytest.raises(BadSnapshot):
                read(path)


NO_ROWS: list[Entry] = [BEGIN, head_entry(), END]


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ([], "it is incomplete: it ends without a footer"),
        ([BEGIN], "it is incomplete: it ends without a footer"),
        (WHOLE[:-1], "it is incomplete: it ends without a footer"),
        ([END], "it does not begin with the header of a snapshot"),
        ([head_entry(), END], "it does not begin with the header of a snapshot"),
        ([(HEADER_KEY, BEGIN[1], False), head_entry(), END], "it does not begin with the header of a snapshot"),
        ([BEGIN, *ROWS, END], "it has another program's content"),
        ([BEGIN, END], "it has another program's content"),
        ([BEGIN, (HEAD_KEY, None, False), END], "it has another program's content"),
        ([*WHOLE, END], r"\d+ bytes follow the footer"),
        ([*WHOLE[:-1], BEGIN, END], "a control record that is not the footer"),
        ([*WHOLE[:-1], (FOOTER_KEY, b"\x00\x01\x00", True)], "a control record that is not the footer"),
        ([*WHOLE[:-1], (FOOTER_KEY, None, True)], "a control record that is not the footer"),
        ([*WHOLE[:-1], (None, b"", False), END], "a record without key or value"),
        ([(HEADER_KEY, encode_header(1)[:-1], True), head_entry(), END], "the header has 10 bytes, not 11"),
        ([(HEADER_KEY, b"\x00\x01" + encode_header(1)[2:], True), head_entry(), END], "the header has version 1"),
        ([BEGIN, (HEAD_KEY, b"", False), END], "there is no format 0"),
        ([BEGIN, (HEAD_KEY, encode_head(HEAD) + b"x", False), END], r"the head of \d+ bytes is not what its values make"),
        ([BEGIN, (HEAD_KEY, encode_head(HEAD)[:-1], False), END], "the head cannot be read"),
        ([BEGIN, (HEAD_KEY, bytes(2**20 + 1), False), END], "the head has 1048577 bytes, at most 1048576"),
    ],
)
def test_a_file_of_other_records_is_refused(tmp_path: Path, entries: list[Entry], reason: str) -> None:
    path = forge(tmp_path / "forged", entries)
    with pytest.raises(BadSnapshot, match=f"snapshot {path}: .*{reason}"):
        read(path)


def test_a_batch_that_is_missing_doubled_or_misplaced_is_refused(tmp_path: Path) -> None:
    content = write(tmp_path).path.read_bytes()
    whole = [content[header.byte_offset : header.byte_offset + header.size_bytes] for header in parse_headers(content)]
    header, head, first, second, footer = whole
    for damaged in ([header, head, second, footer], [header, head, first, first, second, footer], [header, head, second, first, footer]):
        path = tmp_path / "damaged"
        path.write_bytes(b"".join(damaged))
        with pytest.raises(BadSnapshot, match=r"batch at byte \d+: 1 records from offset \d+ on, expected one at \d"):
            read(path)


def test_a_file_of_another_epoch_than_its_head_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSnapshot, match="batches of epochs 3 and 3, the head has epoch 2"):
        read(forge(tmp_path / "forged", WHOLE, epoch=3))


def test_a_newer_format_is_told_apart(tmp_path: Path) -> None:
    path = forge(tmp_path / "newer", [BEGIN, (HEAD_KEY, b"\x00\x02whatever it is", False), END])
    with pytest.raises(NewerFormat, match=f"snapshot {path}: it has format 2, this version reads format 1"):
        read(path)


@pytest.mark.parametrize("wrong", [("other", HEAD.topic_id, 7), ("cluster", bytes(16), 7), ("cluster", HEAD.topic_id, 8)])
def test_a_snapshot_of_another_log_is_refused_naming_both(wrong: tuple[str, bytes, int]) -> None:
    check_identity(HEAD, HEAD.cluster_id, HEAD.topic_id, HEAD.metadata_partition)
    with pytest.raises(BadSnapshot) as refused:
        check_identity(HEAD, *wrong)
    cluster_id, topic_id, partition = wrong
    for words in (
        f"'cluster', topic id {HEAD.topic_id.hex()}, partition 7",
        f"this is cluster '{cluster_id}', topic id {topic_id.hex()}, partition {partition}",
    ):
        assert words in str(refused.value)


# ---- lengths that lie


def test_a_length_beyond_every_batch_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    path = write(tmp_path).path
    with path.open("r+b") as file:
        file.seek(8)
        file.write((2**31 - 1).to_bytes(4, "big"))
        os.truncate(path, 2**31)  # a hole: the bytes are there and take no room
    with pytest.raises(BadSnapshot, match=f"2147483659 bytes, a batch of a snapshot has at most {BATCH_BYTES_MAX}"):
        read(path)


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec is not Compression.NONE])
def test_a_batch_that_stands_for_more_than_the_largest_row_is_refused(tmp_path: Path, codec: Compression) -> None:
    path = forge(tmp_path / "bomb", [BEGIN, (HEAD_KEY, bytes(BATCH_BYTES_MAX), False), END], compression=codec)
    with pytest.raises(BadSnapshot, match=f"{codec.name.lower()}: more than {BATCH_BYTES_MAX} bytes of records in one batch"):
        read(path)


CHUNKS = [chunk for rows in SMALL for chunk in encode_rows(rows)]


@pytest.mark.parametrize(
    ("chunk", "reason"),
    [
        (RowChunk(CHUNKS[0].key, CHUNKS[0].value + b"x"), r"columns of topic with \[24, 16, 16\] bytes in 57 bytes"),
        (RowChunk(CHUNKS[0].key + b"x", CHUNKS[0].value), "1 bytes follow the key's record"),
        (RowChunk(CHUNKS[0].key[:-1], CHUNKS[0].value), "the key cannot be read"),
        (RowChunk(bytes(2**16 + 1), b""), "the key has 65537 bytes, at most 65536"),
        (RowChunk(CHUNKS[0].key, b"\xff" * 56), "values of 8589934590 bytes in 16"),
        (RowChunk(b"\x02t\x00\x00", b""), "0 rows of t in 0 columns"),
        (RowChunk(b"\x02t\x02\x00", b""), "1 rows of t in 0 columns"),
        (RowChunk(b"\x02t\x01\x02\x02c\x00\x10\x00", bytes(8)), "-1 rows of t in 1 columns"),
        (RowChunk(b"\x02t\x02\x04\x02c\x00\x10\x02c\x00\x10\x00", bytes(16)), "two columns of t have one name"),
        (RowChunk(b"\x02t\x04\x02\x02c\x00\x10\x00", bytes(8)), "column c of 2 rows of t: 8 bytes of numbers"),
        (RowChunk(b"\x02t\x04\x02\x02c\x02\x08\x00", bytes(4)), "column c of 2 rows of t: 4 bytes are too few for the lengths"),
        (RowChunk(b"\x02t\x02\x02\x02c\x04\x0a\x00", b"\x01\x00\x00\x00\xff"), "column c of 1 rows of t: 'utf-8' codec"),
        (RowChunk(b"\x02t\x04\x02\x02c\x02\x82\x80\x80\x01\x00", bytes(CHUNK_BYTES + 1)), "2 rows of t in 1 columns and 1048577 bytes"),
    ],
)
def test_a_record_of_rows_that_contradicts_itself_is_refused(tmp_path: Path, chunk: RowChunk, reason: str) -> None:
    path = forge(tmp_path / "forged", [BEGIN, head_entry(), (chunk.key, chunk.value, False), END])
    with pytest.raises(BadSnapshot, match=f"batch at byte .*{reason}"):
        read(path)


@given(st.sampled_from(CHUNKS), st.booleans(), st.integers(0, 100), st.binary(min_size=1, max_size=10))
@settings(max_examples=500)
def test_damaged_rows_never_give_another_error(chunk: RowChunk, in_key: bool, place: int, some: bytes) -> None:
    damaged = bytearray(chunk.key if in_key else chunk.value)
    at = place % len(damaged)
    damaged[at : at + len(some)] = some
    try:
        rows = decode_rows(RowChunk(bytes(damaged), chunk.value) if in_key else RowChunk(chunk.key, bytes(damaged)))
    except MalformedRecord:
        return
    assert len({len(column) for column in rows.columns.values()}) == 1
