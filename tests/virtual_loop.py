"""An event loop on virtual time for tests of one process: no test waits for a timer."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to the next timer instead of waiting for it."""

    def __init__(self) -> None:
        super().__init__()
        self._now_s = 0.0

    def time(self) -> float:
        return self._now_s

    def _run_once(self) -> None:
        # The timers that count: asyncio drops cancelled ones itself, and would then wait for the next one in real time.
        timers = [one for one in self._scheduled if not one.cancelled()]  # type: ignore[attr-defined]
        if not self._ready and timers:  # type: ignore[attr-defined]
            self._now_s = max(self._now_s, min(one.when() for one in timers))
        super()._run_once()  # type: ignore[misc]


def lived(work: Coroutine[Any, Any, T], loop: type[VirtualLoop] = VirtualLoop) -> T:
    """Run work on virtual time."""
    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(work)
