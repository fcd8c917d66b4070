"""What only the file has: whose it is, whether it can be trusted, who else has it open, and how its runs lie."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import apsw
import numpy as np
import pytest

from coordinator.adapters.sqlite import DirectoryFailed, StateCorrupt, StateDatabase, StateDatabases, StateLocked
from coordinator.adapters.sqlite.errors import translated
from coordinator.adapters.sqlite.inspect import open_for_inspection
from coordinator.adapters.sqlite.kept_results import FILES_PER_STEP_MIN, KeptResults
from coordinator.adapters.sqlite.schema import PAGE_BYTES, VERSION, VERSION_MIN, connect_writer, fetch
from coordinator.core.state.damage import StateBusy
from coordinator.core.state.run_packing import RUN_ROWS_MAX
from coordinator.core.tables.stored_rows import RunRow, unpack
from coordinator.kafka.names import topic_id_text
from records import state_digest
from records.model import FilesFenced
from tests.sqlite.replicas import CLUSTER_ID, NODE, PARTITION, TOPIC_ID, Replica, header
from tests.sqlite.small_records import TOPIC, covered, created, deleted, file, live, started


def database(path: Path, **other: object) -> StateDatabase:
    identity = {"cluster_id": CLUSTER_ID, "topic_id": TOPIC_ID, "metadata_partition": PARTITION, "boot_id": "boot"} | other
    return StateDatabase(path / "state.db", **identity)  # type: ignore[arg-type]


def opened(path: Path, **other: object) -> StateDatabase:
    made = database(path, **other)
    made.open()
    return made


def written(path: Path, *, clean: bool) -> Path:
    """A closed database with one file in it."""
    replica = started(lambda: opened(path))
    replica.apply([file("a", {0: 3})], 1)
    replica.flush()
    replica.store.close(clean=clean)
    return path / "state.db"


@pytest.mark.parametrize("clean", [True, False])
def test_what_was_written_is_there_while_the_machine_runs_on(tmp_path: Path, clean: bool) -> None:
    written(tmp_path, clean=clean)
    again = database(tmp_path)
    assert again.open() is None
    stored = again.load()
    assert stored is not None
    assert stored.header.applied_offset == 1
    again.close()


@pytest.mark.parametrize("clean", [True, False])
def test_after_a_restart_of_the_machine_only_a_cleanly_closed_file_is_trusted(tmp_path: Path, clean: bool) -> None:
    written(tmp_path, clean=clean)
    again = database(tmp_path, boot_id="another boot")
    reason = again.open()
    stored = again.load()
    if clean:
        assert reason is None
        assert stored is not None
    else:
        assert "not been closed cleanly" in str(reason)
        assert stored is None
    again.close(clean=False)
    # Opening took the clean mark away: it vouches for nothing that is written from now on.
    assert "not been closed cleanly" in str(database(tmp_path, boot_id="third boot").open())


def results(path: Path) -> list[int]:
    """Which files, in the order of the log, still have their results."""
    connection = open_for_inspection(path / "state.db")
    sizes = [size for (size,) in fetch(connection, "SELECT length(record) FROM file ORDER BY id")]
    connection.close()
    return [number for number, size in enumerate(sizes) if size]


def test_results_are_cleared_in_bounded_steps_that_go_on_after_restarts_and_rollbacks(tmp_path: Path) -> None:
    step = FILES_PER_STEP_MIN
    expired, files = 2 * step + 2, 2 * step + 4
    replica = started(lambda: opened(tmp_path))
    for number in range(files):
        replica.apply([file(f"f{number}", {0: 1}, base=number, time_ms=1000 + number)], number * 5 + 1)
    replica.flush()
    assert results(tmp_path) == list(range(files))
    replica.flush(results_before_ms=1000 + expired)
    assert results(tmp_path) == list(range(step, files))
    replica.restart()
    replica.flush(results_before_ms=1000 + expired)
    assert results(tmp_path) == list(range(2 * step, files))
    flush = replica.packer.pack(replica.state.freeze(header(replica.state), results_before_ms=1000 + expired))
    # The header is written last: everything else of this flush is taken back.
    unfit = dataclasses.replace(flush.header, cluster_id=None)  # type: ignore[arg-type]
    with pytest.raises(apsw.ConstraintError):
        replica.store.write(dataclasses.replace(flush, header=unfit))
    assert results(tmp_path) == list(range(2 * step, files))
    replica.store.write(flush)
    replica.state.written()
    assert results(tmp_path) == [expired, expired + 1]
    replica.flush(results_before_ms=1000 + expired)
    assert results(tmp_path) == [expired, expired + 1]
    replica.store.close(clean=True)


def test_a_large_flush_clears_more_than_it_brings(tmp_path: Path) -> None:
    brought = FILES_PER_STEP_MIN
    replica = started(lambda: opened(tmp_path))
    for number in range(3 * brought):
        replica.apply([file(f"f{number}", {0: 1}, base=number, time_ms=1000 + number)], number + 1)
        if number == 2 * brought - 1:
            replica.flush()
    replica.flush(results_before_ms=1000 + 4 * brought)
    assert results(tmp_path) == list(range(2 * brought, 3 * brought))
    replica.store.close(clean=True)


@pytest.mark.parametrize("cleared", range(6))
def test_the_end_of_the_cleared_results_is_found_again_between_removed_files(tmp_path: Path, cleared: int) -> None:
    connection = connect_writer(tmp_path / "state.db")
    for place, file_id in enumerate((0, 3, 4, 90, 91)):
        columns = (file_id, f"k{file_id}", b"", 1, 1, 1, "", 0, 0, 1, 1, b"" if place < cleared else b"record", -1, 0, b"", b"")
        connection.execute(f"INSERT INTO file VALUES ({','.join('?' * len(columns))})", columns)
    assert KeptResults(connection).cleared_to() == (-1, 0, 3, 4, 90, 91)[cleared]
    connection.close(True)


@pytest.mark.parametrize(
    ("other", "what"),
    [({"cluster_id": "x"}, "cluster id"), ({"topic_id": b"x" * 16}, "topic id"), ({"metadata_partition": 9}, "metadata partition")],
)
def test_a_database_of_another_log_is_discarded(tmp_path: Path, other: dict[str, object], what: str) -> None:
    written(tmp_path, clean=True)
    again = database(tmp_path, **other)
    assert what in str(again.open())
    assert again.load() is None
    again.close()


@pytest.mark.parametrize("version", [VERSION + 1, VERSION_MIN - 1])
def test_a_schema_of_another_time_is_discarded(tmp_path: Path, version: int) -> None:
    path = written(tmp_path, clean=True)
    with apsw.Connection(str(path)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    again = database(tmp_path)
    assert f"version {version}" in str(again.open())
    assert again.load() is None
    again.close()


def test_another_hash_of_a_row_is_another_version() -> None:
    """Otherwise every row that an earlier release wrote counts as damaged, and nodes of two releases never have one digest."""
    key = bytes(range(20))
    batch = {name: np.array([number], np.int64) for number, name in enumerate(state_digest.BATCH_COLUMNS)}
    low, high = (np.array([lane], np.int64) for lane in state_digest.key_lanes(key))
    hashes = [
        b"".join(half.tobytes() for half in state_digest.hash_batches(low, high, batch)),
        state_digest.hash_partition(key, 9, 1, 0, -1, -1),
        state_digest.hash_partition(key, 9, 1, 0, 3, 4),
        state_digest.hash_producer(key, 1, 2, 3, bytes(24)),
        state_digest.hash_file(1, "wal/a", b"content", 2, 3, 4, "0,1", 5, 6, 7),
        state_digest.hash_record(b"entry"),
        state_digest.hash_topic(key[:16], "t", 1, -1).to_bytes(),
        state_digest.hash_tombstone("wal/a", "fenced", 1, 2),
        state_digest.hash_item("node", "1", {"rack": "a"}).to_bytes(),
        state_digest.hash_position(1, 2, 3, 4).to_bytes(),
    ]
    assert (VERSION, [one.hex()[:8] for one in hashes]) == (
        5,
        ["d322a6ca", "4ea5a35f", "b413bf9f", "0dcf0a04", "90667c76", "6a9fe39c", "412bd5bd", "94431a57", "ec922760", "72fabf93"],
    )


def test_a_file_that_is_no_database_is_discarded(tmp_path: Path) -> None:
    path = written(tmp_path, clean=True)
    path.write_bytes(b"not a database, and long enough to have a header" * 1000)
    with pytest.raises(StateCorrupt, match="not a database"):
        database(tmp_path).open()
    stores = StateDatabases(tmp_path, boot_id="boot")
    path.rename(stores.path(PARTITION))
    path.with_name("state.db.lock").rename(f"{stores.path(PARTITION)}.lock")
    with pytest.raises(StateCorrupt, match="found damaged before"):
        stores.open(PARTITION, CLUSTER_ID, TOPIC_ID)
    stores.set_aside(PARTITION)
    again = stores.open(PARTITION, CLUSTER_ID, TOPIC_ID)
    assert again.load() is None
    assert len(list(tmp_path.glob("*.failed-*"))) == 1
    again.close()


def test_a_file_without_its_lock_file_is_discarded(tmp_path: Path) -> None:
    path = written(tmp_path, clean=True)
    path.with_name("state.db.lock").unlink()
    again = database(tmp_path)
    assert "does not say" in str(again.open())
    again.close()


def test_damage_found_while_reading_discards_the_file_at_the_next_start(tmp_path: Path) -> None:
    replica = started(lambda: opened(tmp_path), partitions=50)
    for offset in range(1, 40):
        replica.apply([file(f"f{offset}", dict.fromkeys(range(50), 70), base=(offset - 1) * 70)], offset)
        replica.flush()
    replica.store.close(clean=True)
    path = tmp_path / "state.db"
    content = bytearray(path.read_bytes())
    middle = slice(PAGE_BYTES * 20, PAGE_BYTES * 30)
    content[middle] = b"\xff" * (PAGE_BYTES * 10)
    path.write_bytes(content)
    damaged = opened(tmp_path)
    with pytest.raises(StateCorrupt, match="set aside and rebuilt from the log"):
        damaged.load()
    damaged.close(clean=True)
    with pytest.raises(StateCorrupt, match="found damaged before"):
        database(tmp_path).open()


DAMAGES = ("batches = NULL", "batches = 'text'", "batches = substr(batches, 2)", "batches = x''", "file_base = 'x'", "timestamp_base = 1.5")


def unchecked(path: Path) -> None:
    """Take the checks of types out of a database's schema, so that anything can be put into its rows."""
    connection = connect_writer(path)
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute("UPDATE sqlite_schema SET sql = replace(replace(sql, ' NOT NULL', ''), ') STRICT', ')')")
    connection.close()


