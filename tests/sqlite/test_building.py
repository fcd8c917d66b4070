"""What only the file has when a database is made from a snapshot: crashes at any point, who has it open, the disk."""

from __future__ import annotations

import dataclasses
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest

from coordinator.adapters.sqlite import StateCorrupt, StateDatabase, StateDatabases, StateLocked
from coordinator.adapters.sqlite.logical import LogicalState
from coordinator.adapters.sqlite.pinned import CHUNK_BYTES, LONG_ROW_BYTES, ROWS_A_PIECE, SHORT_ROWS_A_PIECE, PinnedDatabase
from coordinator.adapters.sqlite.schema import connect_writer
from coordinator.core.state.damage import DirectoryFailed, DiskFull
from coordinator.core.state.run_packing import RUN_ROWS_MAX
from coordinator.core.tables.stored_rows import PACKED
from records.snapshot import SnapshotHead, TableRows
from tests.sqlite.disks import fill, small_disk
from tests.sqlite.replicas import CLUSTER_ID, PARTITION, TOPIC_ID, Replica
from tests.sqlite.small_records import deleted, file, started

Snapshot = tuple[SnapshotHead, list[TableRows]]
OLD, NEW = 1, 2
"""The applied offsets of the database that was there and of the one that is built."""


def databases(folder: Path, boot_id: str = "boot") -> StateDatabases:
    return StateDatabases(folder, boot_id=boot_id)


def replica_in(folder: Path) -> Replica:
    stores = databases(folder)
    return started(lambda: stores.open(PARTITION, CLUSTER_ID, TOPIC_ID), partitions=2)


@pytest.fixture
def snapshot(tmp_path: Path) -> Snapshot:
    """A snapshot up to entry 2, of a database that has a file more than `old_database`."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    replica = replica_in(folder)
    replica.apply([file("a", {0: 70, 1: 3})], 1)
    replica.apply([file("b", {0: 5}, base=70)], NEW)
    replica.flush()
    taken = snapshot_of(replica)
    replica.store.close(clean=True)
    return taken


def snapshot_of(replica: Replica) -> Snapshot:
    store = replica.store
    assert isinstance(store, StateDatabase)
    state = store.pin()
    taken = state.head, list(state.tables())
    state.close()
    return taken


def old_database(folder: Path, *, clean: bool) -> None:
    """Leave a database with a write-ahead log when it is not closed cleanly, as a process does that was killed."""
    replica = replica_in(folder)
    replica.apply([file("a", {0: 3})], OLD)
    replica.flush()
    if clean:
        replica.store.close(clean=True)
        return
    store = replica.store
    assert isinstance(store, StateDatabase)
    state = store.pin()
    copies = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert any(name.endswith("-wal") and content for name, content in copies.items())
    state.close()
    store.close(clean=False)
    for name, content in copies.items():
        (folder / name).write_bytes(content)


def found(folder: Path, boot_id: str = "boot") -> int | None:
    """The applied offset of the database that the next process finds; nothing unfinished is there any more."""
    store = databases(folder, boot_id).open(PARTITION, CLUSTER_ID, TOPIC_ID)
    try:
        stored = store.load()
        names = [path.name for path in folder.rglob("*") if path.is_file()]
        assert not [name for name in names if "building" in name or (name.startswith("snapshot-") and not name.endswith(".lock"))]
        return None if stored is None else stored.header.applied_offset
    finally:
        store.close(clean=True)


class Crash(BaseException):
    """The process ends here."""


class CrashingSystem:
    """The calls to the operating system that matter for what a crash leaves; from the chosen one on, none is carried out."""

    CALLS = ("unlink", "rename", "fsync", "ftruncate", "pwrite")

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done: list[str] = []
        self.left = sys.maxsize
        for name in self.CALLS:
            monkeypatch.setattr(os, name, self._counted(name, getattr(os, name)))

    def _counted(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if self.left <= 0:
                raise Crash(f"before {name}, after {self.done}")
            self.left -= 1
            result = real(*arguments, **options)
            self.done.append(name)
            return result

        return call


@pytest.mark.parametrize("boot_id", ["boot", "another boot"])
@pytest.mark.parametrize("old", ["none", "clean", "killed"])
def test_a_crash_at_any_call_leaves_the_old_database_or_none_or_the_new_one(
    tmp_path: Path, snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch, old: str, boot_id: str
) -> None:
    outcomes = []
    is_through = False
    for calls in range(100):
        folder = tmp_path / f"calls-{calls}"
        folder.mkdir()
        if old != "none":
            old_database(folder, clean=old == "clean")
        with monkeypatch.context() as patching:
            system = CrashingSystem(patching)
            system.left = calls
            try:
                databases(folder).build(PARTITION, *snapshot)
                is_through = True
            except Crash:
                pass
        outcomes.append(found(folder, boot_id))
        if is_through:
            break
    assert is_through
    # A database that was not closed cleanly is not trusted after a restart of the machine; the new one always is.
    trusted = OLD if old == "clean" or (old == "killed" and boot_id == "boot") else None
    assert outcomes[0] == trusted
    assert outcomes[-1] == NEW
    assert outcomes == sorted(outcomes, key=[trusted, None, NEW].index)
    assert len(outcomes) > 10


@pytest.mark.parametrize("what", ["build", "prove"])
def test_a_killed_process_leaves_nothing_that_is_taken_for_a_database(tmp_path: Path, what: str) -> None:
    old_database(tmp_path, clean=True)
    script = f"""
