"""A bit that flips in a database at rest is found when the database is loaded, whichever it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coordinator.core.state.damage import StateCorrupt
from simulation.fakes import state_store
from simulation.run import simulate
from simulation.scenario import Scenario


@pytest.mark.parametrize("seed", range(3))
def test_flipped_databases_are_set_aside_and_nothing_is_broken(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    loads = {"proven": 0, "refused": 0}
    load = state_store.MemoryStateStore.load

    def counted(store: state_store.MemoryStateStore) -> object:
        try:
            stored = load(store)
        except StateCorrupt:
            loads["refused"] += 1
            raise
        loads["proven"] += stored is not None
        return stored

    monkeypatch.setattr(state_store.MemoryStateStore, "load", counted)
    # Snapshots would be proven, and others be built from them.
    outcome = simulate(replace(Scenario.random(seed, 8.0, kinds=("flip",)), snapshot_bytes=0))
    assert outcome.violation is None, f"{outcome.violation}\n{outcome.story}"
    assert loads["refused"] > 0
    # A few are spares, which nothing happened to: the node that let go of them lives on.
    assert loads["proven"] < loads["refused"]