def change(path: Path, sql: str) -> None:
    connection = connect_writer(path)
    connection.execute(sql)
    connection.close()


@pytest.mark.parametrize("is_read", [True, False])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_run_is_told_as_damage_by_reads_and_by_the_next_write(tmp_path: Path, damage: str, is_read: bool) -> None:
    path = written(tmp_path, clean=True)
    unchecked(path)
    replica = Replica(lambda: opened(tmp_path))
    change(path, f"UPDATE run SET {damage}")
    replica.apply([file("b", {0: 2}, base=3)], 2)
    look = partial(replica.store.reader().run_covering, 0, 0) if is_read else replica.flush
    with pytest.raises(StateCorrupt, match=r"state\.db is damaged \(run 1 of partition 0 is no run.*rebuilt from the log"):
        look()
    replica.store.close(clean=True)
    with pytest.raises(StateCorrupt, match="is no run"):
        database(tmp_path).open()


FILE_DAMAGES = (
    "object_key = object_key || 'x'",
    "content_hash = NULL",
    "content_hash = x'00'",
    "file_size = 'x'",
    "owner_ids = 7",
    "live_batches = live_batches + 1",
    "live_batches = -1, lost_batches = batch_count + 1",
    "proof = x'00'",
)


@pytest.mark.parametrize("damage", FILE_DAMAGES)
def test_a_damaged_file_is_told_as_damage_when_it_is_read(tmp_path: Path, damage: str) -> None:
    path = written(tmp_path, clean=True)
    unchecked(path)
    replica = Replica(lambda: opened(tmp_path))
    change(path, f"UPDATE file SET {damage}")
    with pytest.raises(StateCorrupt, match="file 1 "):
        replica.store.reader().files_after("", 10)
    replica.store.close(clean=False)


