"""Work that blocks is done by threads; the event loop goes on meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar

T = TypeVar("T")


async def in_thread(executor: Executor, work: Callable[[], T]) -> T:
    """Do the work in a thread of the executor, and wait for it; raises what it raises."""
    return await asyncio.get_running_loop().run_in_executor(executor, work)
