"""How far the loading of a replica is, as nodes tell it: step by step, and no longer than until it is loaded."""

from __future__ import annotations

import asyncio
from pathlib import Path

from coordinator.adapters.sqlite.stores import StateDatabases
from coordinator.app.readiness import readiness
from coordinator.runtime.loading.progress import LOG_EVERY_S, LoadLog, LoadProgress, LoadStatus, LoadStep
from records.snapshot import SnapshotFile
from simulation.fakes.snapshots import FakeDurableSnapshots, FakeObjects
from simulation.fakes.state_store import MemoryStateStores
from tests.patient_loop import loop_ms
from tests.runtime.nodes import TIMEOUT_MS, in_memory, running


def test_each_step_says_what_is_done_and_how_far_it_is() -> None:
    progress = LoadProgress()
    told = [progress.status(None)]
    progress.fetches("a.checkpoint")
    told.append(progress.status(None))
    progress.fetched(5, 20)
    told.append(progress.status(None))
    progress.builds("a.checkpoint", 20)
    told.append(progress.status(None))
    assert list(progress.building(["row"], lambda: 15)) == ["row"]
    told.append(progress.status(None))
    progress.reads_log(10, 30)
    told += [progress.status(10), progress.status(25)]
    assert [one.text for one in told if one is not None] == [
        "opening the state database",
        "fetching snapshot a.checkpoint",
        "fetching snapshot a.checkpoint, 5 of 20 bytes",
        "loading snapshot a.checkpoint, 0 of 20 bytes",
        "loading snapshot a.checkpoint, 15 of 20 bytes",
        "reading the log, 0 of 20 entries",
        "reading the log, 15 of 20 entries",
    ]
    assert LoadStatus(LoadStep.LOG).text == "reading the log"
    assert progress.status(30) is None
    progress.opens()
    assert progress.status(30) == LoadStatus(LoadStep.DATABASE)


def test_a_log_that_has_nothing_to_read_is_read() -> None:
    progress = LoadProgress()
    progress.reads_log(0, 0)
    assert progress.status(0) is None
    progress.reads_log(7, 3)
    assert progress.status(7) is None


def test_progress_is_logged_now_and_then() -> None:
    looks: list[int] = []

    def statuses() -> dict[int, LoadStatus]:
        looks.append(1)
        return {}

    log = LoadLog(statuses)
    for tenth in range(round(LOG_EVERY_S * 10 * 3) + 1):
        log.look(100 + tenth / 10)
    assert len(looks) == 3


class SlowDownloads(FakeDurableSnapshots):
    """Snapshots of which one is fetched as soon as the test says so."""

    def __init__(self, objects: FakeObjects) -> None:
        super().__init__(objects)
        self.location: str | None = None
        self.may_go_on = asyncio.Event()

    async def download(self, location: str, target: Path) -> SnapshotFile:
        self.location = location
        await self.may_go_on.wait()
        return await super().download(location, target)


async def test_a_node_names_the_snapshot_it_loads_and_is_silent_when_it_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    kafka, objects = in_memory(partitions=1), FakeObjects(now_ms=loop_ms)
    async with running(kafka, StateDatabases(tmp_path / "first"), durable=FakeDurableSnapshots(objects)) as first:
        await first.leads()
        assert (await first.node.workers.snapshots.take(0, TIMEOUT_MS)).message is None
        assert first.node.loading() == {}
    slow = SlowDownloads(objects)
    kafka.set_unanswered(0)
    async with running(kafka, StateDatabases(tmp_path / "second"), durable=slow, name="2") as second:
        await second.until(lambda: second.node.loading() == {0: LoadStatus(LoadStep.DATABASE)}, "the database to be opened")
        kafka.set_unanswered()
        await second.until(lambda: slow.location is not None, "the snapshot to be fetched")
        assert second.node.loading() == {0: LoadStatus(LoadStep.FETCH, slow.location)}
        slow.may_go_on.set()
        await second.until(lambda: second.node.replicas[0].view is not None, "the replica to be loaded")
        await second.until(lambda: second.node.loading() == {}, "the rest of the log")


async def test_readiness_has_the_progress_of_what_is_not_loaded() -> None:
    kafka = in_memory()
    kafka.set_unanswered(1)
    async with running(kafka, MemoryStateStores()) as started:
        await started.until(lambda: 0 in started.node.replicas.led(), "the partition that answers")
        _, detail = readiness(started.node)
        assert detail["progress"] == {1: "opening the state database"}
        assert detail["offline_directories"] == {}
        kafka.set_unanswered()
        await started.leads()
        assert readiness(started.node)[1]["progress"] == {}
