"""The order in which owners are responsible for the object of a file."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from records.file_owners import in_turn

OWNERS = st.sets(st.integers(0, 63), min_size=1, max_size=8)


@given(st.text(max_size=30), OWNERS, OWNERS)
def test_two_lists_of_a_file_have_the_owners_of_both_in_one_order(key: str, one: set[int], other: set[int]) -> None:
    ordered = in_turn(key, one)
    assert sorted(ordered) == sorted(one)
    assert [owner for owner in ordered if owner in other] == [owner for owner in in_turn(key, other) if owner in one]
    assert in_turn(key, [*ordered, *ordered]) == ordered


def test_keys_spread_the_work() -> None:
    first = Counter(in_turn(f"wal/{number}", range(4))[0] for number in range(2_000))
    assert set(first) == {0, 1, 2, 3}
    assert min(first.values()) > 200
