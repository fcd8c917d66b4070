"""Kafka's frames and headers without any I/O, on either side of a connection, and replies kept in request order.

A frame is an int32 size and that many bytes. The size is checked before anything is kept; memory follows the bytes that
arrived, not the size that was announced. Reply order is the order of requests, whatever order they are completed in.
"""

from __future__ import annotations

import io
import struct
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, cast

from coordinator.protocol.framing_loops import REPLY_HEAD_BYTES, SIZE_BYTES, Body, Buffer, cut_frames, frame_replies
from coordinator.protocol.wire import MalformedMessage, read_tagged_fields, read_text, text_bytes

_SIZE: Final = struct.Struct(">i")
_REQUEST_HEAD: Final = struct.Struct(">hhih")
_REQUEST_START: Final = struct.Struct(">hhi")
_KEY: Final = struct.Struct(">h")
_NO_TAGS: Final[frozenset[int]] = frozenset()

JOINED_BYTES_MAX: Final = 64 * 1024
"""Replies of more bytes are not copied into one piece."""


class FrameReader:
    """Cuts a byte stream into frames."""

    __slots__ = ("_head", "_limit", "_missing", "_partial", "_size_max")

    def __init__(self, size_bytes_max: int, limit: str = "socket.request.max.bytes") -> None:
        """`limit` is what errors call `size_bytes_max`."""
        self.allow(size_bytes_max, limit)
        # At most one of these is in use: the first bytes of a size, or a frame of which `_missing` bytes are to come.
        self._head = b""
        self._partial: io.BytesIO | None = None
        self._missing = 0

    def allow(self, size_bytes_max: int, limit: str) -> None:
        """Take frames up to another size from the next one on."""
        self._size_max, self._limit = size_bytes_max, limit

    @property
    def bytes_held(self) -> int:
        """Bytes of an unfinished frame."""
        return len(self._head) if self._partial is None else self._partial.tell()

    @property
    def begun(self) -> tuple[int, int] | None:
        """The first two bytes of an unfinished frame as a number, the API key of a request, and its size; None while they have not come."""
        partial = self._partial
        if partial is None or partial.tell() < _KEY.size:
            return None
        return _KEY.unpack_from(partial.getbuffer())[0], partial.tell() + self._missing

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Take the next bytes of the stream and yield the frames they complete; iterate to the end.

        Raises MalformedMessage after the frames before the damage; the stream is lost then.
        """
        position = 0
        if self._partial is not None:
            position = min(self._missing, len(data))
            self._partial.write(memoryview(data)[:position])
            self._missing -= position
            if self._missing:
                return
            frame = self._partial.getvalue()
            self._partial = None
            yield frame
        elif self._head:
            data = self._head + data
            self._head = b""
        frames: list[bytes] = []
        position = cut_frames(data, position, self._size_max, frames)
        yield from frames
        if len(data) - position < SIZE_BYTES:
            self._head = data[position:]
            return
        (size,) = _SIZE.unpack_from(data, position)
        if not 0 < size <= self._size_max:
            raise MalformedMessage(f"frame of {size} bytes: outside [1, {self._size_max}] ({self._limit})")
        position += SIZE_BYTES
        self._partial = io.BytesIO()
        self._partial.write(memoryview(data)[position:])
        self._missing = size - (len(data) - position)


class RequestHead(NamedTuple):
    """The fields every request begins with, in any version of its header."""

    api_key: int
    api_version: int
    correlation_id: int


class RequestHeader(NamedTuple):
    """A request header and where the body begins in the frame."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_offset: int


def key_of(frame: bytes) -> int | None:
    """Return the API key of a request; None if it has none."""
    return _KEY.unpack_from(frame)[0] if len(frame) >= _KEY.size else None


