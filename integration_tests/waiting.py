"""Waiting for conditions: the only place where an integration test lets time pass."""

from __future__ import annotations

import time
from collections.abc import Callable

LOOK_EVERY_S = 0.02
LOOK_EVERY_MAX_S = 0.1
LATE_PART = 0.05
"""A wait ends at most this part of it too late. A look may ask processes, which takes from what is waited for: long waits look rarely."""
WAIT_S = 90.0
"""How long to wait for what must come: far longer than it takes, for the machine may be slow or stand still for seconds."""


Errors = type[Exception] | tuple[type[Exception], ...]


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = WAIT_S, *, excused: Errors = ()) -> None:
    """Return as soon as the condition holds; fail the test, saying `what` was waited for, after `timeout_s`.

    An `excused` error of the condition means "not yet"; the failure tells the last one.
    """
    last = ""

    def holds() -> bool:
        nonlocal last
        try:
            return condition()
        except excused as error:
            # Its text alone: the error holds what the condition had open, such as sockets.
            last = f"; last error: {error!r}"
            return False

    if not holds_within(timeout_s, holds):
        raise AssertionError(f"waited {timeout_s:g} s in vain for {what}{last}")


def wait_until_done(action: Callable[[], object], what: str, excused: Errors, timeout_s: float = WAIT_S) -> None:
    """Repeat an action until none of the `excused` errors ends it; fail as `wait_until` does."""

    def is_done() -> bool:
        action()
        return True

    wait_until(is_done, what, timeout_s, excused=excused)


def holds_within(timeout_s: float, condition: Callable[[], bool]) -> bool:
    """Return True as soon as the condition holds, False after `timeout_s`."""
    begun_at = time.monotonic()
    deadline = begun_at + timeout_s
    while True:
        looked_at = time.monotonic()  # before the look: time that passes between it and the question below is not its fault
        if condition():
            return True
        if looked_at > deadline:
            return False
        time.sleep(min(LOOK_EVERY_MAX_S, LOOK_EVERY_S + LATE_PART * (looked_at - begun_at)))
