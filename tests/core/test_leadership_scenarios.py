"""Each scenario of leadership leads to what its file says (`python -m tests.core.scenario_text --rewrite` writes them anew)."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator.core.leadership.states import TRANSITIONS
from tests.core.scenario_text import BadScenario, files, play


@pytest.mark.parametrize("path", files(), ids=lambda path: path.stem)
def test_a_scenario_leads_to_what_its_file_says(path: Path) -> None:
    text = path.read_text()
    assert text.startswith("# ")
    assert play(text)[0] == text


def test_the_scenarios_show_every_change_of_state() -> None:
    shown = {move for path in files() for move in play(path.read_text())[1].moves}
    assert shown == {(before, after) for (before, _), after in TRANSITIONS.items() if after is not before}


@pytest.mark.parametrize("step", ["B reads", "A dances", "A lands 1", "A tick", "log claim 1", "A report seq=1"])
def test_a_step_that_does_not_exist_is_named(step: str) -> None:
    with pytest.raises(BadScenario, match=step):
        play(f"# One replica.\n\nreplicas A\n\n{step}\n")
