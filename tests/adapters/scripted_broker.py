"""A broker on a socket that answers each kind of request as a test says: wrong, slow, or not at all."""

from __future__ import annotations

import socketserver
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import cast

import kio.schema.sasl_authenticate.v0 as sasl_authenticate

from coordinator.protocol.codec import Message, decode, encode
from coordinator.protocol.framing import read_request_head, read_request_header, reply_frame

Answer = Callable[["Broker"], Message | bytes | None]
"""What a broker answers: a message, bytes of its own, or nothing for ever."""


class Broker(socketserver.ThreadingTCPServer):
    """Answers each request key as it is told, and notes the keys and the bodies it was asked."""

    daemon_threads = True

    def __init__(self, answers: Mapping[int, Answer]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers = answers
        self.asked: list[int] = []
        self.logins: list[bytes] = []

    @property
    def port(self) -> int:
        return int(self.server_address[1])


class _Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        broker = cast(Broker, self.server)
        while len(size := self.rfile.read(4)) == 4:
            frame = self.rfile.read(*struct.unpack(">i", size))
            key, _, correlation_id = read_request_head(frame)
            broker.asked.append(key)
            if key == 36:
                header = read_request_header(frame, flexible=False)
                broker.logins.append(decode(sasl_authenticate.SaslAuthenticateRequest, frame, header.body_offset).auth_bytes)
            answer = broker.answers[key](broker)
            if answer is None:
                self.rfile.read(1)  # until the client gives up
                return
            if isinstance(answer, bytes):
                self.wfile.write(answer)
            else:
                self.wfile.write(reply_frame(correlation_id, encode(answer), tagged=answer.__flexible__))


@contextmanager
def broker(answers: Mapping[int, Answer]) -> Iterator[Broker]:
    """A broker on a port of its own."""
    with Broker(answers) as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield made
        made.shutdown()
        thread.join()
