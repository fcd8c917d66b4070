"""A client's connection to one node: pipelined requests, matched to their replies by correlation id.

Used by the client library, the nodes among each other and tests. Knows nothing of leaders or retries. Where a login ends after a time, it
logs in again before that (KIP-368), beside the requests.
Invariant: every request ends in exactly one of reply, ConnectionLost, RequestTimedOut or MalformedMessage.
Runs on one event loop.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Final, cast

from coordinator.client.routing.login import LoginRejected, log_in
from coordinator.errors import DisklessError
from coordinator.operations.table import APIS, operation_of
from coordinator.protocol.codec import Message, decode, encode
from coordinator.protocol.framing import FrameReader, read_correlation_id, reply_body, request_frame
from coordinator.protocol.wire import MalformedMessage
from coordinator.security.client_security import PLAIN_TEXT, ClientSecurity
from coordinator.security.tls_errors import explain_to_client

REPLY_BYTES_MAX: Final = 256 * 1024 * 1024
# Replies come from the service itself, so only their size is limited, not the number of their elements.
REPLY_ELEMENTS_MAX: Final = 1 << 31
LOGIN_TIMEOUT_S: Final = 10.0
LOGIN_AGAIN: Final = 0.85
"""A login is renewed after this share of its lifetime, as in Kafka's clients."""


class ConnectionLost(DisklessError):
    """The connection ended before the reply came. Whether the request took effect is not known, unless `was_sent` is False.

    `is_refused` says that the server does not let this client in, or that this client does not believe the server.
    """

    def __init__(self, text: str, *, was_sent: bool = True, is_refused: bool = False) -> None:
        super().__init__(text)
        self.was_sent = was_sent
        self.is_refused = is_refused


class RequestTimedOut(DisklessError):
    """No reply within the time given. The request may still take effect."""


