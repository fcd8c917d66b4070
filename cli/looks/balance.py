"""Which partitions to move so that coordinators have equally many, with the fewest moves. Pure.

Batches stay where they were committed, so a move costs what is asked for there later: of the partitions that would do, those with the
fewest records go. A coordinator that had a partition before does not get it back while it has records of it. Nodes that lead a coordinator
follow those that its partitions came from (docs/decisions/044): where moves are equally good, it gets them from as few as possible.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple


class PlacedPartition(NamedTuple):
    """A partition, where it is, and how many records it has."""

    topic: str
    partition: int
    coordinator: int
    records: int


class PlannedMove(NamedTuple):
    """A partition that goes to another coordinator."""

    placed: PlacedPartition
    to_coordinator: int


def balance(
    partitions: Sequence[PlacedPartition], coordinators: Collection[int], barred: Collection[tuple[str, int, int]] = ()
) -> list[PlannedMove]:
    """Return the moves after which no coordinator has two partitions more than another; `barred` are topic, partition and coordinator."""
    at: dict[int, list[PlacedPartition]] = {one: [] for one in coordinators}
    for one in partitions:
        at.setdefault(one.coordinator, []).append(one)
    of_topic = Counter((one.topic, one.coordinator) for one in partitions)
    moves: list[PlannedMove] = []
    linked: set[tuple[int, int]] = set()
    while True:
        pairs = sorted(
            (len(at[to]) - len(at[source]), (source, to) not in linked, source, to)
            for source in at
            for to in coordinators
            if len(at[source]) - len(at[to]) > 1
        )
        chosen = next(((source, to, found) for _, _, source, to in pairs if (found := _movable(at[source], to, barred, of_topic))), None)
        if chosen is None:
            return moves
        source, to, one = chosen
        linked.add((source, to))
        at[source].remove(one)
        # It is not moved a second time: from there on it counts for its new coordinator, and is none of those that go.
        at[to].append(one._replace(coordinator=to))
        of_topic[one.topic, source] -= 1
        of_topic[one.topic, to] += 1
        moves.append(PlannedMove(one, to))


def _movable(
    here: Sequence[PlacedPartition], to: int, barred: Collection[tuple[str, int, int]], of_topic: Counter[tuple[str, int]]
) -> PlacedPartition | None:
    """The partition that goes: of the topic that has most more here than there, the one with the fewest records."""
    candidates = [one for one in here if (one.topic, one.partition, to) not in barred]
    return min(
        candidates,
        key=lambda one: (of_topic[one.topic, to] - of_topic[one.topic, one.coordinator], one.records, one.topic, one.partition),
        default=None,
    )
