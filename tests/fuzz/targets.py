"""The parsers of outside bytes, and what must hold for any bytes: only declared errors, and two ways to read agree.

Where a fast decoder stands beside a general one, both read the same input. Where there is an encoder, what was read is
written and read again. Seeds are well-formed inputs, most of them made by Kafka's own programs.
"""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from benchmarks.records_codec import make_file
from coordinator.client.records.record_lines import InputError, parse_lines, record_fields
from coordinator.client.records.wal_manifest import Manifest, ManifestBatch, ManifestError, decode_manifest, encode_manifest
from coordinator.operations.table import APIS
from coordinator.protocol.codec import Message, decode, encode
from coordinator.protocol.commit_file import decode_commit_file, decode_commit_response, encode_commit_file
from coordinator.protocol.find_batches import decode_find_batches
from coordinator.protocol.framing import FrameReader, read_correlation_id, read_request_head, read_request_header, reply_body, request_frame
from coordinator.protocol.list_offsets import decode_list_offsets
from coordinator.protocol.messages import CommitFileRequest, CommitFileResponse, FindBatchesRequest, ListOffsetsRequest
from coordinator.protocol.wire import MalformedMessage
from records import record_loops
from records.codec import decode_entry, decode_key, encode_entry, encode_key
from records.columns import RecordColumns, decode_records, record_columns
from records.committed_files.codec import FileCommitted, files_of, read_files, read_files_at
from records.errors import UnreadableEntry
from records.history import levels, schema_of_header
from records.record_batch import CorruptBatch, encode_batch, parse_header, parse_headers
from records.snapshot.errors import MalformedRecord, NewerFormat
from records.snapshot.head import decode_head, encode_head
from records.snapshot.rows import RowChunk, decode_rows, encode_rows
from tests.decoding import decode_request
from tests.fuzz.connection_target import CONNECTION_TARGET
from tests.fuzz.engine import Target
from tests.fuzz.fetch_targets import FETCH_TARGETS
from tests.fuzz.login_targets import LOGIN_TARGETS
from tests.fuzz.produce_targets import PRODUCE_TARGETS
from tests.records import plain_files
from tests.snapshot.files import HEAD, SMALL

T = TypeVar("T")

_TESTS: Final = Path(__file__).parents[1]
_NAMES: Final = {3: "Metadata", 10: "FindCoordinator", 18: "ApiVersions"}
_VERSIONS: Final = [(key, version) for key, api in APIS.items() for version in api.versions if not api.is_kip_key]


def _read_json(path: str) -> Any:
    return json.loads((_TESTS / path).read_text("utf-8"))


def _result(error: type[Exception], read: Callable[[], T]) -> T | None:
    """What was read; None if it was refused."""
    try:
        return read()
    except error:
        return None


# --- frames and headers ---


def _frames(data: bytes) -> None:
    """The first three bytes choose the limit of a frame and how the stream is cut into pieces."""
    size_max, step, stream = 1 + 4 * data[0] if data else 1, 1 + (data[1] if len(data) > 1 else 0), data[3:]
    whole = _cut_frames(size_max, [stream])
    pieces = [stream[start : start + step] for start in range(0, len(stream), step)]
    assert _cut_frames(size_max, pieces) == whole, f"frames of the stream in pieces of {step} bytes differ"


def _cut_frames(size_max: int, pieces: Iterable[bytes]) -> tuple[list[bytes], bool]:
    reader, frames = FrameReader(size_max), list[bytes]()
    for piece in pieces:
        try:
            for frame in reader.feed(piece):
                frames.append(frame)
        except MalformedMessage:
            return frames, False
        assert reader.bytes_held <= max(size_max, 3), f"{reader.bytes_held} bytes held of frames of at most {size_max}"
    assert all(0 < len(frame) <= size_max for frame in frames)
    return frames, True


def _request(frame: bytes) -> None:
    """A frame as the server takes it: head, header, body."""
    head = read_request_head(frame)
    for flexible in (False, True):
        header = _result(MalformedMessage, lambda flexible=flexible: read_request_header(frame, flexible=flexible))
        assert header is None or (header[:3] == head and header.body_offset <= len(frame))
    schema = APIS[head.api_key].versions.get(head.api_version) if head.api_key in APIS else None
    header = read_request_header(frame, flexible=schema is None or schema.flexible)
    again = request_frame(*header[:4], frame[header.body_offset :], flexible=False)
    assert read_request_header(again[4:], flexible=False)[:4] == header[:4]
    _survives(decode_request(head.api_key, head.api_version, frame, header.body_offset))


