"""Connections to nodes, kept open and shared: one for each (host, port, purpose), made when first needed and after a loss.

Replies of one connection come in request order, so a slow request holds up the replies behind it: requests that may
wait long (topics), commits and reads go through lines of their own.
Never retries a request that may have reached the node; a request on a connection found dead before sending goes out on a new one.
Invariant: a request that got no reply in time closes its connection, so that a node which fell silent is not asked through it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Final, NamedTuple, TypeVar

from coordinator.client.routing.connection import ClientConnection, ConnectionLost, RequestTimedOut
from coordinator.client.routing.identify import Found, identify_all
from coordinator.protocol.codec import Message
from coordinator.security.client_security import PLAIN_TEXT, ClientSecurity

CONNECT_TIMEOUT_S: Final = 2.0
SECURED_EXTRA_S: Final = 8.0
"""How much longer a connection with TLS or a login may take: a server hashes one password after the other."""

T = TypeVar("T")


class Line(NamedTuple):
    """Which connection a request takes: each purpose has one of its own to a node."""

    host: str
    port: int
    purpose: str


class ConnectionPool:
    """Hands requests to connections. Used on one event loop; its maker closes it."""

    def __init__(
        self, *, client_id: str | None, security: ClientSecurity = PLAIN_TEXT, connect_timeout_s: float = CONNECT_TIMEOUT_S
    ) -> None:
        self.client_id = client_id
        self._security = security
        self._connect_timeout_s = connect_timeout_s
        self._open: dict[Line, ClientConnection] = {}
        self._connecting: dict[Line, asyncio.Task[ClientConnection]] = {}
        self._taken: set[tuple[Line, int]] = set()
        self._is_closed = False

    async def request(self, line: Line, api_key: int, api_version: int, body: bytes, timeout_s: float) -> bytes:
        """Send an encoded body and return the reply's. Raises ConnectionLost, RequestTimedOut, MalformedMessage."""

        def send(connection: ClientConnection, remaining_s: float) -> Awaitable[bytes]:
            return connection.request(api_key, api_version, body, remaining_s)

        return await self._send(line, send, timeout_s)

    async def call(self, line: Line, message: Message, timeout_s: float, *, api_key: int | None = None) -> Message:
        """Send a message and return its response. Raises ConnectionLost, RequestTimedOut, MalformedMessage, UnencodableMessage."""

        def send(connection: ClientConnection, remaining_s: float) -> Awaitable[Message]:
            return connection.call(message, remaining_s, api_key=api_key)

        return await self._send(line, send, timeout_s)

    @contextmanager
    def own_line(self, line: Line) -> Iterator[Line]:
        """Give a connection that nobody else uses within the block: what waits on it holds up no other request."""
        number = next(number for number in count() if (line, number) not in self._taken)
        self._taken.add((line, number))
        try:
            yield line._replace(purpose=f"{line.purpose}-{number}")
        finally:
            self._taken.remove((line, number))

    async def identify(self, servers: Sequence[tuple[str, int]], timeout_s: float) -> list[Found]:
        """Find out what listens at addresses, on connections of their own."""
        return await identify_all(servers, timeout_s, self._security.context())

    async def close(self) -> None:
        """Close every connection; what still waits gets ConnectionLost, and so does every later request."""
        self._is_closed = True
        connecting = list(self._connecting.values())
        for task in connecting:
            task.cancel()
        await asyncio.gather(*connecting, return_exceptions=True)
        await asyncio.gather(*(connection.close() for connection in self._open.values()))
        self._open.clear()

    async def _send(self, line: Line, send: Callable[[ClientConnection, float], Awaitable[T]], timeout_s: float) -> T:
        deadline_s = asyncio.get_running_loop().time() + timeout_s
        for is_last in (False, True):
            connection = await self._connection(line, deadline_s)
            try:
                return await send(connection, self._remaining_s(line, deadline_s))
            except ConnectionLost as lost:
                if lost.was_sent or is_last:
                    raise
            except RequestTimedOut:
                await connection.close()
                raise
        raise AssertionError("the second attempt returns or raises")

    def _remaining_s(self, line: Line, deadline_s: float) -> float:
        remaining_s = deadline_s - asyncio.get_running_loop().time()
        if remaining_s <= 0:
            raise ConnectionLost(f"{line.host}:{line.port}: no connection in time", was_sent=False)
        return remaining_s

    async def _connection(self, line: Line, deadline_s: float) -> ClientConnection:
        if self._is_closed:
            raise ConnectionLost(f"{line.host}:{line.port}: this client is closed", was_sent=False)
        connection = self._open.get(line)
        if connection is not None and connection.is_open:
            return connection
        task = self._connecting.get(line)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._connect(line), name=f"connect-{line.host}:{line.port}")
            self._connecting[line] = task
            task.add_done_callback(lambda done: self._connected(line, done))
        # `wait`, not `shield`: a cancelled connecting task would look like the cancellation of the waiting one.
        await asyncio.wait({task}, timeout=self._remaining_s(line, deadline_s))
        if not task.done() or task.cancelled():
            raise ConnectionLost(f"{line.host}:{line.port}: no connection in time", was_sent=False)
        return task.result()

    async def _connect(self, line: Line) -> ClientConnection:
        """One attempt, shared by all who need this connection and bounded by itself, not by their deadlines."""
        self._open = {other: connection for other, connection in self._open.items() if connection.is_open}
        is_plain = self._security.protocol == PLAIN_TEXT.protocol
        timeout_s = self._connect_timeout_s + (0.0 if is_plain else SECURED_EXTRA_S)
        return await ClientConnection.connect(line.host, line.port, client_id=self.client_id, timeout_s=timeout_s, security=self._security)

    def _connected(self, line: Line, task: asyncio.Task[ClientConnection]) -> None:
        del self._connecting[line]
        # Asking for the exception also marks it as seen: those who waited for it may have given up.
        if not task.cancelled() and task.exception() is None:
            self._open[line] = task.result()
