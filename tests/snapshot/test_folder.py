"""The folder of snapshots: whole files under their names, whatever a crash leaves."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator.adapters.snapshots.folder import SnapshotFolder
from coordinator.core.state.damage import DirectoryFailed, DiskFull
from records.snapshot import SnapshotId, SnapshotReader, TableRows, snapshot_name
from tests.snapshot.files import HEAD, NOW_MS, SMALL
from tests.sqlite.disks import fill, small_disk

ROOT = Path(__file__).parents[2]
IDS = [SnapshotId(30, 2), SnapshotId(20, 3), SnapshotId(20, 2), SnapshotId(9, 1)]


def put(folder: SnapshotFolder, snapshot_id: SnapshotId) -> Path:
    head = HEAD._replace(end_offset=snapshot_id.end_offset, epoch=snapshot_id.epoch)
    return folder.write(head, SMALL, log_timestamp_ms=NOW_MS).path


def names(path: Path) -> set[str]:
    return {entry.name for entry in path.iterdir()}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "snapshots" / "partition-7"


@pytest.fixture
def folder(path: Path) -> SnapshotFolder:
    return SnapshotFolder(path)


def test_snapshots_are_listed_the_newest_first(folder: SnapshotFolder) -> None:
    assert folder.ids() == []
    for snapshot_id in (IDS[1], IDS[3], IDS[0], IDS[2]):
        assert put(folder, snapshot_id) == folder.path(snapshot_id)
    assert folder.ids() == IDS
    with SnapshotReader(folder.path(IDS[1])) as reader:
        assert (reader.head.snapshot_id, list(reader.rows())) == (IDS[1], SMALL)


def test_files_with_other_names_are_no_snapshots_and_stay(folder: SnapshotFolder, path: Path) -> None:
    put(folder, IDS[0])
    others = {"README", "partition.checkpoint", snapshot_name(*IDS[1]) + ".bak", "x.checkpoint.part", ".part"}
    for name in others:
        (path / name).write_bytes(b"")
    (path / snapshot_name(*IDS[2])).mkdir()
    (path / snapshot_name(*IDS[3])).symlink_to("README")
    assert folder.ids() == [IDS[0]]
    folder.keep(0)
    assert names(path) == others | {snapshot_name(*IDS[2]), snapshot_name(*IDS[3])}


@pytest.mark.parametrize("newest", [0, 1, 2, 4, 9])
def test_the_newest_are_kept(folder: SnapshotFolder, newest: int) -> None:
    for snapshot_id in IDS:
        put(folder, snapshot_id)
    folder.keep(newest)
    assert folder.ids() == IDS[:newest]


def test_a_snapshot_is_removed_and_a_missing_one_is_no_trouble(folder: SnapshotFolder) -> None:
    put(folder, IDS[0])
    for _ in range(2):
        folder.remove(IDS[0])
    assert folder.ids() == []


def test_bytes_from_elsewhere_are_there_once_they_are_adopted(folder: SnapshotFolder, path: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    content = put(SnapshotFolder(tmp_path / "other" / "partition-7"), IDS[0]).read_bytes()
    part = folder.part(IDS[0])
    part.write_bytes(content)
    assert folder.ids() == []
    folder.keep(2)
    assert part.exists(), "what is being written stays"
    folder.adopt(IDS[0])
    assert names(path) == {snapshot_name(*IDS[0])}
    assert folder.path(IDS[0]).read_bytes() == content
    part = folder.part(IDS[1])
    part.write_bytes(b"unfinished")
    SnapshotFolder(path).keep(2)
    assert names(path) == {snapshot_name(*IDS[0])}, "what an earlier process began goes"


DYING = """
import os, signal, sys
from pathlib import Path
from coordinator.adapters.snapshots.folder import SnapshotFolder
from tests.snapshot.files import HEAD, NOW_MS, SMALL
def rows():
    yield from SMALL
    os.kill(os.getpid(), signal.SIGKILL)