def _reply(frame: bytes) -> None:
    read_correlation_id(frame)
    assert reply_body(frame, tagged=False) == frame[4:]
    assert frame.endswith(reply_body(frame))


def _request_seeds() -> Iterator[bytes]:
    for body, (key, version) in _golden("Request"):
        yield request_frame(key, version, 7, "client", body, flexible=APIS[key].versions[version].flexible)[4:]


def _frame_seeds() -> Iterator[bytes]:
    frames = [b"a", b"bc" * 20, b"\0\0\0\x05", b"h" * 90]
    stream = b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)
    yield from (bytes((100, step, 0)) + stream for step in (0, 1, 6, 200))


# --- bodies ---


def _golden(kind: str) -> Iterator[tuple[bytes, tuple[int, int]]]:
    """Messages as Kafka's classes encoded them, and which they are."""
    for case in _read_json("protocol/golden.json"):
        for key, version in _VERSIONS:
            name = _NAMES.get(key) or f"Diskless{APIS[key].versions[version].request_type.__name__.removesuffix('Request')}"
            raw = bytes.fromhex(case["hex"])
            if (case["message"], case["version"]) == (f"{name}{kind}", version) and len(raw) < 2000:
                yield raw, (key, version)


def _survives(message: Message) -> None:
    """What was read can be written, and is then read again as the same."""
    assert decode(type(message), encode(message)) == message


def _response(data: bytes) -> None:
    """The first byte chooses the message."""
    key, version = _VERSIONS[(data[0] if data else 0) % len(_VERSIONS)]
    _survives(decode(APIS[key].versions[version].response_type, data, 1))


def _response_seeds() -> Iterator[bytes]:
    return (bytes((_VERSIONS.index(which),)) + body for body, which in _golden("Response"))


def _bodies(message: str) -> Callable[[], Iterable[bytes]]:
    def seeds() -> Iterator[bytes]:
        return (bytes.fromhex(case["hex"]) for case in _read_json("protocol/golden.json") if case["message"] == f"Diskless{message}")

    return seeds


def _commit_file(data: bytes) -> None:
    general = _result(MalformedMessage, lambda: decode(CommitFileRequest, data))
    found = _result(MalformedMessage, lambda: decode_commit_file(data))
    assert (found is None) == (general is None), "the fast decoder and the general one do not agree on whether this is a CommitFile"
    if found is None or general is None:
        return
    head = (general.object_key, general.object_format, general.file_size, list(general.owner_ids))
    assert found[:4] == head
    assert found[5:] == (general.timeout_ms, general.uploader_broker_id, general.created_ms)
    names = [item.name for item in dataclasses.fields(general.batches[0])] if general.batches else []
    columns = {"partition_index": "partition", "batch_max_timestamp": "max_timestamp"}
    rows = _columns(found.batches, [columns.get(name, name) for name in names])
    assert rows == [[getattr(batch, name) for batch in general.batches] for name in names]
    assert encode_commit_file(found) == encode(general)


def _columns(rows: npt.NDArray[np.void], names: Iterable[str]) -> list[list[Any]]:
    return [rows[name].tolist() for name in names]


def _commit_response(data: bytes) -> None:
    general = _result(MalformedMessage, lambda: decode(CommitFileResponse, data))
    found = _result(MalformedMessage, lambda: decode_commit_response(data))
    assert (found is None) == (general is None), "the fast decoder and the general one do not agree on whether this is a response"
    if found is None or general is None:
        return
    rows = _columns(found.results, ("error_code", "base_offset", "append_time_ms", "log_start_offset"))
    names = ("error_code", "assigned_base_offset", "log_append_time", "log_start_offset")
    assert rows == [[getattr(batch, name) for batch in general.batches] for name in names]
    assert found.results["is_duplicate"].astype(bool).tolist() == [batch.is_duplicate for batch in general.batches]
    assert found.throttle_time_ms == general.throttle_time_ms
    messages = {place: batch.error_message for place, batch in enumerate(general.batches) if batch.error_message is not None}
    assert found.error_messages == messages


def _find_batches(data: bytes) -> None:
    general = _result(MalformedMessage, lambda: decode(FindBatchesRequest, data))
    found = _result(MalformedMessage, lambda: decode_find_batches(data))
    assert (found is None) == (general is None), "the fast decoder and the general one do not agree on whether this is a FindBatches"
    if found is None or general is None:
        return
    topics = [
        (topic.topic_id, [(one.partition_index, one.offset, one.max_partition_fetch_bytes) for one in topic.partitions])
        for topic in general.topics
    ]
    assert found == (
        general.fetch_max_bytes,
        general.max_batches_per_partition,
        topics,
        general.timeout_ms,
        general.min_bytes,
        general.max_wait_ms,
    )


