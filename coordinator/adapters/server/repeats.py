"""Requests that clients send again and again, and that are answered alike after a while: long polls without news.

The handler has such a request remembered with its answer (`Host.remember`). From then on a request of the connection with the same bytes,
but for its correlation id, is not read: it waits here, and gets that answer when its time is over. One that comes while others are
unanswered is read as any other, and one that waits is given to the handler as soon as anything else comes, or the answer holds no more.

For a request that needs no thought, the event loop's own work on a socket costs more than all else. So a connection whose request has come
again lends its socket: system calls alone read and write it here, with all others that are ready. The loop gets the socket back as soon as
anything else has to be done with it. Sockets with TLS stay with the loop, and so do all where the system has no epoll.

Invariants: an answer is given when its time is over, or up to `TICK_S` sooner, never later; those of a tick are given together, which
spares most of the wake-ups of the loop. While a socket is lent, its connection has nothing to read, to serve or to send besides.
"""

from __future__ import annotations

import asyncio
import heapq
import os
import select
from typing import Final, Protocol

from coordinator.adapters.server.contract import IncomingRequest, Promise, ServerStats
from coordinator.protocol.framing import reply_frame, size_prefix

TICK_S: Final = 0.01
SHORTEST_S: Final = 2 * TICK_S
"""Requests that wait less are not remembered: they would be answered at once."""
REQUEST_BYTES_MAX: Final = 8 * 1024
"""Larger requests are not remembered: there is one for each connection."""
_ID: Final = slice(8, 12)
"""Where the correlation id of a request is, after its length, key and version."""
_AT_A_TIME: Final = 256


class Repeated(Protocol):
    """A connection as its remembered request sees it."""

    def lend_socket(self, one: Remembered) -> None:
        """Lend the socket, if nothing else has to be done with it."""

    def send_again(self, reply: bytes) -> None:
        """Take back the socket if it is lent, and send the answer to the request that waited, or the rest of it."""

    def read_lent(self, data: bytes) -> None:
        """Take back the socket, of which this was read: nothing if the connection has come to its end."""

    def forget_request(self, one: Remembered) -> None:
        """Read this request again from now on."""


class Remembered:
    """A remembered request, and the one of the same bytes that waits."""

    def __init__(
        self, connection: Repeated, request: IncomingRequest, body: bytes, wait_s: float, promise: Promise, *, is_answer_tagged: bool
    ) -> None:
        frame = size_prefix(request.data) + request.data
        self.connection = connection
        self.key = request.wire_api_key
        self.wait_s = wait_s
        self.size_bytes = len(frame)
        self._start, self._end = frame[: _ID.start], frame[_ID.stop :]
        reply = reply_frame(0, body, tagged=is_answer_tagged)
        self._reply_start, self._reply_end = reply[:4], reply[8:]
        self._promise = promise
        self._holds_until_s = promise.holds_until_s()
        self.repeated = 0
        """How many were answered so."""
        self.waits: bytes | None = None
        """The correlation id of the request that waits."""
        self.since_s = 0.0
        """When the last one came."""
        self.tick = 0
        self.socket: int | None = None
        """The number of the socket while it is lent."""

    def take(self, data: bytes, now_s: float) -> bool:
        """Take what was read if it is this request and nothing else, and the answer still holds; returns whether it waits now."""
        if self.waits is not None or len(data) != self.size_bytes or not data.endswith(self._end) or not data.startswith(self._start):
            return False
        if now_s >= self._holds_until_s:
            self._holds_until_s = self._promise.holds_until_s()
            if now_s > self._holds_until_s:
                return False
        self.waits, self.since_s = data[_ID], now_s
        return True

    def take_reply(self) -> bytes:
        """Return the frame of the answer to the request that waits, which then does no more."""
        assert self.waits is not None, "it waits"
        reply = self._reply_start + self.waits + self._reply_end
        self.waits = None
        self.repeated += 1
        return reply

    def take_back(self) -> bytes:
        """Return the frame of the request that waits, without its length; it then waits no more."""
        assert self.waits is not None, "it waits"
        frame = self._start[4:] + self.waits + self._end
        self.waits = None
        return frame

    def forget(self) -> None:
        """Have the next request of these bytes read, and the one that waits now."""
        self.connection.forget_request(self)

    def forgotten(self) -> None:
        """Tell the handler that it is not needed any more."""
        self._promise.ended()


