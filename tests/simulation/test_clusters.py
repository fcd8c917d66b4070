"""Whole clusters on virtual time: what was promised holds whatever goes wrong, and a seed decides everything.

SIMULATION_SEEDS=from..to lives other seeds than these few; `.ci/run` lives hundreds with `diskless simulate`, and only a few of these.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from records.levels import LEVEL_LATEST
from simulation.fakes.kafka_log import Fate
from simulation.run import simulate
from simulation.scenario import DRAWS, ENTRY_BYTES_MAX, GATEWAY_DRAWS, STRAYS, Fault, Scenario

SCENARIOS = Path(__file__).parent / "scenarios"
FIRST, LAST = map(int, os.environ.get("SIMULATION_SEEDS", "0..39").split(".."))


@pytest.mark.parametrize("seed", range(FIRST, LAST + 1))
def test_every_promise_is_kept_whatever_goes_wrong(seed: int) -> None:
    outcome = simulate(Scenario.random(seed, 12.0))
    assert outcome.violation is None, f"seed {seed}: {outcome.violation}\n{outcome.story}"
    # A life in which nothing happens proves nothing.
    assert outcome.answers >= 10
    assert outcome.looks > 20
    assert outcome.claims >= outcome.scenario.partitions


def test_a_cluster_whose_background_work_never_rests_heals() -> None:
    """Scans, snapshots and their marks are so frequent here that at no moment all replicas of all partitions have written everything."""
    outcome = simulate(Scenario.load(SCENARIOS / "background-work-never-rests.json"))
    assert outcome.violation is None
    assert outcome.virtual_s < 60


def test_a_scenario_decides_everything_whatever_the_hash_seed() -> None:
    program = "from simulation import run, scenario; print(run.simulate(scenario.Scenario.random(3, 8.0)).trace_hash)"
    hashes = [
        subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, "PYTHONHASHSEED": seed}, check=True, capture_output=True, text=True
        ).stdout
        for seed in ("1", "2")
    ]
    assert hashes[0] == hashes[1]
    assert hashes[0].strip() == simulate(Scenario.random(3, 8.0)).trace_hash


def test_the_seeds_draw_every_kind_of_fault() -> None:
    of_seeds = [Scenario.random(seed, 12.0).faults for seed in range(400)]
    faults = [fault for drawn in of_seeds for fault in drawn]
    assert {fault.kind for drawn in of_seeds[:60] for fault in drawn} - GATEWAY_DRAWS.keys() == {*DRAWS, "move_step"}
    assert {fault.detail for fault in faults if fault.kind == "produce"} == {fate.name for fate in Fate} - {"DELIVER"}
    assert {fault.detail for fault in faults if fault.kind == "stray"} == set(STRAYS)


def test_transactions_are_ended_and_cut_off_and_versions_are_upgraded() -> None:
    faults = (Fault(at_s=2.0, kind="upgrade", node=1),)
    outcomes = [
        simulate(replace(Scenario.random(seed, 12.0), nodes=3, old_nodes=(1,), entry_bytes_max=ENTRY_BYTES_MAX, pruners=2, faults=faults))
        for seed in range(6)
    ]
    assert [outcome.violation for outcome in outcomes] == [None] * len(outcomes)
    assert {outcome.schema_level for outcome in outcomes} == {LEVEL_LATEST}
    assert sum(outcome.transactions for outcome in outcomes) > 10
    torn = [Scenario.random(seed, 12.0, kinds=("tear",)) for seed in range(4)]
    # Where files are looked after there are more entries of other kinds, and fewer transactions among them.
    small = [simulate(replace(scenario, files=None, entry_bytes_max=ENTRY_BYTES_MAX, pruners=3)) for scenario in torn]
    assert sum(outcome.transactions_cut_off for outcome in small) > 2


def test_an_old_version_that_is_not_upgraded_keeps_the_level_down() -> None:
    outcome = simulate(replace(Scenario.random(2, 8.0, kinds=("lag",)), old_nodes=(0,)))
    assert (outcome.violation, outcome.schema_level, outcome.transactions) == (None, LEVEL_LATEST - 1, 0)


def test_a_scenario_survives_its_file() -> None:
    scenario = Scenario.random(5)
    assert Scenario.from_json(scenario.to_json()) == scenario