def test_damaged_results_of_a_commit_are_told_when_they_are_needed(tmp_path: Path) -> None:
    path = written(tmp_path, clean=True)
    unchecked(path)
    replica = Replica(lambda: opened(tmp_path))
    change(path, "UPDATE file SET record = substr(record, 2)")
    [row] = [row for row in replica.store.reader().files_after("", 10) if row.file_id == 1]
    with pytest.raises(StateCorrupt, match="the kept results of file 1 "):
        replica.store.reader().file_by_key(row.object_key)
    replica.store.close(clean=False)


def test_a_damaged_tombstone_is_told_as_damage_when_it_is_read(tmp_path: Path) -> None:
    replica = started(lambda: opened(tmp_path))
    replica.apply([FilesFenced(object_keys=["gone"], created_ms=[5])], 1)
    replica.flush()
    change(tmp_path / "state.db", "UPDATE tombstone SET created_ms = 6")
    with pytest.raises(StateCorrupt, match="the tombstone of 'gone' is none that was written"):
        replica.store.reader().tombstone("gone")
    replica.store.close(clean=False)


def test_a_damaged_index_of_runs_is_told_as_damage(tmp_path: Path) -> None:
    path = written(tmp_path, clean=True)
    unchecked(path)
    change(path, "UPDATE run SET max_timestamp = 'x'")
    damaged = opened(tmp_path)
    with pytest.raises(StateCorrupt, match=r"index of the runs of partition 0 holds what is no number"):
        damaged.reader().run_covering(0, 0)
    damaged.close(clean=False)


