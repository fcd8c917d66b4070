"""The ages of tombstones: the oldest go first, a bounded number at a time, exactly those before the time that is named."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.state.tombstone_ages import TombstoneAges

TIMES = st.integers(-1, 5_000)


def ages_of(times: list[int]) -> TombstoneAges[int]:
    ages: TombstoneAges[int] = TombstoneAges()
    for key, created_ms in enumerate(times):
        ages.add(created_ms, key)
    return ages


@given(st.lists(TIMES, max_size=40), st.lists(st.integers(0, 6_000), max_size=4))
def test_exactly_those_created_before_the_time_go_and_those_without_a_time_never(times: list[int], befores: list[int]) -> None:
    ages, left = ages_of(times), dict(enumerate(times))
    for before_ms in befores:
        expected = {key for key, created_ms in left.items() if 0 <= created_ms < before_ms}
        assert sorted(ages.take_before(before_ms)) == sorted(expected)
        left = {key: created_ms for key, created_ms in left.items() if key not in expected}
        assert len(ages) == len(left)


@given(st.lists(TIMES, max_size=40), st.integers(0, 6_000), st.integers(1, 10))
def test_what_is_due_is_bounded_and_goes_in_the_end(times: list[int], before_ms: int, count_max: int) -> None:
    ages = ages_of(times)
    due = {key for key, created_ms in enumerate(times) if 0 <= created_ms < before_ms}
    gone: set[int] = set()
    while (at := ages.due_before(before_ms, count_max)) is not None:
        assert at <= before_ms
        step = ages.take_before(at)
        assert step
        assert len(step) <= count_max or len({times[key] for key in step}) == 1
        gone.update(step)
    assert gone == due


@given(st.lists(TIMES, min_size=1, max_size=20), st.data())
def test_a_key_that_is_discarded_does_not_expire(times: list[int], data: st.DataObject) -> None:
    ages = ages_of(times)
    key = data.draw(st.integers(0, len(times) - 1))
    ages.discard(times[key], key)
    assert len(ages) == len(times) - 1
    assert key not in ages.take_before(6_000)
