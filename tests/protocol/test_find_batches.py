"""The fast codec of FindBatches equals the general codec."""

from __future__ import annotations

import dataclasses
import struct

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from coordinator.protocol import find_batches
from coordinator.protocol.codec import ELEMENTS_MAX, decode, encode
from coordinator.protocol.find_batches import (
    BatchLocation,
    FindBatchesBody,
    FoundPartition,
    FoundTopics,
    decode_find_batches,
    decode_find_batches_response,
    encode_find_batches,
    encode_find_batches_response,
)
from coordinator.protocol.messages import FindBatchesRequest, FindBatchesResponse
from coordinator.protocol.wire import MalformedMessage, UnencodableMessage, varint
from tests.protocol.forms import messages_of


def _plain(request: FindBatchesRequest) -> FindBatchesBody:
    topics = [
        (topic.topic_id, [(one.partition_index, one.offset, one.max_partition_fetch_bytes) for one in topic.partitions])
        for topic in request.topics
    ]
    return FindBatchesBody(
        request.fetch_max_bytes, request.max_batches_per_partition, topics, request.timeout_ms, request.min_bytes, request.max_wait_ms
    )


@given(messages_of(FindBatchesRequest), st.binary(max_size=3))
def test_requests_are_read_like_the_general_codec(request: FindBatchesRequest, before: bytes) -> None:
    assert decode_find_batches(before + encode(request), len(before)) == _plain(request)
    assert encode_find_batches(_plain(request)) == encode(request)


@given(messages_of(FindBatchesRequest), st.data())
@settings(max_examples=300)
def test_damaged_requests_are_read_alike_or_refused(request: FindBatchesRequest, data: st.DataObject) -> None:
    raw = bytearray(encode(request))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(raw)))
        raw[place : place + data.draw(st.integers(0, 2))] = data.draw(
            st.sampled_from([b"\0", b"\x01", b"\x02", b"\x01\x05\x01z", b"\xff", b""])
        )
    _read_alike_or_refused(bytes(raw))


@given(st.binary(max_size=90))
@example(bytes(8) + b"\xff\xff\xff\xff\x07")
@example(bytes(8) + b"\x02" + bytes(16) + b"\xff\xff\xff\xff\x07")
@example(bytes(8) + b"\x00" + bytes(5))
@example(bytes(8) + b"\x02" + bytes(16) + b"\x00" + bytes(6))
def test_random_requests_are_read_alike_or_refused(data: bytes) -> None:
    _read_alike_or_refused(data)


def _read_alike_or_refused(data: bytes) -> None:
    try:
        expected = _plain(decode(FindBatchesRequest, data))
    except MalformedMessage:
        with pytest.raises(MalformedMessage):
            decode_find_batches(data)
    else:
        assert decode_find_batches(data) == expected


def test_the_number_of_partitions_is_limited() -> None:
    count = ELEMENTS_MAX
    raw = bytes(8) + b"\x02" + bytes(16) + varint(count + 1) + bytes(17 * count) + bytes(6)
    with pytest.raises(MalformedMessage, match="too many array elements"):
        decode_find_batches(raw)


def _found(response: FindBatchesResponse) -> FoundTopics:
    names = BatchLocation._fields
    topics = [
        (
            topic.topic_id,
            [
                FoundPartition(
                    one.partition_index,
                    one.error_code,
                    one.log_start_offset,
                    one.high_watermark,
                    [BatchLocation(*(getattr(batch, name) for name in names)) for batch in one.batches],
                )
                for one in topic.partitions
            ],
        )
        for topic in response.topics
    ]
    return FoundTopics(response.throttle_time_ms, topics)


@given(messages_of(FindBatchesResponse))
def test_find_batches_responses_are_made_and_read_like_the_general_codec(response: FindBatchesResponse) -> None:
    found = _found(response)
    assert encode_find_batches_response(found.topics, response.throttle_time_ms) == encode(response)
    assert decode_find_batches_response(encode(response)) == found


