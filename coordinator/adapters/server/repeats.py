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
import select
from typing import Final

from coordinator.adapters.server.contract import ServerStats
from coordinator.adapters.server.repeats_loops import Remembered, answer_due, put_in_ticks, read_ready

TICK_S: Final = 0.01
SHORTEST_S: Final = 2 * TICK_S
"""Requests that wait less are not remembered: they would be answered at once."""
REQUEST_BYTES_MAX: Final = 8 * 1024
"""Larger requests are not remembered: there is one for each connection."""
_AT_A_TIME: Final = 256


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

    def put(self, waiting: list[Remembered], now_s: float, loop: asyncio.AbstractEventLoop) -> None:
        """Have requests answered when their time is over."""
        self._stats.bytes_in += sum([one.size_bytes for one in waiting])
        begun = put_in_ticks(waiting, now_s, TICK_S, self._due)
        if begun:
            first = self._ticks[0] if self._ticks else None
            for tick in begun:
                heapq.heappush(self._ticks, tick)
            if self._ticks[0] != first:
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
        del self._lent[one.socket]
        self._epoll.unregister(one.socket)
        one.socket = -1
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
        self.put(read_ready(self._epoll.poll(0, _AT_A_TIME), self._lent, now_s), now_s, loop)

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_at(self._ticks[0] * TICK_S, self._come_due, loop)

    def _come_due(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer, now_s = None, loop.time()
        while self._ticks and self._ticks[0] * TICK_S <= now_s + TICK_S / 2:
            tick = heapq.heappop(self._ticks)
            answered = answer_due(self._due.pop(tick), tick)
            for one in answered:
                self._stats.requests[one.key] += 1
                self._stats.bytes_out += one.reply_bytes
        if self._ticks:
            self._arm(loop)