SnapshotFolder(Path(sys.argv[1])).write(HEAD, rows(), log_timestamp_ms=NOW_MS)
"""


def test_a_process_that_is_killed_leaves_only_what_is_cleaned_up(folder: SnapshotFolder, path: Path) -> None:
    old = put(folder, HEAD.snapshot_id).read_bytes()
    killed = subprocess.run([sys.executable, "-c", DYING, str(path)], cwd=ROOT, check=False)
    assert killed.returncode == -9
    assert names(path) == {snapshot_name(*HEAD.snapshot_id), snapshot_name(*HEAD.snapshot_id) + ".part"}
    assert folder.ids() == [HEAD.snapshot_id]
    assert folder.path(HEAD.snapshot_id).read_bytes() == old
    assert put(folder, HEAD.snapshot_id).read_bytes() == old, "a leftover is in nobody's way"
    (path / (snapshot_name(*IDS[0]) + ".part")).write_bytes(b"torn")
    folder.keep(2)
    assert names(path) == {snapshot_name(*HEAD.snapshot_id)}


@pytest.mark.parametrize("how", ["write", "adopt"])
def test_a_file_is_on_the_disk_before_it_has_its_name_and_then_the_name(
    folder: SnapshotFolder, path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = put(folder, IDS[0]).read_bytes()
    folder.part(IDS[0]).write_bytes(content)
    folder.remove(IDS[0])
    synced: list[tuple[int, int, bool]] = []
    real = os.fsync

    def recording(descriptor: int) -> None:
        found = os.fstat(descriptor)
        synced.append((found.st_ino, found.st_size, folder.path(IDS[0]).exists()))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", recording)
    if how == "write":
        put(folder, IDS[0])
    else:
        folder.adopt(IDS[0])
    file, of_folder = folder.path(IDS[0]).stat(), path.stat()
    assert [(inode, has_name) for inode, _, has_name in synced] == [(file.st_ino, False), (of_folder.st_ino, True)]
    assert synced[0][1] == len(content)


def test_a_full_disk_is_told_and_nothing_is_left(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 1 << 20) as disk:
        folder = SnapshotFolder(disk / "snapshots" / "partition-7")
        put(folder, IDS[3])
        fill(disk, leave_bytes=8192)
        rows = [TableRows("file", {"record": [os.urandom(100_000)]})]
        with pytest.raises(DiskFull, match=r"partition-7 cannot be written .*: its file system is full"):
            folder.write(HEAD, rows, log_timestamp_ms=NOW_MS)
        assert names(disk / "snapshots" / "partition-7") == {snapshot_name(*IDS[3])}


def test_a_data_directory_that_is_gone_is_told_and_not_made(tmp_path: Path) -> None:
    folder = SnapshotFolder(tmp_path / "gone" / "snapshots" / "partition-7")
    for refused in (lambda: put(folder, IDS[0]), lambda: folder.part(IDS[0]), lambda: folder.adopt(IDS[0])):
        with pytest.raises(DirectoryFailed, match=r"partition-7 cannot be written .*: mount it, or correct data\.dirs"):
            refused()
    assert folder.ids() == []
    assert names(tmp_path) == set()


def test_a_folder_that_cannot_be_read_is_told(path: Path, folder: SnapshotFolder) -> None:
    path.parent.mkdir()
    path.write_bytes(b"a file in its place")
    for refused in (folder.ids, lambda: folder.keep(1), lambda: folder.remove(IDS[0]), lambda: put(folder, IDS[0])):
        with pytest.raises(DirectoryFailed, match=r"the snapshots in .*partition-7 cannot be"):
            refused()


def test_a_source_that_fails_leaves_nothing(folder: SnapshotFolder, path: Path) -> None:
    def failing() -> Iterator[TableRows]:
        yield SMALL[0]
        raise LookupError("the state is gone")

    with pytest.raises(LookupError, match="the state is gone"):
        folder.write(HEAD, failing(), log_timestamp_ms=NOW_MS)
    assert names(path) == set()
