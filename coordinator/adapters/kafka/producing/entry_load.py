"""Whether entries leave a process by many, which is what it looks like when more commits come than one round trip can take.

Told of every hand-over to librdkafka, on the event loop. A few of them are no load yet, nor is a pause its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from coordinator.adapters.kafka.producing.in_flight_window import FEW_MAX

SWITCH_AFTER: Final = 16
"""The load counts as changed when hand-overs of the other kind are ahead by this number."""
SILENCE_S: Final = 1.0
"""A load that hands nothing over by many for so long, at most twice that, is over, whether or not others come."""


class EntryLoad:
    """See the module's text; `on_changed` gets the new `is_heavy`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_changed: Callable[[bool], None]) -> None:
        self.is_heavy = False
        self._loop = loop
        self._on_changed = on_changed
        self._many = 0
        self._is_silent = True
        self._look_due: asyncio.TimerHandle | None = None

    def handing_over(self, entries: int) -> None:
        """Entries of one producer are about to leave together: so many."""
        if entries > FEW_MAX:
            self._is_silent = False
            self._many = min(self._many + 1, SWITCH_AFTER)
            if self._many == SWITCH_AFTER and not self.is_heavy:
                self._change(is_heavy=True)
        else:
            self._many = max(self._many - 1, 0)
            if not self._many and self.is_heavy:
                self._change(is_heavy=False)

    def _look(self) -> None:
        if self._is_silent:
            self._many = 0
            self._change(is_heavy=False)
        else:
            self._look_later()

    def _look_later(self) -> None:
        self._is_silent = True
        self._look_due = self._loop.call_later(SILENCE_S, self._look)

    def _change(self, *, is_heavy: bool) -> None:
        self.is_heavy = is_heavy
        if self._look_due is not None:
            self._look_due.cancel()
            self._look_due = None
        if is_heavy:
            self._look_later()
        self._on_changed(is_heavy)
