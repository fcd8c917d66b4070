"""Batches of a simulated run go when they are past retention, by time and by size, and never before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simulation.run import simulate
from simulation.scenario import Scenario, SimulatedFiles, SimulatedRetention

BY_TIME = SimulatedRetention(default_ms=600, check_s=0.2)
BY_SIZE = SimulatedRetention(default_bytes=20, check_s=0.2, keepers=0)


@pytest.mark.parametrize("kept", [BY_TIME, BY_SIZE], ids=["time", "size"])
def test_batches_and_then_their_objects_go_though_leaders_restart(kept: SimulatedRetention) -> None:
    drawn = replace(Scenario.random(3, 8.0, kinds=("restart",)), committers=4, pruners=0, skews_ms=())
    outcome = simulate(replace(drawn, retention=kept, files=SimulatedFiles(pausing=0.0, dying=0.0, giving_up=0.0, pruners=0)))
    assert outcome.violation is None, f"{outcome.violation}\n{outcome.story}"
    assert outcome.batches_expired > 10
    assert outcome.objects_removed > 3


def test_without_retention_nothing_expires() -> None:
    outcome = simulate(replace(Scenario.random(1, 4.0, kinds=("lag",)), retention=None))
    assert (outcome.violation, outcome.batches_expired) == (None, 0)


def test_retention_is_drawn_beside_the_rest_for_about_half_of_the_seeds() -> None:
    drawn = [Scenario.random(seed) for seed in range(100)]
    kept = [one.retention for one in drawn if one.retention is not None]
    assert 30 < len(kept) < 70
    assert {one.default_ms < 0 for one in kept} == {one.default_bytes < 0 for one in kept} == {True, False}
    assert all(Scenario.from_json(one.to_json()) == one for one in drawn[:20])
