"""Gateways on virtual time: what they acknowledge is there once and in order, and readers at the ends see all of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import pytest

from simulation.produced import Diligence
from simulation.run import simulate
from simulation.scenario import GATEWAY_DRAWS, STORE_FAULTS, Scenario, SimulatedGateways

DURATION_S = 8.0
SEEDS = 6
SEEDS_LONG = 400


def with_gateways(seed: int) -> Scenario:
    return Scenario.of_nodes(seed, DURATION_S).with_gateways(SimulatedGateways.drawn(seed))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_promise_is_kept_with_gateways(seed: int) -> None:
    outcome = simulate(with_gateways(seed))
    assert outcome.violation is None, f"seed {seed}: {outcome.violation}\n{outcome.story}"
    assert outcome.acknowledged > 10


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_every_promise_is_kept_with_gateways_over_hundreds_of_seeds() -> None:
    found = {seed: outcome.violation for seed in range(SEEDS_LONG) if (outcome := simulate(with_gateways(seed))).violation is not None}
    assert found == {}


def test_a_life_with_gateways_is_the_same_whatever_the_hash_seed_and_the_load_of_the_machine() -> None:
    program = (
        "import itertools, time; spent = itertools.count(); time.thread_time = lambda: next(spent) * {step_s}; "
        "from simulation import run, scenario as s; "
        "print(run.simulate(s.Scenario.of_nodes(4, 5.0).with_gateways(s.SimulatedGateways.drawn(4))).trace_hash)"
    )
    hashes = [
        subprocess.run(
            [sys.executable, "-c", program.format(step_s=step_s)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed, step_s in (("1", 0.0), ("2", 0.01))
    ]
    assert hashes[0] == hashes[1]


def test_some_lives_have_gateways_and_draw_every_kind_of_their_faults() -> None:
    lives = [Scenario.random(seed, DURATION_S) for seed in range(1_000)]
    having = [life for life in lives if life.gateways is not None]
    assert 40 < len(having) < 90
    faults = [fault for life in having for fault in life.faults]
    assert {fault.kind for fault in faults} >= GATEWAY_DRAWS.keys()
    assert {fault.detail for fault in faults if fault.kind == "gateway_store"} == set(STORE_FAULTS)
    kinds = Counter(life.gateways.first_kind for life in having if life.gateways is not None)
    assert set(kinds) == set(range(len(Diligence)))


def test_a_life_without_gateways_is_not_changed_by_them() -> None:
    alone = [seed for seed in range(40) if SimulatedGateways.random(seed) is None]
    assert len(alone) > 20
    assert all(Scenario.random(seed, DURATION_S) == Scenario.of_nodes(seed, DURATION_S).with_move_steps() for seed in alone)


def test_a_scenario_with_gateways_survives_its_file() -> None:
    scenario = with_gateways(3)
    assert Scenario.from_json(scenario.to_json()) == scenario
