"""What the damaging of state databases does to files: no more than it says, and always something."""

from __future__ import annotations

import resource
import signal
from pathlib import Path
from random import Random

import pytest

from integration_tests.faults.damage import damage, damage_some, databases, keep_copies, parts, put_back_some, swap, swap_some
from integration_tests.faults.disk_faults import FILLER, fill


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(3):
        for suffix in ("", "-wal", "-shm"):
            (tmp_path / f"partition-{number}.db{suffix}").write_bytes(Random(f"{number}{suffix}").randbytes(20_000))
    (tmp_path / "partition-1.db.failed-17").write_bytes(b"evidence")
    return tmp_path


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_evidence_is_not_taken_for_a_database(folder: Path) -> None:
    assert [path.name for path in databases(folder)] == ["partition-0.db", "partition-1.db", "partition-2.db"]


@pytest.mark.parametrize("seed", range(20))
def test_damage_changes_a_file_and_says_so(folder: Path, seed: int) -> None:
    file, before = folder / "partition-0.db", content(folder)
    text = damage(file, Random(seed), is_running=False)
    after = content(folder)
    assert {name for name in before if before[name] != after[name]} == {file.name}
    if "flipped" in text:
        flipped = sum((old ^ new).bit_count() for old, new in zip(before[file.name], after[file.name], strict=True))
        assert 1 <= flipped <= int(text.split()[0])
    elif "zeroed" in text:
        assert sum(old != new for old, new in zip(before[file.name], after[file.name], strict=True)) <= int(text.split()[0])
    else:
        assert before[file.name].startswith(after[file.name])


@pytest.mark.parametrize("seed", range(20))
def test_what_a_running_process_has_mapped_is_not_cut(folder: Path, seed: int) -> None:
    file = folder / "partition-0.db-shm"
    damage(file, Random(seed), is_running=True)
    assert file.stat().st_size == 20_000


def test_damage_to_a_node_hits_some_of_its_files_and_is_of_the_seed(folder: Path) -> None:
    before = content(folder)
    told = damage_some(folder, Random(4), is_running=False)
    after = content(folder)
    assert 1 <= len({name for name in before if before[name] != after[name]}) <= len(told) <= 3
    assert damage_some(folder / "nothing", Random(4), is_running=True) == []


def test_two_databases_change_places_with_all_their_files(folder: Path) -> None:
    (folder / "partition-1.db-wal").unlink()
    before = content(folder)
    swap(folder / "partition-0.db", folder / "partition-1.db")
    after = content(folder)
    assert after["partition-1.db"] == before["partition-0.db"]
    assert after["partition-1.db-wal"] == before["partition-0.db-wal"]
    assert "partition-0.db-wal" not in after
    assert len(after) == len(before)
    assert "swapped" in swap_some(folder, Random(1))
    assert "none swapped" in swap_some(folder / "nothing", Random(1))


def test_copies_are_put_back_whole_or_beside_a_newer_log(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    aside = tmp_path_factory.mktemp("aside") / "copies"
    old = content(folder)
    keep_copies(folder, aside)
    seen: set[bool] = set()
    for seed in range(20):
        for database in databases(folder):
            for part in parts(database):
                part.write_bytes(b"newer")
        for text in put_back_some(folder, aside, Random(seed)):
            name = text.split()[0]
            is_whole = "newer" not in text
            seen.add(is_whole)
            assert (folder / name).read_bytes() == old[name]
            assert (folder / f"{name}-wal").read_bytes() == (old[f"{name}-wal"] if is_whole else b"newer")
    assert seen == {True, False}


def test_a_full_disk_has_no_room(tmp_path: Path) -> None:
    """A file size limit stands for the end of the disk, so that the test needs no mount."""
    old_limit, old_handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_001, old_limit[1]))
    try:
        assert fill(tmp_path, left_bytes=0).stat().st_size == 300_001
        assert fill(tmp_path, left_bytes=1_000).stat().st_size == 299_001
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old_limit)
        signal.signal(signal.SIGXFSZ, old_handler)
    assert [path.name for path in tmp_path.iterdir()] == [FILLER]
