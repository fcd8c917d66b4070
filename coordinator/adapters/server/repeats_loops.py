"""The requests that connections remember, and the passes over those that came or are due. Compiled when installed (`setup.py`); the `.pxd`
has the types.

An idle consumer costs two system calls twice a second: whatever else is done for its requests counts.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Protocol

from coordinator.adapters.server.contract import IncomingRequest, Promise
from coordinator.protocol.framing import reply_frame, size_prefix

ID_START = 8
ID_STOP = 12
"""Where the correlation id of a request is, after its length, key and version."""


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
        self._start, self._end = frame[:ID_START], frame[ID_STOP:]
        reply = reply_frame(0, body, tagged=is_answer_tagged)
        self._reply_start, self._reply_end = reply[:4], reply[8:]
        self.reply_bytes = len(reply)
        self._promise = promise
        self._holds_until_s = promise.holds_until_s()
        self.repeated = 0
        """How many were answered so."""
        self.waits: bytes | None = None
        """The correlation id of the request that waits."""
        self.since_s = 0.0
        """When the last one came."""
        self.tick = 0
        self.socket = -1
        """The number of the socket while it is lent."""

    def take(self, data: bytes, now_s: float) -> bool:
        """Take what was read if it is this request and nothing else, and the answer still holds; returns whether it waits now."""
        if self.waits is not None or len(data) != self.size_bytes or not data.endswith(self._end) or not data.startswith(self._start):
            return False
        if now_s >= self._holds_until_s:
            self._holds_until_s = self._promise.holds_until_s()
            if now_s > self._holds_until_s:
                return False
        self.waits, self.since_s = data[ID_START:ID_STOP], now_s
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


def read_ready(ready: Sequence[tuple[int, int]], lent: Mapping[int, Remembered], now_s: float) -> list[Remembered]:
    """Read the sockets that are ready, by their numbers: what is not the request that is remembered goes to the connection.

    Returns the requests that wait now.
    """
    waiting: list[Remembered] = []
    for number, _ in ready:
        one = lent.get(number)
        if one is None:
            continue  # one of those before it has given it back
        try:
            data = os.read(number, one.size_bytes + 1)
        except BlockingIOError:
            continue
        except OSError:
            data = b""
        if one.take(data, now_s):
            waiting.append(one)
        else:
            one.connection.read_lent(data)
    return waiting


def put_in_ticks(waiting: list[Remembered], now_s: float, tick_s: float, due: dict[int, list[Remembered]]) -> list[int]:
    """Put requests to the ticks in which they are answered; returns the ticks that had none."""
    begun: list[int] = []
    for one in waiting:
        one.tick = int((now_s + one.wait_s) / tick_s)
        together = due.get(one.tick)
        if together is None:
            due[one.tick] = [one]
            begun.append(one.tick)
        else:
            together.append(one)
    return begun


def answer_due(together: list[Remembered], tick: int) -> list[Remembered]:
    """Answer the requests of a tick; returns them without those that were given to the handler."""
    answered: list[Remembered] = []
    for one in together:
        if one.waits is None or one.tick != tick:
            continue
        if one.socket < 0:
            one.connection.lend_socket(one)
        reply = one.take_reply()
        sent = 0
        if one.socket >= 0:
            try:
                sent = os.write(one.socket, reply)
            except OSError:
                sent = 0  # the loop sends it, and finds what is wrong
        if sent < len(reply):
            one.connection.send_again(reply[sent:])
        answered.append(one)
    return answered
