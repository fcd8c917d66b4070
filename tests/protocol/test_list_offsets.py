"""The fast codec of ListOffsets equals the general codec."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from coordinator.protocol.codec import ELEMENTS_MAX, decode, encode
from coordinator.protocol.list_offsets import ListOffsetsBody, decode_list_offsets, encode_list_offsets_response
from coordinator.protocol.messages import ListOffsetsRequest, ListOffsetsResponse
from coordinator.protocol.wire import MalformedMessage, UnencodableMessage, varint
from tests.protocol.forms import messages_of


def _plain(request: ListOffsetsRequest) -> ListOffsetsBody:
    topics = [(topic.topic_id, [(one.partition_index, one.timestamp) for one in topic.partitions]) for topic in request.topics]
    return ListOffsetsBody(topics, request.timeout_ms)


@given(messages_of(ListOffsetsRequest), st.binary(max_size=3))
def test_requests_are_read_like_the_general_codec(request: ListOffsetsRequest, before: bytes) -> None:
    assert decode_list_offsets(before + encode(request), len(before)) == _plain(request)


@given(messages_of(ListOffsetsRequest), st.data())
@settings(max_examples=300)
def test_damaged_requests_are_read_alike_or_refused(request: ListOffsetsRequest, data: st.DataObject) -> None:
    raw = bytearray(encode(request))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(raw)))
        raw[place : place + data.draw(st.integers(0, 2))] = data.draw(
            st.sampled_from([b"\0", b"\x01", b"\x02", b"\x01\x05\x01z", b"\xff", b""])
        )
    _read_alike_or_refused(bytes(raw))


@given(st.binary(max_size=90))
@example(b"")
@example(b"\xff\xff\xff\xff\x07")
@example(b"\x02" + bytes(16) + b"\xff\xff\xff\xff\x07")
@example(b"\x00" + bytes(5))
@example(b"\x01" + bytes(5))
@example(b"\x02" + bytes(16) + b"\x00" + bytes(6))
@example(b"\x02" + bytes(16) + b"\x02" + bytes(12) + b"\x01\x05\x01z" + bytes(6))
def test_random_requests_are_read_alike_or_refused(data: bytes) -> None:
    _read_alike_or_refused(data)


def _read_alike_or_refused(data: bytes) -> None:
    try:
        expected = _plain(decode(ListOffsetsRequest, data))
    except MalformedMessage:
        with pytest.raises(MalformedMessage):
            decode_list_offsets(data)
    else:
        assert decode_list_offsets(data) == expected


def test_the_number_of_partitions_is_limited() -> None:
    count = ELEMENTS_MAX
    raw = b"\x02" + bytes(16) + varint(count + 1) + bytes(13 * count) + bytes(6)
    with pytest.raises(MalformedMessage, match="too many array elements"):
        decode_list_offsets(raw)


@given(messages_of(ListOffsetsResponse))
def test_responses_are_made_like_the_general_codec(response: ListOffsetsResponse) -> None:
    topics = [
        (topic.topic_id, [(one.partition_index, one.error_code, one.error_message, one.timestamp, one.offset) for one in topic.partitions])
        for topic in response.topics
    ]
    assert encode_list_offsets_response(topics, response.throttle_time_ms) == encode(response)


def test_a_response_that_does_not_fit_is_refused() -> None:
    with pytest.raises(UnencodableMessage, match="uuid"):
        encode_list_offsets_response([(b"short", [])])
    with pytest.raises(UnencodableMessage, match="ListOffsetsResponse"):
        encode_list_offsets_response([(bytes(16), [(0, 0, None, 1 << 63, 0)])])
    cut = encode_list_offsets_response([(bytes(16), [(0, 1, "x" * 40_000, -1, -1)])])
    assert decode(ListOffsetsResponse, cut).topics[0].partitions[0].error_message == "x" * 32_757 + " ... (cut)"
