"""The simulator bites: without any one protection of the design it finds a broken promise within a few seeds."""

from __future__ import annotations

import pytest

from simulation.protections.weakened import PROTECTIONS, without
from simulation.run import RunOutcome, simulate
from simulation.scenario import Scenario
from simulation.shrink import shrink

DURATION_S = 15.0


def first_violation(name: str) -> RunOutcome | None:
    protection = PROTECTIONS[name]
    for seed in protection.seeds():
        outcome = simulate(protection.scenario(seed, DURATION_S, (name,)))
        if outcome.violation is not None:
            return outcome
    return None


@pytest.mark.parametrize("name", PROTECTIONS)
def test_without_a_protection_a_promise_is_broken(name: str) -> None:
    protection = PROTECTIONS[name]
    outcome = first_violation(name)
    assert outcome is not None, f"{protection.seeds_max} seeds broke no rule though this was left out: {protection.rule}"
    # The same life with the protection is in order, so it was the protection that was missing.
    with_it = simulate(protection.scenario(outcome.scenario.seed, DURATION_S))
    assert with_it.violation is None, f"{with_it.violation}\n{with_it.story}"


def test_a_protection_is_back_afterwards() -> None:
    before = [(owner, attribute, getattr(owner, attribute)) for p in PROTECTIONS.values() for owner, attribute, _ in p.patches()]
    with without(PROTECTIONS):
        assert any(getattr(owner, attribute) is not was for owner, attribute, was in before)
    assert all(getattr(owner, attribute) is was for owner, attribute, was in before)


def test_a_failing_scenario_is_made_small_and_still_fails() -> None:
    found = first_violation("stored-results")
    assert found is not None
    small = shrink(found, runs_max=12)
    assert found.violation is not None
    assert small.violation is not None
    assert small.violation.rule == found.violation.rule
    assert len(small.scenario.faults) < len(found.scenario.faults)
    again = simulate(Scenario.from_json(small.scenario.to_json()))
    assert str(again.violation) == str(small.violation)
    assert again.trace_hash == small.trace_hash
