"""The fast codecs of CommitFile equal the general codec."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.protocol.codec import ELEMENTS_MAX, decode, encode
from coordinator.protocol.commit_file import (
    BATCH,
    CommitFileBody,
    batch_rows,
    decode_commit_file,
    decode_commit_response,
    encode_commit_file,
    encode_commit_response,
)
from coordinator.protocol.messages import CommitFileRequest, CommitFileResponse
from coordinator.protocol.wire import MalformedMessage, UnencodableMessage, varint
from tests.protocol.forms import messages_of

# The row's fields in the order of the message, under the names of the message.
COLUMNS = {"topic_id": "topic_id", "partition_index": "partition", "batch_max_timestamp": "max_timestamp"}


def _same(fast: CommitFileBody, request: CommitFileRequest) -> None:
    assert fast.owner_ids == list(request.owner_ids)
    for name in ("object_key", "object_format", "file_size", "timeout_ms", "uploader_broker_id", "created_ms"):
        assert getattr(fast, name) == getattr(request, name)
    assert fast.batches.dtype == BATCH
    for item in dataclasses.fields(request.batches[0]) if request.batches else ():
        column = fast.batches[COLUMNS.get(item.name, item.name)]
        assert column.tolist() == [getattr(one, item.name) for one in request.batches]
    pairs = [one.topic_id + one.partition_index.to_bytes(4, "big", signed=True) for one in request.batches]
    assert fast.batches["topic_partition"].tolist() == pairs
    assert not fast.batches["tags"].any()


@given(messages_of(CommitFileRequest), st.binary(max_size=5))
def test_requests_are_read_and_made_like_the_general_codec(request: CommitFileRequest, before: bytes) -> None:
    raw = encode(request)
    fast = decode_commit_file(before + raw, len(before))
    _same(fast, request)
    assert encode_commit_file(fast) == raw


@given(messages_of(CommitFileRequest), st.data())
def test_tagged_fields_anywhere_in_the_batches_are_skipped(request: CommitFileRequest, data: st.DataObject) -> None:
    raw = encode(request)
    # Where the rows start: after the key, format and size, the owners and the count.
    position = len(varint(len(request.object_key.encode()) + 1)) + len(request.object_key.encode()) + 9
    position += 1 + 4 * len(request.owner_ids) + 1
    pieces = [raw[:position]]
    for index in range(len(request.batches)):
        row = raw[position + 77 * index : position + 77 * (index + 1)]
        tags = data.draw(st.sampled_from([b"\0", b"\x01\x05\x02ab", b"\x02\x00\x00\x63\x4d" + bytes(77)]))
        pieces.append(row[:-1] + tags)
    pieces.append(raw[position + 77 * len(request.batches) :])
    _same(decode_commit_file(b"".join(pieces)), request)


@given(messages_of(CommitFileRequest), st.data())
@settings(max_examples=200)
def test_damaged_requests_are_read_alike_or_refused(request: CommitFileRequest, data: st.DataObject) -> None:
    raw = bytearray(encode(request))
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.sampled_from([0, 1, 2, 77, 127, 128, 255]))
    damaged = bytes(raw[: data.draw(st.integers(len(raw) - 3, len(raw)))])
    try:
        expected = decode(CommitFileRequest, damaged)
    except MalformedMessage:
        with pytest.raises(MalformedMessage):
            decode_commit_file(damaged)
    else:
        _same(decode_commit_file(damaged), expected)


@given(messages_of(CommitFileResponse))
def test_responses_are_read_and_made_like_the_general_codec(response: CommitFileResponse) -> None:
    rows = response.batches
    messages = {index: one.error_message for index, one in enumerate(rows) if one.error_message is not None}
    raw = encode_commit_response(
        [one.error_code for one in rows],
        [one.assigned_base_offset for one in rows],
        [one.log_append_time for one in rows],
        [one.log_start_offset for one in rows],
        [one.is_duplicate for one in rows],
        messages,
        response.throttle_time_ms,
    )
    assert raw == encode(response)
    results = decode_commit_response(b"xyz" + raw, 3)
    assert (results.throttle_time_ms, results.error_messages) == (response.throttle_time_ms, messages)
    assert results.results["error_code"].tolist() == [one.error_code for one in rows]
    assert results.results["base_offset"].tolist() == [one.assigned_base_offset for one in rows]
    assert results.results["append_time_ms"].tolist() == [one.log_append_time for one in rows]
    assert results.results["log_start_offset"].tolist() == [one.log_start_offset for one in rows]
    assert results.results["is_duplicate"].tolist() == [int(one.is_duplicate) for one in rows]


@given(messages_of(CommitFileResponse), st.binary(max_size=3), st.data())
def test_damaged_responses_are_read_alike_or_refused(response: CommitFileResponse, some: bytes, data: st.DataObject) -> None:
    raw = bytearray(encode(response))
    place = data.draw(st.integers(0, len(raw)))
    raw[place : place + data.draw(st.integers(0, 3))] = some
    try:
        expected = decode(CommitFileResponse, bytes(raw))
    except MalformedMessage:
        with pytest.raises(MalformedMessage):
            decode_commit_response(bytes(raw))
    else:
        assert decode_commit_response(bytes(raw)).results["log_start_offset"].tolist() == [one.log_start_offset for one in expected.batches]


def test_results_given_as_numpy_columns_make_the_same_bytes() -> None:
    columns = ([0, 42], [5, -1], [-1, -1], [0, -1], [False, True])
    arrays = [np.array(column) for column in columns]
    assert encode_commit_response(*arrays) == encode_commit_response(*columns)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(UnencodableMessage, match="differ in length"):
        encode_commit_response([0], [], [], [], [])
    with pytest.raises(UnencodableMessage, match="CommitFileResponse"):
        encode_commit_response([1 << 15], [0], [0], [0], [False])
    rows = batch_rows(()).copy()
    with pytest.raises(UnencodableMessage, match="BATCH"):
        encode_commit_file(CommitFileBody("k", 1, 1, [0], np.zeros(1)))
    with pytest.raises(UnencodableMessage, match="CommitFileRequest of 'k'"):
        encode_commit_file(CommitFileBody("k", 1, 1, [1 << 31], rows))
    rows = np.zeros(1, BATCH)
    rows["tags"] = 1
    with pytest.raises(UnencodableMessage, match="tags 0"):
        encode_commit_file(CommitFileBody("k", 1, 1, [0], rows))


def test_batches_are_a_view_of_the_received_bytes() -> None:
    rows = np.zeros(1000, BATCH)
    raw = encode_commit_file(CommitFileBody("k", 1, 1, [0], rows))
    assert decode_commit_file(raw).batches.base is not None
    assert not decode_commit_file(raw).batches.flags.owndata


@pytest.mark.parametrize(("owners", "batches"), [(ELEMENTS_MAX + 1, 0), (1, ELEMENTS_MAX)])
def test_the_number_of_elements_is_limited(owners: int, batches: int) -> None:
    head = b"\x02k" + bytes(9) + varint(owners + 1)
    raw = head + bytes(4 * owners) + varint(batches + 1) + bytes(77 * batches) + bytes(5)
    for read in (decode_commit_file, lambda data: decode(CommitFileRequest, data)):
        with pytest.raises(MalformedMessage, match="too many array elements"):
            read(raw)
