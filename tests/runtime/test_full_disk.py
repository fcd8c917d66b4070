"""A disk that fills up under a running node: evidence goes first, then its data directory has failed; no database is thrown away."""

from __future__ import annotations

from pathlib import Path

from coordinator.adapters.sqlite import StateDatabases
from coordinator.kafka.errors import ErrorCode
from simulation.fakes.state_store import MemoryStateStores
from tests.core.build import batch, commit, place, result_of
from tests.runtime.data_directories import homes, over
from tests.runtime.nodes import Running, in_memory, running
from tests.sqlite.disks import fill, small_disk
from tests.waiting import attempts

DISK_BYTES = 32 << 20
MANY = 400
"""Batches of a file: what is written of a few of them does not fit the pages that the files have already."""


async def commit_one(started: Running, number: int) -> set[int]:
    answer = result_of(await started.ask(0, commit(f"f{number}", [batch(0, 1) for _ in range(MANY)])))
    return set(map(int, answer.errors))


async def test_the_only_disk_that_fills_up_ends_the_process_and_what_was_acknowledged_is_there_later(tmp_path: Path) -> None:
    kafka = in_memory(partitions=1)
    with small_disk(tmp_path / "disk", DISK_BYTES) as folder:
        async with over(kafka, folder / "data") as started:
            await started.leads()
            await started.ask(0, place())
            assert await commit_one(started, 0) == {0}
            ballast = fill(folder)
            number = 1
            async for _ in attempts("the end of the node"):
                if started.fatal:
                    break
                assert await commit_one(started, number) <= {0, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
                number += 1
            assert f"{folder / 'data'}: the file system of {folder / 'data'} is full" in str(started.fatal[0])
            assert "start the node again" in str(started.fatal[0])  # a directory that has failed stays offline
            assert "by itself" not in str(started.fatal[0])
        ballast.unlink()
        async with over(kafka, folder / "data") as started:
            await started.leads()
            assert await commit_one(started, 0) == {0}  # the first answer again
            assert started.node.keeper.failures[0].count == 0
        assert not list(folder.glob("data/*.failed-*"))


async def test_replicas_on_a_disk_that_fills_up_go_on_in_another_directory(tmp_path: Path) -> None:
    kafka = in_memory(partitions=2)
    with small_disk(tmp_path / "disk", DISK_BYTES) as folder:
        async with over(kafka, folder / "data", tmp_path / "other") as started:
            await started.leads()
            await started.ask(0, place())
            assert await commit_one(started, 0) == {0}
            fill(folder)
            number = 1
            async for _ in attempts("the other directory"):
                if homes(started)[0] == "other":
                    break
                assert await commit_one(started, number) <= {0, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
                number += 1
            await started.leads()
            assert await commit_one(started, 0) == {0}  # the first answer again
            assert not started.fatal


async def test_evidence_goes_before_a_replica_fails(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", DISK_BYTES) as folder:
        kept = folder / "partition-9.db.failed-1"
        async with running(in_memory(partitions=1), StateDatabases(folder, evidence_percent=50)) as started:
            await started.leads()
            await started.ask(0, place())
            kept.write_bytes(bytes(9 << 20))
            fill(folder)
            number = 0
            async for _ in attempts("the evidence to go"):
                if not kept.exists():
                    break
                assert await commit_one(started, number) == {0}
                number += 1
            assert started.node.keeper.failures[0].count == 0


async def test_a_directory_that_cannot_be_used_at_a_start_ends_it_with_the_reason(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", DISK_BYTES) as folder:
        fill(folder)
        async with running(in_memory(partitions=1), StateDatabases(folder)) as started:
            await started.until(lambda: bool(started.fatal), "the end")
            assert "is full (" in str(started.fatal[0])
    async with running(in_memory(partitions=1), MemoryStateStores()) as started:
        await started.leads()
