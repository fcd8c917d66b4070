"""The probe of a data directory: what it takes for a failure, and what not."""

from __future__ import annotations

import asyncio
import os
import resource
import threading
from pathlib import Path

import pytest

from coordinator.adapters.snapshots.folder import SnapshotFolder
from coordinator.adapters.sqlite import SqliteDirectory
from coordinator.config.directories import format_directories
from coordinator.core.state.damage import DirectoryFailed, DiskFull
from tests.sqlite.disks import fill, small_disk

CLUSTER, TOPIC = "cluster", bytes(range(16))
DISK_BYTES = 16 << 20


def directory_at(path: Path) -> SqliteDirectory:
    [made] = format_directories([path], cluster_id=CLUSTER, node_id=1)
    return SqliteDirectory(path, made.directory_id, open_snapshots=SnapshotFolder)


async def test_a_directory_that_is_well_is_left_as_it_was(tmp_path: Path) -> None:
    directory = directory_at(tmp_path)
    directory.stores.open(3, CLUSTER, TOPIC).close()
    before = sorted(tmp_path.iterdir())
    use = await directory.probe()
    assert use.size_bytes == {3: (tmp_path / "partition-3.db").stat().st_size}
    assert 0 < use.free_bytes <= use.total_bytes
    assert sorted(tmp_path.iterdir()) == before


async def test_files_that_come_and_go_meanwhile_are_no_failure(tmp_path: Path) -> None:
    directory = directory_at(tmp_path)
    directory.stores.open(3, CLUSTER, TOPIC).close()
    passing = [tmp_path / name for name in ("partition-3.db-wal", "partition-4.db", "partition-4.db-shm")]
    is_over = threading.Event()

    def come_and_go() -> None:
        while not is_over.is_set():
            for path in passing:
                path.touch()
            for path in passing:
                path.unlink()

    churn = threading.Thread(target=come_and_go)
    churn.start()
    try:
        for _ in range(200):
            assert (await directory.probe()).size_bytes[3] > 0
    finally:
        is_over.set()
        churn.join()


async def test_probes_at_one_time_do_not_disturb_each_other(tmp_path: Path) -> None:
    directory = directory_at(tmp_path)
    await asyncio.gather(*(directory.probe() for _ in range(20)))


async def test_what_is_there_instead_of_the_directory_is_a_failure(tmp_path: Path) -> None:
    directory = directory_at(tmp_path / "one")
    directory_at(tmp_path / "two")
    meta = tmp_path / "one" / "meta.properties"
    for content, words in (
        ((tmp_path / "two" / "meta.properties").read_text(), "another directory.id in its meta.properties"),
        ("torn", "lacks version, cluster.id, node.id"),
    ):
        meta.write_text(content)
        with pytest.raises(DirectoryFailed, match=words):
            await directory.probe()
    meta.unlink()
    with pytest.raises(DirectoryFailed, match=r"it has no meta\.properties; mount it, or correct data\.dirs"):
        await directory.probe()


async def test_a_file_that_cannot_be_written_is_a_failure(tmp_path: Path) -> None:
    directory = directory_at(tmp_path)
    (tmp_path / ".probe").symlink_to(tmp_path / "nowhere" / "at-all")
    with pytest.raises(DirectoryFailed, match=r"No such file or directory.*mount it"):
        await directory.probe()


async def test_a_full_disk_is_a_failure_once_evidence_has_gone(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", DISK_BYTES) as disk:
        directory = directory_at(disk / "data")
        evidence = disk / "data" / "partition-9.db.failed-1"
        evidence.write_bytes(bytes(4 << 20))
        ballast = fill(disk)
        assert (await directory.probe()).free_bytes >= 4 << 20
        assert not evidence.exists()
        # Enough to go on with, too little for a replica that has just found no room.
        with pytest.raises(DiskFull, match="is full"):
            await directory.probe(8 << 20)
        fill(disk)
        with pytest.raises(DiskFull, match="is full"):
            await directory.probe()
        ballast.unlink()
        await directory.probe(8 << 20)


async def test_too_many_open_files_say_nothing_of_the_directory(tmp_path: Path) -> None:
    directory = directory_at(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = os.open(tmp_path, os.O_RDONLY)
    os.close(highest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest, hard))
    try:
        use = await directory.probe()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert use.size_bytes == {}