def read_request_head(frame: bytes) -> RequestHead:
    """Read what decides the header's version. Raises MalformedMessage."""
    if len(frame) < 8:
        raise MalformedMessage(f"a frame of {len(frame)} bytes has no request header")
    return RequestHead._make(_REQUEST_START.unpack_from(frame))


def read_request_header(frame: bytes, *, flexible: bool) -> RequestHeader:
    """Read a request header of version 2 (flexible) or 1. Raises MalformedMessage."""
    if len(frame) < _REQUEST_HEAD.size:
        raise MalformedMessage(f"a frame of {len(frame)} bytes has no request header")
    api_key, api_version, correlation_id, length = _REQUEST_HEAD.unpack_from(frame)
    position = _REQUEST_HEAD.size
    client_id: str | None = None
    if length >= 0:
        # A client id is a name for logs and quotas, of any bytes; Kafka reads it so, too.
        client_id, position = read_text(frame, position, length, len(frame), "RequestHeader.client_id", "replace")
    elif length != -1:
        raise MalformedMessage(f"RequestHeader.client_id: negative length {length}")
    if flexible:
        if position < len(frame) and frame[position] == 0:
            position += 1
        else:
            _, position = read_tagged_fields(frame, position, len(frame), _NO_TAGS)
    return RequestHeader(api_key, api_version, correlation_id, client_id, position)


def request_frame(
    api_key: int, api_version: int, correlation_id: int, client_id: str | None, body: bytes, *, flexible: bool = True
) -> bytes:
    """Make a complete request frame, size included, with header version 2 (flexible) or 1."""
    raw = b"" if client_id is None else text_bytes(client_id, "RequestHeader.client_id")
    head = struct.pack(">hhih", api_key, api_version, correlation_id, -1 if client_id is None else len(raw))
    tags = b"\0" if flexible else b""
    return b"".join((_SIZE.pack(len(head) + len(raw) + len(tags) + len(body)), head, raw, tags, body))


def reply_frame(correlation_id: int, body: bytes, *, tagged: bool = True) -> bytes:
    """Make a complete response frame, size included, with header version 1 (tagged) or 0 (as ApiVersions always has)."""
    return b"".join(frame_replies([correlation_id], [body], 0, 1, tagged))


def size_prefix(frame: bytes) -> bytes:
    """The bytes before a frame in a stream."""
    return _SIZE.pack(len(frame))


def read_correlation_id(frame: bytes) -> int:
    """Read the correlation id of a response frame. Raises MalformedMessage."""
    if len(frame) < 4:
        raise MalformedMessage(f"a frame of {len(frame)} bytes has no response header")
    return int(_SIZE.unpack_from(frame)[0])


def reply_body(frame: bytes, *, tagged: bool = True) -> bytes:
    """Cut the header of version 1 (tagged) or 0 off a response frame. Raises MalformedMessage."""
    read_correlation_id(frame)
    if not tagged:
        return frame[4:]
    if len(frame) > 4 and frame[4] == 0:
        return frame[5:]
    return frame[read_tagged_fields(frame, 4, len(frame), _NO_TAGS)[1] :]


def reply_bytes(body: Body, head_bytes: int = REPLY_HEAD_BYTES) -> int:
    """Return the bytes of a reply with its head; 0 for a body of no buffers."""
    if isinstance(body, tuple):
        return head_bytes + sum(map(len, body)) if body else 0
    return head_bytes + len(body)


class Pending:
    """Consecutive requests with the same head that wait for their replies: mostly those of one read.

    `tagged` as in `reply_frame`; `is_large`: the replies may be.
    """

    __slots__ = ("bodies", "correlation_ids", "is_large", "request_bytes", "tagged", "taken")

    def __init__(self, correlation_ids: list[int], request_bytes: list[int], tagged: bool = True, is_large: bool = False) -> None:
        self.correlation_ids = correlation_ids
        self.request_bytes = request_bytes
        self.bodies: list[Body | None] = [None] * len(correlation_ids)
        self.taken = 0
        """The number of replies that were taken."""
        self.tagged = tagged
        self.is_large = is_large


