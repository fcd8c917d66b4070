"""Says what a run waits for, when it waits long: a run that stands still is seen, and where.

with waits.on("every partition to be led") as wait:
    wait.detail = "coordinators 2, 4"
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

LONG_S: Final = 10.0
"""After so long a wait is told, and again each time that it has become twice as long."""


class Wait:
    """A wait that is not over. `detail` may be set while it goes on."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.detail = ""

    def __str__(self) -> str:
        return f"{self.what}: {self.detail}" if self.detail else self.what


class Waits:
    """See the module's text. `say` is called from another thread."""

    def __init__(self, say: Callable[[str], None], *, long_s: float = LONG_S) -> None:
        self._say = say
        self._long_s = long_s

    @contextmanager
    def on(self, what: str) -> Iterator[Wait]:
        """Tell of the wait for as long as the block goes on."""
        wait, over, begun_s = Wait(what), threading.Event(), time.monotonic()
        teller = threading.Thread(target=self._tell, args=(wait, over, begun_s), name="waits", daemon=True)
        teller.start()
        try:
            yield wait
        finally:
            over.set()
            teller.join()

    def _tell(self, wait: Wait, over: threading.Event, begun_s: float) -> None:
        next_s = self._long_s
        while not over.wait(begun_s + next_s - time.monotonic()):
            self._say(f"  waits for {next_s:g} s already for {wait}")
            next_s *= 2
