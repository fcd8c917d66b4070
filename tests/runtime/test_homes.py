"""The homes of replicas: where databases are, else where there are the fewest; what a move and a failure change."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator.runtime.directories.homes import Homes
from simulation.fakes.directories import FakeDirectory
from simulation.fakes.state_store import MemoryStateStores

CLUSTER, TOPIC = "cluster", bytes(range(16))


@pytest.fixture
def directories(tmp_path: Path) -> list[FakeDirectory]:
    return [FakeDirectory(MemoryStateStores(), tmp_path / name, bytes([number + 1] * 16)) for number, name in enumerate("abc")]


def made(directory: FakeDirectory, *partitions: int) -> None:
    for partition in partitions:
        directory.stores.open(partition, CLUSTER, TOPIC)


def test_a_new_replica_goes_where_there_are_the_fewest_and_first_in_order(directories: list[FakeDirectory]) -> None:
    a, b, c = directories
    made(a, 0, 1)
    made(b, 2)
    homes = Homes(directories)
    assert homes.find(CLUSTER, TOPIC) == []
    # Databases that nobody has opened yet count from the beginning.
    assert [homes.home(partition) for partition in (7, 8, 9, 0, 1, 2, 10)] == [c, b, c, a, a, b, a]


def test_a_directory_that_fails_while_it_is_looked_at_is_told(directories: list[FakeDirectory]) -> None:
    a, b, _ = directories
    made(a, 0)
    b.failure = "injected"
    homes = Homes(directories)
    [(failed, error)] = homes.find(CLUSTER, TOPIC)
    assert failed is b
    assert "injected" in str(error)
    homes.take_away(b)
    assert b not in homes.online
    assert all(homes.home(partition) is not b for partition in range(6))


def test_a_replica_that_loses_its_home_goes_back_to_a_database_that_is_left(directories: list[FakeDirectory]) -> None:
    a, b, c = directories
    made(a, 0)
    homes = Homes(directories)
    homes.find(CLUSTER, TOPIC)
    assert homes.home(0) is a
    homes.move(0, b)
    assert homes.home(0) is b
    assert homes.superfluous(0) == [a]
    assert homes.living_in(b) == [0]
    homes.take_away(b)
    assert homes.home(0) is b, "until it is closed"
    homes.leave(0)
    assert homes.home(0) is a
    assert homes.superfluous(0) == []
    homes.take_away(a)
    homes.leave(0)
    assert homes.home(0) is c


def test_a_database_that_was_removed_counts_no_more(directories: list[FakeDirectory]) -> None:
    a, b, _ = directories
    made(a, 0)
    made(b, 0)
    homes = Homes(directories)
    homes.find(CLUSTER, TOPIC)
    home = homes.home(0)
    [other] = homes.superfluous(0)
    assert {home.path, other.path} == {a.path, b.path}
    homes.removed(0, other)
    assert homes.superfluous(0) == []
