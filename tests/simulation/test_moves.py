"""Partitions move while whoever takes part in that is harmed at each step of a move: every promise holds, and each move ends."""

from __future__ import annotations

from itertools import product

import pytest

from simulation.run import simulate
from simulation.scenario import MOVE_HARMS, MOVE_MOMENTS, MOVE_VICTIMS, Fault, Scenario

FIRST_S = 2.0
SEEDS_LONG = 6


def harmed_at_every_step(harm: str, seed: int, *, gap_s: float, entry_bytes_max: int = 0) -> Scenario:
    """Each leader that a move needs is harmed right before and right after each entry and each request of one, one after the other."""
    duration_s = 7.5 if harm == "freeze" else 1.0  # another one leads before it goes on
    table = [f"{moment} {victim} {harm}" for moment, victim in product(MOVE_MOMENTS, MOVE_VICTIMS)]
    faults = tuple(
        Fault(at_s=FIRST_S + gap_s * number, kind="move_step", detail=detail, duration_s=duration_s) for number, detail in enumerate(table)
    )
    return Scenario(
        seed=seed,
        nodes=4,
        partitions=3,
        duration_s=FIRST_S + gap_s * (len(table) + 5),
        committers=2,
        pruners=1,
        movers=3,
        faults=faults,
        entry_bytes_max=entry_bytes_max,
    )


def check(scenario: Scenario) -> None:
    outcome = simulate(scenario)
    assert outcome.violation is None, f"{outcome.violation}\n{outcome.story}"
    assert sorted(outcome.move_steps) == sorted(fault.detail for fault in scenario.faults)
    assert outcome.moves > 10


def test_a_move_survives_the_death_of_everybody_concerned_at_each_of_its_steps() -> None:
    check(harmed_at_every_step("kill", 1, gap_s=1.5))


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("harm", MOVE_HARMS)
@pytest.mark.parametrize("entry_bytes_max", [0, 200])
def test_a_move_survives_whatever_is_done_to_everybody_concerned_at_each_of_its_steps(harm: str, entry_bytes_max: int) -> None:
    for seed in range(SEEDS_LONG):
        check(harmed_at_every_step(harm, seed, gap_s=3.0, entry_bytes_max=entry_bytes_max))
