"""Hashes of rows, or sums of such, by the number of the row, so that many are changed in a few numpy calls."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from records.state_digest import EMPTY, U64, Digest, Int64s, sum_of

_ROWS = 64


class RowSums:
    """One pair of numbers per row as in `state_digest.lanes_of`, zeros where there is none. Changes say what they do to the sum of all."""

    __slots__ = ("_lanes",)

    def __init__(self) -> None:
        self._lanes = np.zeros((_ROWS, 2), np.uint64)

    def replace(self, rows: Int64s, lanes: U64) -> Digest:
        """Take new values of rows, each named once."""
        self._reserve(rows)
        change = sum_of(lanes).minus(sum_of(self._lanes[rows]))
        self._lanes[rows] = lanes
        return change

    def add(self, rows: Int64s, lanes: U64) -> Digest:
        """Add to the values of rows, each named once."""
        self._reserve(rows)
        self._lanes[rows] += lanes
        return sum_of(lanes)

    def forget(self, rows: Collection[int]) -> Digest:
        """Take the values of rows away; those without one may be named too."""
        at = np.array([row for row in rows if row < len(self._lanes)], np.int64)
        change = EMPTY.minus(sum_of(self._lanes[at]))
        self._lanes[at] = 0
        return change

    def _reserve(self, rows: Int64s) -> None:
        have, wanted = len(self._lanes), int(rows.max(initial=-1)) + 1
        if wanted > have:
            self._lanes = np.concatenate((self._lanes, np.zeros((max(wanted, 2 * have) - have, 2), np.uint64)))
