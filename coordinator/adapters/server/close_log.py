"""The log of closed connections, in a bounded number of lines: a client that sends rubbish must not be able to fill a disk.

Each reason has an allowance of lines that refills with time; what it does not cover is counted, and the next line of that
reason says how many were left out. Every end is counted in the metrics, logged or not.
"""

from __future__ import annotations

import logging
from typing import Final

from coordinator.adapters.server.contract import CloseReason

log = logging.getLogger("coordinator.adapters.server.connection")

LINES_AT_ONCE: Final = 20
LINES_PER_S: Final = 0.5

_EXPECTED: Final = frozenset({CloseReason.CLIENT, CloseReason.IDLE, CloseReason.SHUTDOWN})


class CloseLog:
    """The log of one listener. Times are seconds of any clock that only goes forward."""

    def __init__(self, listener: str) -> None:
        self._listener = listener
        self._allowance: dict[CloseReason, float] = {}
        self._last_s: dict[CloseReason, float] = {}
        self._left_out: dict[CloseReason, int] = {}

    def note(self, reason: CloseReason, detail: str, *, connection_id: int, peer: str, now_s: float) -> None:
        """Log the end of a connection if its reason's allowance covers it."""
        if reason in _EXPECTED:
            log.debug("connection closed listener=%s connection=%d peer=%s reason=%r", self._listener, connection_id, peer, reason.value)
            return
        refilled = self._allowance.get(reason, LINES_AT_ONCE) + (now_s - self._last_s.get(reason, now_s)) * LINES_PER_S
        self._allowance[reason], self._last_s[reason] = min(LINES_AT_ONCE, refilled), now_s
        if self._allowance[reason] < 1:
            self._left_out[reason] = self._left_out.get(reason, 0) + 1
            return
        self._allowance[reason] -= 1
        log.warning(
            "connection closed listener=%s connection=%d peer=%s reason=%r detail=%r left_out_before=%d",
            self._listener,
            connection_id,
            peer,
            reason.value,
            detail,
            self._left_out.pop(reason, 0),
        )
