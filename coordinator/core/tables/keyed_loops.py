"""Rows of numbers that are found by three of them. Compiled when installed; the `.pxd` has the types.

The tables of partitions and producers are made of these. A loop over batches finds, adds and changes rows without a Python
object. Rows are found by open addressing: `slots` has a power of two of places, each 0 or the number of a row plus one; at most
half of them are taken.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from coordinator.core.tables.cells import CHANGED, VALUES

_ROWS_MIN = 64
_MASK = 0xFFFFFFFFFFFFFFFF
_ODD_1 = 0x9E3779B97F4A7C15
_ODD_2 = 0xC2B2AE3D27D4EB4F
_ODD_3 = 0x165667B19E3779F9


class KeyedRows:
    """Rows of `width` int64 cells, the first three of which are the row's key; `array[row]` are the cells of a row.

    A row keeps its number until it is released. `reserve` may replace `array`; do not keep it across additions.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self.count = 0
        self.top = 0
        self.free_count = 0
        self.changed_count = 0
        self.array: npt.NDArray[np.int64] = np.zeros((_ROWS_MIN, width), np.int64)
        self._slots_array: npt.NDArray[np.int64] = np.zeros(2 * _ROWS_MIN, np.int64)
        self._free_array: npt.NDArray[np.int64] = np.zeros(_ROWS_MIN, np.int64)
        self._changed_array: npt.NDArray[np.int64] = np.zeros(_ROWS_MIN, np.int64)
        self.view()

    def view(self) -> None:
        """Make the loops see the arrays."""
        self.cells = self.array.data
        self.slots = self._slots_array.data
        self.free = self._free_array.data
        self.changed = self._changed_array.data
        self.mask = len(self._slots_array) - 1

    def reserve(self, more: int) -> bool:
        """Make room for so many more rows; returns whether the arrays were replaced."""
        wanted, have = self.top + more, len(self.array)
        if wanted <= have:
            return False
        rows = max(wanted, 2 * have)
        grown = np.zeros((rows - have, self.width), np.int64)
        self.array = np.concatenate((self.array, grown))
        self._free_array = np.concatenate((self._free_array, np.zeros(rows - have, np.int64)))
        self._changed_array = np.concatenate((self._changed_array, np.zeros(rows - have, np.int64)))
        places = 1
        while places < 2 * rows:
            places *= 2
        if places > len(self._slots_array):
            taken = self._slots_array[self._slots_array > 0] - 1
            self._slots_array = np.zeros(places, np.int64)
            self.view()
            for place in range(len(taken)):
                self.link(int(taken[place]))
        self.view()
        return True

    def copy_from(self, other: KeyedRows) -> None:
        """Take the rows of another table; none is marked as changed."""
        self.count, self.top, self.free_count, self.changed_count = other.count, other.top, other.free_count, 0
        self.array = other.array.copy()
        self.array[:, CHANGED] = 0
        self._slots_array = other._slots_array.copy()
        self._free_array = other._free_array.copy()
        self._changed_array = np.zeros(len(other._changed_array), np.int64)
        self.view()

    def home(self, first: int, second: int, third: int) -> int:
        """Where the search for a key begins."""
        spread = (first & _MASK) * _ODD_1 & _MASK
        spread = (spread ^ spread >> 29) + (second & _MASK) & _MASK
        spread = spread * _ODD_2 & _MASK
        spread = (spread ^ spread >> 32) + (third & _MASK) & _MASK
        spread = spread * _ODD_3 & _MASK
        return spread >> 32 & self.mask

    def find(self, first: int, second: int, third: int) -> int:
        """The row of a key, or -1."""
        place = self.home(first, second, third)
        row = self.slots[place] - 1
        while row >= 0:
            if self.cells[row, 1] == second and self.cells[row, 0] == first and self.cells[row, 2] == third:
                return row
            place = (place + 1) & self.mask
            row = self.slots[place] - 1
        return -1

    def take_row(self) -> int:
        """The number of a row for a new key; `reserve` has made room for it."""
        if self.free_count > 0:
            self.free_count -= 1
            return self.free[self.free_count]
        row = self.top
        self.top += 1
        return row

    def set_key(self, row: int, first: int, second: int, third: int) -> None:
        """Give a row its key, with zeros in all other cells, and make it found."""
        self.cells[row, 0], self.cells[row, 1], self.cells[row, 2] = first, second, third
        # The mark stays: a released row may still be noted as changed.
        for cell in range(VALUES, self.width):
            self.cells[row, cell] = 0
        self.link(row)
        self.count += 1

    def link(self, row: int) -> None:
        """Enter a row into the slots."""
        place = self.home(self.cells[row, 0], self.cells[row, 1], self.cells[row, 2])
        while self.slots[place] > 0:
            place = (place + 1) & self.mask
        self.slots[place] = row + 1

    def unlink(self, row: int) -> None:
        """Make a row not found any more; its cells stay, and its number stays taken until `release`."""
        place = self.home(self.cells[row, 0], self.cells[row, 1], self.cells[row, 2])
        while self.slots[place] != row + 1:
            if self.slots[place] == 0:
                raise KeyError(f"row {row} is not in the index")
            place = (place + 1) & self.mask
        self.count -= 1
        # Rows that follow without a gap move up, if the search for them passes the place that becomes empty.
        hole = place
        self.slots[hole] = 0
        while True:
            place = (place + 1) & self.mask
            other = self.slots[place] - 1
            if other < 0:
                return
            home = self.home(self.cells[other, 0], self.cells[other, 1], self.cells[other, 2])
            if ((place - home) & self.mask) >= ((place - hole) & self.mask):
                self.slots[hole], self.slots[place] = other + 1, 0
                hole = place

    def forget(self, first: int, second: int, thirds: memoryview[int], rows: memoryview[int]) -> int:
        """Unlink the rows of keys that differ in their third part alone, and do not note them as changed.

        Returns how many were there; `rows`, which has room for all, gets theirs.
        """
        count = 0
        for at in range(len(thirds)):
            row = self.find(first, second, thirds[at])
            if row >= 0:
                self.unlink(row)
                self.untouch(row)
                rows[count] = row
                count += 1
        return count

    def release(self, row: int) -> None:
        """Give the number of an unlinked row back."""
        self.free[self.free_count] = row
        self.free_count += 1

    def drop(self, rows: memoryview[int]) -> None:
        """Forget rows: none of them is found, or noted as changed, and their numbers are free."""
        for place in range(len(rows)):
            self.unlink(rows[place])
            self.untouch(rows[place])
            self.release(rows[place])

    def restore(self, row: int, first: int, second: int, third: int) -> None:
        """Add a row with its number, into an empty table; `collect_free` follows when all are there."""
        if row >= self.top:
            self.reserve(row + 1 - self.top)
            self.top = row + 1
        self.set_key(row, first, second, third)

    def collect_free(self, reserved: npt.NDArray[np.int64]) -> None:
        """After restoring rows by number: those that are neither found nor `reserved` are free."""
        taken = np.zeros(self.top, bool)
        taken[reserved] = True
        taken[self._slots_array[self._slots_array > 0] - 1] = True
        free = np.flatnonzero(~taken)
        self.free_count = len(free)
        self._free_array[: len(free)] = free

    def rows(self) -> npt.NDArray[np.int64]:
        """The rows that are found, in no order."""
        return self._slots_array[self._slots_array > 0] - 1

    def touch(self, row: int) -> None:
        """Note that a row changed."""
        if self.cells[row, CHANGED] == 0:
            self.changed[self.changed_count] = row
            self.changed_count += 1
        self.cells[row, CHANGED] = 1

    def untouch(self, row: int) -> None:
        """Forget that a row changed."""
        if self.cells[row, CHANGED] == 1:
            self.cells[row, CHANGED] = 2  # it stays listed; `take_changed` looks at the mark

    def has_changed(self) -> bool:
        """Whether a row was noted since `take_changed`."""
        if self.changed_count == 0:
            return False
        rows = self._changed_array[: self.changed_count]
        return bool((self.array[rows, CHANGED] == 1).any())

    def take_changed(self) -> npt.NDArray[np.int64]:
        """The rows that were noted since the last call, ascending."""
        rows = self._changed_array[: self.changed_count].copy()
        changed: npt.NDArray[np.int64] = rows[self.array[rows, CHANGED] == 1]
        self.array[rows, CHANGED] = 0
        self.changed_count = 0
        changed.sort()
        return changed
