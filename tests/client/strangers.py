"""Servers that are no nodes, as little of each as an address is told by."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager

PRODUCE, FETCH, API_VERSIONS = 0, 1, 18

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def as_broker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer ApiVersions 0 as Kafka does."""
    [size] = struct.unpack(">i", await reader.readexactly(4))
    request = await reader.readexactly(size)
    key, version, correlation_id = struct.unpack_from(">hhi", request)
    assert (key, version) == (API_VERSIONS, 0)
    ranges = b"".join(struct.pack(">hhh", one, 0, 9) for one in (PRODUCE, FETCH, API_VERSIONS))
    body = struct.pack(">ihi", correlation_id, 0, 3) + ranges
    writer.write(struct.pack(">i", len(body)) + body)


async def as_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer anything as an HTTP server does."""
    await reader.read(4)
    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")


async def as_patient_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Wait for the end of a request's head, as most HTTP servers do, before saying that it was none."""
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")


async def as_tls(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer plain text with a TLS alert."""
    await reader.read(4)
    writer.write(b"\x15\x03\x03\x00\x02\x02\x46")
    await writer.drain()
    writer.close()


async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Close the connection once something was said."""
    await reader.read(4)
    writer.close()


async def be_silent(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    """Accept, and never answer."""
    await reader.read()


@contextmanager
def full() -> Iterator[int]:
    """The port of a server whose queue of connections is full: a new one is neither made nor refused."""
    with socket.socket() as deaf, ExitStack() as fillers:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        port = int(deaf.getsockname()[1])
        for _ in range(4):
            filler = fillers.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
        yield port


@asynccontextmanager
async def listening(answer: Answer) -> AsyncIterator[int]:
    """Serve on a port of the system's choice."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await answer(reader, writer)
            await reader.read()
        except ConnectionError:
            pass  # who asked has heard enough
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()
