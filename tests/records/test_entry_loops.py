"""The compiled writer of varints does what its source does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import records.entry_loops as entry_loops
from records.varints import write_number
from tests.compiled import plain

PLAIN = plain(entry_loops)


@given(st.lists(st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-130, 130)), max_size=50))
def test_both_write_what_single_numbers_are_written_as(numbers: list[int]) -> None:
    expected = b"".join(map(write_number, numbers))
    column = np.array(numbers, np.int64)
    for write in (entry_loops.write_varints, PLAIN.write_varints):
        out = memoryview(bytearray(10 * len(numbers)))
        assert bytes(out[: write(column.data, out)]) == expected


def test_nothing_is_written_past_the_room() -> None:
    out = memoryview(bytearray(3))
    with pytest.raises(IndexError):
        entry_loops.write_varints(np.array([1 << 40], np.int64).data, out)
