"""The hashes of rows by their number, so that the sum of many can be changed in a few numpy calls."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from records.state_digest import EMPTY, Digest, lanes_of, sum_of

_ROWS = 64


class RowHashes:
    """One hash per row, zero where there is none. Every change says how it changes the sum of all."""

    __slots__ = ("_lanes",)

    def __init__(self) -> None:
        self._lanes = np.zeros((_ROWS, 2), np.uint64)

    def replace(self, rows: Sequence[int], hashes: Sequence[bytes]) -> Digest:
        """Take new hashes of rows, each named once."""
        if not rows:
            return EMPTY
        at, new = np.array(rows, np.int64), lanes_of(hashes)
        self._reserve(int(at.max()) + 1)
        change = sum_of(new).minus(sum_of(self._lanes[at]))
        self._lanes[at] = new
        return change

    def forget(self, rows: Collection[int]) -> Digest:
        """Take the hashes of rows away; those without one may be named too."""
        at = np.array([row for row in rows if row < len(self._lanes)], np.int64)
        change = EMPTY.minus(sum_of(self._lanes[at]))
        self._lanes[at] = 0
        return change

    def _reserve(self, rows: int) -> None:
        have = len(self._lanes)
        if rows > have:
            self._lanes = np.concatenate((self._lanes, np.zeros((max(rows, 2 * have) - have, 2), np.uint64)))
