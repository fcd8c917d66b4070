"""SIGTERM and SIGINT as a question a job asks: until it runs they end it at once, then after its running step."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import click


class _StopAsked(BaseException):
    """The end was asked for while the job still started."""


class Interruption:
    """Whether the end was asked for."""

    def __init__(self) -> None:
        self.is_running = False
        self._is_set = False

    def is_set(self) -> bool:
        """Whether the end was asked for."""
        return self._is_set

    def on_ready(self, line: str) -> None:
        """The job runs: print its line, and let its step end from now on."""
        self.is_running = True
        click.echo(line)

    def on_signal(self, _number: int, _frame: FrameType | None) -> None:
        """Note the first signal."""
        is_first, self._is_set = not self._is_set, True
        if is_first and not self.is_running:
            raise _StopAsked


@contextmanager
def stop_signals() -> Iterator[Interruption]:
    """Take the signals until the block is left; one that comes before the job runs leaves it at once."""
    stopping = Interruption()
    former = {number: signal.signal(number, stopping.on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stopping
    except _StopAsked:
        return
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
