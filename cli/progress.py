"""Says what a command is doing, on standard error and only on a terminal, once that has taken two seconds: one line, which is rewritten.

`doing` says it for a block; blocks may be inside each other, and the innermost is shown. The line is gone when the block is left, and
`clear` takes it away before anything else is written to a terminal: the streams of `cli.ending` call it.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

AFTER_S = 2.0
EVERY_S = 0.5


class Doing:
    """What is being done; `total` steps, where that is known."""

    def __init__(self, what: str, total: int | None = None) -> None:
        self.what = what
        self._total = total
        self._count = 0
        self._since_s = time.monotonic()

    def step(self, count: int = 1) -> None:
        """Count what has been done."""
        self._count += count

    def line(self) -> str | None:
        """What to show; None while it is too early."""
        spent_s = time.monotonic() - self._since_s
        if spent_s < AFTER_S:
            return None
        counted = f": {self._count:,}" if self._count else ""
        if self._total:
            counted = f": {self._count:,} of {self._total:,} ({100 * self._count // self._total} %)"
        return f"{self.what}{counted}, {spent_s:.0f} s"


class _Line:
    """The line at the bottom of the terminal, drawn by a thread while something is being done."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._works: list[Doing] = []
        self._is_shown = False

    def push(self, work: Doing) -> None:
        """Show a work; begins the thread where there is none."""
        with self._lock:
            self._works.append(work)
            if len(self._works) == 1:
                threading.Thread(target=self._draw_on, args=(work,), name="progress", daemon=True).start()

    def pop(self) -> None:
        """The innermost work is over."""
        with self._lock:
            self.clear()
            self._works.pop()

    def clear(self) -> None:
        """Take the line away, until it is drawn again."""
        with self._lock:
            if self._is_shown:
                os.write(2, f"\r{_ERASE}".encode())
                self._is_shown = False

    @contextmanager
    def hushed(self) -> Iterator[None]:
        """Show nothing during the block, in which a person is asked."""
        with self._lock:
            self.clear()
            yield

    def _draw_on(self, outermost: Doing) -> None:
        while True:
            time.sleep(EVERY_S)
            with self._lock:
                if not self._works or self._works[0] is not outermost:
                    return
                if (line := self._works[-1].line()) is not None:
                    # Not by sys.stderr, whose writes take the line away.
                    os.write(2, f"\r{_ERASE}{line[: os.get_terminal_size(2).columns - 1]}".encode())
                    self._is_shown = True


_ERASE = "\x1b[K"
_LINE = _Line()
clear = _LINE.clear
hushed = _LINE.hushed


@contextmanager
def doing(what: str, total: int | None = None) -> Iterator[Doing]:
    """Say what is done in the block; call `step` of what is yielded for what is counted."""
    work = Doing(what, total)
    if not sys.stderr.isatty():
        yield work
        return
    _LINE.push(work)
    try:
        yield work
    finally:
        _LINE.pop()
