"""A plain blocking connection to a node, pipelined: its own cost is small, and its latencies are those of a client."""

from __future__ import annotations

import socket
import time
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import count
from typing import NamedTuple, Self

from coordinator.operations.table import operation_of
from coordinator.protocol.codec import Message, encode
from coordinator.protocol.framing import FrameReader, read_correlation_id, reply_body, request_frame

REPLY_BYTES_MAX = 256 << 20
CHUNK_BYTES = 1 << 18
TIMEOUT_S = 120.0


class Answered(NamedTuple):
    """A reply's body, and the time from sending the request until the whole reply was here."""

    body: bytes
    seconds: float


class Wire:
    """One connection. Replies come in the order of the requests."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._frames = FrameReader(REPLY_BYTES_MAX)
        self._numbers = count(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def call(self, message: Message) -> Answered:
        """Send one message and wait for its answer."""
        [answered] = self.exchange([plain_body(message)], 1)
        return answered

    def exchange(self, requests: Iterable[tuple[int, int, bytes]], in_flight: int) -> Iterator[Answered]:
        """Send (api key, version, body) requests, at most so many under way; yields their answers. Raises ConnectionError."""
        sent: deque[tuple[int, float]] = deque()
        waiting = iter(requests)
        is_more = True
        while True:
            while is_more and len(sent) < in_flight:
                request = next(waiting, None)
                if request is None:
                    is_more = False
                    break
                number = next(self._numbers)
                sent.append((number, time.perf_counter()))
                self._socket.sendall(request_frame(request[0], request[1], number, "benchmark", request[2]))
            if not sent:
                return
            data = self._socket.recv(CHUNK_BYTES)
            if not data:
                raise ConnectionError("the node closed the connection of the benchmark")
            now = time.perf_counter()
            for frame in self._frames.feed(data):
                number, at = sent.popleft()
                if read_correlation_id(frame) != number:
                    raise ConnectionError(f"reply {read_correlation_id(frame)} came where {number} was due")
                yield Answered(reply_body(frame), now - at)


def plain_body(message: Message) -> tuple[int, int, bytes]:
    """(api key, version, encoded body) of a message."""
    operation, version = operation_of(type(message))
    return operation.key, version, encode(message)
