"""Some hundreds of damages under a running replica; `python -m tests.damage --running` does thousands."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.damage.running import damage_running

SEEDS, DAMAGES = 4, 50


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_what_is_damaged_under_a_running_replica_shows_in_no_answer(tmp_path: Path, seed: int) -> None:
    report = await damage_running(seed=seed, count=DAMAGES, folder=tmp_path)
    # Damages that were never noticed would prove nothing.
    assert report.failures >= DAMAGES // 20
    assert report.damages.total() == DAMAGES