def _list_offsets(data: bytes) -> None:
    general = _result(MalformedMessage, lambda: decode(ListOffsetsRequest, data))
    found = _result(MalformedMessage, lambda: decode_list_offsets(data))
    assert (found is None) == (general is None), "the fast decoder and the general one do not agree on whether this is a ListOffsets"
    if found is None or general is None:
        return
    topics = [(topic.topic_id, [(one.partition_index, one.timestamp) for one in topic.partitions]) for topic in general.topics]
    assert found == (topics, general.timeout_ms)


# --- records of the metadata log ---


def _entry(data: bytes) -> None:
    records = _result(UnreadableEntry, lambda: decode_entry(data))
    file = _result(plain_files.NotAFile, lambda: plain_files.read(data))
    if file is not None:
        assert records == [file], "the codec and the plain codec differ"
    if records is not None:
        assert file is not None or len(records) != 1 or not isinstance(records[0], FileCommitted), "the plain codec reads no such file"
        assert encode_entry(records, schema_of_header(data[:10]).level) == data, "the records have another form"


def _golden_entries() -> list[bytes]:
    golden = _read_json("records/golden.json")
    return [bytes.fromhex(raw) for level in levels() for raw in golden[f"level {level}"].values()]


def _entry_seeds() -> Iterator[bytes]:
    yield from _golden_entries()
    yield from (encode_entry([make_file(random.Random(count), count)]) for count in (1, 3, 60))


def _entries(data: bytes) -> None:
    """Values with their sizes in two bytes, decoded together."""
    values, at = list[bytes](), 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 2])
        values.append(data[at + 2 : at + 2 + size])
        at += 2 + size
    sizes = np.array(list(map(len, values)), np.int64)
    ends = sizes.cumsum()
    expected = [_result(plain_files.NotAFile, lambda value=value: plain_files.read(value)) for value in values]  # type: ignore[misc]
    for taken, table in (read_files(values), read_files_at(b"".join(values), ends - sizes, ends)):
        assert taken == [at for at, file in enumerate(expected) if file is not None], "the loops do not take what the plain codec reads"
        assert files_of(table) == [file for file in expected if file is not None]


def _entries_seeds() -> Iterator[bytes]:
    golden = _golden_entries()
    plain = [encode_entry([make_file(random.Random(count), count)]) for count in (1, 3, 30)]
    for values in (golden[:6] + plain[:1], plain, plain[2:] + golden[6:9] + plain[1:2]):
        yield b"".join(len(value).to_bytes(2) + value for value in values)


def _entry_key(data: bytes) -> None:
    key = decode_key(data)
    assert key is None or encode_key(key) == data


# --- snapshots ---


def _snapshot_head(data: bytes) -> None:
    assert encode_head(decode_head(data)) == data


def _snapshot_rows(data: bytes) -> None:
    """The size of the key in two bytes, the key, the columns."""
    key_end = 2 + int.from_bytes(data[:2])
    rows = decode_rows(RowChunk(data[2:key_end], data[key_end:]))
    assert [decode_rows(chunk) for chunk in encode_rows(rows)] == [rows]


def _snapshot_rows_seeds() -> Iterator[bytes]:
    for rows in SMALL:
        for chunk in encode_rows(rows):
            yield len(chunk.key).to_bytes(2) + chunk.key + chunk.value


# --- WAL files ---

_DECOMPRESSED_BYTES_MAX: Final = 1 << 20


def _record_batches(data: bytes) -> None:
    """Without their checksums, or no damage would get past them; the small limit makes what is above it cheap."""
    for header in parse_headers(data, verify=False):
        records = decode_records(data, header, base_offset=0, bytes_max=_DECOMPRESSED_BYTES_MAX)
        assert len(records) == header.record_count
        parts = list(record_columns(data, header, base_offset=0, rows_max=3, bytes_max=_DECOMPRESSED_BYTES_MAX))
        offsets = [offset for part in parts for offset in part.fields[record_loops.OFFSET].tolist()]
        assert offsets == sorted(set(offsets)) == [record.offset for record in records]
        assert b"".join(map(_values, parts)) == b"".join(record.value or b"" for record in records)
    checked = _result(CorruptBatch, lambda: parse_headers(data))
    assert checked is None or checked == parse_headers(data, verify=False)


