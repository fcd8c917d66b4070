"""Which partitions move so that coordinators have equally many."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from cli.looks.balance import PlacedPartition, balance


@pytest.mark.parametrize("seed", range(50))
def test_no_coordinator_has_two_more_than_another_and_nothing_moves_twice_or_more_than_it_must(seed: int) -> None:
    rng = random.Random(seed)
    coordinators = range(rng.randint(1, 6))
    placed = [
        PlacedPartition(f"t{rng.randrange(3)}", number, rng.choice(coordinators), rng.randrange(100)) for number in range(rng.randrange(30))
    ]
    moves = balance(placed, coordinators)
    after = {(one.topic, one.partition): one.coordinator for one in placed}
    before = Counter(after.values())
    assert len({(one.topic, one.partition) for one, _ in moves}) == len(moves)
    for one, to in moves:
        assert one.coordinator == after[one.topic, one.partition]
        assert to != one.coordinator
        after[one.topic, one.partition] = to
    counts = Counter(dict.fromkeys(coordinators, 0)) + Counter(after.values())
    held = [counts[one] for one in coordinators]
    assert max(held, default=0) - min(held, default=0) <= 1
    least = len(placed) // len(coordinators)
    assert len(moves) <= sum(max(0, count - least) for count in before.values())


def test_of_the_topic_with_most_the_partition_with_the_fewest_records_goes() -> None:
    placed = [PlacedPartition("a", 0, 0, 9), PlacedPartition("a", 1, 0, 5), PlacedPartition("a", 2, 0, 7), PlacedPartition("b", 0, 0, 1)]
    assert [(one.topic, one.partition, to) for one, to in balance(placed, [0, 1])] == [("a", 1, 1), ("b", 0, 1)]


def test_a_coordinator_that_had_a_partition_gets_another_one() -> None:
    placed = [PlacedPartition("a", 0, 0, 1), PlacedPartition("a", 1, 0, 2)]
    assert [one.partition for one, _ in balance(placed, [0, 1], barred={("a", 0, 1)})] == [1]


@pytest.mark.parametrize(("old", "new", "partitions"), [(4, 16, 64), (4, 8, 24), (3, 9, 36), (4, 12, 28)])
def test_new_coordinators_get_their_partitions_from_one_each(old: int, new: int, partitions: int) -> None:
    moves = balance([PlacedPartition("a", number, number % old, 0) for number in range(partitions)], range(new))
    assert {to for _, to in moves} == set(range(old, new))
    assert len({(one.coordinator, to) for one, to in moves}) == new - old
