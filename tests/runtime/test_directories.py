"""Several data directories under a node: where replicas are at home, and what a directory that fails leads to."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from coordinator.core.state.damage import StateLocked
from coordinator.runtime.directories.port import DirectoryUse, OpenDirectories
from simulation.fakes.directories import FakeDirectory
from simulation.fakes.state_store import MemoryStateStores
from tests.core.build import place
from tests.runtime.data_directories import QUICK, commits, databases, delete, homes, over
from tests.runtime.failing_stores import TroubledStores
from tests.runtime.nodes import in_memory, running


async def test_replicas_are_spread_over_the_directories_and_found_again(tmp_path: Path) -> None:
    kafka = in_memory(partitions=5)
    a, b = tmp_path / "a", tmp_path / "b"
    async with over(kafka, a, b) as started:
        await started.leads()
        first = homes(started)
        assert first == {0: "a", 1: "b", 2: "a", 3: "b", 4: "a"}
    assert databases(a) == ["partition-0.db", "partition-2.db", "partition-4.db"]
    # The order of data.dirs says nothing of replicas that have a home.
    async with over(kafka, b, a) as started:
        await started.leads()
        assert homes(started) == first
    # A directory that is new gets what has no database yet.
    (b / "partition-1.db").unlink()
    async with over(kafka, a, b, tmp_path / "c") as started:
        await started.leads()
        assert homes(started) == first | {1: "c"}


async def test_of_two_databases_the_one_that_is_further_on_is_used_and_the_other_goes(tmp_path: Path) -> None:
    kafka = in_memory(partitions=1)
    a, b = tmp_path / "a", tmp_path / "b"
    async with over(kafka, a) as started:
        await started.leads()
        await started.ask(0, place())
    b.mkdir()
    for name in ("partition-0.db", "partition-0.db.lock"):
        shutil.copy(a / name, b / name)
    async with over(kafka, a) as started:
        await started.leads()
        await commits(started, 0, "later")
    async with over(kafka, b, a) as started:
        assert not started.fatal
        await started.leads()
        assert homes(started) == {0: "a"}
        await started.until(lambda: not (b / "partition-0.db").exists(), "the end of the other one")
        assert await started.high_watermark(0) == 2


@pytest.mark.parametrize("harm", ["empty", "garbage", "another log"])
async def test_a_second_database_that_is_of_no_use_is_not_used(tmp_path: Path, harm: str) -> None:
    kafka = in_memory(partitions=1)
    a, b = tmp_path / "a", tmp_path / "b"
    async with over(kafka, b) as started:
        await started.leads()
        await started.ask(0, place())
        await commits(started, 0, "one")
    a.mkdir()
    if harm == "another log":
        other = in_memory(partitions=1)
        other.topic_id = bytes(range(16))
        async with over(other, a) as started:
            await started.leads()
    else:
        (a / "partition-0.db").write_bytes(b"" if harm == "empty" else b"garbage" * 1000)
        (a / "partition-0.db.lock").write_text("clean")
    async with over(kafka, a, b) as started:
        await started.leads()
        assert homes(started) == {0: "b"}
        assert started.node.keeper.failures[0].count == 0
        await started.until(lambda: not (a / "partition-0.db").exists(), "the end of the other one")


async def test_a_database_in_use_is_refused_by_name(tmp_path: Path) -> None:
    kafka = in_memory(partitions=1)
    async with over(kafka, tmp_path / "a") as started:
        await started.leads()
        home = started.node.keeper.directories.home(0)
        with pytest.raises(StateLocked, match=r"partition-0\.db\.lock is locked"):
            home.applied_offset(0, "", b"")


# ---- directories that fail


HARMS: dict[str, Callable[[Path], object]] = {
    "deleted": delete,
    "made anew": lambda path: (delete(path), path.mkdir()),
    "another directory": lambda path: (path / "meta.properties").write_text(
        "version=1\ncluster.id=x\nnode.id=1\ndirectory.id=AAAAAAAAQQqAAAAAAAAAAA\n"
    ),
    "not a folder": lambda path: (delete(path), path.write_text("")),
}


@pytest.mark.parametrize("harm", HARMS)
async def test_the_replicas_of_a_directory_that_is_lost_go_on_in_another_one(tmp_path: Path, harm: str) -> None:
    kafka = in_memory(partitions=4)
    a, b = tmp_path / "a", tmp_path / "b"
    changes = 0

    def changed() -> None:
        nonlocal changes
        changes += 1

    async with over(kafka, a, b) as started:
        started.node.keeper.directories.on_changed = changed
        await started.leads()
        await started.ask(1, place())
        await commits(started, 1, "before")
        await started.until(lambda: started.node.replicas[1].writer.written_offset >= 2, "a write of the database")
        HARMS[harm](b)
        await started.until(lambda: set(homes(started).values()) == {"a"}, "homes in the other directory")
        await started.leads()
        await commits(started, 1, "before")
        await commits(started, 1, "after")
        assert await started.high_watermark(1) == 4
        await started.until(lambda: started.node.replicas[1].writer.written_offset >= 4, "a write of the new database")
        [_, offline] = started.node.keeper.directories.directories()
        assert offline.offline_reason is not None
        assert str(b) in offline.offline_reason
        assert changes
        assert not started.fatal
    assert databases(a) == [f"partition-{number}.db" for number in range(4)]


async def test_the_last_directory_that_fails_ends_the_process_and_names_all(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    async with over(in_memory(partitions=2), a, b) as started:
        await started.leads()
        delete(a)
        await started.until(lambda: set(homes(started).values()) == {"b"}, "homes in the other directory")
        await started.leads()
        assert not started.fatal
        delete(b)
        await started.until(lambda: bool(started.fatal), "the end")
    told = str(started.fatal[0])
    assert f"{a}: " in told
    assert f"{b}: " in told
    assert "No such file or directory" in told
    assert "mount it, or correct data.dirs" in told
    assert started.fatal[0].may_hand_over


async def test_a_directory_that_is_gone_at_the_start_is_offline_until_the_next_one(tmp_path: Path) -> None:
    kafka = in_memory(partitions=2)
    a, b, away = tmp_path / "a", tmp_path / "b", tmp_path / "away"
    async with over(kafka, a, b) as started:
        await started.leads()
        await started.ask(1, place())
        await commits(started, 1, "one")
    b.rename(away)
    b.write_text("not a folder")
    async with over(kafka, a, b) as started:
        await started.leads()
        assert homes(started) == {0: "a", 1: "a"}
        [_, offline] = started.node.keeper.directories.directories()
        assert offline.path == str(b)
        assert offline.offline_reason is not None
        await commits(started, 1, "two")
    # It comes back with the database that it had: the other one is further on.
    b.unlink()
    away.rename(b)
    async with over(kafka, a, b) as started:
        await started.leads()
        assert homes(started) == {0: "a", 1: "a"}
        assert await started.high_watermark(1) == 4
        await started.until(lambda: not (b / "partition-1.db").exists(), "the end of the other one")


class HangingDirectory(FakeDirectory):
    """A directory on a device that hangs from some moment on: its writes fail, and its probe says nothing."""

    is_hanging = False

    async def probe(self, wanted_bytes: int = 0) -> DirectoryUse:
        if self.is_hanging:
            await asyncio.Event().wait()
        return await super().probe(wanted_bytes)


async def test_a_directory_that_hangs_has_not_failed(tmp_path: Path) -> None:
    stores = TroubledStores(MemoryStateStores())
    one = HangingDirectory(stores, tmp_path / "a", bytes([1] * 16))
    two = FakeDirectory(MemoryStateStores(), tmp_path / "b", bytes([2] * 16))
    pauses = replace(QUICK, directory_patience_s=0.05)
    async with running(in_memory(partitions=1), stores, open_directories=lambda _: OpenDirectories([one, two]), pauses=pauses) as started:
        await started.leads()
        await started.ask(0, place())
        one.is_hanging = True
        stores.troubles = 2
        await commits(started, 0, "one")
        await started.until(lambda: started.node.keeper.failures[0].count >= 1, "a replica that is made anew")
        await started.until(lambda: stores.troubles == 0, "writes that go on")
        await started.leads()
        await commits(started, 0, "two")
        assert homes(started) == {0: "a"}
        assert [status.offline_reason for status in started.node.keeper.directories.directories()] == [None, None]


async def test_trouble_that_comes_back_is_a_failure_though_no_probe_says_so(tmp_path: Path) -> None:
    stores = TroubledStores(MemoryStateStores())
    one = FakeDirectory(stores, tmp_path / "a", bytes([1] * 16))
    two = FakeDirectory(MemoryStateStores(), tmp_path / "b", bytes([2] * 16))
    async with running(in_memory(partitions=1), stores, open_directories=lambda _: OpenDirectories([one, two]), pauses=QUICK) as started:
        await started.leads()
        await started.ask(0, place())
        stores.troubles = 1_000
        await commits(started, 0, "one")
        await started.until(lambda: homes(started) == {0: "b"}, "a home in the other directory")
        await started.leads()
        await commits(started, 0, "two")
        assert await started.high_watermark(0) == 4
        offline = started.node.keeper.directories.directories()[0].offline_reason
        assert offline is not None
        assert "3 times in a row" in offline
        assert not started.fatal