CHANGES = (
    "UPDATE header SET applied_offset = applied_offset + 1",
    "UPDATE header SET log_time_ms = log_time_ms + 1",
    "UPDATE header SET leader_endpoints = 'PLAIN://other:9'",
    "UPDATE header SET flushes = flushes + 1",
    "UPDATE partition SET high_watermark = high_watermark - 1",
    "UPDATE partition SET max_timestamp = max_timestamp + 1",
    "UPDATE partition SET trimmed_to = 1",
    "UPDATE partition SET is_dead = 1",
    "UPDATE partition SET id = id + 1",
    "UPDATE partition SET topic_id = x'00'",
    "UPDATE partition SET partition = -5",
    "DELETE FROM partition",
    "UPDATE producer SET epoch = epoch + 1",
    "UPDATE producer SET remembered = substr(remembered, 2)",
    "UPDATE producer SET partition_id = 99",
    "DELETE FROM producer",
    "UPDATE topic SET order_offset = order_offset + 1",
    "UPDATE topic SET name = 'other'",
    "DELETE FROM topic",
    "UPDATE tombstone SET time_ms = time_ms + 1",
    "DELETE FROM tombstone",
    "UPDATE directory SET content = replace(content, 'host-1', 'host-2')",
    "UPDATE directory SET content = '{'",
    "UPDATE directory SET content = CAST(x'ff' AS TEXT)",
    "DELETE FROM directory",
    "UPDATE run SET batches = zeroblob(length(batches))",
    "UPDATE run SET last_offset = last_offset + 1",
    "DELETE FROM run",
    "UPDATE file SET created_ms = created_ms + 1",
    "UPDATE file SET live_batches = live_batches - 1, lost_batches = lost_batches + 1",
    "UPDATE file SET object_key = CAST(x'ff' AS TEXT)",
    "DELETE FROM file",
    "DELETE FROM header",
)


@pytest.mark.parametrize("damage", CHANGES)
def test_a_changed_row_of_any_table_is_found_before_the_state_is_believed(tmp_path: Path, damage: str) -> None:
    replica = Replica(lambda: opened(tmp_path))
    plain = file("a", {0: 3})
    idempotent = plain.batches[1]._replace(producer_id=7, producer_epoch=0, base_sequence=0)
    with_producer = dataclasses.replace(plain, batches=[plain.batches[0], idempotent, plain.batches[2]])
    for offset, record in enumerate((created(TOPIC, 1), with_producer, NODE, FilesFenced(object_keys=["gone"], created_ms=[5]))):
        replica.apply([record], offset)
    replica.flush()
    replica.restart()
    replica.store.close(clean=True)
    change(tmp_path / "state.db", damage)
    damaged = database(tmp_path)
    with pytest.raises(StateCorrupt):
        open_and_load(damaged)
    damaged.close(clean=False)


def open_and_load(damaged: StateDatabase) -> None:
    damaged.open()
    damaged.load()


@pytest.fixture
def connections() -> Iterator[list[apsw.Connection]]:
    """The connections that the test's databases open, in their order."""
    made: list[apsw.Connection] = []
    apsw.connection_hooks.append(made.append)
    yield made
    apsw.connection_hooks.remove(made.append)


