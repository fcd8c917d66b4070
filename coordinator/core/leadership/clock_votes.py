"""Decides by comparison whose clock is wrong.

A node knows its own clock, those of other nodes, and that of Kafka's brokers, which counts as one. Clocks that show the same
time, within the limit, are a camp. A clock is wrong when it is certainly outside of a camp of at least two that is
larger than its own, or as large and with Kafka in it. Of two clocks that differ either may be wrong. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

KAFKA = "Kafka"


@dataclass(frozen=True, slots=True)
class Comparison:
    """How far the own clock is ahead of another one: between the two numbers, which may be negative."""

    clock: str
    low_ms: float
    high_ms: float

    @property
    def ahead_ms(self) -> float:
        """The distance that is certain: 0 when the clocks may show the same."""
        return self.low_ms if self.low_ms > 0 else min(self.high_ms, 0.0)


@dataclass(frozen=True, slots=True)
class ClockVerdict:
    """`reason` says why the own clock is judged wrong; None when it is not. `far` are the clocks it differs from."""

    reason: str | None
    far: tuple[Comparison, ...]


def judge(comparisons: Sequence[Comparison], limit_ms: float) -> ClockVerdict:
    """Judge the own clock; others may differ from it, and from each other in a camp, by up to the limit."""
    far = tuple(one for one in comparisons if abs(one.ahead_ms) > limit_ms)
    own_camp = _largest([one for one in comparisons if one not in far], limit_ms, around_own=True)
    camp = _largest(far, limit_ms, around_own=False)
    # The own clock belongs to its camp.
    is_outvoted = len(camp) > len(own_camp) + 1 or (len(camp) == len(own_camp) + 1 and _has_kafka(camp))
    if len(camp) < 2 or not is_outvoted:
        return ClockVerdict(None, far)
    return ClockVerdict(f"the clock of this node is {tell_distance(camp)}", far)


def _largest(comparisons: Sequence[Comparison], limit_ms: float, *, around_own: bool) -> list[Comparison]:
    """The largest camp; of equally large ones that with Kafka in it. With `around_own` the own clock is one of it."""
    starts = [one.ahead_ms for one in comparisons]
    if around_own:
        starts = [0.0, *(start for start in starts if start <= 0)]
    camps = [
        [one for one in comparisons if start <= one.ahead_ms <= start + limit_ms]
        for start in starts
        if not around_own or start + limit_ms >= 0
    ]
    return max(camps, key=lambda camp: (len(camp), _has_kafka(camp)), default=[])


def _has_kafka(camp: Sequence[Comparison]) -> bool:
    return any(one.clock == KAFKA for one in camp)


def tell_distance(comparisons: Sequence[Comparison]) -> str:
    """In words: "7200.0 s ahead of Kafka and node 2"."""
    nearest = min((one.ahead_ms for one in comparisons), key=abs)
    names = " and ".join(one.clock for one in comparisons)
    return f"{abs(nearest) / 1000:.1f} s {'ahead of' if nearest > 0 else 'behind'} {names}"
