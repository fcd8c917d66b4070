"""What the tests of the server share: a handler that answers on command, and a server on a loopback port."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from coordinator.adapters.server.contract import Handler, IncomingRequest, ListenerSecurity, Respond, ServedApis, ServerLimits
from coordinator.adapters.server.server import Server
from coordinator.operations.table import ApiTable

KEY = 10100
REMAINS_S = 60.0


class Echo(Handler):
    """Answers at once with the request's body."""

    def __init__(self) -> None:
        self.seen: list[IncomingRequest] = []

    def handle(self, request: IncomingRequest, respond: Respond) -> None:
        self.seen.append(request)
        respond(request.data[request.body_offset :])


class Held(Handler):
    """Keeps requests until the test answers them."""

    def __init__(self) -> None:
        self.requests: list[tuple[IncomingRequest, Respond]] = []
        self._changed = asyncio.Event()

    def handle(self, request: IncomingRequest, respond: Respond) -> None:
        self.requests.append((request, respond))
        self._changed.set()

    async def wait_for(self, count: int) -> None:
        async with asyncio.timeout(REMAINS_S):
            while len(self.requests) < count:
                self._changed.clear()
                await self._changed.wait()


@asynccontextmanager
async def serving(
    handler: Handler, limits: ServerLimits | None = None, table: ServedApis | None = None, security: ListenerSecurity | None = None
) -> AsyncIterator[tuple[Server, int]]:
    server = Server(handler, table or ApiTable(), limits=limits, listener="test", security=security)
    port = await server.start("127.0.0.1", 0)
    try:
        yield server, port
    finally:
        await server.stop(0)


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop run until something is true."""
    async with asyncio.timeout(REMAINS_S):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event; this only lets the loop run
            await asyncio.sleep(0)


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(REMAINS_S):
        return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))


async def read_to_end(reader: asyncio.StreamReader) -> bytes:
    """Read until the server hangs up."""
    received = b""
    async with asyncio.timeout(REMAINS_S):
        try:
            while chunk := await reader.read(1 << 16):
                received += chunk
        except ConnectionError:
            return received
    return received