def test_a_busy_database_is_not_a_corrupt_one(tmp_path: Path, connections: list[apsw.Connection]) -> None:
    replica = started(lambda: opened(tmp_path))
    replica.flush()
    store = replica.store
    assert isinstance(store, StateDatabase)
    for one in connections:
        one.set_busy_timeout(0)
    other = apsw.Connection(str(store.path))
    other.execute("BEGIN IMMEDIATE")
    replica.apply([file("a", {0: 3})], 1)
    flush = replica.packer.pack(replica.state.freeze(replica.store.load().header))  # type: ignore[union-attr]
    with pytest.raises(StateBusy):
        store.write(flush)
    other.execute("ROLLBACK")
    other.close()
    store.write(flush)
    replica.state.written()
    assert live(replica, "a") == 3
    store.close()
    assert database(tmp_path).open() is None


@pytest.mark.parametrize("error", [apsw.BusyError, apsw.LockedError, apsw.ProtocolError])
def test_every_lock_of_another_connection_is_one(tmp_path: Path, error: type[apsw.Error]) -> None:
    marked: list[str] = []
    with pytest.raises(StateBusy, match="end what writes to it"), translated(tmp_path / "state.db", marked.append):
        raise error("locked")
    assert not marked


@pytest.mark.parametrize(
    "statement", ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE", "PRAGMA wal_checkpoint(RESTART)", "PRAGMA wal_checkpoint(TRUNCATE)", "VACUUM"]
)
def test_no_lock_of_another_connection_holds_up_a_read(tmp_path: Path, statement: str) -> None:
    replica = started(lambda: opened(tmp_path))
    replica.apply([file("a", {0: 3})], 1)
    replica.flush()
    assert isinstance(replica.store, StateDatabase)
    other = apsw.Connection(str(replica.store.path))
    # One that reads nobody else's: it cannot be had while the node's connections are open.
    other.execute("PRAGMA locking_mode = EXCLUSIVE").fetchall()
    with suppress(apsw.BusyError):
        other.execute(statement).fetchall()
    assert live(replica, "a") == 3
    pinned = replica.store.pin()
    assert sum(len(table.columns["id"]) for table in pinned.tables() if table.table == "file") == 1
    pinned.close()
    other.close(True)
    replica.store.close()


def test_one_file_has_one_user(tmp_path: Path) -> None:
    first = opened(tmp_path)
    with pytest.raises(StateLocked, match="another process"):
        database(tmp_path).open()
    script = (
        "import sys, pathlib; from coordinator.adapters.sqlite import StateDatabase, StateLocked\n"
        "d = StateDatabase(pathlib.Path(sys.argv[1]), cluster_id='c', topic_id=b't' * 16, metadata_partition=0)\n"
        "try: d.open()\nexcept StateLocked: sys.exit(7)"
    )
    assert subprocess.run([sys.executable, "-c", script, str(first.path)], check=False, timeout=60).returncode == 7
    first.close()
    second = database(tmp_path)
    assert second.open() is None
    second.close()


def test_a_directory_that_is_missing_has_failed(tmp_path: Path) -> None:
    with pytest.raises(DirectoryFailed):
        database(tmp_path / "missing").open()


def test_a_full_disk_leaves_the_last_flush_and_says_so(tmp_path: Path, connections: list[apsw.Connection]) -> None:
    replica = started(lambda: opened(tmp_path))
    replica.apply([file("a", {0: 3})], 1)
    replica.flush()
    store = replica.store
    assert isinstance(store, StateDatabase)
    for one in connections:
        pages = fetch(one, "PRAGMA page_count")[0][0]
        fetch(one, f"PRAGMA max_page_count = {pages}")
    replica.apply([file("b", {0: 5000}, base=3)], 2)
    with pytest.raises(DirectoryFailed, match="full"):
        replica.freeze_and_write()
    replica.restart(clean=False)
    assert replica.state.applied_offset == 1
    assert covered(replica.store.reader(), 0) == (0, 2)
    replica.store.close(clean=True)


def runs_of(path: Path) -> list[RunRow]:
    connection = open_for_inspection(path)
    columns = "partition_id, base_offset, last_offset, max_timestamp, file_base, timestamp_base, batches"
    runs = [RunRow(*row) for row in fetch(connection, f"SELECT {columns} FROM run ORDER BY partition_id, base_offset")]
    connection.close()
    return runs