import os, sys
from pathlib import Path
from coordinator.adapters.sqlite import StateDatabases
from tests.sqlite.test_building import replica_in, snapshot_of, file
folder = Path(sys.argv[1])
(folder / "elsewhere").mkdir()
replica = replica_in(folder / "elsewhere")
replica.apply([file("a", {{0: 70}})], 1)
replica.flush()
head, rows = snapshot_of(replica)
def some():
    yield from rows[:2]
    os._exit(3)
stores = StateDatabases(folder, boot_id="boot")
stores.{"build(3, " if what == "build" else "prove("}head, some())
"""
    killed = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=False)
    assert killed.returncode == 3, killed.stderr
    left = [path.name for path in tmp_path.rglob("*.db*") if "building" in path.name or path.name == "snapshot-3.db"]
    assert left
    assert found(tmp_path) == OLD


def test_what_a_crash_left_is_removed_by_the_next_build(tmp_path: Path, snapshot: Snapshot) -> None:
    (tmp_path / "proving").mkdir()
    for name in ("partition-3.db.building", "partition-3.db.building-wal", "proving/snapshot-3.db", "proving/snapshot-3.db-wal"):
        (tmp_path / name).write_bytes(b"half made")
    stores = databases(tmp_path)
    stores.prove(*snapshot)
    stores.build(PARTITION, *snapshot)
    assert found(tmp_path, "another boot") == NEW


def test_a_database_that_is_open_is_not_replaced(tmp_path: Path, snapshot: Snapshot) -> None:
    stores = databases(tmp_path)
    store = stores.open(PARTITION, CLUSTER_ID, TOPIC_ID)
    with pytest.raises(StateLocked):
        stores.build(PARTITION, *snapshot)
    stores.prove(*snapshot)
    assert store.load() is None
    store.close(clean=True)


def test_a_snapshot_is_not_proven_twice_at_the_same_time_nor_removed_by_opening(tmp_path: Path, snapshot: Snapshot) -> None:
    head, rows = snapshot
    stores = databases(tmp_path)

    def meanwhile() -> Iterator[TableRows]:
        yield from rows
        stores.open(PARTITION, CLUSTER_ID, TOPIC_ID).close(clean=True)
        with pytest.raises(StateLocked):
            stores.prove(head, rows)

    stores.prove(head, meanwhile())


def test_a_full_disk_is_told_as_one_and_the_old_database_stays(tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    replica = replica_in(folder)
    for number in range(40):
        replica.apply([file(f"f{number}", {0: 3000}, base=3000 * number)], number + 1)
    replica.flush()
    snapshot = snapshot_of(replica)
    replica.store.close(clean=True)
    with small_disk(tmp_path / "small", 16 << 20) as small:
        old_database(small, clean=True)
        fill(small, leave_bytes=2 << 20)
        for make in (lambda: databases(small).build(PARTITION, *snapshot), lambda: databases(small).prove(*snapshot)):
            with pytest.raises(DiskFull, match="is full"):
                make()
        assert found(small) == OLD


def test_a_folder_that_cannot_be_used_is_told_as_one(tmp_path: Path, snapshot: Snapshot) -> None:
    (tmp_path / "proving").write_text("in the way")
    with pytest.raises(DirectoryFailed, match="proving cannot be made"):
        databases(tmp_path).prove(*snapshot)


def test_the_built_database_has_the_same_logical_rows(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("source", "target")]
    for folder in folders:
        folder.mkdir()
    replica = replica_in(folders[0])
    replica.apply([file("a", {0: 70, 1: 1})], 1)
    for offset in range(2, 30):
        replica.apply([deleted(0, offset)], offset)
        replica.flush()
    snapshot = snapshot_of(replica)
    replica.store.close(clean=True)
    databases(folders[1]).build(PARTITION, *snapshot)
    source, target = (logical_rows(databases(folder).path(PARTITION)) for folder in folders)
    assert source == target


def logical_rows(path: Path) -> dict[str, object]:
    state = LogicalState(path)
    rows = {
        "header": dataclasses.asdict(state.header),
        "batches": [(one, [rows.tolist() for rows in state.batches(one)]) for one in state.partitions()],
        "producers": list(state.producers()),
        "files": list(state.files()),
        "tombstones": list(state.tombstones()),
        "topics": list(state.topics()),
        "directory": state.directory(),
    }
    state.close()
    return rows


def test_chunks_are_of_about_a_megabyte_and_the_reader_rests_between_pieces(tmp_path: Path) -> None:
    replica = replica_in(tmp_path)
    for number in range(60):
        replica.apply([file(f"f{number}", {0: 3000}, base=3000 * number)], number + 1)
    replica.flush()
    store = replica.store
    assert isinstance(store, StateDatabase)
    rests = 0

    def rest() -> None:
        nonlocal rests
        rests += 1

    with_rests = store.pin()
    chunks = list(with_rests.tables(rest))
    with_rests.close()
    runs = [sum(map(len, chunk.columns["batches"])) for chunk in chunks if chunk.table == "run"]
    assert len(runs) > 2
    run_bytes = RUN_ROWS_MAX * PACKED.itemsize
    assert all(CHUNK_BYTES - run_bytes < size < CHUNK_BYTES + ROWS_A_PIECE * run_bytes for size in runs[:-1])
    assert rests >= sum(len(chunk.columns["id"]) for chunk in chunks if chunk.table == "run") / ROWS_A_PIECE
    replica.store.close(clean=True)


TEXTS = ("", "a", "\x00", "quoted \"' \\", "\u2028 \U0001f600", "x" * 700)
RECORDS = (b"", b"\x00", bytes(range(256)), bytes(LONG_ROW_BYTES), bytes(3 * LONG_ROW_BYTES))


@pytest.mark.parametrize("records", [RECORDS[:3], RECORDS[3:], RECORDS], ids=["short", "long", "both"])
@pytest.mark.parametrize("rows", [1, ROWS_A_PIECE, SHORT_ROWS_A_PIECE, ROWS_A_PIECE + SHORT_ROWS_A_PIECE, 2000])
def test_rows_of_any_length_and_content_are_read_as_they_are_stored(tmp_path: Path, records: Sequence[bytes], rows: int) -> None:
    old_database(tmp_path, clean=True)
    path = databases(tmp_path).path(PARTITION)
    rng = random.Random(rows)
    numbers = (0, -1, 1 << 53, (1 << 63) - 1, -(1 << 63))
    connection = connect_writer(path)
    with connection:
        for number in range(rows):
            texts = f"{number}{rng.choice(TEXTS)}", rng.choice(TEXTS)
            columns = (1000 + number, texts[0], b"hash", *rng.choices(numbers, k=3), texts[1], *rng.choices(numbers, k=4))
            behind = (rng.choice(records), *rng.choices(numbers, k=2), b"", b"proof")
            connection.execute(f"INSERT INTO file VALUES ({','.join('?' * 16)})", (*columns, *behind))
    stored = connection.execute("SELECT * FROM file ORDER BY id").fetchall()
    connection.close()
    state = PinnedDatabase(path, on_corrupt=pytest.fail)
    read = [row for chunk in state.tables() if chunk.table == "file" for row in zip(*chunk.columns.values(), strict=True)]
    state.close()
    assert read == stored


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ("UPDATE run SET batches = NULL", "the column batches of table run holds what is no bytes"),
        ("UPDATE file SET record = 'ab'", "the column record of table file holds what is no bytes"),
        ("UPDATE file SET proof = NULL", "the column proof of table file holds what is no bytes"),
        ("UPDATE file SET file_size = x'00'", "the column file_size of table file holds what is no int"),
        ("UPDATE file SET owner_ids = NULL", "the column owner_ids of table file holds what is no str"),
    ],
)
def test_a_row_of_another_type_is_told_as_damage(tmp_path: Path, change: str, place: str) -> None:
    old_database(tmp_path, clean=True)
    path = databases(tmp_path).path(PARTITION)
    connection = connect_writer(path)
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute("UPDATE sqlite_schema SET sql = replace(replace(sql, ' NOT NULL', ''), ') STRICT', ')')")
    connection.close()
    with apsw.Connection(str(path)) as changing:
        changing.execute(change)
        assert changing.changes()
    changing.close()
    store = databases(tmp_path).open(PARTITION, CLUSTER_ID, TOPIC_ID)
    state = store.pin()
    with pytest.raises(StateCorrupt, match=place):
        list(state.tables())
    state.close()
    store.close(clean=True)
    with pytest.raises(StateCorrupt, match="found damaged before"):
        databases(tmp_path).open(PARTITION, CLUSTER_ID, TOPIC_ID)


def test_snapshots_have_a_folder_of_each_partition(tmp_path: Path) -> None:
    assert databases(tmp_path).snapshot_folder(7) == tmp_path / "snapshots" / "partition-7"


@pytest.mark.parametrize("left", [".db.moving", ".db.moving-journal", ".db.moving-wal"])
def test_what_a_killed_copy_left_is_removed_at_the_next_start(tmp_path: Path, left: str) -> None:
    unfinished = tmp_path / f"partition-0{left}"
    unfinished.write_bytes(b"half a copy")
    assert StateDatabases(tmp_path).partitions() == frozenset()
    assert not unfinished.exists()
