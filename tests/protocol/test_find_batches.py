"""The fast codec of FindBatches equals the general codec."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from coordinator.protocol.codec import ELEMENTS_MAX, decode, encode
from coordinator.protocol.find_batches import (
    BatchLocation,
    FindBatchesBody,
    FoundPartition,
    decode_find_batches,
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
    return FindBatchesBody(request.fetch_max_bytes, request.max_batches_per_partition, topics, request.timeout_ms)


@given(messages_of(FindBatchesRequest), st.binary(max_size=3))
def test_requests_are_read_like_the_general_codec(request: FindBatchesRequest, before: bytes) -> None:
    assert decode_find_batches(before + encode(request), len(before)) == _plain(request)


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


@given(messages_of(FindBatchesResponse))
def test_find_batches_responses_are_made_like_the_general_codec(response: FindBatchesResponse) -> None:
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
    assert encode_find_batches_response(topics, response.throttle_time_ms) == encode(response)


def test_found_batches_have_the_schema_s_order() -> None:
    response = next(item.type for item in dataclasses.fields(FindBatchesResponse) if item.name == "topics")
    (partitions,) = (item.type for item in dataclasses.fields(response.__args__[0]) if item.name == "partitions")
    (batches,) = (item.type for item in dataclasses.fields(partitions.__args__[0]) if item.name == "batches")
    assert tuple(item.name for item in dataclasses.fields(batches.__args__[0])) == BatchLocation._fields


def test_a_find_batches_response_that_does_not_fit_is_refused() -> None:
    with pytest.raises(UnencodableMessage, match="uuid"):
        encode_find_batches_response([(b"short", [])])
    batch = BatchLocation(0, "k", 2, 0, 0, 0, 0, 0, 0, 0)
    with pytest.raises(UnencodableMessage, match="FindBatchesResponse"):
        encode_find_batches_response([(bytes(16), [FoundPartition(0, 0, 0, 0, [batch._replace(magic=200)])])])
    with pytest.raises(UnencodableMessage, match="longer than"):
        encode_find_batches_response([(bytes(16), [FoundPartition(0, 0, 0, 0, [batch._replace(object_key="x" * 40_000)])])])