def test_a_trickle_is_joined_to_runs_of_a_bounded_length(tmp_path: Path) -> None:
    replica = started(lambda: opened(tmp_path))
    for offset in range(1, 201):
        replica.apply([file(f"f{offset}", {0: 1}, base=offset - 1, time_ms=10_000 - offset)], offset)
        replica.flush()
        if offset % 50 == 0:
            replica.restart()
    runs = runs_of(tmp_path / "state.db")
    assert [(run.base, run.last) for run in runs] == [(0, 63), (64, 127), (128, 191), (192, 199)]
    rows = [row for run in runs for row in unpack(run).tolist()]
    assert [(row[0], row[4], row[6]) for row in rows] == [(at, at + 1, 9999 - at) for at in range(200)]
    assert [run.max_timestamp for run in runs] == [9999, 9935, 9871, 9807]
    replica.store.close(clean=True)


def test_a_burst_is_cut_and_not_joined_beyond_a_run(tmp_path: Path) -> None:
    replica = started(lambda: opened(tmp_path))
    replica.apply([file("a", {0: 2})], 1)
    replica.flush()
    replica.apply([file("b", {0: 2 * RUN_ROWS_MAX}, base=2)], 2)
    replica.flush()
    lengths = [run.last - run.base + 1 for run in runs_of(tmp_path / "state.db")]
    assert lengths == [2, RUN_ROWS_MAX, RUN_ROWS_MAX]
    replica.store.close(clean=True)


def test_nothing_is_joined_to_a_run_that_was_trimmed(tmp_path: Path) -> None:
    replica = started(lambda: opened(tmp_path))
    replica.apply([file("a", {0: 3})], 1)
    replica.flush()
    replica.apply([deleted(0, 3)], 2)
    replica.trim()
    replica.flush()
    replica.apply([file("b", {0: 2}, base=3)], 3)
    replica.flush()
    assert [(run.base, run.last) for run in runs_of(tmp_path / "state.db")] == [(3, 4)]
    replica.store.close(clean=True)


def test_set_aside_keeps_the_evidence_and_frees_the_name(tmp_path: Path) -> None:
    stores = StateDatabases(tmp_path, boot_id="boot")
    assert stores.set_aside(PARTITION) is None
    replica = started(lambda: stores.open(PARTITION, CLUSTER_ID, TOPIC_ID))
    replica.flush()
    replica.store.close(clean=False)
    kept = stores.set_aside(PARTITION)
    assert kept is not None
    connection = open_for_inspection(tmp_path / kept)
    assert fetch(connection, "SELECT applied_offset FROM header") == [(0,)]
    connection.close()
    fresh = stores.open(PARTITION, CLUSTER_ID, TOPIC_ID)
    assert fresh.load() is None
    fresh.close()


def test_people_see_batches_by_sql_while_the_service_runs(tmp_path: Path) -> None:
    replica = started(lambda: opened(tmp_path), partitions=2)
    replica.apply([file("a", {0: 3, 1: 2})], 1)
    replica.flush()
    replica.apply([deleted(0, 1)], 2)
    replica.flush()
    connection = open_for_inspection(tmp_path / "state.db")
    topic = topic_id_text(TOPIC)
    wanted = "topic_id, partition, base_offset, last_offset, byte_offset, size, object_key, timestamp_ms"
    rows = fetch(connection, f"SELECT {wanted} FROM batch WHERE partition = 0")
    assert rows == [(topic, 0, 1, 1, 10, 10, "a", 1000), (topic, 0, 2, 2, 20, 10, "a", 1000)]
    assert fetch(connection, "SELECT count(*) FROM batch(?, 1)", (topic,)) == [(2,)]
    assert fetch(connection, "SELECT count(*) FROM batch('nobody')") == [(0,)]
    assert fetch(connection, "SELECT DISTINCT topic_id_text(topic_id) FROM partition") == [(topic,)]
    assert fetch(connection, "SELECT json_group_array(name) FROM topic") == [(json.dumps(["t"]),)]
    with pytest.raises(apsw.ReadOnlyError):
        connection.execute("DELETE FROM run")
    replica.apply([file("b", {1: 1}, base=2)], 3)
    replica.flush()
    assert fetch(connection, "SELECT count(*) FROM batch") == [(5,)]
    connection.close()
    replica.store.close(clean=True)


def test_inspecting_a_missing_file_names_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nothing\.db"):
        open_for_inspection(tmp_path / "nothing.db")


def test_replicas_reopen_after_a_discard(tmp_path: Path) -> None:
    written(tmp_path, clean=False)
    replica = Replica(lambda: opened(tmp_path, boot_id="another boot"))
    assert replica.state.applied_offset == -1
    replica.store.close(clean=True)
