"""Targets of the gateway's Produce: requests of clients, with the batches in them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

import numpy as np
from crc32c import crc32c

from coordinator.protocol.commit_file import BATCH
from coordinator.protocol.wire import MalformedMessage
from gateway.produce import checks_loops, wire_loops
from gateway.produce.faults import BatchFault as BatchFault
from gateway.produce.faults import PartitionRefusal, refusal_of
from gateway.produce.request import PendingProduce, ProduceRequest
from records.columns import decode_records
from records.compression import Compression
from records.record_batch import HEADER_BYTES, CorruptBatch, ProducerSequence, Record, encode_batch, parse_header
from tests.compiled import plain
from tests.fuzz.engine import Target
from tests.gateway.produce.kio_produce import ID_VERSIONS, VERSIONS, decode_answer, encode_request

_PLAIN_CHECKS, _PLAIN_WIRE = plain(checks_loops), plain(wire_loops)
_TOPIC: Final = b"fuzzing topic 01"
_SPAN_MS: Final = (0, 1 << 60)


def _produce(data: bytes) -> None:
    """The first byte chooses the version."""
    version = VERSIONS[data[0] % len(VERSIONS)] if data else VERSIONS[0]
    read = ProduceRequest(data, 1, version)
    topics: list[tuple[int, int, int, int, int]] = []
    spans: list[int] = []
    assert _PLAIN_WIRE.read_request(data, 1, version, topics, spans) == (read.is_transactional, read.acks, read.timeout_ms)
    assert (topics, spans) == (read.topics, read.spans)
    rows, places, faults, bad_records = _checked(checks_loops, read)
    plain_rows, *rest = _checked(_PLAIN_CHECKS, read)
    assert (rows.tobytes(), places, faults, bad_records) == (plain_rows.tobytes(), *rest)
    pending = PendingProduce(read, deadline_s=0.0, window=None, respond=lambda _: None, freed=lambda: None)
    for place, row in zip(places, rows, strict=True):
        _read_as_a_reader_would(data, read.spans[3 * place + 1], row)
    for fault in map(BatchFault._make, faults):
        bad = [(record, time) for place, record, time in bad_records if place == fault.place]
        refusal = refusal_of(fault, "topic", read.spans[3 * fault.place], bad, _SPAN_MS)
        assert isinstance(refusal, PartitionRefusal)
        pending.refuse([fault.place], refusal)
    if version < ID_VERSIONS or all(any(data[key:stop]) for _, key, stop, _, _ in read.topics):
        answered = decode_answer(version, pending.encoded(5))
        assert sum(map(len, answered[0].values())) == read.partition_count


def _checked(
    loops: object, read: ProduceRequest
) -> tuple[np.ndarray, list[int], list[tuple[int, int, int, int]], list[tuple[int, int, int]]]:  # type: ignore[type-arg]
    count = read.partition_count
    rows, starts, places = bytearray(count * 77), np.zeros(count, np.int64), np.zeros(count, np.int64)
    faults: list[tuple[int, int, int, int]] = []
    bad_records: list[tuple[int, int, int]] = []
    row = 0
    for _, _, _, first, stop in read.topics:
        row = loops.check_batches(  # type: ignore[attr-defined]
            read.data, read.spans, first, stop, read.version, _TOPIC, 1 << 31, 1 << 20, False, *_SPAN_MS,
            memoryview(rows), row, starts.data, places.data, faults, bad_records,
        )  # fmt: skip
    assert row + len(faults) + sum(index < 0 for index in read.spans[::3]) == count
    return np.frombuffer(rows, BATCH, row), places[:row].tolist(), faults, bad_records


def _read_as_a_reader_would(data: bytes, start: int, row: np.void) -> None:
    """What was taken has a header and, unless it is compressed, records that can be decoded."""
    header = parse_header(data, start)
    assert (header.size_bytes, header.record_count) == (int(row["size"]), int(row["last_offset"]) + 1)
    if header.compression is Compression.NONE:
        assert [one.offset for one in decode_records(data, header)] == list(range(header.record_count))


def _produce_batch(data: bytes) -> None:
    """Bytes of records under a right checksum: what is taken can be decoded, and what cannot be is refused."""
    batch = bytearray(data)
    if len(batch) >= HEADER_BYTES:
        struct.pack_into(">qi", batch, 0, 0, len(batch) - 12)
        batch[16] = 2
        struct.pack_into(">I", batch, 17, crc32c(memoryview(batch)[21:]))
    read = ProduceRequest(encode_request(9, [("topic", [(0, bytes(batch))])]), 0, 9)
    rows, _, faults, bad_records = _checked(checks_loops, read)
    plain_rows, _, plain_faults, plain_bad = _checked(_PLAIN_CHECKS, read)
    assert (rows.tobytes(), faults, bad_records) == (plain_rows.tobytes(), plain_faults, plain_bad)
    if len(rows):
        _read_as_a_reader_would(read.data, read.spans[1], rows[0])
        return
    raise CorruptBatch(0, str(faults))


def _batches() -> Iterator[bytes]:
    records = [Record(timestamp_ms=1_000 + n, key=b"k" if n % 2 else None, value=b"v" * n, headers=(("h", None),)) for n in range(4)]
    yield encode_batch(records)
    yield encode_batch(records[:1], producer=ProducerSequence(producer_id=5, producer_epoch=1, base_sequence=9))
    for codec in (Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD):
        yield encode_batch(records, compression=codec)


def _produce_seeds() -> Iterator[bytes]:
    batches = list(_batches())
    for place, version in enumerate(VERSIONS):
        names = (b"x" * 16, b"y" * 16) if version >= ID_VERSIONS else ("orders", "t" * 130)
        for first, second in ((0, 2), (1, 4)):
            topics = [(names[0], [(0, batches[first]), (1, None)]), (names[1], [(7, batches[second])])]
            yield bytes([place]) + encode_request(version, topics, transactional_id="t" if first else None)


PRODUCE_TARGETS: Final = (
    Target(name="produce", run=_produce, declared=(MalformedMessage,), seeds=_produce_seeds, memory_bytes=300_000),
    Target(name="produce_batch", run=_produce_batch, declared=(CorruptBatch,), seeds=_batches),
)
