"""Decides which coordinators get the new partitions of a topic.

Rules, the first outranks the next: the counts of one topic's partitions per coordinator differ by at most one, as far as its old
partitions, which stay where they are, allow it; so do those per node, which leads several coordinators; the coordinator that then has
the fewest partitions of all topics gets more. Pure: the same arguments give the same ranges.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from records.model import PlacedRange


def spread(
    *,
    first: int,
    count: int,
    placed: Iterable[PlacedRange],
    loads: dict[int, int],
    leaders: Mapping[int, int],
    classic_pending: bool = False,
) -> list[PlacedRange]:
    """Cut `[first, first + count)` into at most one range per coordinator of `loads`, which maps them to their partitions.

    `placed` are the ranges that the topic has, `leaders` the node that leads a coordinator where it is known. The new
    ranges are of classic partitions if `classic_pending`. Adds what is placed to `loads`.
    """
    own = Counter(dict.fromkeys(loads, 0))
    for old in placed:
        if old.coordinator_id in own:
            own[old.coordinator_id] += old.num_partitions
    shares, rest = _fill(own, count)
    level = min(own[one] + shares[one] for one in loads)
    takers = [one for one in loads if own[one] + shares[one] == level]
    on_node: Counter[int] = Counter()
    for one in loads:
        on_node[_node(one, leaders)] += own[one] + shares[one]
    for _ in range(rest):
        taker = min(takers, key=lambda one: (on_node[_node(one, leaders)], loads[one] + shares[one], one))
        takers.remove(taker)
        shares[taker] += 1
        on_node[_node(taker, leaders)] += 1
    return _ranges(first, shares, loads, classic_pending)


def _fill(own: Mapping[int, int], count: int) -> tuple[dict[int, int], int]:
    """Raise those with the fewest partitions to one level, as high as `count` reaches; returns the remainder, less than one for each."""
    shares = dict.fromkeys(own, 0)
    order = sorted(own, key=lambda one: own[one])
    level, reached = own[order[0]], 1
    while True:
        while reached < len(order) and own[order[reached]] <= level:
            reached += 1
        step = count // reached
        if reached < len(order):
            step = min(step, own[order[reached]] - level)
        if not step:
            break
        level += step
        count -= step * reached
    for one in order[:reached]:
        shares[one] = level - own[one]
    return shares, count


def _node(coordinator_id: int, leaders: Mapping[int, int]) -> int:
    """The node that leads a coordinator; a coordinator of an unknown leader counts as a node of its own."""
    return leaders.get(coordinator_id, -1 - coordinator_id)


def _ranges(first: int, shares: Mapping[int, int], loads: dict[int, int], classic_pending: bool) -> list[PlacedRange]:
    ranges = []
    for coordinator_id, share in sorted(shares.items()):
        loads[coordinator_id] += share
        if share:
            ranges.append(
                PlacedRange(first_partition=first, num_partitions=share, coordinator_id=coordinator_id, classic_pending=classic_pending)
            )
            first += share
    return ranges
