"""Messages of the metadata log, as they were read."""

from __future__ import annotations

from typing import NamedTuple


class ReadEntry(NamedTuple):
    """A message of the metadata log."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


class ContradictoryEntry(NamedTuple):
    """An entry that counts by its key and is void by what it says (`core.contradiction`)."""

    offset: int
    epoch: int
    term: int
    reason: str
