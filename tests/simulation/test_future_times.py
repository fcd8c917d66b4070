"""Times in microseconds lie tens of thousands of years ahead: batches with them are stored, found and kept like any other."""

from __future__ import annotations

import pytest

from simulation.loop import START_MS
from simulation.run import Run
from simulation.scenario import Scenario


@pytest.mark.parametrize("seed", range(3))
def test_times_in_the_wrong_unit_break_no_promise(seed: int) -> None:
    run = Run(Scenario.random(seed, 8.0, kinds=("future",)), is_detailed=False)
    try:
        run.live()
        assert run.judge.violation is None, f"{run.judge.violation}\n{run.story.text()}"
        times = [one.time_ms for fold in run.judge.folds for known in fold.partitions.values() for one in known.times]
        assert any(time_ms > 100 * START_MS for time_ms in times)
    finally:
        run.story.is_over = True
        run.time.on_error = lambda _loop, _context: None
        run.time.close()
        run.close()
