"""The HTTP port: GET /healthy, /ready and /metrics, one request per connection.

It is meant for orchestrators and metric collectors and trusts no client: request size, time, and the number of connections
are bounded, and nothing a client sends ends more than its own connection. /healthy only says that the process answers
(never what Kafka does: restarting a coordinator does not heal Kafka); /ready asks the callable it was given.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus

from coordinator.adapters.metrics.registry import CONTENT_TYPE, Metrics
from coordinator.config.values import HttpAddress

log = logging.getLogger(__name__)

REQUEST_BYTES_MAX = 8 * 1024
CONNECTIONS_MAX = 64
LINGER_BYTES_MAX = 256 * 1024

Ready = Callable[[], tuple[bool, Mapping[str, object]]]


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

    def __init__(self, address: HttpAddress, *, ready: Ready, metrics: Metrics, request_timeout_ms: int = 5_000) -> None:
        """`ready` says whether this process is ready and why, and must return at once."""
        self._wanted = address
        self._ready = ready
        self._metrics = metrics
        self._timeout_s = request_timeout_ms / 1000
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> HttpAddress:
        """Listen, and return the address with the port really used. Raises OSError when it is taken."""
        host = self._wanted.host or None
        self._server = await asyncio.start_server(self._accept, host, self._wanted.port, limit=REQUEST_BYTES_MAX)
        return HttpAddress(self._wanted.host, self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Stop listening and end the requests under way. Calling it again does nothing."""
        if self._server is None:
            return
        self._server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._server.wait_closed()
        self._server = None

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._tasks) >= CONNECTIONS_MAX:
            writer.close()
            return
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # drain() then waits until everything is with the kernel, so that abort() below cuts nothing off.
        writer.transport.set_write_buffer_limits(0)
        try:
            answer = await self._answer_to(reader)
            if answer is not None:
                async with asyncio.timeout(self._timeout_s):
                    writer.write(answer.encode())
                    await writer.drain()
                    if writer.can_write_eof():
                        writer.write_eof()
                    await _linger(reader)
        except (OSError, TimeoutError) as error:
            log.debug("HTTP client went away: %s", error)
        finally:
            # At once and without waiting: a client that does not read must not hold the connection.
            writer.transport.abort()

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
        parts = head.split(b"\r\n", 1)[0].split(b" ")
        if len(parts) != 3 or not parts[2].startswith(b"HTTP/1.") or not parts[1].startswith(b"/"):
            return _Answer(HTTPStatus.BAD_REQUEST, b"not an HTTP/1 request\n")
        return await self._route(parts[0], parts[1].partition(b"?")[0])

    async def _route(self, method: bytes, path: bytes) -> _Answer:
        if path not in (b"/healthy", b"/ready", b"/metrics"):
            return _Answer(HTTPStatus.NOT_FOUND, b"there are /healthy, /ready and /metrics\n")
        if method != b"GET":
            return _Answer(HTTPStatus.METHOD_NOT_ALLOWED, b"only GET\n", more_headers="Allow: GET\r\n")
        try:
            match path:
                case b"/healthy":
                    return _json(HTTPStatus.OK, {"healthy": True})
                case b"/ready":
                    is_ready, detail = self._ready()
                    return _json(HTTPStatus.OK if is_ready else HTTPStatus.SERVICE_UNAVAILABLE, {"ready": is_ready, **detail})
            self._metrics.collect()
            # Rendering thousands of series takes milliseconds; commits must not wait for it.
            return _Answer(HTTPStatus.OK, await asyncio.to_thread(self._metrics.render), CONTENT_TYPE)
        except Exception:  # an exception of a reader must not end the port
            log.exception("HTTP %s failed", path.decode("ascii", "replace"))
            return _Answer(HTTPStatus.INTERNAL_SERVER_ERROR, b"failed, see the log\n")


def _json(status: HTTPStatus, value: Mapping[str, object]) -> _Answer:
    return _Answer(status, json.dumps(value).encode() + b"\n", "application/json")


async def _linger(reader: asyncio.StreamReader) -> None:
    """Read on until the client closes: closing with unread input would reset the connection and lose the answer."""
    seen = 0
    while seen < LINGER_BYTES_MAX:
        chunk = await reader.read(REQUEST_BYTES_MAX)
        if not chunk:
            return
        seen += len(chunk)