@given(messages_of(FindBatchesResponse), st.data())
@settings(max_examples=500)
def test_damaged_responses_are_read_alike_or_refused(response: FindBatchesResponse, data: st.DataObject) -> None:
    raw = bytearray(encode(response))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(raw)))
        damage = st.sampled_from([b"\0", b"\x01", b"\x02", b"\x01\x05\x01z", b"\xff", b""])
        raw[place : place + data.draw(st.integers(0, 2))] = data.draw(damage)
    _response_read_alike_or_refused(bytes(raw))


@given(st.binary(max_size=120))
@example(bytes(4) + b"\x02" + bytes(16) + b"\xff\xff\xff\xff\x07")
@example(bytes(4) + b"\x02" + bytes(16) + b"\x02" + bytes(22) + b"\xff\xff\xff\xff\x07")
@example(bytes(4) + b"\x02" + bytes(16) + b"\x02" + bytes(22) + b"\x02" + bytes(8) + b"\x00")
# A key that is null behind an empty one.
@example(bytes(4) + b"\x02" + bytes(16) + b"\x02" + bytes(22) + b"\x03" + bytes(8) + b"\x01" + bytes(51) + bytes(62))
def test_random_responses_are_read_alike_or_refused(data: bytes) -> None:
    _response_read_alike_or_refused(data)


def _response_read_alike_or_refused(data: bytes) -> None:
    try:
        expected = _found(decode(FindBatchesResponse, data))
    except MalformedMessage:
        with pytest.raises(MalformedMessage):
            decode_find_batches_response(data)
    else:
        assert decode_find_batches_response(data) == expected


def test_found_batches_have_the_schema_s_order() -> None:
    response = next(item.type for item in dataclasses.fields(FindBatchesResponse) if item.name == "topics")
    (partitions,) = (item.type for item in dataclasses.fields(response.__args__[0]) if item.name == "partitions")
    (batches,) = (item.type for item in dataclasses.fields(partitions.__args__[0]) if item.name == "batches")
    assert tuple(item.name for item in dataclasses.fields(batches.__args__[0])) == BatchLocation._fields


@pytest.mark.parametrize("tail", [b"\x01\x01\x04\0\0\0\x07", b"\x02\x00\x04\0\0\0\x05\x01\x04\0\0\0\x07"])
def test_a_long_poll_needs_no_message_objects(tail: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    point = struct.pack(">iqix", 3, 9, 100)
    raw = struct.pack(">ii", 50, 0) + b"\x02" + bytes(16) + b"\x02" + point + b"\0" + struct.pack(">i", 60_000) + tail
    expected = _plain(decode(FindBatchesRequest, raw))

    def refuse(*_: object) -> None:
        raise AssertionError("the general codec was asked")

    monkeypatch.setattr(find_batches, "decode", refuse)
    assert decode_find_batches(raw) == expected


def test_a_find_batches_request_that_does_not_fit_is_refused() -> None:
    with pytest.raises(UnencodableMessage, match=r"FindBatchesTopic\.topic_id"):
        encode_find_batches(FindBatchesBody(1, 0, [(b"short", [])], 1))
    with pytest.raises(UnencodableMessage, match=r"FindBatchesRequest.*fetch_max_bytes"):
        encode_find_batches(FindBatchesBody(1 << 31, 0, [], 1))
    with pytest.raises(UnencodableMessage, match=r"FindBatchesRequest.*max_wait_ms"):
        encode_find_batches(FindBatchesBody(1, 0, [], 1, 1, 1 << 31))


def test_a_find_batches_response_that_does_not_fit_is_refused() -> None:
    with pytest.raises(UnencodableMessage, match="uuid"):
        encode_find_batches_response([(b"short", [])])
    batch = BatchLocation(0, "k", 2, 0, 0, 0, 0, 0, 0, 0)
    with pytest.raises(UnencodableMessage, match="FindBatchesResponse"):
        encode_find_batches_response([(bytes(16), [FoundPartition(0, 0, 0, 0, [batch._replace(magic=200)])])])
    with pytest.raises(UnencodableMessage, match="longer than"):
        encode_find_batches_response([(bytes(16), [FoundPartition(0, 0, 0, 0, [batch._replace(object_key="x" * 40_000)])])])
