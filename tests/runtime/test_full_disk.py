"""A disk that fills up under a running node: evidence goes first, then replicas wait for room; no database is thrown away."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from coordinator.adapters.sqlite import StateDatabases
from coordinator.kafka.errors import ErrorCode
from coordinator.runtime import node as node_module
from coordinator.testing.state_store import MemoryStateStores
from tests.core.build import batch, commit, place, result_of
from tests.runtime.nodes import Running, in_memory, running
from tests.sqlite.disks import fill, small_disk

DISK_BYTES = 32 << 20
MANY = 400
"""Batches of a file: what is written of a few of them does not fit the pages that the files have already."""


async def commit_one(started: Running, number: int) -> set[int]:
    answer = result_of(await started.ask(0, commit(f"f{number}", [batch(0, 1) for _ in range(MANY)])))
    return set(map(int, answer.errors))


async def test_replicas_wait_for_room_and_read_their_databases_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_module, "REVIVE_BACKOFF_S", (0.05, 0.2))
    with small_disk(tmp_path / "disk", DISK_BYTES) as folder:
        async with running(in_memory(partitions=1), StateDatabases(folder)) as started:
            await started.leads()
            await started.ask(0, place())
            assert await commit_one(started, 0) == {0}
            ballast = fill(folder)
            number = 1
            while not started.node.failures[0].count:
                assert await commit_one(started, number) <= {0, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
                number += 1
                await asyncio.sleep(0.01)
            assert "is full" in started.node.failures[0].last_reason
            await started.until(lambda: started.node.replicas[0].unloadable is not None, "an attempt that fails for want of room")
            assert started.node.view.led() == []
            ballast.unlink()
            await started.leads()
            assert await commit_one(started, 0) == {0}  # the first answer again
            assert started.node.failures[0].evidence == ""
            assert not started.fatal
        assert not list(folder.glob("*.failed-*"))


async def test_evidence_goes_before_a_replica_fails(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", DISK_BYTES) as folder:
        kept = folder / "partition-9.db.failed-1"
        async with running(in_memory(partitions=1), StateDatabases(folder, evidence_percent=50)) as started:
            await started.leads()
            await started.ask(0, place())
            kept.write_bytes(bytes(9 << 20))
            fill(folder)
            number = 0
            while kept.exists():
                assert await commit_one(started, number) == {0}
                number += 1
                await asyncio.sleep(0.01)
            assert started.node.failures[0].count == 0


async def test_a_directory_that_cannot_be_used_at_a_start_ends_it_with_the_reason(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", DISK_BYTES) as folder:
        fill(folder)
        async with running(in_memory(partitions=1), StateDatabases(folder)) as started:
            await started.until(lambda: bool(started.fatal), "the end")
            assert "is full (" in str(started.fatal[0])
    async with running(in_memory(partitions=1), MemoryStateStores()) as started:
        await started.leads()
