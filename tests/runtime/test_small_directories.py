"""A start with a data directory that is too small for its replica, while another one has room."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from coordinator.core.commands import OK
from simulation.fakes.snapshots import FakeDurableSnapshots, FakeObjects
from tests.core.build import batch, commit, place, result_of
from tests.patient_loop import loop_ms
from tests.runtime.data_directories import databases, homes, over
from tests.runtime.nodes import TIMEOUT_MS, Running, in_memory
from tests.runtime.test_snapshots_of_peers import FIRST, Wire
from tests.sqlite.disks import small_disk

FILES, BATCHES = 40, 2500
DATABASE_BYTES, SNAPSHOT_BYTES = 5_000_000, 1_800_000
"""At least so many bytes have the state database and its snapshot, which is much more than the small directories have."""


async def fill_and_prune(node: Running, objects: FakeObjects, folder: Path) -> None:
    """Make a state of some megabytes, and snapshots of it behind which the log is pruned."""
    rng = random.Random(1)
    await node.leads()
    await node.ask(0, place())
    for number in range(FILES):
        rows = [batch(0, 1, sequence=0, producer_id=rng.getrandbits(62)) for _ in range(BATCHES)]
        assert set(map(int, result_of(await node.ask(0, commit(f"f{number}", rows))).errors)) == {0}
    for _ in range(2):
        assert await node.node.workers.snapshots.take(0, TIMEOUT_MS) == OK

    def is_pruned() -> bool:
        found = node.node.workers.snapshots.describe(0)
        return found is not None and found.log_start > 0 and found.known[-1].is_local

    await node.until(is_pruned, "the log to be pruned")
    assert min(len(one.data) for one in objects.by_key.values()) > SNAPSHOT_BYTES
    assert sum(one.stat().st_size for one in folder.glob("partition-0.db*")) > DATABASE_BYTES


@pytest.mark.parametrize(
    ("size_bytes", "from_peer"),
    [
        pytest.param(SNAPSHOT_BYTES * 2, False, id="the database does not fit"),
        pytest.param(SNAPSHOT_BYTES, False, id="the snapshot of the store does not fit"),
        pytest.param(SNAPSHOT_BYTES, True, id="the snapshot of another node does not fit"),
    ],
)
async def test_replicas_are_built_where_there_is_room(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, size_bytes: int, from_peer: bool
) -> None:
    kafka, objects = in_memory(partitions=1), FakeObjects(now_ms=loop_ms)
    plain = tmp_path / "plain"
    with small_disk(tmp_path / "small", size_bytes) as disk:
        async with over(kafka, tmp_path / "first", durable=FakeDurableSnapshots(objects)) as first:
            await fill_and_prune(first, objects, tmp_path / "first")
            if from_peer:
                objects.by_key.clear()
            settings = {"node_id": 2, "peers": Wire(first), "snapshot_peers": (FIRST,), "durable": FakeDurableSnapshots(objects)}
            async with over(kafka, disk / "data", plain, name="2", **settings) as second:
                await second.until(lambda: bool(second.fatal) or homes(second).get(0) == "plain", "the other directory")
                await second.until(lambda: bool(second.fatal) or second.node.replicas[0].view is not None, "the replica")
                assert not second.fatal
                small, _ = second.node.keeper.directories.directories()
                assert small.offline_reason is not None
                assert "is full" in small.offline_reason
                assert databases(plain) == ["partition-0.db"]
                assert not list((disk / "data").rglob("*.part")) + list((disk / "data").glob("*.building*"))
    assert caplog.text.count("replica has no usable state database partition=0") == 1, "it is not tried three times over"
