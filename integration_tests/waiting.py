"""Waiting for conditions: the only place where an integration test lets time pass."""

from __future__ import annotations

import time
from collections.abc import Callable

LOOK_EVERY_S = 0.02


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = 30) -> None:
    """Return as soon as the condition holds; fail the test, saying `what` was waited for, after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout_s:g} s in vain for {what}")
        time.sleep(LOOK_EVERY_S)
