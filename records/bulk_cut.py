"""The columns of numbers of many `FileCommitted` entries at once: all varints in one pass, then cut into columns.

The columns are found by walking their counts, one step per column for all files together. The messages of batches not
accepted anew are taken for one more column: as long as they are empty, they are zeros.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from records.bulk_head import Mask
from records.file_checks import NUMBER_COLUMNS
from records.varints import SLICE_NUMBERS, Bytes, Int64s, find_number_ends

COLUMNS = (*NUMBER_COLUMNS, "other_message")

_SEVEN_BITS = 0x7F
_LENGTH_WIDEST = 9
"""How many bytes a number has at most before its last one."""


@dataclass(slots=True)
class Cut:
    """All numbers of the files, and where each column (row) of each file stands in them."""

    numbers: Int64s
    begins: Int64s
    counts: Int64s

    def keep(self, mask: Mask) -> Cut:
        """The files where a mask holds."""
        return self if mask.all() else Cut(self.numbers, self.begins[:, mask], self.counts[:, mask])

    def gather(self) -> tuple[Int64s, Int64s]:
        """The numbers column after column, each over all files, and where the columns begin and the last one ends."""
        counts, begins = self.counts.ravel(), self.begins.ravel()
        ends = counts.cumsum()
        index: Int64s = np.repeat(begins - (ends - counts), counts)
        index += np.arange(len(index))
        bounds = np.zeros(len(COLUMNS) + 1, np.int64)
        self.counts.sum(axis=1).cumsum(out=bounds[1:])
        return self.numbers.take(index), bounds


def cut_columns(encoded: Bytes, byte_ends: Int64s) -> tuple[Cut, Mask]:
    """Cut the files that end at `byte_ends`; also returns which of them are whole. Each must end with a 0."""
    ends = find_number_ends(encoded)
    numbers, unusual = _read_all(encoded, ends)
    sound = np.ones(len(byte_ends), bool)
    sound[np.searchsorted(byte_ends, unusual, "right")] = False
    file_ends = np.searchsorted(ends, byte_ends - 1) + 1
    at = np.zeros_like(file_ends)
    at[1:] = file_ends[:-1]
    begins = np.empty((len(COLUMNS), len(at)), np.int64)
    counts = np.zeros((len(COLUMNS), len(at)), np.int64)
    for begin, count in zip(begins, counts, strict=True):
        promised = numbers.take(at, mode="clip")
        at += 1
        begin[:] = at
        if not promised.any():
            continue
        sound &= (promised >= 0) & (promised <= file_ends - at)
        np.multiply(promised, sound, out=count)
        at += count
        filled = count > 0
        sound &= ~filled | (numbers.take(at, mode="clip") == 0)
        at += filled
    # The last number is the end of the entry's array of records.
    return Cut(numbers, begins, counts), sound & (at == file_ends - 1)


def _read_all(encoded: Bytes, ends: Int64s) -> tuple[Int64s, Int64s]:
    """All numbers, and the last bytes of those that have more than 64 bits or are longer than they need be."""
    numbers = np.empty(len(ends), np.int64)
    unusual = [((encoded[1:] == 0) & (encoded[:-1] > _SEVEN_BITS)).nonzero()[0] + 1]
    start = 0
    # Slices that stay in the cache of the processor.
    for at in range(0, len(ends), SLICE_NUMBERS):
        last = ends[at : at + SLICE_NUMBERS]
        first = np.empty_like(last)
        first[0] = start
        np.add(last[:-1], 1, out=first[1:])
        start = int(last[-1]) + 1
        longer = (last > first).nonzero()[0]
        lengths = last[longer] - first[longer]
        if int(lengths.max(initial=0)) >= _LENGTH_WIDEST:
            # A tenth byte has one bit left to add; what is longer still is cut here, and never looked at.
            at_limit = (lengths >= _LENGTH_WIDEST).nonzero()[0]
            wide = last[longer[at_limit]]
            unusual.append(wide[(lengths[at_limit] > _LENGTH_WIDEST) | (encoded[wide] != 1)])
            np.minimum(lengths, _LENGTH_WIDEST, out=lengths)
        numbers[at : at + len(last)] = _read_slice(encoded, last, longer, lengths)
    return numbers, np.concatenate(unusual)


def _read_slice(encoded: Bytes, last: Int64s, longer: Int64s, lengths: Int64s) -> Int64s:
    """Numbers from their last bytes backwards; `longer` are those of several bytes, `lengths` how many come before the last."""
    unsigned = encoded.take(last).astype(np.int64)
    at, values = last[longer], unsigned[longer]
    while len(longer):
        at -= 1
        values <<= 7
        values |= encoded.take(at) & np.uint8(_SEVEN_BITS)
        unsigned[longer] = values
        lengths -= 1
        more = lengths.nonzero()[0]
        longer, at, values, lengths = longer[more], at[more], values[more], lengths[more]
    return (unsigned.view(np.uint64) >> np.uint64(1)).view(np.int64) ^ -(unsigned & 1)
