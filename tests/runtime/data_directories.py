"""Nodes over real data directories."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from coordinator.adapters.snapshots.folder import SnapshotFolder
from coordinator.adapters.sqlite import SqliteDirectory
from coordinator.config.directories import open_directories
from coordinator.kafka.errors import ErrorCode
from coordinator.runtime.directories.port import OpenDirectories
from coordinator.runtime.pauses import Pauses
from simulation.fakes.kafka import FakeKafka
from simulation.fakes.state_store import MemoryStateStores
from tests.core.build import batch, commit, result_of
from tests.runtime.nodes import Running, running
from tests.waiting import attempts

QUICK = Pauses(revive_s=(0.02, 0.05), directory_probe_s=0.02)
RETRIABLE = {int(ErrorCode.NOT_COORDINATOR), int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)}


def opener(paths: list[Path]) -> Callable[[str], OpenDirectories]:
    def open_all(cluster_id: str) -> OpenDirectories:
        opened = open_directories(paths, cluster_id=cluster_id, node_id=1)
        opened.unlock()
        online = [SqliteDirectory(one.path, one.directory_id, open_snapshots=SnapshotFolder) for one in opened.online]
        return OpenDirectories(online, opened.offline)

    return open_all


@asynccontextmanager
async def over(kafka: FakeKafka, *paths: Path, **config: Any) -> AsyncIterator[Running]:
    """Run a node over data directories until the end of the block."""
    config.setdefault("pauses", QUICK)
    async with running(kafka, MemoryStateStores(), open_directories=opener(list(paths)), **config) as started:
        yield started


def homes(started: Running) -> dict[int, str]:
    """The name of each replica's directory."""
    keeper = started.node.keeper.directories
    names = {one.directory_id: Path(one.path).name for one in keeper.directories()}
    return {one.partition: names[one.directory_id] for one in keeper.places()}


def databases(path: Path) -> list[str]:
    return sorted(one.name for one in path.glob("partition-*.db"))


async def commits(started: Running, partition: int, key: str) -> None:
    """Commit a file, trying again while the coordinator is loading; the answer is the same as that of the first attempt."""
    async for _ in attempts("the coordinator to be loaded"):
        [error] = set(map(int, result_of(await started.ask(partition, commit(key, [batch(0, 2)], owner_ids=[partition]))).errors))
        if error == 0:
            return
        assert error in RETRIABLE


def delete(path: Path) -> None:
    """Delete a folder at one moment: what is being written there meanwhile goes as well."""
    gone = path.rename(path.with_name(f"{path.name}-gone"))
    shutil.rmtree(gone)
