"""Targets of the gateway's Fetch: requests of clients, and batches as an object store gives them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from coordinator.client.records.wal_objects import BatchOf, WrongObject, check_batch
from coordinator.protocol.codec import decode
from coordinator.protocol.find_batches import BatchLocation
from coordinator.protocol.wire import MalformedMessage
from gateway.fetch.batch_loops import MARK_BYTES, assign_batches
from gateway.fetch.wire import VERSIONS, decode_fetch
from records.compression import Compression
from records.record_batch import Record, encode_batch
from tests.fuzz.engine import Target
from tests.gateway.fetch.kio_fetch import body_of, encoded, request_module
from tests.gateway.fetch.world import fetch_request


def _fetch(data: bytes) -> None:
    """The first byte chooses the version."""
    version = VERSIONS[data[0] % len(VERSIONS)] if data else VERSIONS[0]
    try:
        general = body_of(version, decode(request_module(version).FetchRequest, data, 1))
    except MalformedMessage as error:
        general, reason = None, str(error)
    try:
        found = decode_fetch(data, 1, version)
    except MalformedMessage:
        assert general is None, "a sound request is refused"
        raise
    # The rack and the names of forgotten topics are read past, whatever their bytes are.
    assert found == general or "is not UTF-8" in reason


def _fetch_seeds() -> Iterator[bytes]:
    for place, version in enumerate(VERSIONS):
        yield bytes([place]) + encoded(fetch_request((0, 5), (1, 2**40), version=version))
        more = {"session_id": 7, "session_epoch": 3} if version >= 7 else {}
        tagged = {"cluster_id": "cluster"} if version >= 12 else {}
        yield bytes([place]) + encoded(fetch_request((3, 0), version=version, topic="t" * 130, **more, **tagged))


def _fetched_batch(data: bytes) -> None:
    """The first byte is the last offset that the coordinator says."""
    last, raw = (data[0], data[1:]) if data else (0, data)
    batch = BatchLocation(1, "wal/1", 2, 0, len(raw), 0, last, 0, 0, 1)
    out = memoryview(bytearray(raw))
    good = assign_batches(out, out, 0, [batch], 0, 1, bytearray(len(raw) // MARK_BYTES + 1), 0)
    try:
        check_batch(BatchOf("orders", 0, batch), raw)
    except WrongObject:
        assert good == 0, "a damaged batch is given out"
        raise
    assert good == 1, "a sound batch is refused"
    again = batch._replace(base_offset=0)
    check_batch(BatchOf("orders", 0, again), bytes(out))


def _fetched_batch_seeds() -> Iterator[bytes]:
    for count, compression in ((1, Compression.NONE), (3, Compression.LZ4), (200, Compression.ZSTD)):
        records = [Record(timestamp_ms=1_000 + n, key=None, value=b"value" * n) for n in range(count)]
        yield bytes([count - 1]) + encode_batch(records, compression=compression)


FETCH_TARGETS: Final = (
    Target(name="fetch", run=_fetch, declared=(MalformedMessage,), seeds=_fetch_seeds),
    Target(name="fetched_batch", run=_fetched_batch, declared=(WrongObject,), seeds=_fetched_batch_seeds),
)