def _values(part: RecordColumns) -> bytes:
    """The values, one after the other, as a column has them."""
    at, sizes = part.fields[record_loops.VALUE_AT], part.fields[record_loops.VALUE_SIZE]
    out = memoryview(bytearray(int(np.maximum(sizes, 0).sum())))
    ends, bits = np.zeros(len(sizes), np.int32), bytearray(len(sizes) // 8 + 1)
    end = record_loops.gather(part.body, at.data, sizes.data, 0, len(sizes), out, 0, ends.data, memoryview(bits), 0)
    assert end == len(out)
    return bytes(out)


def _manifest(data: bytes) -> None:
    manifest = decode_manifest(data.decode(), "it")
    assert decode_manifest(encode_manifest(manifest).encode().decode(), "it") == manifest


def _manifest_seeds() -> Iterator[bytes]:
    batch = ManifestBatch(topic="orders", partition=1, byte_offset=0, size_bytes=70, record_count=2, crc=2**32 - 1)
    for count in (0, 1, 2):
        yield encode_manifest(Manifest(created_ms=1_760_000_000_000, size_bytes=140, batches=(batch,) * count)).encode()


def _record_lines(data: bytes) -> None:
    for line in parse_lines(data.decode().splitlines(), now_ms=1):
        assert line.partition.topic.encode()
        assert 0 <= line.partition.partition < 2**31
        batch = encode_batch([line.record], producer=line.producer)
        (stored,) = decode_records(batch, parse_header(batch))
        fields = json.dumps(record_fields(*line.partition, stored, line.timestamp_type))
        (again,) = parse_lines([fields], now_ms=2)
        assert (again.record, again.timestamp_type) == (line.record, line.timestamp_type)


def _record_lines_seeds() -> Iterator[bytes]:
    yield b'{"topic": "orders", "partition": 0}\n\n{"topic": "a", "partition": 1, "key": null, "value_base64": "AAE="}\n'
    yield b'{"topic": "o", "partition": 0, "offset": 9, "headers": [["h", "x"], [{"base64": "/w=="}, {"base64": "AA=="}]], "timestamp": -1}'
    yield (
        b'{"topic": "o", "partition": 0, "key": "k", "value": "v", "headers": {"h": "x", "n": null}, "timestamp": 1700000000000,'
        b' "producer_id": 7, "producer_epoch": 0, "sequence": 0}'
    )


def _kafka_batches() -> Iterator[bytes]:
    return (bytes.fromhex(raw) for raw in _read_json("records/kafka_batches.json").values())


_MALFORMED: Final = (MalformedMessage,)
TARGETS: Final = {
    target.name: target
    for target in (
        Target(name="frames", run=_frames, declared=(), seeds=_frame_seeds),
        Target(name="request", run=_request, declared=_MALFORMED, seeds=_request_seeds),
        Target(name="reply", run=_reply, declared=_MALFORMED, seeds=lambda: [b"\0\0\0\1\0body", b"\0\0\0\1\1\5\2abbody"]),
        Target(name="response", run=_response, declared=_MALFORMED, seeds=_response_seeds),
        Target(name="commit_file", run=_commit_file, declared=_MALFORMED, seeds=_bodies("CommitFileRequest")),
        Target(name="commit_response", run=_commit_response, declared=_MALFORMED, seeds=_bodies("CommitFileResponse")),
        Target(name="find_batches", run=_find_batches, declared=_MALFORMED, seeds=_bodies("FindBatchesRequest")),
        Target(name="list_offsets", run=_list_offsets, declared=_MALFORMED, seeds=_bodies("ListOffsetsRequest")),
        Target(name="entry", run=_entry, declared=(), seeds=_entry_seeds),
        Target(name="entries", run=_entries, declared=(), seeds=_entries_seeds),
        Target(name="entry_key", run=_entry_key, declared=(), seeds=lambda: [bytes.fromhex(_read_json("records/golden.json")["EntryKey"])]),
        Target(
            name="record_batches",
            run=_record_batches,
            declared=(CorruptBatch,),
            seeds=_kafka_batches,
            memory_bytes=4 * _DECOMPRESSED_BYTES_MAX,
        ),
        Target(name="snapshot_head", run=_snapshot_head, declared=(MalformedRecord, NewerFormat), seeds=lambda: [encode_head(HEAD)]),
        Target(name="snapshot_rows", run=_snapshot_rows, declared=(MalformedRecord,), seeds=_snapshot_rows_seeds),
        Target(name="manifest", run=_manifest, declared=(ManifestError, UnicodeDecodeError), seeds=_manifest_seeds),
        Target(name="record_lines", run=_record_lines, declared=(InputError, UnicodeDecodeError), seeds=_record_lines_seeds),
        *LOGIN_TARGETS,
        *FETCH_TARGETS,
        *PRODUCE_TARGETS,
        CONNECTION_TARGET,
    )
}
