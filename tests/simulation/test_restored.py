"""Lives that go on from a lost log: nothing goes before an operator calls the restore finished, and all that nobody needs goes then."""

from __future__ import annotations

from dataclasses import replace

from simulation.run import simulate
from simulation.scenario import Scenario, SimulatedFiles, SimulatedRestore, SimulatedRetention

LIFE = SimulatedFiles(commit_age_s=1.0, grace_s=0.5, fence_kept_s=7.0, pausing=0.0, dying=0.0, giving_up=0.0, scan_s=1.0, pruners=2)
KEPT = SimulatedRetention(default_ms=500, check_s=0.2, keepers=0)


def restored(finished_s: float, lost_files: int) -> Scenario:
    drawn = replace(Scenario.random(2, 6.0, kinds=("restart",)), committers=3, skews_ms=(), files=LIFE, retention=KEPT)
    return replace(drawn, restore=SimulatedRestore(finished_s=finished_s, lost_files=lost_files))


def test_what_was_committed_behind_the_snapshots_stays_until_the_restore_is_finished_and_goes_then() -> None:
    late, soon = simulate(restored(6.0, 5)), simulate(restored(0.5, 5))
    assert (late.violation, soon.violation) == (None, None), f"{late.story}\n{soon.story}"
    # The judge sees each removal, and that nothing is left in the end.
    assert late.objects_removed > 5
    assert soon.batches_expired > 0


def test_a_restore_is_drawn_beside_the_rest_for_about_a_quarter_of_the_seeds() -> None:
    drawn = [Scenario.random(seed) for seed in range(100)]
    restores = [one.restore for one in drawn if one.restore is not None]
    assert 15 < len(restores) < 40
    assert all(0 <= one.finished_s <= 20 for one in restores)
    assert all(Scenario.from_json(one.to_json()) == one for one in drawn[:20])
