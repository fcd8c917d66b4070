"""Where partitions go: each topic evenly over coordinators and nodes, however it grows beside others, and all topics together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.directory.placement import spread
from records.model import PlacedRange

STEPS = st.lists(st.tuples(st.integers(0, 6), st.integers(1, 40)), min_size=1, max_size=40)
"""Which topic grows (or is created), and by how many partitions."""


class Grown:
    """Topics that grow step by step."""

    def __init__(self, coordinators: int, leaders: Mapping[int, int]) -> None:
        self.loads = dict.fromkeys(range(coordinators), 0)
        self.leaders = leaders
        self.topics: dict[int, list[PlacedRange]] = {}

    def grow(self, topic: int, count: int) -> list[PlacedRange]:
        ranges = self.topics.setdefault(topic, [])
        first = sum(one.num_partitions for one in ranges)
        new = spread(first=first, count=count, placed=ranges, loads=self.loads, leaders=self.leaders)
        assert [one.first_partition for one in new] == [first + sum(x.num_partitions for x in new[:at]) for at in range(len(new))]
        assert sum(one.num_partitions for one in new) == count
        ranges += new
        return new

    def counts(self, topic: int) -> list[int]:
        found = Counter(dict.fromkeys(self.loads, 0))
        for one in self.topics[topic]:
            found[one.coordinator_id] += one.num_partitions
        return list(found.values())

    def by_node(self, topic: int) -> list[int]:
        found = Counter(dict.fromkeys(self.leaders.values(), 0))
        for coordinator, count in enumerate(self.counts(topic)):
            found[self.leaders[coordinator]] += count
        return list(found.values())


def difference(counts: list[int]) -> int:
    return max(counts) - min(counts)


@given(coordinators=st.integers(1, 9), steps=STEPS)
def test_each_topic_is_spread_evenly_however_it_grows(coordinators: int, steps: list[tuple[int, int]]) -> None:
    grown = Grown(coordinators, {})
    for topic, count in steps:
        grown.grow(topic, count)
        assert difference(grown.counts(topic)) <= 1
    # Each topic adds at most one to the difference, and only those that do not divide evenly.
    uneven = sum(difference(grown.counts(topic)) for topic in grown.topics)
    assert difference(list(grown.loads.values())) <= uneven
    assert grown.loads == {one: sum(grown.counts(topic)[one] for topic in grown.topics) for one in grown.loads}


@given(coordinators=st.integers(1, 9), counts=st.lists(st.integers(1, 40), min_size=1, max_size=40))
def test_topics_that_are_created_at_once_leave_all_coordinators_even(coordinators: int, counts: list[int]) -> None:
    grown = Grown(coordinators, {})
    for topic, count in enumerate(counts):
        grown.grow(topic, count)
        assert difference(list(grown.loads.values())) <= 1


@given(nodes=st.integers(1, 4), each=st.integers(1, 4), steps=STEPS)
def test_each_topic_is_spread_evenly_over_nodes_that_lead_equally_many(nodes: int, each: int, steps: list[tuple[int, int]]) -> None:
    grown = Grown(nodes * each, {one: one // each for one in range(nodes * each)})
    for topic, count in steps:
        grown.grow(topic, count)
        assert difference(grown.counts(topic)) <= 1
        assert difference(grown.by_node(topic)) <= 1


@given(steps=STEPS, late=st.lists(st.tuples(st.integers(0, 6), st.integers(1, 40)), min_size=1, max_size=20))
def test_coordinators_that_come_later_catch_up_as_topics_grow(steps: list[tuple[int, int]], late: list[tuple[int, int]]) -> None:
    grown = Grown(3, {})
    for topic, count in steps:
        grown.grow(topic, count)
    grown.loads |= dict.fromkeys(range(3, 8), 0)
    for topic, count in late:
        before = grown.counts(topic) if topic in grown.topics else [0] * 8
        grown.grow(topic, count)
        after = grown.counts(topic)
        got = [one for one in range(8) if after[one] > before[one]]
        # Nobody got one above somebody who has less: nothing is spread more unevenly than the old partitions make it.
        assert all(after[one] <= min(after) + 1 for one in got)


def test_a_topic_of_few_partitions_is_led_by_several_nodes() -> None:
    grown = Grown(8, {0: 1, 1: 1, 2: 1, 3: 1, 4: 2, 5: 2, 6: 2, 7: 2})
    assert [one.coordinator_id for one in grown.grow(0, 2)] == [0, 4]
    assert grown.by_node(0) == [1, 1]


@pytest.mark.parametrize("count", [100_000, 99_999])
def test_a_large_topic_is_cut_into_few_ranges(count: int) -> None:
    assert len(Grown(8, {}).grow(0, count)) == 8
