"""The connections of a listener that have not proved yet who they are: bounded in number and time.

One more than there is room for turns out the oldest, so strangers who say nothing keep no honest client out.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from coordinator.adapters.server.contract import CloseReason

_SETTING: Final = "connections.unauthenticated.max"


class Guest(Protocol):
    """A connection in the waiting room."""

    def turn_out(self, reason: CloseReason, detail: str) -> None:
        """Hang up at once."""


class WaitingRoom:
    """The waiting room of one listener. Used on the event loop."""

    def __init__(self, guests_max: int, timeout_ms: int) -> None:
        self._guests_max = guests_max
        self._timeout_ms = timeout_ms
        self._guests: dict[Guest, asyncio.TimerHandle] = {}

    def __len__(self) -> int:
        return len(self._guests)

    def enter(self, guest: Guest) -> None:
        """Take in a connection, which leaves when it has proved who it is, or is gone."""
        self._enter(guest, asyncio.get_running_loop().time() + self._timeout_ms / 1000)

    def exchange(self, guest: Guest, successor: Guest) -> None:
        """Let a connection that finished a step wait as another object; its time goes on."""
        timer = self._guests.pop(guest, None)
        if timer is not None:
            timer.cancel()
            self._enter(successor, timer.when())

    def leave(self, guest: Guest) -> None:
        """Let a connection go; one that does not wait is none of our business."""
        timer = self._guests.pop(guest, None)
        if timer is not None:
            timer.cancel()

    def _enter(self, guest: Guest, deadline_s: float) -> None:
        if len(self._guests) >= self._guests_max:
            oldest = next(iter(self._guests))
            self.leave(oldest)
            oldest.turn_out(CloseReason.LOGIN_DISPLACED, f"{self._guests_max} wait ({_SETTING})")
        self._guests[guest] = asyncio.get_running_loop().call_at(deadline_s, self._overdue, guest)

    def _overdue(self, guest: Guest) -> None:
        del self._guests[guest]
        guest.turn_out(CloseReason.LOGIN_SLOW, f"in {self._timeout_ms} ms (connection.login.timeout.ms)")
