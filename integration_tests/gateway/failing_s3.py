"""A proxy before a real S3 that refuses, hangs, cuts bodies and loses answers: `with FailingS3(s3) as store: store.faults = [..]`."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from enum import Enum
from typing import Final, Self
from urllib.parse import urlsplit

from integration_tests.s3 import RealS3

HANG_S: Final = 30.0


class Fault(Enum):
    """The fault of one request."""

    NONE = "served"
    REFUSED = "answered 503"
    RESET = "the connection ends before anything is sent on"
    CUT_REQUEST = "half of the body is sent on, then the connection ends"
    LOST_ANSWER = "served; the connection ends before the answer"
    CUT_ANSWER = "served; the connection ends within the answer"
    HANGS = "nothing happens for 30 s, then it is served"


class FailingS3:
    """See the module's text. The faults of requests are drawn from `faults`, which tests may replace while it runs."""

    def __init__(self, s3: RealS3, *, seed: int = 0) -> None:
        parts = urlsplit(s3.options()["endpoint"])
        assert parts.hostname is not None
        assert parts.port is not None
        self._upstream = parts.hostname, parts.port
        self._chance = random.Random(seed)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._port = 0
        self.faults: Sequence[Fault] = (Fault.NONE,)
        self.seen: Counter[Fault] = Counter()
        self._writers: set[asyncio.StreamWriter] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(asyncio.start_server(self._serve, "127.0.0.1", 0), self._loop).result(10)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_: object) -> None:
        async def end() -> None:
            self._server.close()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            open_yet = list(self._writers)
            for writer in open_yet:
                writer.transport.abort()
            await asyncio.gather(*(writer.wait_closed() for writer in open_yet), return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one request of a connection."""
        self._writers.add(writer)
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0)
            body = await reader.readexactly(length)
            fault = self._chance.choice(self.faults)
            self.seen[fault] += 1
            if fault is Fault.REFUSED:
                writer.write(b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            elif fault is not Fault.RESET:
                await asyncio.sleep(HANG_S if fault is Fault.HANGS else 0)
                answer = await self._ask(
                    head, body[: length // 2] if fault is Fault.CUT_REQUEST else body, is_whole=fault is not Fault.CUT_REQUEST
                )
                kept = {Fault.LOST_ANSWER: 0, Fault.CUT_REQUEST: 0, Fault.CUT_ANSWER: len(answer) // 2}.get(fault, len(answer))
                writer.write(answer[:kept])
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            # Either side went: the other's connection ends, too. Or the store stops, and asyncio.streams would print what was cancelled.
            pass
        finally:
            await self._end(writer)

    async def _end(self, writer: asyncio.StreamWriter) -> None:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        self._writers.discard(writer)

    async def _ask(self, head: bytes, body: bytes, *, is_whole: bool) -> bytes:
        """Send a request on; return the answer, none to half of one."""
        reader, writer = await asyncio.open_connection(*self._upstream)
        self._writers.add(writer)
        try:
            # No signature covers this field.
            writer.write(head[:-2] + b"Connection: close\r\n\r\n" + body)
            await writer.drain()
            return await reader.read() if is_whole else b""
        finally:
            await self._end(writer)
