"""How many bytes of requests the gateway holds, and when connections must not be read further."""

from __future__ import annotations

from collections.abc import Callable


class MemoryBudget:
    """Counts bytes that are held. Above `bytes_max` reading pauses, until a quarter of it is free again. Used on the event loop."""

    def __init__(self, bytes_max: int, *, changed: Callable[[bool], None] = lambda _paused: None) -> None:
        """`changed` is told when reading must pause (True) and may go on (False)."""
        self.bytes_max = bytes_max
        self._resume_at = bytes_max - bytes_max // 4
        self._changed = changed
        self.bytes_held = 0
        self.bytes_held_max = 0
        """The most that was ever held."""
        self.pauses = 0
        self.is_paused = False

    def take(self, size_bytes: int) -> None:
        """Count bytes that were received. Never refuses: who reads asks `is_paused` before."""
        self.bytes_held += size_bytes
        self.bytes_held_max = max(self.bytes_held_max, self.bytes_held)
        if self.bytes_held >= self.bytes_max and not self.is_paused:
            self.is_paused = True
            self.pauses += 1
            self._changed(True)

    def release(self, size_bytes: int) -> None:
        """Count bytes that are no longer held."""
        self.bytes_held -= size_bytes
        if self.is_paused and self.bytes_held <= self._resume_at:
            self.is_paused = False
            self._changed(False)
