"""From client threads to the event loop.

Client threads outlive the loop by moments when a process ends; calls they post then are dropped.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVarTuple, Unpack

Ts = TypeVarTuple("Ts")


def post(loop: asyncio.AbstractEventLoop, callback: Callable[[Unpack[Ts]], None], *args: *Ts) -> bool:
    """Run `callback` on the loop; False when the loop is closed already."""
    try:
        loop.call_soon_threadsafe(callback, *args)
    except RuntimeError:
        if not loop.is_closed():
            raise
        return False
    return True


async def wait_for_end(thread: threading.Thread, timeout_s: float) -> bool:
    """Wait without blocking the loop until a thread ended; False when it did not within `timeout_s`."""
    if not thread.is_alive():
        return True
    await asyncio.get_running_loop().run_in_executor(None, thread.join, timeout_s)
    return not thread.is_alive()
