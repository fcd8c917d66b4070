"""The plan of faults: by the seed alone, every action once before any comes again, never more than two of three brokers gone."""

from __future__ import annotations

from itertools import islice

import pytest

from integration_tests.faults.actions import ACTIONS, Hits
from integration_tests.faults.nemesis import Planned, plan

ALL = tuple(ACTIONS)


def rounds(seed: int, count: int, *, brisk: bool = False, together_max: int = 3) -> list[list[Planned]]:
    return list(islice(plan(ALL, seed, brisk=brisk, together_max=together_max), count))


def test_a_seed_gives_the_same_plan_again_and_another_seed_another() -> None:
    assert rounds(1, 40) == rounds(1, 40)
    assert rounds(1, 40) != rounds(2, 40)


@pytest.mark.parametrize("brisk", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_every_action_comes_once_before_any_comes_again(seed: int, brisk: bool) -> None:
    names = [one.action.name for planned in rounds(seed, 4 * len(ALL), brisk=brisk) for one in planned]
    assert sorted(names[: len(ALL)]) == sorted(ALL)
    assert sorted(names[len(ALL) : 2 * len(ALL)]) == sorted(ALL)


@pytest.mark.parametrize("seed", range(5))
def test_a_round_hits_two_nodes_at_most_and_one_of_all_others_each_once(seed: int) -> None:
    for planned in rounds(seed, 200):
        assert 1 <= len(planned) <= 3
        assert len({one.target for one in planned}) == len(planned)
        assert sum(one.action.hits in (Hits.BROKER, Hits.BOTH) for one in planned) <= 1
        assert sum(one.action.hits in (Hits.GATEWAY, Hits.ZONE) for one in planned) <= 1
        assert sum(one.target.startswith("c") for one in planned) <= 2
        assert sum(one.action.hits is Hits.MEMBER for one in planned) <= 1


def test_faults_can_be_kept_apart() -> None:
    assert {len(planned) for planned in rounds(1, 100, together_max=1)} == {1}
    assert {len(planned) for planned in rounds(1, 100, brisk=True, together_max=1)} == {1}


def test_a_fault_lasts_as_long_as_its_action_says() -> None:
    for planned in rounds(1, 200):
        assert all(one.action.shortest_s <= one.lasts_s <= one.action.longest_s for one in planned)
    assert all(one.lasts_s == one.action.shortest_s for planned in rounds(1, 50, brisk=True) for one in planned)
