"""The stream of events: one watcher of the store for all pages that are open, none while there is none.

Every event carries the whole overview, so a page that missed some has lost nothing; its id names the overview, and a page
that comes back with the newest id is only told what comes next. A slow reader gets the newest, never a queue.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable

from spark_jobs.dashboard.cache import encode
from spark_jobs.dashboard.database import StoreUnreadableError
from spark_jobs.dashboard.panels.rows import Json

log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.5
CHANGES_EVERY_S = 1.0
ANYWAY_EVERY_S = 2.0
RETRY_MS = 1000
STREAMS_MAX = 100


class Events:
    """`version` tells whether the store changed, `overview` makes what is sent."""

    def __init__(
        self,
        boot: str,
        version: Callable[[], Awaitable[str]],
        overview: Callable[[], Awaitable[Json]],
        *,
        look_every_s: float = LOOK_EVERY_S,
        changes_every_s: float = CHANGES_EVERY_S,
    ) -> None:
        self._look_every_s = look_every_s
        self._changes_every_s = changes_every_s
        self._boot = boot
        self._version = version
        self._overview = overview
        self._streams = 0
        self._watcher: asyncio.Task[None] | None = None
        self._news = asyncio.Condition()
        self._number = 0
        self._event = b""
        self._is_closed = False

    @property
    def streams(self) -> int:
        """How many pages listen."""
        return self._streams

    @property
    def is_full(self) -> bool:
        """Whether no more may listen."""
        return self._streams >= STREAMS_MAX

    async def close(self) -> None:
        """End all streams and the watcher."""
        self._is_closed = True
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.gather(self._watcher, return_exceptions=True)
        async with self._news:
            self._news.notify_all()

    async def stream(self, last_id: str) -> AsyncIterator[bytes]:
        """Yield events until the client leaves or the server ends; `last_id` is what the client got last."""
        self._streams += 1
        try:
            if self._watcher is None or self._watcher.done():
                self._number += 1  # nothing was watched: the known state is old
                self._event = b""
                self._watcher = asyncio.create_task(self._watch())
            yield f"retry: {RETRY_MS}\n\n".encode()
            seen = self._number if last_id == self._id() else -1
            while not self._is_closed:
                async with self._news:
                    while not self._is_closed and (not self._event or self._number == seen):
                        await self._news.wait()
                    seen, event = self._number, self._event
                if not self._is_closed:
                    yield event
        finally:
            self._streams -= 1
            if not self._streams and self._watcher is not None:
                self._watcher.cancel()
                self._watcher = None

    def _id(self) -> str:
        return f"{self._boot}-{self._number}"

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        known, sent_s = "", -ANYWAY_EVERY_S
        while True:
            now_s = loop.time()
            try:
                version = await self._version()
            except StoreUnreadableError as error:
                version = f"unreadable: {error}"
            if (version != known and now_s - sent_s >= self._changes_every_s) or now_s - sent_s >= ANYWAY_EVERY_S:
                body = encode({**await self._overview(), "version": version})
                async with self._news:
                    self._number += 1
                    self._event = b"id: " + self._id().encode() + b"\nevent: overview\ndata: " + body + b"\n\n"
                    self._news.notify_all()
                known, sent_s = version, now_s
            await asyncio.sleep(self._look_every_s)
