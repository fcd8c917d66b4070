"""Files of a simulated run come and go, and their objects with them, whatever becomes of the uploaders."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from simulation.run import simulate
from simulation.scenario import Scenario, SimulatedFiles

LIFE = SimulatedFiles(
    commit_age_s=1.0, grace_s=0.5, fence_kept_s=7.0, pausing=0.2, dying=0.1, giving_up=0.2, scan_s=2.0, pruners=2, finders=2
)


@pytest.mark.parametrize("store_faults", [0.0, 0.3])
def test_objects_go_when_nobody_needs_them_though_uploaders_die_pause_and_give_up(store_faults: float) -> None:
    drawn = replace(Scenario.random(1, 8.0, kinds=("restart",)), committers=4)
    outcome = simulate(replace(drawn, files=replace(LIFE, store_faults=store_faults)))
    assert outcome.violation is None, f"{outcome.violation}\n{outcome.story}"
    assert outcome.objects_removed > 10


def test_without_a_life_of_files_nothing_is_removed() -> None:
    outcome = simulate(replace(Scenario.random(1, 4.0, kinds=("lag",)), files=None))
    assert (outcome.violation, outcome.objects_removed) == (None, 0)


def test_the_life_of_files_is_drawn_beside_the_rest() -> None:
    rng = random.Random("scenario 7")
    assert Scenario.random(7).nodes == rng.choice([3, 3, 4])
    drawn = [Scenario.random(seed) for seed in range(60)]
    lives = [one.files for one in drawn if one.files is not None]
    assert len(lives) == len(drawn)
    for chances in ([life.pausing for life in lives], [life.dying for life in lives], [life.store_faults for life in lives]):
        assert min(chances) == 0.0
        assert max(chances) > 0.1
    # Fences are kept for twice the age, and for as long as clocks may be apart.
    for one, life in zip(drawn, lives, strict=True):
        assert life.fence_kept_s >= 2 * life.commit_age_s + (0.0 if one.are_clocks_true else 5.0)
