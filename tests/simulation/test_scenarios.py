"""Every scenario in which a bug of the product was once found is lived again: nothing is broken any more."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulation.run import simulate
from simulation.scenario import Scenario

FILES = sorted((Path(__file__).parent / "scenarios").glob("*.json"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_bug_does_not_come_back(path: Path) -> None:
    scenario = Scenario.load(path)
    assert scenario.note, "say what the bug was"
    outcome = simulate(scenario)
    assert outcome.violation is None, f"{outcome.violation}\n{outcome.story}"
    assert outcome.claims >= scenario.partitions


def test_what_is_no_scenario_is_refused() -> None:
    with pytest.raises(ValueError, match="not a scenario"):
        Scenario.from_json('{"sede": 3}')
