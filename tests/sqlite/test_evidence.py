"""Databases that were set aside are bounded, and go when those in use need their room; a full disk is told or healed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from coordinator.adapters.sqlite import StateDatabases
from coordinator.adapters.sqlite.evidence import ROOM_BYTES, Evidence
from coordinator.adapters.sqlite.lock import LockFile
from coordinator.core.state.damage import DirectoryFailed, DiskFull
from tests.sqlite.disks import fill, small_disk

CLUSTER, TOPIC = "cluster", b"m" * 16


def aside(folder: Path, partition: int, ms: int, size_bytes: int = 1000) -> str:
    path = folder / f"partition-{partition}.db.failed-{ms}"
    path.write_bytes(bytes(size_bytes))
    path.with_name(path.name + "-wal").write_bytes(bytes(10))
    return path.name


def names(folder: Path) -> list[str]:
    return [one.path.name for one in Evidence(folder, disk_percent=50).kept()]


def test_of_each_partition_the_newest_two_stay(tmp_path: Path) -> None:
    kept = [aside(tmp_path, partition, ms) for ms in (1, 2, 3, 4) for partition in (0, 12)]
    (tmp_path / "partition-0.db").touch()
    Evidence(tmp_path, disk_percent=50).bound()
    assert names(tmp_path) == kept[4:]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["partition-0.db", *kept[4:], *(f"{name}-wal" for name in kept[4:])])


def test_all_together_take_a_share_of_the_disk_and_the_oldest_go_first(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 10 << 20) as folder:
        kept = [aside(folder, partition, 10 - partition, 1 << 20) for partition in range(4)]
        Evidence(folder, disk_percent=25).bound()
        assert names(folder) == [kept[1], kept[0]]
        Evidence(folder, disk_percent=0).bound()
        assert names(folder) == []


def test_two_set_aside_at_the_same_time_have_names_of_their_own(tmp_path: Path) -> None:
    later = 4_000_000_000_000
    aside(tmp_path, 0, later)
    database = tmp_path / "partition-0.db"
    database.write_bytes(b"x")
    assert Evidence(tmp_path, disk_percent=50).set_aside(database) == f"partition-0.db.failed-{later + 1}"


def test_setting_aside_on_a_full_disk_makes_the_room_its_successor_needs(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 24 << 20) as folder:
        old = aside(folder, 1, 1, 4 << 20)
        (folder / "partition-0.db").write_bytes(bytes(2 << 20))
        fill(folder)
        name = Evidence(folder, disk_percent=50).set_aside(folder / "partition-0.db")
        # 10 MB are wanted, and all evidence has 6: it is worth less than a node that runs.
        assert name is None
        assert names(folder) == []
        (folder / "ballast").unlink()
        old = aside(folder, 1, 1, 4 << 20)
        (folder / "partition-0.db").write_bytes(bytes(2 << 20))
        name = Evidence(folder, disk_percent=50).set_aside(folder / "partition-0.db")
        assert names(folder) == [old, name]


def test_a_full_disk_without_evidence_says_what_to_do_and_a_good_database_stays(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 16 << 20) as folder:
        stores = StateDatabases(folder, boot_id="boot")
        store = stores.open(0, CLUSTER, TOPIC)
        store.close(clean=True)
        size_bytes = (folder / "partition-0.db").stat().st_size
        ballast = fill(folder)
        with pytest.raises(DiskFull, match=r"is full \(0\.0 MB of 16\.8 MB are free.*Remove something from it or enlarge it"):
            stores.open(0, CLUSTER, TOPIC)
        with pytest.raises(DiskFull):
            stores.open(1, CLUSTER, TOPIC)
        ballast.unlink()
        stores.open(0, CLUSTER, TOPIC).close(clean=True)
        assert (folder / "partition-0.db").stat().st_size == size_bytes
        assert names(folder) == []


def test_evidence_goes_before_a_start_on_a_full_disk_fails(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 24 << 20) as folder:
        aside(folder, 0, 1, ROOM_BYTES)
        kept = aside(folder, 0, 2, 1000)
        fill(folder)
        stores = StateDatabases(folder, boot_id="boot")
        stores.open(1, CLUSTER, TOPIC).close(clean=True)
        assert names(folder) in ([kept], [])


def test_a_lock_file_is_overwritten_where_there_is_no_room(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 4 << 20) as folder:
        lock = LockFile(folder / "x.lock")
        lock.acquire()
        lock.mark_corrupt("a long reason, " * 20)
        fill(folder)
        lock.mark_clean()
        assert lock.path.read_text() == "clean"
        assert lock.distrust("boot") is None
        lock.mark_open("boot")
        assert lock.distrust("boot") is None
        lock.release()


def test_a_directory_that_is_read_only_says_so(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 8 << 20) as folder:
        StateDatabases(folder, boot_id="boot").open(0, CLUSTER, TOPIC).close(clean=True)
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        with pytest.raises(DirectoryFailed, match=r"Read-only file system: .*\): its file system is mounted read-only"):
            StateDatabases(folder, boot_id="boot").open(0, CLUSTER, TOPIC)