class ClientConnection(asyncio.Protocol):
    """One connection. Make it with `connect`."""

    def __init__(self, client_id: str | None, name: str, loop: asyncio.AbstractEventLoop, security: ClientSecurity) -> None:
        self.client_id = client_id
        self._security = security
        self.name = name
        self._loop = loop
        self._frames = FrameReader(REPLY_BYTES_MAX)
        self._correlation_id = 0
        # None stands for a request that timed out and whose reply is still to come.
        self._waiting: dict[int, asyncio.Future[bytes] | None] = {}
        self._transport: asyncio.Transport | None = None
        self._lost: str | None = None
        self._is_refused = False
        self._is_ready = False
        self._has_heard = False
        self._next_login: asyncio.TimerHandle | None = None
        self._login: asyncio.Task[None] | None = None
        self._closed: asyncio.Future[None] = loop.create_future()
        self._writable = asyncio.Event()
        self._writable.set()
        self._outbox: list[bytes] = []

    @classmethod
    async def connect(
        cls, host: str, port: int, *, client_id: str | None, timeout_s: float, security: ClientSecurity = PLAIN_TEXT
    ) -> ClientConnection:
        """Connect, and log in, within `timeout_s`. Raises ConnectionLost."""
        loop = asyncio.get_running_loop()
        name = f"{host}:{port}"
        connection: ClientConnection | None = None
        try:
            async with asyncio.timeout(timeout_s):
                made = await loop.create_connection(lambda: cls(client_id, name, loop, security), host, port, ssl=security.context())
                connection = made[1]
                if security.mechanism is not None:
                    await connection._log_in()
                connection._is_ready = True
                return connection
        except ssl.SSLError as error:
            raise ConnectionLost(f"{name}: {explain_to_client(error)}", was_sent=False, is_refused=True) from error
        except (LoginRejected, MalformedMessage) as error:
            raise ConnectionLost(f"{name}: {error}", was_sent=False, is_refused=isinstance(error, LoginRejected)) from error
        except (ConnectionLost, RequestTimedOut) as error:
            raise ConnectionLost(str(error), was_sent=False, is_refused=isinstance(error, ConnectionLost) and error.is_refused) from error
        except TimeoutError as error:
            raise ConnectionLost(f"{name}: not connected within {timeout_s} s", was_sent=False) from error
        except (OSError, ValueError, OverflowError) as error:
            # Besides errors of the network: a registered address may be no host name (UnicodeError) and no port (OverflowError).
            # The end of the other side during the handshake of TLS comes as an error without a text.
            why = str(error) or "the other side hangs up; does it speak this security.protocol?"
            raise ConnectionLost(f"{name}: {why}", was_sent=False) from error
        finally:
            if connection is not None and not connection._is_ready:
                await connection.close()

    @property
    def is_open(self) -> bool:
        """True while requests can be sent."""
        return self._lost is None

    @property
    def pending_count(self) -> int:
        """Requests that wait for their reply, timed out ones included."""
        return len(self._waiting)

    async def request(self, api_key: int, api_version: int, body: bytes, timeout_s: float) -> bytes:
        """Send an encoded request body and return the reply's body. Raises ConnectionLost, RequestTimedOut, MalformedMessage."""
        api = APIS.get(api_key)
        schema = None if api is None else api.versions.get(api_version)
        flexible = schema is None or schema.flexible
        deadline_s = self._loop.time() + timeout_s
        if not self._writable.is_set():
            await self._wait_writable(timeout_s)
        if self._lost is not None:
            raise ConnectionLost(self._lost, was_sent=False, is_refused=self._is_refused)
        correlation_id = self._correlation_id = (self._correlation_id + 1) & 0x7FFF_FFFF
        reply: asyncio.Future[bytes] = self._loop.create_future()
        frame = request_frame(api_key, api_version, correlation_id, self.client_id, body, flexible=flexible)
        self._waiting[correlation_id] = reply
        self._send(frame)
        timer = self._loop.call_at(deadline_s, self._give_up, correlation_id, api_key, timeout_s)
        try:
            return reply_body(await reply, tagged=api is None or api.is_response_tagged(api_version))
        finally:
            timer.cancel()
            if correlation_id in self._waiting:
                self._waiting[correlation_id] = None  # cancelled; the reply will come and is dropped

    async def call(self, message: Message, timeout_s: float, *, api_key: int | None = None) -> Message:
        """Send a request message and return its response message; `api_key` overrides the table's number.

        Raises ConnectionLost, RequestTimedOut, MalformedMessage, UnencodableMessage.
        """
        operation, version = operation_of(type(message))
        body = await self.request(api_key or operation.key, version, encode(message), timeout_s)
        return decode(operation.versions[version].response_type, body, elements_max=REPLY_ELEMENTS_MAX)

    async def close(self) -> None:
        """Close; what still waits gets ConnectionLost."""
        self._lose(f"{self.name}: closed by this side")
        if self._transport is not None:
            self._transport.abort()
        await asyncio.shield(self._closed)

    async def wait_closed(self) -> str:
        """Wait until the connection is gone and return why."""
        await asyncio.shield(self._closed)
        return self._lost or ""

    # --- called by asyncio ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Hand replies to those who wait."""
        self._has_heard = True
        try:
            for frame in self._frames.feed(data):
                correlation_id = read_correlation_id(frame)
                if correlation_id not in self._waiting:
                    raise MalformedMessage(f"reply to request {correlation_id}, which does not wait for one")
                reply = self._waiting.pop(correlation_id)
                if reply is not None and not reply.done():
                    reply.set_result(frame)
        except MalformedMessage as error:
            self._lose(f"{self.name}: {error}")
            if self._transport is not None:
                self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """End every request that waits."""
        if isinstance(exc, ssl.SSLError):
            self._lose(f"{self.name}: {explain_to_client(exc)}", is_refused=True)
        elif exc is not None and self._has_heard:
            self._lose(f"{self.name}: {exc}")
        else:
            self._lose(f"{self.name}: closed by the other side{'' if self._has_heard else self._doubt()}")
        if not self._closed.done():
            self._closed.set_result(None)

    def _doubt(self) -> str:
        """Guess, as the end of an error text, why a server hung up before it sent anything."""
        if not self._security.has_tls:
            return f" before it said anything; does it want another security.protocol than {self._security.protocol}?"
        own = "accept this client's certificate" if self._security.has_certificate else "want a certificate (ssl.keystore.location)"
        return f" before it said anything; does it {own}, and does it speak TLS?"

    def pause_writing(self) -> None:
        """Make new requests wait: the node does not read."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Let requests through again."""
        self._writable.set()

    # --- logins ---

    async def _log_in(self) -> None:
        """Log in, and see to it that it is done again before its time is over. Raises `LoginRejected` and what `call` raises."""
        session_ms = await log_in(self._security, lambda message: self.call(message, LOGIN_TIMEOUT_S))
        if session_ms and self._lost is None:
            self._next_login = self._loop.call_later(session_ms * LOGIN_AGAIN / 1000, self._log_in_again)

    def _log_in_again(self) -> None:
        self._login = self._loop.create_task(self._renew(), name=f"login-{self.name}")

    async def _renew(self) -> None:
        try:
            await self._log_in()
        except (LoginRejected, ConnectionLost, RequestTimedOut, MalformedMessage) as error:
            self._lose(f"{self.name}: {error}", is_refused=isinstance(error, LoginRejected))
            if self._transport is not None:
                self._transport.abort()

    # --- helpers ---

    def _send(self, frame: bytes) -> None:
        """Collect the frames of one tick of the loop into one write."""
        self._outbox.append(frame)
        if len(self._outbox) == 1:
            self._loop.call_soon(self._write_outbox)

    def _write_outbox(self) -> None:
        frames, self._outbox = self._outbox, []
        if self._lost is None and self._transport is not None:
            self._transport.write(b"".join(frames))

    async def _wait_writable(self, timeout_s: float) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await self._writable.wait()
        except TimeoutError as error:
            raise RequestTimedOut(f"{self.name}: the node did not read for {timeout_s} s; the request was not sent") from error

    def _give_up(self, correlation_id: int, api_key: int, timeout_s: float) -> None:
        reply = self._waiting.get(correlation_id)
        if reply is not None and not reply.done():
            self._waiting[correlation_id] = None
            reply.set_exception(RequestTimedOut(f"{self.name}: no reply to request {api_key} within {timeout_s} s"))

    def _lose(self, why: str, *, is_refused: bool = False) -> None:
        if self._lost is not None:
            return
        self._lost, self._is_refused = why, is_refused
        if self._next_login is not None:
            self._next_login.cancel()
        self._writable.set()
        waiting, self._waiting = self._waiting, {}
        for reply in waiting.values():
            if reply is not None and not reply.done():
                reply.set_exception(ConnectionLost(why, is_refused=is_refused))
