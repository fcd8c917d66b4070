"""Tasks that live as long as a node or a gateway; an error of one of them ends the process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine

from coordinator.runtime.failures import FatalError

LOG = logging.getLogger("coordinator.tasks")


class BackgroundTasks:
    """See the module's text."""

    def __init__(self, on_fatal: Callable[[FatalError], None]) -> None:
        self._on_fatal = on_fatal
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[None, None, None], name: str) -> None:
        """Run a task until it ends or `close` is called."""
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if isinstance(error, FatalError):
            self._on_fatal(error)
        else:
            LOG.error("background task failed task=%s", task.get_name(), exc_info=error)
            self._on_fatal(FatalError(f"background task {task.get_name()} failed: {error!r}"))

    async def close(self) -> None:
        """Cancel all tasks and wait until they have ended."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
