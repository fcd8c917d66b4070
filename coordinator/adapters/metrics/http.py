"""The HTTP port: GET /healthy, /ready, /metrics and /config, one request per connection.

It is meant for orchestrators and metric collectors and trusts no client: request size, time, and the number of connections are
bounded, those in a handshake of TLS included, and nothing a client sends ends more than its own connection. One more than there
is room for ends the oldest that has its answer and was not closed, else the oldest that has not asked yet, else the oldest: so
strangers who do not close, or say nothing, make no orchestrator believe that a node is dead. /healthy only says that the process
answers (never what Kafka does: restarting a coordinator does not heal Kafka); /ready asks the callable it was given; /config
has the settings with their sources, without secrets. Where tokens are asked for, /healthy needs none, and /ready tells who has
none at most yes or no.
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import re
import socket
import ssl
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from itertools import chain
from typing import cast

from coordinator.adapters.metrics.registry import CONTENT_TYPE, Metrics
from coordinator.config.values import HttpAddress

log = logging.getLogger(__name__)

REQUEST_BYTES_MAX = 8 * 1024
CONNECTIONS_MAX = 64
LINGER_BYTES_MAX = 256 * 1024
ACCEPT_PAUSE_S = 0.1

_AUTHORIZATION = re.compile(rb"\r\nauthorization:[ \t]*([^\r\n]*)", re.IGNORECASE)

Ready = Callable[[], tuple[bool, Mapping[str, object]]]
Admit = Callable[[str], bool]
"""Takes the value of an Authorization header, empty without one; tells whether its sender may see everything."""


def _plain_text() -> None:
    return None


@dataclass(frozen=True, slots=True)
class _Answer:
    status: HTTPStatus
    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    more_headers: str = ""

    def encode(self) -> bytes:
        head = (
            f"HTTP/1.1 {self.status.value} {self.status.phrase}\r\n"
            f"Content-Type: {self.content_type}\r\n"
            f"Content-Length: {len(self.body)}\r\n"
            f"{self.more_headers}"
            "Cache-Control: no-store\r\n"
            "Connection: close\r\n\r\n"
        )
        return head.encode("ascii") + self.body


class HttpServer:
    """Serves the HTTP port on the running event loop."""

    def __init__(
        self,
        address: HttpAddress,
        *,
        ready: Ready,
        metrics: Metrics,
        request_timeout_ms: int = 5_000,
        tls: Callable[[], ssl.SSLContext | None] = _plain_text,
        admit: Admit | None = None,
        is_ready_open: bool = True,
        settings: Sequence[Mapping[str, object]] = (),
    ) -> None:
        """`ready` says whether this process is ready and why, and must return at once. `settings` are told as they are, without secrets.

        `tls` returns the context for the next handshake. Without `admit` everybody may see everything.
        """
        self._wanted = address
        self._ready = ready
        self._metrics = metrics
        self._timeout_s = request_timeout_ms / 1000
        self._tls = tls
        self._admit = admit
        self._is_ready_open = is_ready_open
        self._settings = settings
        self._listening: list[socket.socket] = []
        self._accepting: list[asyncio.Task[None]] = []
        # All tasks, those that have sent their answer, and those that have not read a whole request yet; each the oldest first.
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._lingering: dict[asyncio.Task[None], None] = {}
        self._asked_nothing: dict[asyncio.Task[None], None] = {}

    async def start(self) -> HttpAddress:
        """Listen, and return the address with the port really used. Raises OSError when it is taken."""
        loop = asyncio.get_running_loop()
        # A server of the loop would only tell of connections whose handshake is over: they could not be counted.
        found = await loop.getaddrinfo(self._wanted.host or None, self._wanted.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        self._listening = _listen(dict.fromkeys((family, str(place[0])) for family, _, _, _, place in found), self._wanted.port)
        self._accepting = [loop.create_task(self._accept(one), name="http-accept") for one in self._listening]
        return replace(self._wanted, port=self._listening[0].getsockname()[1])

    async def stop(self) -> None:
        """Stop listening and end the requests under way. Calling it again does nothing."""
        tasks = [*self._accepting, *self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for one in self._listening:
            one.close()
        self._listening, self._accepting = [], []

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connected, _ = await loop.sock_accept(listening)
            except OSError as error:  # no file descriptor is left, or the client is gone already
                log.debug("HTTP client not accepted: %s", error)
                await asyncio.sleep(ACCEPT_PAUSE_S)
                continue
            if len(self._tasks) >= CONNECTIONS_MAX:
                await asyncio.sleep(0)  # every task has begun then: one that is cancelled before could not close its socket
                oldest = next(chain(self._lingering, self._asked_nothing, self._tasks), None)
                if oldest is not None:
                    self._forget(oldest)
                    oldest.cancel()
            task = loop.create_task(self._serve(connected))
            self._tasks[task] = None
            self._asked_nothing[task] = None
            task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        for tasks in (self._tasks, self._lingering, self._asked_nothing):
            tasks.pop(task, None)

    def _has_answered(self, task: asyncio.Task[None]) -> None:
        """A task has sent its answer. One that was ended meanwhile stays forgotten."""
        self._asked_nothing.pop(task, None)
        if task in self._tasks:
            self._lingering[task] = None

    async def _serve(self, connected: socket.socket) -> None:
        try:
            reader, writer = await self._open(connected)
        except (OSError, RuntimeError) as error:
            # The client sent no TLS or went away; the loop tells the end of a handshake's time in different ways.
            log.debug("HTTP client without TLS: %s", error)
            connected.close()
            return
        except asyncio.CancelledError:
            connected.close()
            raise
        # drain() then waits until everything is with the kernel, so that abort() below cuts nothing off; at high=0 uvloop never resumes.
        writer.transport.set_write_buffer_limits(high=1, low=0)
        try:
            answer = await self._answer_to(reader)
            if answer is not None:
                async with asyncio.timeout(self._timeout_s):
                    writer.write(answer.encode())
                    await writer.drain()
                    self._has_answered(cast("asyncio.Task[None]", asyncio.current_task()))
                    await _end(reader, writer)
        except (OSError, TimeoutError) as error:
            log.debug("HTTP client went away: %s", error)
        finally:
            # At once and without waiting: a client that does not read must not hold the connection.
            writer.transport.abort()

    async def _open(self, connected: socket.socket) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return the streams of a connection, after its handshake if there is one. Raises OSError, RuntimeError."""
        loop, context = asyncio.get_running_loop(), self._tls()
        reader = asyncio.StreamReader(REQUEST_BYTES_MAX)
        protocol = asyncio.StreamReaderProtocol(reader)
        transport, _ = await loop.connect_accepted_socket(
            lambda: protocol, connected, ssl=context, ssl_handshake_timeout=None if context is None else self._timeout_s
        )
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)

    async def _answer_to(self, reader: asyncio.StreamReader) -> _Answer | None:
        """Read one request and answer it; None when the client left before it was complete."""
        try:
            async with asyncio.timeout(self._timeout_s):
                head = await reader.readuntil(b"\r\n\r\n")
        except TimeoutError:
            return _Answer(HTTPStatus.REQUEST_TIMEOUT, b"the request took too long\n")
        except asyncio.LimitOverrunError:
            return _Answer(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, b"a request may have 8192 bytes\n")
        except asyncio.IncompleteReadError:
            return None
        self._asked_nothing.pop(cast("asyncio.Task[None]", asyncio.current_task()), None)
        parts = head.partition(b"\r\n")[0].split(b" ")
        if len(parts) != 3 or not parts[2].startswith(b"HTTP/1.") or not parts[1].startswith(b"/"):
            return _Answer(HTTPStatus.BAD_REQUEST, b"not an HTTP/1 request\n")
        return await self._route(parts[0], parts[1].partition(b"?")[0], self._may_see_all(head))

    def _may_see_all(self, head: bytes) -> bool:
        given = _AUTHORIZATION.search(head)
        return self._admit is None or self._admit("" if given is None else given[1].decode("latin-1"))

    async def _route(self, method: bytes, path: bytes, may_see_all: bool) -> _Answer:
        if path not in (b"/healthy", b"/ready", b"/metrics", b"/config"):
            return _Answer(HTTPStatus.NOT_FOUND, b"there are /healthy, /ready, /metrics and /config\n")
        if method != b"GET":
            return _Answer(HTTPStatus.METHOD_NOT_ALLOWED, b"only GET\n", more_headers="Allow: GET\r\n")
        if not may_see_all and (path in (b"/metrics", b"/config") or (path == b"/ready" and not self._is_ready_open)):
            wanted = b"send a token of http.bearer.token.file as Authorization: Bearer\n"
            return _Answer(HTTPStatus.UNAUTHORIZED, wanted, more_headers="WWW-Authenticate: Bearer\r\n")
        try:
            match path:
                case b"/healthy":
                    return _json(HTTPStatus.OK, {"healthy": True})
                case b"/config":
                    return _json(HTTPStatus.OK, {"settings": self._settings})
                case b"/ready":
                    is_ready, detail = self._ready()
                    return _json(
                        HTTPStatus.OK if is_ready else HTTPStatus.SERVICE_UNAVAILABLE,
                        {"ready": is_ready, **(detail if may_see_all else {})},
                    )
            self._metrics.collect()
            # Rendering thousands of series takes milliseconds; commits must not wait for it.
            return _Answer(HTTPStatus.OK, await asyncio.to_thread(self._metrics.render), CONTENT_TYPE)
        except Exception:  # an exception of a reader must not end the port
            log.exception("HTTP %s failed", path.decode("ascii", "replace"))
            return _Answer(HTTPStatus.INTERNAL_SERVER_ERROR, b"failed, see the log\n")


