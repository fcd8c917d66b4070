"""Tasks and limits: every offset in exactly one task, by the rules of Spark's Kafka source."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tables.reading.span import Span
from tables.source.offsets import TopicPlace
from tables.source.planning import Task, by_partitions, by_stretches, cut_evenly, limited, size_of
from tests.tables.source.given import span

sizes = st.lists(st.integers(0, 5000), max_size=8)
limits = st.none() | st.integers(1, 400)


def spans_of(counts: Sequence[int]) -> list[Span]:
    return [span(index, 100 * index, 100 * index + count) for index, count in enumerate(counts)]


def covered(tasks: Sequence[Task]) -> dict[int, list[tuple[int, int]]]:
    """The ranges of each partition, in the order of tasks."""
    found: dict[int, list[tuple[int, int]]] = {}
    for task in tasks:
        for one in task:
            found.setdefault(one.partition, []).append((one.from_offset, one.to_offset))
    return found


def assert_whole(tasks: Sequence[Task], spans: Sequence[Span]) -> None:
    """Each offset is in one task, none is empty, and tasks of a partition follow each other."""
    ranges = covered(tasks)
    assert set(ranges) == {one.partition for one in spans if size_of(one)}
    for one in spans:
        if size_of(one):
            of_it = ranges[one.partition]
            assert (of_it[0][0], of_it[-1][1]) == (one.from_offset, one.to_offset)
            assert all(begin < end for begin, end in of_it)
            assert [end for _, end in of_it[:-1]] == [begin for begin, _ in of_it[1:]]


@given(sizes, limits, limits)
def test_partitions_are_cut_without_loss(counts: list[int], min_splits: int | None, records_max: int | None) -> None:
    spans = spans_of(counts)
    tasks = by_partitions(spans, min_splits=min_splits, records_max=records_max)
    assert_whole(tasks, spans)
    assert all(len(task) == 1 for task in tasks)
    if records_max is not None:
        assert all(size_of(task[0]) <= records_max for task in tasks)


@pytest.mark.parametrize(
    ("counts", "min_splits", "records_max", "expected"),
    [
        ([10, 20], None, None, [10, 20]),
        ([10, 0, 20], 2, None, [10, 20]),
        ([100, 100], 4, None, [50, 50, 50, 50]),
        ([100, 5], 4, None, [33, 33, 34, 5]),
        ([1], 20, None, [1]),
        ([101], 3, None, [33, 34, 34]),
        ([25, 8], None, 10, [8, 8, 9, 8]),
        ([25, 8], 3, 10, [8, 8, 9, 8]),
        ([40, 40], 8, 20, [10] * 8),
    ],
)
def test_cuts_are_those_of_sparks_kafka_source(
    counts: list[int], min_splits: int | None, records_max: int | None, expected: list[int]
) -> None:
    tasks = by_partitions(spans_of(counts), min_splits=min_splits, records_max=records_max)
    assert [size_of(task[0]) for task in tasks] == expected


cut = st.dictionaries(st.builds(TopicPlace, st.just("orders"), st.integers(0, 7)), st.integers(-50, 6000), max_size=8)


@given(sizes, st.lists(cut, max_size=6), limits)
def test_stretches_have_each_offset_once_whatever_the_cuts(
    counts: list[int], cuts: list[dict[TopicPlace, int]], records_max: int | None
) -> None:
    spans = spans_of(counts)
    tasks = by_stretches(spans, cuts, records_max=records_max)
    assert_whole(tasks, spans)
    if records_max is not None:
        # A part has its share of each partition, rounded up.
        assert all(sum(map(size_of, task)) <= records_max + len(task) for task in tasks)


def test_a_stretch_has_all_partitions() -> None:
    cuts = [{TopicPlace("orders", 0): 40, TopicPlace("orders", 1): 120}]
    assert by_stretches([span(0, 0, 100), span(1, 100, 200)], cuts, records_max=None) == [
        (span(0, 0, 40), span(1, 100, 120)),
        (span(0, 40, 100), span(1, 120, 200)),
    ]


@given(st.integers(0, 1000), st.integers(1, 50))
def test_a_span_is_cut_evenly(size: int, count: int) -> None:
    parts = cut_evenly(span(0, 7, 7 + size), count)
    assert sum(map(size_of, parts)) == size
    assert len({size_of(part) for part in parts}) <= 2


P = [TopicPlace("orders", index) for index in range(3)]


@pytest.mark.parametrize(
    ("begins", "ends", "limit", "expected"),
    [
        ([0, 0, 0], [100, 100, 0], 50, [25, 25, 0]),
        ([10, 0, 0], [110, 300, 0], 40, [20, 30, 0]),
        ([0, 0, 0], [1, 1_000_000, 0], 100, [1, 99, 0]),  # a small partition is not starved
        ([0, 0, 0], [3, 3, 3], 100, [3, 3, 3]),
        ([5, 5, 5], [5, 5, 5], 10, [5, 5, 5]),
        ([9, 0, 0], [4, 10, 0], 5, [4, 5, 0]),  # an end that went back is told of where tasks are planned
    ],
)
def test_a_limit_is_shared_by_what_there_is(begins: list[int], ends: list[int], limit: int, expected: list[int]) -> None:
    made = limited(dict(zip(P, begins, strict=True)), dict(zip(P, ends, strict=True)), limit)
    assert [made[place] for place in P] == expected


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), min_size=1, max_size=20), st.integers(1, 10**6))
def test_a_limit_moves_on_and_never_past_the_ends(given: list[tuple[int, int]], limit: int) -> None:
    begins = {TopicPlace("orders", index): begin for index, (begin, _) in enumerate(given)}
    ends = {TopicPlace("orders", index): begin + more for index, (begin, more) in enumerate(given)}
    made = limited(begins, ends, limit)
    assert all(begins[place] <= made[place] <= ends[place] for place in ends)
    assert all(made[place] > begins[place] for place in ends if ends[place] > begins[place])
    assert sum(made[place] - begins[place] for place in ends) <= limit + len(ends)
