"""Raw connections to a listener with TLS and logins, for clients that break off, lie, or repeat what they overheard."""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from coordinator.protocol.api_keys import ApiKey
from coordinator.protocol.framing import request_frame
from coordinator.security.scram import ScramClient

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
ENDS_S = 60.0
"""How long a connection may stay that the node has to end; far more than it takes."""


def handshake(mechanism: str, version: int = 1) -> bytes:
    """The frame of a SaslHandshake."""
    text = mechanism.encode()
    return request_frame(ApiKey.SASL_HANDSHAKE, version, 1, "stranger", struct.pack(">h", len(text)) + text, flexible=False)


def authenticate(data: bytes) -> bytes:
    """The frame of a SaslAuthenticate."""
    return request_frame(ApiKey.SASL_AUTHENTICATE, 0, 2, "stranger", struct.pack(">i", len(data)) + data, flexible=False)


def client_hello(host: str) -> bytes:
    """The first bytes of a TLS handshake."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname=host)
    with suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


@asynccontextmanager
async def opened(host: str, port: int, trusted: Path | None = None) -> AsyncIterator[Streams]:
    """A connection, by TLS where an authority is trusted; hung up at the end."""
    context = None if trusted is None else ssl.create_default_context(cafile=trusted)
    reader, writer = await asyncio.open_connection(host, port, ssl=context)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    """The next answer, without its size. Raises IncompleteReadError and ConnectionError when the node hangs up."""
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))


async def read_to_end(reader: asyncio.StreamReader) -> bytes:
    """Everything until the node hangs up. Raises TimeoutError when it does not."""
    read = bytearray()
    async with asyncio.timeout(ENDS_S):
        with suppress(ConnectionError, ssl.SSLError):
            while data := await reader.read(1 << 16):
                read += data
    return bytes(read)


async def exchange(streams: Streams, frame: bytes) -> tuple[int, bytes]:
    """Send a message of a login; the error code and the rest of its answer."""
    reader, writer = streams
    writer.write(frame)
    async with asyncio.timeout(ENDS_S):
        answer = await read_frame(reader)
    return struct.unpack_from(">h", answer, 4)[0], answer[6:]


async def log_in(streams: Streams, mechanism: str, user: str, password: str) -> tuple[bytes, bytes, bytes]:
    """Log in by SCRAM; what went over the line: the client's two messages and the server's last one."""
    client = ScramClient(mechanism, user, password)
    first = client.first()
    assert (await exchange(streams, handshake(mechanism)))[0] == 0
    _, answer = await exchange(streams, authenticate(first))
    final = client.final(challenge_of(answer))
    code, answer = await exchange(streams, authenticate(final))
    assert code == 0
    return first, final, challenge_of(answer)


def challenge_of(rest: bytes) -> bytes:
    """The bytes that an answer to SaslAuthenticate (version 0) carries, behind a text that is null or short."""
    (text,) = struct.unpack_from(">h", rest)
    at = 2 + max(0, text)
    (size,) = struct.unpack_from(">i", rest, at)
    return rest[at + 4 : at + 4 + size]
