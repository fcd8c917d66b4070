"""Opens the sockets of a load: with TLS and a login where properties ask for them. Blocks until a connection may send requests."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Mapping
from types import MappingProxyType

from coordinator.client.routing.login import log_in
from coordinator.operations.table import APIS, operation_of
from coordinator.protocol.codec import Message, decode, encode
from coordinator.protocol.framing import FrameReader, reply_body, request_frame
from coordinator.security.client_security import ClientSecurity

CLIENT_ID = "diskless-bench"
PLAIN: Mapping[str, str] = MappingProxyType({})
"""The properties of a connection in plain text without a login."""
CONNECT_TIMEOUT_S = 10.0
ANSWER_BYTES_MAX = 1 << 20
RECEIVE_BYTES = 1 << 14


def connect(host: str, port: int, properties: Mapping[str, str]) -> socket.socket:
    """Connect, secure and log in as properties with the names of Kafka's clients say. Raises OSError, LoginRejected, MalformedMessage."""
    security = ClientSecurity(properties)
    opened = socket.create_connection((host, port), CONNECT_TIMEOUT_S)
    try:
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        context = security.context()
        if context is not None:
            opened = context.wrap_socket(opened, server_hostname=host)
        if security.mechanism is not None:
            asyncio.run(_log_in(opened, security))
        return opened
    except BaseException:
        opened.close()
        raise


def read_all(opened: socket.socket, size: int) -> bytes:
    """Return the bytes that a socket which does not block has now; empty for a node that hung up. Raises BlockingIOError for none."""
    if not isinstance(opened, ssl.SSLSocket):
        return opened.recv(size)
    # TLS hands out one record at a time, and nothing tells of those that it has read ahead.
    parts: list[bytes] = []
    try:
        while data := opened.recv(size):
            parts.append(data)
    except ssl.SSLWantReadError:
        if not parts:
            raise BlockingIOError from None
    return b"".join(parts)


async def _log_in(opened: socket.socket, security: ClientSecurity) -> None:
    frames, answers = FrameReader(ANSWER_BYTES_MAX), deque[bytes]()

    async def call(request: Message) -> Message:
        operation, version = operation_of(type(request))
        schema = operation.versions[version]
        opened.sendall(request_frame(operation.key, version, 0, CLIENT_ID, encode(request), flexible=schema.flexible))
        while not answers:
            data = opened.recv(RECEIVE_BYTES)
            if not data:
                raise ConnectionError("the node hung up during the login")
            answers.extend(frames.feed(data))
        tagged = APIS[operation.key].is_response_tagged(version)
        return decode(schema.response_type, reply_body(answers.popleft(), tagged=tagged))

    await log_in(security, call)
