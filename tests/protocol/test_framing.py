"""Frames, headers and the order of replies, without any socket."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.protocol.framing import (
    FrameReader,
    Pending,
    ReplyQueue,
    read_correlation_id,
    read_request_head,
    read_request_header,
    reply_body,
    reply_frame,
    request_frame,
)
from coordinator.protocol.wire import MalformedMessage


def _framed(*frames: bytes) -> bytes:
    return b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)


FRAMES = [b"a", b"bc" * 50, b"\0\0\0\x05", b"defg", b"h" * 300]


@pytest.mark.parametrize("middle_bytes", [0, 1, 3, 150])
def test_frames_split_at_every_byte(middle_bytes: int) -> None:
    stream = _framed(*FRAMES)
    for first in range(len(stream)):
        reader, frames = FrameReader(1000), []
        for piece in (stream[:first], stream[first : first + middle_bytes], stream[first + middle_bytes :]):
            frames += reader.feed(piece)
        assert frames == FRAMES
        assert reader.bytes_held == 0


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=20), st.lists(st.integers(1, 30)))
def test_frames_come_out_as_they_went_in(frames: list[bytes], cuts: list[int]) -> None:
    stream, reader, seen = _framed(*frames), FrameReader(40), []
    for cut in cuts:
        seen += reader.feed(stream[:cut])
        stream = stream[cut:]
    assert [*seen, *reader.feed(stream)] == frames


def test_frames_fed_byte_by_byte() -> None:
    reader = FrameReader(1000)
    assert [frame for byte in _framed(*FRAMES) for frame in reader.feed(bytes((byte,)))] == FRAMES


@pytest.mark.parametrize("size", [0, -1, -(1 << 31), 101, (1 << 31) - 1])
def test_sizes_outside_the_limit_are_refused(size: int) -> None:
    frames = FrameReader(100).feed(_framed(b"ok") + size.to_bytes(4, "big", signed=True))
    assert next(frames) == b"ok"
    with pytest.raises(MalformedMessage, match=r"frame of -?\d+ bytes.*socket.request.max.bytes"):
        next(frames)


def test_a_frame_takes_the_memory_of_what_arrived_not_of_what_was_announced() -> None:
    reader = FrameReader(1 << 30)
    tracemalloc.start()
    try:
        assert list(reader.feed((1 << 30).to_bytes(4, "big") + b"x" * 1000)) == []
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()
    assert reader.bytes_held == 1000


def test_a_large_frame_in_many_pieces_is_copied_a_bounded_number_of_times() -> None:
    size, piece = 8 << 20, b"p" * 4096
    reader = FrameReader(size)
    assert list(reader.feed(size.to_bytes(4, "big"))) == []
    tracemalloc.start()
    try:
        frames: list[bytes] = []
        for _ in range(size // len(piece)):
            frames += reader.feed(piece)
        assert tracemalloc.get_traced_memory()[1] < 3 * size
    finally:
        tracemalloc.stop()
    assert frames == [piece * (size // len(piece))]


@given(st.binary(max_size=30), st.booleans())
def test_random_headers_raise_only_malformed_message(frame: bytes, flexible: bool) -> None:
    try:
        head = read_request_head(frame)
        header = read_request_header(frame, flexible=flexible)
    except MalformedMessage:
        return
    assert header[:3] == head
    assert header.body_offset <= len(frame)


@given(st.integers(0, 32767), st.integers(0, 32767), st.integers(-(1 << 31), (1 << 31) - 1), st.none() | st.text(max_size=9), st.booleans())
def test_request_frames_survive(key: int, version: int, correlation_id: int, client_id: str | None, flexible: bool) -> None:
    if client_id is not None:
        client_id = client_id.encode("utf-8", "replace").decode()
    raw = request_frame(key, version, correlation_id, client_id, b"body", flexible=flexible)
    (frame,) = FrameReader(200).feed(raw)
    header = read_request_header(frame, flexible=flexible)
    assert header[:4] == (key, version, correlation_id, client_id)
    assert frame[header.body_offset :] == b"body"


def test_a_client_id_is_any_bytes() -> None:
    raw = request_frame(3, 1, 7, "ZZ", b"body").replace(b"ZZ", b"\xffZ")
    assert read_request_header(raw[4:], flexible=True)[:4] == (3, 1, 7, "\ufffdZ")


@given(st.integers(-(1 << 31), (1 << 31) - 1), st.binary(max_size=10), st.booleans())
def test_reply_frames_survive(correlation_id: int, body: bytes, tagged: bool) -> None:
    (frame,) = FrameReader(200).feed(reply_frame(correlation_id, body, tagged=tagged))
    assert read_correlation_id(frame) == correlation_id
    assert reply_body(frame, tagged=tagged) == body


@pytest.mark.parametrize(("frame", "tagged"), [(b"", False), (b"\0\0\0", True), (b"\0\0\0\1", True), (b"\0\0\0\1\x01\x01", True)])
def test_short_reply_headers_are_refused(frame: bytes, tagged: bool) -> None:
    with pytest.raises(MalformedMessage):
        reply_body(frame, tagged=tagged)


def _expected(queue: ReplyQueue, correlation_ids: Sequence[int], sizes: list[int]) -> Pending:
    pending = Pending(list(correlation_ids), sizes)
    queue.expect(pending)
    return pending


@given(st.lists(st.integers(0, 9), max_size=40), st.randoms(use_true_random=False))
def test_replies_keep_the_order_of_requests(sizes: list[int], random) -> None:  # type: ignore[no-untyped-def]
    queue, taken = ReplyQueue(100, 1 << 20), []
    waiting: list[tuple[Pending, int]] = []
    first = 0
    while first < len(sizes):
        stop = min(len(sizes), first + random.randint(1, 5))
        pending = _expected(queue, range(first, stop), sizes[first:stop])
        waiting += [(pending, place) for place in range(stop - first)]
        first = stop
    assert len(queue) == len(sizes)
    assert queue.bytes_waiting == sum(sizes)
    random.shuffle(waiting)
    for pending, place in waiting:
        queue.complete(pending, place, b"r" * sizes[pending.correlation_ids[place]])
        if random.random() < 0.5:
            was_ready = queue.is_ready
            frames = queue.take()
            assert was_ready == (len(frames) > 0)
            taken.append(frames)
    taken.append(queue.take())
    assert b"".join(taken) == b"".join(reply_frame(index, b"r" * size) for index, size in enumerate(sizes))
    assert (len(queue), queue.bytes_waiting, queue.is_ready) == (0, 0, False)


def test_a_queue_is_full_by_count_and_by_bytes() -> None:
    queue = ReplyQueue(2, 100)
    first = _expected(queue, [1], [60])
    assert not queue.is_full
    assert queue.room == (1, 40)
    _expected(queue, [2], [10])
    assert queue.is_full
    queue.complete(first, 0, b"")
    assert queue.take() == reply_frame(1, b"")
    assert not queue.is_full
    _expected(queue, [3], [90])
    assert queue.bytes_waiting == 100
    assert queue.is_full


def test_a_reply_that_waits_for_an_earlier_one_counts_as_bytes() -> None:
    queue = ReplyQueue(10, 100)
    _expected(queue, [1], [1])
    queue.complete(_expected(queue, [2], [1]), 0, b"x" * 200)
    assert queue.take() == b""
    assert queue.is_full


def test_a_request_is_answered_once() -> None:
    queue = ReplyQueue(10, 100)
    pending = _expected(queue, [7, 8], [1, 1])
    queue.complete(pending, 0, b"")
    for _ in range(2):  # before its reply is taken, and behind that
        with pytest.raises(AssertionError, match="request 7 was answered twice"):
            queue.complete(pending, 0, b"")
        queue.take()


def test_requests_with_large_answers_have_a_bound_of_their_own() -> None:
    queue = ReplyQueue(10, 100, large_max=2)
    large = Pending([1, 2], [1, 1], is_large=True)
    queue.expect(large)
    assert queue.is_full
    assert queue.room == (8, 98)
    queue.complete(large, 0, b"")
    assert queue.take() == reply_frame(1, b"")
    assert not queue.is_full