class Repeats:
    """The requests that wait, of all connections of a listener, and the sockets that are lent. Used on one event loop."""

    def __init__(self, stats: ServerStats) -> None:
        self._stats = stats
        self._due: dict[int, list[Remembered]] = {}
        """By the tick in which they are answered."""
        self._ticks: list[int] = []
        self._timer: asyncio.TimerHandle | None = None
        self._epoll: select.epoll | None = None
        self._lent: dict[int, Remembered] = {}

    def put(self, one: Remembered, now_s: float, loop: asyncio.AbstractEventLoop) -> None:
        """Have a request answered when its time is over."""
        self._stats.bytes_in += one.size_bytes
        one.tick = tick = int((now_s + one.wait_s) / TICK_S)
        together = self._due.get(tick)
        if together is not None:
            together.append(one)
            return
        self._due[tick] = [one]
        heapq.heappush(self._ticks, tick)
        if self._ticks[0] == tick:
            self._arm(loop)

    def lend(self, one: Remembered, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        """Take the socket of a connection, unless it has to stay with the loop."""
        if not hasattr(select, "epoll") or transport.get_extra_info("sslcontext") is not None or transport.get_write_buffer_size():
            return
        if self._epoll is None:
            self._epoll = select.epoll()
            loop.add_reader(self._epoll.fileno(), self._read, loop)
        number = int(transport.get_extra_info("socket").fileno())
        transport.pause_reading()
        self._epoll.register(number, select.EPOLLIN)
        self._lent[number] = one
        one.socket = number

    def give_back(self, one: Remembered, transport: asyncio.Transport) -> None:
        """Let the loop have a socket again that was lent."""
        assert self._epoll is not None, "a socket was lent"
        assert one.socket is not None, "this one"
        del self._lent[one.socket]
        self._epoll.unregister(one.socket)
        one.socket = None
        if not transport.is_closing():
            transport.resume_reading()

    def close(self, loop: asyncio.AbstractEventLoop) -> None:
        """End all work: there are no connections any more."""
        if self._timer is not None:
            self._timer.cancel()
        if self._epoll is not None:
            loop.remove_reader(self._epoll.fileno())
            self._epoll.close()
            self._epoll = None

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        assert self._epoll is not None, "it is ready"
        now_s = loop.time()
        for number, _ in self._epoll.poll(0, _AT_A_TIME):
            one = self._lent.get(number)
            if one is None:
                continue  # one of those before it gave it back
            try:
                data = os.read(number, one.size_bytes + 1)
            except BlockingIOError:
                continue
            except OSError:
                data = b""
            if one.take(data, now_s):
                self.put(one, now_s, loop)
            else:
                one.connection.read_lent(data)

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_at(self._ticks[0] * TICK_S, self._come_due, loop)

    def _come_due(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer, now_s = None, loop.time()
        while self._ticks and self._ticks[0] * TICK_S <= now_s + TICK_S / 2:
            tick = heapq.heappop(self._ticks)
            for one in self._due.pop(tick):
                if one.waits is not None and one.tick == tick:  # else it was given to the handler
                    self._answer(one)
        if self._ticks:
            self._arm(loop)

    def _answer(self, one: Remembered) -> None:
        if one.socket is None:
            one.connection.lend_socket(one)
        reply, sent = one.take_reply(), 0
        self._stats.requests[one.key] += 1
        self._stats.bytes_out += len(reply)
        if one.socket is not None:
            try:
                sent = os.write(one.socket, reply)
            except OSError:
                sent = 0  # the loop sends it, and finds what is wrong
        if sent < len(reply):
            one.connection.send_again(reply[sent:])
