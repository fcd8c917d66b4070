"""Work on an event loop in a thread of its own, which goes on until its block is left."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self


class WorkInThread(ABC):
    """A context manager around `_run`, which ends soon after `_stopping` is set; the error with which it ends is raised on leaving."""

    def __init__(self, thread_name: str) -> None:
        self._stopping = threading.Event()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=thread_name)
        self._work: Future[None] | None = None

    def __enter__(self) -> Self:
        self._work = self._thread.submit(lambda: asyncio.run(self._run()))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stopping.set()
        self._thread.shutdown()
        if error is None and self._work is not None:
            self._work.result()

    @abstractmethod
    async def _run(self) -> None:
        """Do the work."""

    def _check_running(self, what: str) -> None:
        """Raise the error with which the work has ended, AssertionError when it has ended without one."""
        if self._work is not None and self._work.done():
            self._work.result()
            raise AssertionError(f"{what} ended")
