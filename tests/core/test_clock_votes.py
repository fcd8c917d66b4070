"""Whose clock is wrong, by comparison."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.leadership.clock_votes import KAFKA, Comparison, judge

LIMIT_MS = 5_000
DAY_MS = 86_400_000.0


def against(**clocks: float) -> list[Comparison]:
    """The own clock is this far ahead of others, in ms."""
    return [Comparison(KAFKA if name == "kafka" else name, ahead, ahead) for name, ahead in clocks.items()]


@pytest.mark.parametrize(
    ("comparisons", "is_odd"),
    [
        ([], False),
        (against(kafka=0, a=4_999), False),
        (against(kafka=DAY_MS), False),  # of two nobody knows
        (against(a=-DAY_MS), False),
        (against(kafka=DAY_MS, a=DAY_MS + 10), True),
        (against(kafka=-DAY_MS, a=-DAY_MS), True),
        (against(kafka=0, a=-DAY_MS), False),  # a is odd
        (against(kafka=DAY_MS, a=0), False),  # Kafka is
        (against(kafka=DAY_MS, a=DAY_MS, b=0), True),  # two and two: Kafka's camp is right
        (against(a=DAY_MS, b=DAY_MS, kafka=0), False),
        (against(kafka=DAY_MS, a=0, b=DAY_MS, c=0), False),
        (against(a=DAY_MS, b=DAY_MS, c=DAY_MS, kafka=0), True),
        (against(kafka=DAY_MS, a=2 * DAY_MS, b=3 * DAY_MS), False),  # no two agree
        (against(kafka=DAY_MS, a=DAY_MS + 5_001), False),
        (against(kafka=DAY_MS, a=DAY_MS + 5_000), True),
    ],
)
def test_the_odd_one_out(comparisons: list[Comparison], is_odd: bool) -> None:
    verdict = judge(comparisons, LIMIT_MS)
    assert (verdict.reason is not None) == is_odd
    assert {one.clock for one in verdict.far} == {one.clock for one in comparisons if abs(one.ahead_ms) > LIMIT_MS}


def test_the_reason_names_distance_and_clocks() -> None:
    assert judge(against(kafka=7_200_000, a=7_200_100), LIMIT_MS).reason == "the clock of this node is 7200.0 s ahead of Kafka and a"
    assert judge(against(kafka=-60_000, a=-60_000), LIMIT_MS).reason == "the clock of this node is 60.0 s behind Kafka and a"


def test_what_was_measured_badly_does_not_count_against_anybody() -> None:
    assert judge([Comparison(KAFKA, -100, DAY_MS), Comparison("a", 4_000, DAY_MS)], LIMIT_MS).far == ()


@given(st.lists(st.sampled_from([0.0, 3_000.0, -20_000.0, DAY_MS, -DAY_MS, 30 * DAY_MS]), min_size=2, max_size=7))
def test_somebody_may_always_lead(clocks: list[float]) -> None:
    """Clock 0 is Kafka's; of the nodes, who all see each other, at least one is not the odd one out."""
    verdicts = []
    for own in range(1, len(clocks)):
        others = [
            Comparison(KAFKA if other == 0 else f"node {other}", clocks[own] - time, clocks[own] - time)
            for other, time in enumerate(clocks)
            if other != own
        ]
        verdicts.append(judge(others, LIMIT_MS).reason)
    assert None in verdicts
