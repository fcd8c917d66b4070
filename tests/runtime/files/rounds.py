"""Counts what is done within one round of the event loop."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest


@contextmanager
def calls_in_a_round(monkeypatch: pytest.MonkeyPatch, where: str) -> Iterator[Counter[int]]:
    """Count the calls of a function, named by its path, in each round of the running loop."""
    loop = asyncio.get_running_loop()
    calls: Counter[int] = Counter()
    now = 0
    module, _, name = where.rpartition(".")
    real: Callable[..., Any] = getattr(__import__(module, fromlist=[name]), name)

    def counted(*args: Any) -> Any:
        calls[now] += 1
        return real(*args)

    def next_round() -> None:
        nonlocal now, handle
        now += 1
        handle = loop.call_soon(next_round)

    handle = loop.call_soon(next_round)
    with monkeypatch.context() as patched:
        patched.setattr(where, counted)
        yield calls
    handle.cancel()