def _listen(places: Iterable[tuple[int, str]], port: int) -> list[socket.socket]:
    """Listen at each (family, address), all at one port. Raises OSError when it is taken, or nothing can be listened at."""
    listening: list[socket.socket] = []
    unusable: OSError | None = None
    for family, host in places:
        try:
            one = socket.create_server((host, port), family=family, backlog=CONNECTIONS_MAX)
        except OSError as error:
            if error.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
                for opened in listening:
                    opened.close()
                raise
            unusable = error  # most often IPv6 on a machine without it
            continue
        one.setblocking(False)
        port = int(one.getsockname()[1])
        listening.append(one)
    if not listening:
        raise unusable or OSError(errno.EADDRNOTAVAIL, "the host has no address")
    return listening


def _json(status: HTTPStatus, value: Mapping[str, object]) -> _Answer:
    return _Answer(status, json.dumps(value).encode() + b"\n", "application/json")


async def _end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Say that nothing follows, and wait for the client to have read it."""
    if writer.can_write_eof():
        writer.write_eof()
        await _linger(reader)
    else:
        writer.close()  # the end of TLS says it
        await writer.wait_closed()


async def _linger(reader: asyncio.StreamReader) -> None:
    """Read on until the client closes: closing with unread input would reset the connection and lose the answer."""
    seen = 0
    while seen < LINGER_BYTES_MAX:
        chunk = await reader.read(REQUEST_BYTES_MAX)
        if not chunk:
            return
        seen += len(chunk)
