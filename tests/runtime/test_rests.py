"""The writer rests while little was committed, and somebody hears when it is done."""

from __future__ import annotations

import pytest

from coordinator.core.state.packing import Flush, Freeze, Packer
from coordinator.core.yielding import Rest, no_rest
from coordinator.runtime import state_writer
from coordinator.testing.state_store import MemoryStateStores
from tests.core.build import batch, commit, place
from tests.runtime.nodes import TIMEOUT_MS, in_memory, running


@pytest.mark.parametrize(("batches", "rests"), [(1, False), (3, True), (9, False)])
async def test_the_writer_rests_between_few_but_not_too_few(monkeypatch: pytest.MonkeyPatch, batches: int, rests: bool) -> None:
    rested: list[bool] = []
    written: list[bool] = []
    packed: list[tuple[int, bool]] = []
    real = Packer.pack

    def pack(self: Packer, freeze: Freeze, rest: Rest = no_rest) -> Flush:
        before = len(rested)
        flush = real(self, freeze, rest)
        packed.append((freeze.generation.batches, len(rested) > before))
        return flush

    monkeypatch.setattr(state_writer, "RESTED_BATCHES", range(3, 6))
    async with running(in_memory(partitions=2), MemoryStateStores()) as started:
        await started.leads()
        replica = started.node.replicas[1]
        await replica.ask(place(), TIMEOUT_MS)
        writer = replica.writer
        await started.until(lambda: not writer.is_writing and replica.view.applied_offset == writer.written_offset, "a flush")
        monkeypatch.setattr(Packer, "pack", pack)
        monkeypatch.setattr(writer, "_rest", lambda: rested.append(True))
        monkeypatch.setattr(writer, "_on_written", lambda: written.append(not writer.is_writing))
        await replica.ask(commit("key", [batch(0, 1) for _ in range(batches)], owner_ids=[1]), TIMEOUT_MS)
        # A file counts as one more.
        await started.until(lambda: (batches + 1, rests) in packed and bool(written), "the flush of the commit")
    assert written[0]
