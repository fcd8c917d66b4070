"""The compiled loops of deciding, encoding and applying do what their source does when the interpreter runs it."""

from __future__ import annotations

import numpy as np
import pytest

import coordinator.core.files.apply_loops as apply_loops
import coordinator.core.files.block_apply as block_apply
import coordinator.core.files.commit_loops as commit_loops
import coordinator.core.files.commit_vector as commit_vector
import records.bulk as bulk
import records.entry_loops as entry_loops
from coordinator.kafka.batches import BATCH
from tests.compiled import plain
from tests.core.test_vector_path import NOW_MS, Leader, Traffic


def walk(seed: int, oddity: float) -> Leader:
    leader, traffic = Leader(), Traffic(seed, oddity)
    for step in range(8):
        leader.submit(traffic.group(), NOW_MS + step * 3)
    return leader


@pytest.mark.parametrize("oddity", [0.0, 0.02])
@pytest.mark.parametrize("seed", range(4))
def test_leaders_write_and_answer_the_same(monkeypatch: pytest.MonkeyPatch, seed: int, oddity: float) -> None:
    compiled = walk(seed, oddity)
    for user, module in ((commit_vector, commit_loops), (block_apply, apply_loops), (bulk, entry_loops)):
        source = plain(module)
        for name in [name for name in vars(source) if not name.startswith("_") and hasattr(user, name) and callable(getattr(user, name))]:
            monkeypatch.setattr(user, name, getattr(source, name))
    assert commit_vector.read_batches is not commit_loops.read_batches
    assert bulk.write_entries is not entry_loops.write_entries
    interpreted = walk(seed, oddity)
    assert interpreted.log == compiled.log
    assert interpreted.answers == compiled.answers
    assert interpreted.fingerprint() == compiled.fingerprint()


@pytest.mark.parametrize("size", [0, 1, BATCH.itemsize - 1, BATCH.itemsize + 1])
def test_bytes_that_are_not_whole_batches_are_not_read(size: int) -> None:
    seen, table = np.zeros(256, np.int64).data, np.ones((16, 1), np.int64).data
    with pytest.raises(IndexError, match=f"^{size} bytes are not whole batches" if size else "^1 batches of file 0, 0 are left"):
        commit_loops.read_batches(bytes(size), 1, 0, None, seen, table, table, table, table, [])
