"""Visits every state of a model."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TypeVar

W = TypeVar("W")


def explore(start: W, steps: Callable[[W], Iterable[W]], broken: Callable[[W], str]) -> tuple[int, str, W | None]:
    """Visit every state that is reachable; returns how many there are, and the first broken promise with its state."""
    seen, waiting = {start}, deque([start])
    while waiting:
        world = waiting.popleft()
        promise = broken(world)
        if promise:
            return len(seen), promise, world
        for after in steps(world):
            if after not in seen:
                seen.add(after)
                waiting.append(after)
    return len(seen), "", None
