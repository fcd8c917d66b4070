"""Many frames in one pass each: cut from a stream, compared by their heads, put together as replies. Compiled when installed
(`setup.py`); the `.pxd` has the types.
"""

from __future__ import annotations

Buffer = bytes | bytearray | memoryview
Body = bytes | tuple[Buffer, ...]
"""The body of a reply: in one piece, or in buffers of single bytes; no buffers mean that the request gets no reply at all."""

SIZE_BYTES = 4
KIND_BYTES = 4
HEAD_BYTES = 8
"""Bytes of a request's header: KIND_BYTES of key and version; HEAD_BYTES including the correlation id after them."""
REPLY_HEAD_BYTES = 8
"""The size and the correlation id; tagged fields may follow."""


def cut_frames(data: bytes, at: int, size_max: int, frames: list[bytes]) -> int:
    """Add the whole frames from a place on, none larger than `size_max`; returns where one begins that is unfinished or not lawful."""
    end, head = len(data), SIZE_BYTES
    while end - at >= head:
        size = _int32(data, at)
        if size <= 0 or size > size_max or size > end - at - head:
            break
        at += head
        frames.append(data[at : at + size])
        at += size
    return at


def same_heads(frames: list[bytes], at: int, start: bytes, rest: bytes, count_max: int, bytes_max: int) -> list[int]:
    """The correlation ids of the frames from a place on that begin with `start` and have `rest` after their correlation id.

    It ends after `count_max` frames, and after the one with which they have `bytes_max` bytes.
    """
    found: list[int] = []
    kind_bytes, head, count, size = KIND_BYTES, HEAD_BYTES, 0, 0
    while at < len(frames) and count < count_max and size < bytes_max:
        frame = frames[at]
        if len(frame) < head + len(rest) or not _has(frame, 0, start) or not _has(frame, head, rest):
            break
        found.append(_int32(frame, kind_bytes))
        size += len(frame)
        count += 1
        at += 1
    return found


def frame_replies(correlation_ids: list[int], bodies: list[Body], first: int, stop: int, is_tagged: bool) -> list[Buffer]:
    """The pieces of consecutive response frames: size and header (version 1 if tagged, else 0), and body; none for a body of no buffers."""
    pieces: list[Buffer] = []
    tags = 1 if is_tagged else 0
    size_bytes, head_bytes = SIZE_BYTES, REPLY_HEAD_BYTES
    head = bytearray(head_bytes + tags)
    out = memoryview(head)
    for place in range(first, stop):
        body = bodies[place]
        if isinstance(body, tuple):
            if not body:
                continue
            size = 0
            for buffer in body:
                size += len(buffer)
        else:
            size = len(body)
        _put_int32(size + size_bytes + tags, out, 0)
        _put_int32(correlation_ids[place], out, size_bytes)
        pieces.append(bytes(head))
        if isinstance(body, tuple):
            pieces.extend(body)
        else:
            pieces.append(body)
    return pieces


def _has(frame: bytes, at: int, piece: bytes) -> bool:
    same = 0
    for place in range(len(piece)):
        same += frame[at + place] == piece[place]
    return same == len(piece)


def _int32(data: bytes, at: int) -> int:
    """A signed integer, most significant byte first."""
    value = -1 if data[at] & 0x80 else 0
    for place in range(at, at + 4):
        value = value * 256 + data[place]
    return value


def _put_int32(value: int, out: memoryview[int], at: int) -> None:
    """The four bytes of an integer, most significant byte first."""
    for place in range(at + 3, at - 1, -1):
        out[place] = value & 0xFF
        value >>= 8
