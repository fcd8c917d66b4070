"""Named tuples of columns are those that their kind makes of each row."""

from __future__ import annotations

from itertools import repeat
from typing import NamedTuple

import pytest

from records.tuples import tuples_of


class Pair(NamedTuple):
    left: int
    right: str


def test_each_row_is_what_its_kind_makes_of_it() -> None:
    made = tuples_of(Pair, range(3), repeat("x", 3))
    assert made == [Pair(0, "x"), Pair(1, "x"), Pair(2, "x")]
    assert {type(one) for one in made} == {Pair}
    assert made[2].left == 2
    assert tuples_of(Pair, [], []) == []


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        tuples_of(Pair, [1, 2], ["x"])


def test_another_number_of_columns_than_fields_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Pair has 2 fields, not 1: left, right"):
        tuples_of(Pair, [1, 2])
