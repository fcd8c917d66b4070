"""The simulator bites: without any one protection of the design it finds a broken promise within a few seeds."""

from __future__ import annotations

import ast
import inspect
import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

import simulation.protections
from simulation.protections.protection import Patch
from simulation.protections.weakened import PROTECTIONS, without
from simulation.protections.weakened_migrations import MIGRATION_RULES
from simulation.run import RunOutcome, simulate
from simulation.scenario import Scenario
from simulation.shrink import shrink

DURATION_S = 15.0
STEP_S = 5.0
"""Lives with all protections last as many of these as it takes: so several protections share one."""
OF_NAMED_TUPLES = {"_replace", "_asdict", "_fields"}
PATCHES = {name: protection.patches for name, protection in (PROTECTIONS | dict(MIGRATION_RULES)).items()}


def first_violation(name: str) -> RunOutcome | None:
    protection = PROTECTIONS[name]
    for seed in protection.seeds():
        outcome = simulate(protection.scenario(seed, DURATION_S, (name,)))
        if outcome.violation is not None:
            return outcome
    return None


def until(scenario: Scenario, broken_s: float) -> Scenario:
    """The same life up to a second behind a moment; what goes wrong later is left out, and it heals."""
    duration_s = min(scenario.duration_s, STEP_S * math.ceil((broken_s + 1.0) / STEP_S))
    return replace(scenario, duration_s=duration_s, faults=tuple(one for one in scenario.faults if one.at_s < duration_s))


@cache
def whole(scenario: str) -> RunOutcome:
    """A life with all protections, which several of them share."""
    return simulate(Scenario.from_json(scenario))


@pytest.mark.parametrize("name", PROTECTIONS)
def test_without_a_protection_a_promise_is_broken(name: str) -> None:
    protection = PROTECTIONS[name]
    outcome = first_violation(name)
    assert outcome is not None, f"{protection.seeds_max} seeds broke no rule though this was left out: {protection.rule}"
    # The same life with the protection is in order, so it was the protection that was missing.
    with_it = whole(until(protection.scenario(outcome.scenario.seed, DURATION_S), outcome.virtual_s).to_json())
    assert with_it.violation is None, f"{with_it.violation}\n{with_it.story}"


@pytest.mark.parametrize("name", PATCHES)
def test_a_protection_is_a_public_rule_of_the_product(name: str) -> None:
    assert [attribute for _, attribute, _ in PATCHES[name]() if attribute.startswith("_")] == []


def test_protections_read_nothing_private() -> None:
    [folder] = simulation.protections.__path__
    read = [
        f"{path.name}:{node.lineno} {node.attr}"
        for path in sorted(Path(folder).glob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__")
    ]
    assert [one for one in read if one.split()[-1] not in OF_NAMED_TUPLES] == []


def wrong_signatures(patches: list[Patch]) -> Iterator[str]:
    for owner, attribute, replacement in patches:
        original = getattr(owner, attribute)
        if inspect.isfunction(original) and inspect.isfunction(replacement):
            required = [one for one in inspect.signature(original).parameters.values() if one.default is one.empty]
            named = {one.name: None for one in required if one.kind is one.KEYWORD_ONLY}
            try:
                inspect.signature(replacement).bind(*(None for one in required if one.kind is one.POSITIONAL_OR_KEYWORD), **named)
            except TypeError as error:
                yield f"{attribute}: {error}"


@pytest.mark.parametrize("name", PATCHES)
def test_what_replaces_a_rule_is_called_as_the_rule_is(name: str) -> None:
    # Otherwise every call raises, and the simulator would notice that instead of the missing rule.
    assert list(wrong_signatures(PATCHES[name]())) == []


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
