"""Makes a failing scenario small: fewer faults, fewer clients, a shorter life, as long as the same rule breaks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from simulation.run import RunOutcome, simulate
from simulation.scenario import Scenario

RUNS_MAX = 120
MARGIN_S = 0.5


def shrink(outcome: RunOutcome, *, runs_max: int = RUNS_MAX, tell: Callable[[str], None] = lambda _text: None) -> RunOutcome:
    """Return the smallest failing outcome found within so many runs; the given one when nothing can go."""
    if outcome.violation is None:
        raise ValueError("only a run that broke a rule can be made smaller")
    rule, best, runs = outcome.violation.rule, outcome, 0
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for candidate in _candidates(best):
            if runs == runs_max:
                return best
            runs += 1
            tried = simulate(candidate)
            if tried.violation is not None and tried.violation.rule == rule:
                best, is_smaller = tried, True
                tell(f"run {runs}: {len(candidate.faults)} faults, {candidate.duration_s:.1f} s still break it")
                break
    return best


def _candidates(outcome: RunOutcome) -> Iterator[Scenario]:
    """Smaller scenarios, the boldest first."""
    scenario = outcome.scenario
    end_s = round(outcome.virtual_s + MARGIN_S, 1)
    if end_s < scenario.duration_s:
        yield replace(scenario, duration_s=end_s, faults=tuple(fault for fault in scenario.faults if fault.at_s < end_s))
    size = len(scenario.faults)
    while size > 0:
        for start in range(0, len(scenario.faults), size):
            yield replace(scenario, faults=scenario.faults[:start] + scenario.faults[start + size :])
        size //= 2
    if any(scenario.skews_ms):
        yield replace(scenario, skews_ms=())
    if scenario.restore is not None:
        yield replace(scenario, restore=None)
    if scenario.gateways is not None:
        yield replace(scenario, gateways=None)
        if scenario.gateways.producers > 1:
            yield replace(scenario, gateways=replace(scenario.gateways, producers=scenario.gateways.producers - 1))
        if scenario.gateways.consumers:
            yield replace(scenario, gateways=replace(scenario.gateways, consumers=scenario.gateways.consumers - 1))
    if scenario.committers > 1:
        yield replace(scenario, committers=scenario.committers - 1)
    if scenario.admins > 1:
        yield replace(scenario, admins=scenario.admins - 1)
    if scenario.readers:
        yield replace(scenario, readers=scenario.readers - 1)
    if scenario.finders:
        yield replace(scenario, finders=scenario.finders - 1)
    if scenario.duration_s > 4.0 and not scenario.faults:
        yield replace(scenario, duration_s=round(scenario.duration_s / 2, 1))