class ReplyQueue:
    """Replies of one connection in request order, with bounds on the waiting ones.

    A request counts from `expect` until its reply is taken: its own bytes until it is completed, its reply's from then
    on. Requests whose reply may be far larger than they are have a bound of their own, because the size of the request says nothing
    of their cost. The queue itself refuses nothing: while `is_full`, its owner must not call `expect`, and never with more requests
    than there is `room` for.
    """

    __slots__ = ("_bytes", "_bytes_max", "_count", "_count_max", "_large", "_large_max", "_queue")

    def __init__(self, count_max: int, bytes_max: int, large_max: int = 4) -> None:
        self._queue: deque[Pending] = deque()
        self._count = 0
        self._large = 0
        self._large_max = large_max
        self._bytes = 0
        self._count_max = count_max
        self._bytes_max = bytes_max

    def __len__(self) -> int:
        return self._count

    @property
    def bytes_waiting(self) -> int:
        """Bytes of requests without reply and of replies not yet taken."""
        return self._bytes

    @property
    def is_full(self) -> bool:
        """True while no further request may be expected."""
        return self._count >= self._count_max or self._bytes >= self._bytes_max or self._large >= self._large_max

    @property
    def is_ready(self) -> bool:
        """True if `take` would return something."""
        if not self._queue:
            return False
        first = self._queue[0]
        return first.bodies[first.taken] is not None

    @property
    def room(self) -> tuple[int, int]:
        """How many requests without large replies may be expected, and up to which sum of their bytes; the last may go beyond that."""
        return self._count_max - self._count, self._bytes_max - self._bytes

    def expect(self, pending: Pending) -> None:
        """Note requests; their replies take this place in the order."""
        count = len(pending.correlation_ids)
        self._queue.append(pending)
        self._count += count
        if pending.is_large:
            self._large += count
        self._bytes += sum(pending.request_bytes)

    def clear(self) -> None:
        """Forget the requests: their replies are no longer needed."""
        self._queue.clear()
        self._count = self._large = self._bytes = 0

    def complete(self, pending: Pending, place: int, body: Body) -> None:
        """Give the request at this place its reply. Each is completed once."""
        self.complete_all(pending, ((place, body),))

    def complete_all(self, pending: Pending, answers: Iterable[tuple[int, Body]]) -> None:
        """Give requests their replies, by their places. Each is completed once."""
        bodies, request_bytes, grown = pending.bodies, pending.request_bytes, 0
        head_bytes = REPLY_HEAD_BYTES + pending.tagged
        for place, body in answers:
            assert bodies[place] is None, f"request {pending.correlation_ids[place]} was answered twice"
            bodies[place] = body
            grown += reply_bytes(body, head_bytes) - request_bytes[place]
        self._bytes += grown

    def take(self) -> bytes | list[Buffer]:
        """Remove and return, in order, the reply frames before the first unanswered request; more than `JOINED_BYTES_MAX` in pieces."""
        queue = self._queue
        pieces: list[Buffer] = []
        count = 0
        while queue:
            pending = queue[0]
            bodies, first = cast("list[Body]", pending.bodies), pending.taken
            if bodies[first] is None:
                break
            stop = bodies.index(None) if None in bodies else len(bodies)  # type: ignore[arg-type]
            pieces += frame_replies(pending.correlation_ids, bodies, first, stop, pending.tagged)
            count += stop - first
            if pending.is_large:
                self._large -= stop - first
            if stop < len(bodies):
                # Taken bodies are released at once; the empty bytes say that the request was answered.
                bodies[first:stop] = [b""] * (stop - first)
                pending.taken = stop
                break
            queue.popleft()
        size = sum(map(len, pieces))
        self._count -= count
        self._bytes -= size
        return pieces if size > JOINED_BYTES_MAX else b"".join(pieces)
