"""Finds entries that are due by their keys: nearly everything that is read. Compiled when installed; the `.pxd` has the types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coordinator.core.log_entry import ReadEntry


def count_due(entries: Sequence[ReadEntry], head: bytes, seq: int, offset: int) -> int:
    """Return how many entries, from the first on, have the expected offset and the next key: `head`, 12 bytes, and the seq."""
    passed = 0
    for entry in entries:
        stands_at, key = entry[0], entry[2]
        if stands_at != offset or key is None or len(key) != 20:
            break
        same = 0
        while same < 12 and key[same] == head[same]:
            same += 1
        # Seven bytes of the seq are more than anybody counts to.
        found = 0
        for place in range(13, 20):
            found = found * 256 + key[place]
        if same < 12 or key[12] != 0 or found != seq:
            break
        passed += 1
        seq += 1
        offset += 1
    return passed
