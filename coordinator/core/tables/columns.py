"""Growing columns of numbers that a plain loop and numpy can both use without a copy.

A loop reads and writes single cells through the memoryview (about 30 ns each, plain ints); vector code takes the
array. Both see the same memory. Growing replaces both, so neither may be kept across `reserve`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


class Column:
    """One int64 (or other numeric) column; `cells[i]` for loops, `array` for numpy."""

    __slots__ = ("array", "cells", "fill", "width")

    def __init__(self, *, fill: int = 0, width: int = 1, dtype: type[np.generic] = np.int64, capacity: int = 64) -> None:
        self.fill = fill
        self.width = width
        self.array: npt.NDArray[np.int64] = np.full(capacity * width, fill, dtype)
        self.cells: memoryview[int] = self.array.data

    def reserve(self, rows: int) -> None:
        """Make room for at least `rows` rows."""
        have = len(self.array) // self.width
        if rows <= have:
            return
        grown = np.full(max(rows, have * 2) * self.width, self.fill, self.array.dtype)
        grown[: len(self.array)] = self.array
        self.array = grown
        self.cells = grown.data

    def copy(self) -> Column:
        """An independent column with the same values."""
        twin = Column(fill=self.fill, width=self.width, capacity=1)
        twin.array = self.array.copy()
        twin.cells = twin.array.data
        return twin
