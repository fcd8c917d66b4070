"""Fetch on the wire: requests and answers are those of kio, compiled and interpreted alike."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.kafka.errors import ErrorCode
from coordinator.protocol.wire import MalformedMessage
from gateway.fetch import answer_loops, request_loops
from gateway.fetch.wire import ELEMENTS_MAX, VERSIONS, FetchBody, decode_fetch, encode_answer, encode_refusal, encode_transactions
from tests.compiled import assert_fresh, plain
from tests.gateway.fetch.kio_fetch import INT32, INT64, TEXT, UUID, body_of, encoded, read_answer, requests
from tests.gateway.fetch.world import fetch_request

PLAIN_REQUESTS, PLAIN_ANSWERS = plain(request_loops), plain(answer_loops)

each_version = pytest.mark.parametrize("version", VERSIONS)


def test_the_compiled_loops_are_those_of_the_source() -> None:
    assert_fresh()


@each_version
@settings(max_examples=40)
@given(data=st.data())
def test_requests_are_read_as_kio_writes_them(version: int, data: st.DataObject) -> None:
    request = data.draw(requests(version))
    before = data.draw(st.binary(max_size=3))
    assert decode_fetch(before + encoded(request), len(before), version) == body_of(version, request)


@each_version
@settings(max_examples=40)
@given(data=st.data())
def test_plain_requests_need_no_general_codec_and_damaged_ones_are_judged_by_it(version: int, data: st.DataObject) -> None:
    raw = encoded(data.draw(requests(version, is_plain=True)))
    compiled, interpreted = (loops.read_body(raw, 0, version, ELEMENTS_MAX) for loops in (request_loops, PLAIN_REQUESTS))
    assert compiled == interpreted
    assert compiled is not None
    damaged = bytearray(raw)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.sampled_from([0, 1, 2, 33, 127, 128, 255]))
    cut = bytes(damaged[: data.draw(st.integers(0, len(raw)))])
    compiled, interpreted = (loops.read_body(cut, 0, version, ELEMENTS_MAX) for loops in (request_loops, PLAIN_REQUESTS))
    assert compiled == interpreted
    if compiled is not None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("gateway.fetch.wire.read_body", lambda *_: None)
            generally = read_or_refuse(cut, version)
        # The rack and the names of forgotten topics are read past, whatever their bytes are.
        assert generally == "not UTF-8" or read_or_refuse(cut, version) == generally


def read_or_refuse(data: bytes, version: int) -> FetchBody | str:
    try:
        return decode_fetch(data, 0, version)
    except MalformedMessage as error:
        return "not UTF-8" if "is not UTF-8" in str(error) else "malformed"


@each_version
def test_more_elements_than_memory_are_refused(version: int) -> None:
    head = b"\0" * (4 if version < 15 else 0) + b"\0" * 13 + (b"\0" * 8 if version >= 7 else b"")
    many = b"\xff\xff\xff\x7f" if version >= 12 else b"\x7f\xff\xff\xff"
    with pytest.raises(MalformedMessage):
        decode_fetch(head + many + b"\0" * 40, 0, version)
    too_many = encoded(fetch_request(*((n, 0) for n in range(ELEMENTS_MAX)), version=version))
    with pytest.raises(MalformedMessage, match="too many array elements"):
        decode_fetch(too_many, 0, version)


ABORTED = st.one_of(st.just([]), st.lists(st.tuples(INT64, INT64), max_size=3), st.just([(7, 9)] * 200))
ROW = st.tuples(INT32, st.sampled_from([0, 1, 3, 56, 100]), INT64, INT64, st.sampled_from([0, 0, 1, 126, 127, 128, 20_000]), ABORTED)


@each_version
@settings(max_examples=40)
@given(
    topics=st.lists(st.tuples(TEXT, UUID, st.lists(ROW, max_size=4)), max_size=4),
    is_committed=st.booleans(),
)
def test_answers_are_read_by_kio(
    version: int, topics: list[tuple[str, uuid.UUID | None, list[tuple[Any, ...]]]], is_committed: bool
) -> None:
    named = [
        (
            name.encode() if version < 13 else topic_id.bytes if topic_id else bytes(16),
            [(*row[:5], encode_transactions(version, row[5])) for row in rows],
        )
        for name, topic_id, rows in topics
    ]
    records = [bytes([place % 251]) * row[4] for _, _, rows in topics for place, row in enumerate(rows) if row[4]]
    body = encode_answer(version, named, records, is_committed=is_committed)
    if records:
        assert [one for one in body if any(one is each for each in records)] == records, "records are not copied"
    answer = read_answer(version, body)
    assert answer.throttle_time == timedelta()
    assert len(answer.responses) == len(topics)
    assert version < 7 or (answer.error_code, answer.session_id) == (0, 0)
    left = iter(records)
    for got, (name, topic_id, rows) in zip(answer.responses, topics, strict=True):
        assert (got.topic == name) if version < 13 else (got.topic_id == topic_id)
        for partition, (index, error, high_watermark, log_start, size, aborted) in zip(got.partitions, rows, strict=True):
            assert (partition.partition_index, partition.error_code) == (index, error)
            assert (partition.high_watermark, partition.last_stable_offset) == (high_watermark, high_watermark)
            assert version < 5 or partition.log_start_offset == log_start
            told = partition.aborted_transactions
            if aborted:
                assert [(one.producer_id, one.first_offset) for one in told] == aborted
            else:
                assert told == (() if is_committed else None)
            assert version < 11 or partition.preferred_read_replica == -1
            assert bytes(partition.records) == (next(left) if size else b"")
    assert next(left, None) is None
    cuts: tuple[list[int], list[int]] = ([], [])
    compiled, interpreted = (
        loops.write_body(version, 0, is_committed, named, cut) for loops, cut in zip((answer_loops, PLAIN_ANSWERS), cuts, strict=True)
    )
    assert (compiled, cuts[0]) == (interpreted, cuts[1])


@pytest.mark.parametrize("version", [version for version in VERSIONS if version >= 7])
def test_a_refused_request_names_no_topic(version: int) -> None:
    answer = read_answer(version, encode_refusal(version, ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
    assert (answer.error_code, answer.session_id, answer.responses) == (70, 0, ())
