"""The timers of a process come due together, so that an idle process rarely wakes up (docs/decisions/035).

A process has some twenty watches that look about once a second, each in its own time. A wake-up of an idle process costs several times
what most of them do, and those that come due at one moment share it.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from contextvars import Context
from typing import Final, TypeVarTuple, Unpack

import uvloop

from coordinator.runtime.pauses import TICK_S

Ts = TypeVarTuple("Ts")

LONG_S: Final = 0.25
"""A timer of this delay or more is long: it can be late by up to `TICK_S`. Shorter ones come due on time."""


def shared_delay_s(now_s: float, delay_s: float) -> float:
    """The delay from now until a timer comes due that was asked for with `delay_s`."""
    if delay_s < LONG_S:
        return delay_s
    return math.ceil((now_s + delay_s) / TICK_S) * TICK_S - now_s


class CoalescingLoop(uvloop.Loop):
    """The event loop of a process: a long timer comes due at the first multiple of `TICK_S` that is not before its time."""

    def call_later(
        self, delay: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """As in asyncio, `delay` in seconds; `call_at`, `asyncio.sleep` and `asyncio.timeout` go through it."""
        return super().call_later(shared_delay_s(self.time(), delay), callback, *args, context=context)
