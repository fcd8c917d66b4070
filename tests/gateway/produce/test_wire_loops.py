"""Produce's bytes in every version: compiled and interpreted they are read and written as kio does."""

from __future__ import annotations

import struct
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.kafka.errors import ErrorCode
from coordinator.protocol.wire import MalformedMessage
from gateway.produce import wire_loops
from gateway.produce.connections import RequestWindow
from gateway.produce.faults import PartitionRefusal
from gateway.produce.request import PendingProduce, ProduceRequest
from tests.compiled import plain
from tests.gateway.produce.kio_produce import ID_VERSIONS, VERSIONS, Result, decode_answer, encode_answer, encode_request

PLAIN = plain(wire_loops)
BOTH = pytest.mark.parametrize("loops", [wire_loops, PLAIN], ids=["compiled", "interpreted"])
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
OFFSETS = st.integers(-1, (1 << 63) - 1)
NAMES = st.text(max_size=200)
PARTITIONS = st.lists(st.tuples(INT32, st.none() | st.binary(max_size=300)), max_size=4)
TOPICS = st.lists(st.tuples(NAMES, st.binary(min_size=16, max_size=16).filter(any), PARTITIONS), max_size=4)
CODES = st.sampled_from([0, 2, 3, 7, 10, 45, 87])
RESULTS = st.tuples(
    CODES,
    OFFSETS,
    st.integers(-1, 4_000_000_000_000),
    OFFSETS,
    st.lists(st.tuples(st.integers(0, 1 << 20), st.text(max_size=20)), max_size=3),
    st.text(max_size=200),
)


def by_version(version: int, topics: list[tuple[str, bytes, list[tuple[int, bytes | None]]]]) -> list:  # type: ignore[type-arg]
    return [(topic_id if version >= ID_VERSIONS else name, partitions) for name, topic_id, partitions in topics]


@BOTH
@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=25)
@given(
    topics=TOPICS,
    acks=st.integers(-(1 << 15), (1 << 15) - 1),
    timeout_ms=INT32,
    transactional_id=st.none() | NAMES,
    before=st.binary(max_size=5),
)
def test_a_request_is_read_as_kio_wrote_it(
    loops: ModuleType,
    version: int,
    topics: list[tuple[str, bytes, list[tuple[int, bytes | None]]]],
    acks: int,
    timeout_ms: int,
    transactional_id: str | None,
    before: bytes,
) -> None:
    given_topics = by_version(version, topics)
    data = before + encode_request(version, given_topics, acks=acks, timeout_ms=timeout_ms, transactional_id=transactional_id)
    found: list[tuple[int, int, int, int, int]] = []
    spans: list[int] = []
    assert loops.read_request(data, len(before), version, found, spans) == (transactional_id is not None, acks, timeout_ms)
    assert len(found) == len(given_topics)
    for (_, key, stop, first, last), (topic, partitions) in zip(found, given_topics, strict=True):
        assert data[key:stop] == (topic.encode() if isinstance(topic, str) else topic)
        read = [(spans[3 * p], data[spans[3 * p + 1] : spans[3 * p + 1] + spans[3 * p + 2]]) for p in range(first, last)]
        assert read == [(index, records or b"") for index, records in partitions]


@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=25)
@given(data=st.data(), topics=TOPICS, throttle_ms=st.integers(0, 1 << 30))
def test_an_answer_has_the_bytes_that_kio_would_write(
    version: int, data: st.DataObject, topics: list[tuple[str, bytes, list[tuple[int, bytes | None]]]], throttle_ms: int
) -> None:
    given_topics = by_version(version, topics)
    read = ProduceRequest(encode_request(version, given_topics), 0, version)
    answered: list[PendingProduce] = []
    pending = PendingProduce(read, deadline_s=0.0, window=RequestWindow(), respond=answered.append, freed=lambda: None)
    place, expected, settled = 0, [], []
    for topic, partitions in given_topics:
        results = []
        for index, _ in partitions:
            code, base, time, start, errors, message = data.draw(RESULTS)
            if code:
                pending.refuse([place], PartitionRefusal(ErrorCode(code), message, errors))
                results.append(Result(index, code, record_errors=tuple(errors), message=message))
            else:
                places = np.array([place])
                pending.expect(places)
                settled.append((places, np.array([[0, base, time, start]])))
                results.append(Result(index, 0, base, time, start))
            place += 1
        expected.append((topic, results))
    for places, row in settled:
        pending.settle(places, row, {})
    wanted = encode_answer(version, expected, throttle_ms)
    assert pending.encoded(throttle_ms) == wanted
    tails: dict[int, bytes] = {}
    plainly = encode_answer(version, [(t, [one._replace(record_errors=(), message=None) for one in r]) for t, r in expected], throttle_ms)
    for loops in (wire_loops, PLAIN):
        assert loops.write_answer(read.data, version, read.topics, read.spans, pending.results.data, tails, throttle_ms) == plainly


@BOTH
@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=25)
@given(data=st.data())
def test_damaged_requests_are_malformed_or_read_within_their_bytes(loops: ModuleType, version: int, data: st.DataObject) -> None:
    topics: list = [("orders", [(0, bytes(70)), (1, None)]), ("other", [(7, bytes(3))])]  # type: ignore[type-arg]
    if version >= ID_VERSIONS:
        topics = [(bytes(15) + b"a", topics[0][1]), (bytes(15) + b"b", topics[1][1])]
    body = bytearray(encode_request(version, topics, transactional_id="t"))
    for at, byte in data.draw(st.lists(st.tuples(st.integers(0, len(body) - 1), st.integers(0, 255)), max_size=4)):
        body[at] = byte
    cut = bytes(body[: data.draw(st.integers(0, len(body)))]) + data.draw(st.binary(max_size=3))
    found: list[tuple[int, int, int, int, int]] = []
    spans: list[int] = []
    try:
        loops.read_request(cut, 0, version, found, spans)
    except MalformedMessage:
        return
    for start, size in zip(spans[1::3], spans[2::3], strict=True):
        assert 0 <= start <= start + size <= len(cut)
    for name, key, stop, first, last in found:
        assert 0 <= name <= key <= stop <= len(cut)
        assert 0 <= first <= last <= len(spans) // 3


@BOTH
def test_a_request_cannot_have_more_partitions_than_memory(loops: ModuleType) -> None:
    count = 30_000_000
    body = struct.pack(">hhi", -1, -1, 1000) + struct.pack(">ihi", 1, 0, count) + struct.pack(">ii", 0, -1) * 100
    with pytest.raises(MalformedMessage, match="partitions"):
        loops.read_request(body, 0, 3, [], [])
    many = struct.pack(">hhi", -1, -1, 1000) + struct.pack(">ihi", 1, 0, 100_000) + struct.pack(">ii", 0, -1) * 100_000
    with pytest.raises(MalformedMessage, match="more than 100000 topics and partitions"):
        loops.read_request(many, 0, 3, [], [])


def test_the_messages_of_every_version_fit_its_strings() -> None:
    for version in VERSIONS:
        topic = b"x" * 16 if version >= ID_VERSIONS else "t"
        read = ProduceRequest(encode_request(version, [(topic, [(0, b"")])]), 0, version)
        pending = PendingProduce(read, deadline_s=0.0, window=None, respond=lambda _: None, freed=lambda: None)
        pending.refuse([0], PartitionRefusal(ErrorCode.INVALID_RECORD, "ä" * 40_000))
        [[result]] = decode_answer(version, pending.encoded(0))[0].values()
        assert result.code == ErrorCode.INVALID_RECORD
        assert result.message == (None if version < 8 else "ä" * 500)
