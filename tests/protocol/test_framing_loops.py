"""The loops over frames: compiled and interpreted they do the same, and what the plain codec of one frame says."""

from __future__ import annotations

from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.protocol import framing_loops
from coordinator.protocol.framing import reply_body, request_frame
from tests.compiled import plain

PLAIN = plain(framing_loops)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
BOTH = pytest.mark.parametrize("loops", [framing_loops, PLAIN], ids=["compiled", "interpreted"])


@given(st.lists(st.binary(max_size=12), max_size=6), st.integers(0, 80), st.integers(0, 12), st.binary(max_size=3))
def test_frames_are_cut_as_far_as_they_are_whole_and_lawful(frames: list[bytes], end: int, size_max: int, before: bytes) -> None:
    stream = (before + b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames))[: len(before) + end]
    expected, at = [], len(before)
    for frame in frames:
        if not 0 < len(frame) <= size_max or at + 4 + len(frame) > len(stream):
            break
        expected.append(frame)
        at += 4 + len(frame)
    for loops in (framing_loops, PLAIN):
        found: list[bytes] = []
        assert loops.cut_frames(stream, len(before), size_max, found) == at
        assert found == expected


HEADS = st.lists(st.tuples(st.sampled_from(["a", "b"]), INT32, st.binary(max_size=4)), max_size=8)


@given(HEADS, st.integers(0, 3), st.integers(0, 5), st.integers(0, 80), st.integers(0, 20))
def test_a_run_ends_with_the_first_other_head_and_at_the_bounds(
    drawn: list[tuple[str, int, bytes]], first: int, count_max: int, bytes_max: int, cut: int
) -> None:
    whole = [request_frame(7, 1, number, client, body)[4:] for client, number, body in drawn]
    head = request_frame(7, 1, 0, "a", b"")[4:]
    # The last one may be too short to be a request.
    frames = [*whole[:-1], whole[-1][:cut]] if whole else []
    expected, size = [], 0
    for (client, number, _), frame in zip(drawn[first:], frames[first:], strict=True):
        if client != "a" or len(frame) < len(head) or len(expected) == count_max or size >= bytes_max:
            break
        expected.append(number)
        size += len(frame)
    for loops in (framing_loops, PLAIN):
        assert loops.same_heads(frames, first, head[:4], head[8:], count_max, bytes_max) == expected


@BOTH
@given(answers=st.lists(st.tuples(INT32, st.binary(max_size=300)), max_size=6), first=st.integers(0, 6), is_tagged=st.booleans())
def test_replies_are_framed(loops: ModuleType, answers: list[tuple[int, bytes]], first: int, is_tagged: bool) -> None:
    numbers, bodies = [number for number, _ in answers], [body for _, body in answers]
    stop = len(answers)
    made = b"".join(loops.frame_replies(numbers, bodies, min(first, stop), stop, is_tagged))
    told: list[tuple[int, bytes]] = []
    while made:
        size = int.from_bytes(made[:4], "big")
        frame, made = made[4 : 4 + size], made[4 + size :]
        told.append((int.from_bytes(frame[:4], "big", signed=True), reply_body(frame, tagged=is_tagged)))
    assert told == answers[first:]
