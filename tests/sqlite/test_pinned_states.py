"""A state that is pinned and built anew from its rows is the same state, in the SQLite database and in its twin in memory."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from coordinator.adapters.sqlite import StateDatabases
from coordinator.adapters.sqlite.schema import VERSION
from coordinator.core.state.damage import StateFailed
from coordinator.runtime.ports import PinnedState, StateStore, StateStores
from records.model import FilesFenced
from records.snapshot import BadSnapshot, SnapshotHead, TableRows
from simulation.fakes.state_store import MemoryStateStores
from tests.sqlite.random_log import LogModel
from tests.sqlite.replicas import CLUSTER_ID, NODE, PARTITION, TOPIC_ID, Replica, answers
from tests.sqlite.small_records import TOPIC, created, deleted, file, started

KINDS = ("sqlite", "memory")
Rows = list[TableRows]


def stores_of(kind: str, folder: Path) -> StateStores:
    return StateDatabases(folder, boot_id="boot") if kind == "sqlite" else MemoryStateStores()


def opener(stores: StateStores) -> Callable[[], StateStore]:
    return lambda: stores.open(PARTITION, CLUSTER_ID, TOPIC_ID)


@pytest.fixture(params=KINDS)
def source(request: pytest.FixtureRequest, tmp_path: Path) -> StateStores:
    folder = tmp_path / "source"
    folder.mkdir()
    return stores_of(request.param, folder)


@pytest.fixture(params=KINDS)
def target(request: pytest.FixtureRequest, tmp_path: Path) -> StateStores:
    folder = tmp_path / "target"
    folder.mkdir()
    return stores_of(request.param, folder)


def pinned(replica: Replica) -> PinnedState:
    store: Any = replica.store
    return store.pin()


def taken(replica: Replica) -> tuple[SnapshotHead, Rows]:
    """What a snapshot of the replica's database has."""
    state = pinned(replica)
    head, rows = state.head, list(state.tables())
    state.close()
    return head, rows


def with_everything(stores: StateStores) -> Replica:
    """A replica that has rows in every table, written and open."""
    replica = Replica(opener(stores))
    first = file("a", {0: 3, 1: 2})
    first.batches[1] = first.batches[1]._replace(producer_id=7, producer_epoch=0, base_sequence=0)
    fenced = FilesFenced(object_keys=["gone"], created_ms=[5])
    for offset, record in enumerate((created(TOPIC, 2), first, NODE, fenced, file("b", {0: 40}, base=3))):
        replica.apply([record], offset)
    replica.flush()
    return replica


@pytest.fixture(scope="module")
def snapshot() -> tuple[SnapshotHead, Rows]:
    """What a snapshot of a state with rows in every table has."""
    return taken(with_everything(MemoryStateStores()))


def by_table(rows: Iterable[TableRows]) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of each table, however they were cut into chunks."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    for chunk in rows:
        found.setdefault(chunk.table, []).extend(zip(*chunk.columns.values(), strict=True))
    return found


@pytest.mark.parametrize("seed", range(8))
def test_a_state_that_is_built_from_pinned_rows_is_the_same(source: StateStores, target: StateStores, seed: int) -> None:
    rng = random.Random(seed)
    model = LogModel(random.Random(seed + 5000))
    replica = Replica(opener(source))
    for offset in range(rng.choice([1, 40, 120])):
        replica.apply([model.next_record()], offset)
        if rng.random() < 0.3:
            replica.state.trim_step(rows_max=rng.choice([1, 3]))
        if rng.random() < 0.1:
            replica.flush(results_before_ms=model.now_ms - 1000)
    written = replica.flush().header
    head, rows = taken(replica)
    target.prove(head, rows)
    stored = target.build(PARTITION, head, rows)
    assert stored.header == written
    copy = Replica(opener(target))
    loaded = copy.store.load()
    assert loaded is not None
    assert (loaded.header, loaded.partitions, loaded.keys) == (stored.header, stored.partitions, stored.keys)
    if type(source) is type(target):
        again = taken(copy)
        assert again[0] == head
        assert by_table(again[1]) == by_table(rows)
    for one in (replica, copy):
        one.trim()
    assert answers(copy.state, model) == answers(replica.state, model)
    assert copy.digest() == replica.digest()
    for one in (replica, copy):
        one.store.close(clean=True)


@pytest.mark.parametrize("seed", range(4))
def test_a_built_replica_goes_on_as_the_one_it_was_taken_from(source: StateStores, target: StateStores, seed: int) -> None:
    rng = random.Random(seed)
    model = LogModel(random.Random(seed + 6000))
    replica = Replica(opener(source))
    records = [model.next_record() for _ in range(100)]
    taken_at = rng.randrange(20, 80)
    copy: Replica | None = None
    for offset, record in enumerate(records):
        for one in (replica, copy):
            if one is not None:
                one.apply([record], offset)
                if rng.random() < 0.3:
                    one.flush()
        if offset == taken_at:
            replica.flush()
            target.build(PARTITION, *taken(replica))
            copy = Replica(opener(target))
    assert copy is not None
    assert copy.digest() == replica.digest()
    assert answers(copy.state, model) == answers(replica.state, model)
    for one in (replica, copy):
        one.store.close(clean=True)


def test_proving_puts_nothing_in_place(source: StateStores, target: StateStores) -> None:
    head, rows = taken(with_everything(source))
    target.prove(head, rows)
    store = target.open(PARTITION, CLUSTER_ID, TOPIC_ID)
    assert store.load() is None
    store.close(clean=True)


def test_a_pinned_state_stays_while_further_flushes_are_written(source: StateStores, target: StateStores) -> None:
    replica = with_everything(source)
    before = taken(replica)
    state = pinned(replica)
    chunks = state.tables()
    rows = [next(chunks)]
    for number in range(60):
        replica.apply([file(f"more-{number}", {0: 20}, base=43 + 20 * number)], 5 + 2 * number)
        replica.apply([deleted(0, 10 * number)], 6 + 2 * number)
        replica.trim()
        replica.flush()
        rows += islice(chunks, 1)
    replica.store.close(clean=True)
    rows += chunks
    assert (state.head, by_table(rows)) == (before[0], by_table(before[1]))
    assert state.header.applied_offset == 4
    state.close()
    state.close()
    stored = target.build(PARTITION, state.head, rows)
    assert stored.header == state.header
    again = Replica(opener(source))
    assert again.state.applied_offset == 124
    again.store.close(clean=True)


def test_nothing_is_pinned_before_something_was_written(source: StateStores) -> None:
    store: Any = source.open(PARTITION, CLUSTER_ID, TOPIC_ID)
    with pytest.raises(StateFailed, match="pin it after a write"):
        store.pin()
    store.close(clean=True)


# ---- rows that are not those that were written

Change = Callable[[Rows], Rows]


def of_table(table: str, change: Callable[[dict[str, list[Any]]], object]) -> Change:
    """Change the columns of a table's first chunk."""

    def changed(rows: Rows) -> Rows:
        done = False
        made = []
        for chunk in rows:
            columns: dict[str, Any] = {name: list(column) for name, column in chunk.columns.items()}
            if chunk.table == table and not done:
                change(columns)
                done = True
            made.append(TableRows(chunk.table, columns))
        assert done, f"there is nothing in {table}"
        return made

    return changed


def first_value(column: str, change: Callable[[Any], Any]) -> Callable[[dict[str, list[Any]]], object]:
    return lambda columns: columns[column].__setitem__(0, change(columns[column][0]))


def without_rows(table: str) -> Change:
    return lambda rows: [chunk for chunk in rows if chunk.table != table]


def doubled(table: str) -> Change:
    return lambda rows: [*rows, *(chunk for chunk in rows if chunk.table == table)]


TABLES = ("topic", "partition", "run", "file", "producer", "tombstone", "directory")
NOT_THE_ROWS = "its rows are not those that its head describes"
DAMAGES: dict[str, tuple[Change, str]] = {
    "unknown table": (lambda rows: [*rows, TableRows("header", {"id": [1]})], "rows of a table 'header'; the tables are topic, partition"),
    "missing column": (of_table("run", lambda columns: columns.pop("proof")), "table run have other columns than the table: proof"),
    "further column": (of_table("run", lambda columns: columns.update(more=[1])), "table run have other columns than the table: more"),
    "other type": (of_table("file", first_value("file_size", str)), "table file have a column file_size that holds what is no int"),
    "text for bytes": (of_table("run", first_value("batches", repr)), "table run have a column batches that holds what is no bytes"),
    "ragged columns": (of_table("topic", lambda columns: columns["name"].append("t")), "table topic have columns of different lengths"),
    "number beyond 64 bits": (of_table("file", first_value("id", lambda _: 1 << 70)), "table file cannot be stored|" + NOT_THE_ROWS),
    "another directory": (of_table("directory", first_value("id", lambda _: 2)), "table directory cannot be stored"),
    **{f"{table} doubled": (doubled(table), f"table {table} cannot be stored") for table in TABLES},
    **{f"no {table}": (without_rows(table), NOT_THE_ROWS) for table in TABLES},
    "watermark": (of_table("partition", first_value("high_watermark", lambda value: value + 1)), NOT_THE_ROWS),
    "trimmed to": (of_table("partition", first_value("trimmed_to", lambda value: value + 1)), NOT_THE_ROWS),
    "partition number": (of_table("partition", first_value("partition", lambda value: -5)), NOT_THE_ROWS),
    "topic id": (of_table("partition", first_value("topic_id", lambda value: value[:-1])), NOT_THE_ROWS),
    "batches": (of_table("run", first_value("batches", lambda value: value[:-1] + bytes([value[-1] ^ 1]))), NOT_THE_ROWS),
    "run of another partition": (of_table("run", first_value("partition_id", lambda value: value + 1)), NOT_THE_ROWS),
    "file name": (of_table("file", first_value("object_key", lambda value: value + "x")), NOT_THE_ROWS),
    "live batches": (of_table("file", first_value("live_batches", lambda value: value - 1)), NOT_THE_ROWS),
    "ring": (of_table("producer", first_value("remembered", lambda value: value[:-1])), NOT_THE_ROWS),
    "producer epoch": (of_table("producer", first_value("epoch", lambda value: value + 1)), NOT_THE_ROWS),
    "tombstone time": (of_table("tombstone", first_value("time_ms", lambda value: value + 1)), NOT_THE_ROWS),
    "topic name": (of_table("topic", first_value("name", lambda value: value + "x")), NOT_THE_ROWS),
    "directory text": (of_table("directory", first_value("content", lambda value: "{")), NOT_THE_ROWS),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_other_rows_are_refused_and_the_earlier_database_stays(
    target: StateStores, snapshot: tuple[SnapshotHead, Rows], damage: str
) -> None:
    change, reason = DAMAGES[damage]
    head, rows = snapshot
    check_refused(target, head, change(rows), reason)


def changed_header(head: SnapshotHead, **columns: int | str) -> SnapshotHead:
    return head._replace(header=head.header | columns)


HEAD_DAMAGES: dict[str, tuple[Callable[[SnapshotHead], SnapshotHead], str]] = {
    "digest": (lambda head: head._replace(digest=bytes(16)), NOT_THE_ROWS),
    "digest of other length": (lambda head: head._replace(digest=head.digest + b"x"), "a digest of 17 bytes, 16 are right"),
    "epoch": (lambda head: head._replace(epoch=head.epoch + 1), NOT_THE_ROWS),
    "term": (lambda head: head._replace(term=head.term + 1), NOT_THE_ROWS),
    "seq": (lambda head: head._replace(seq=head.seq + 1), NOT_THE_ROWS),
    "log time": (lambda head: head._replace(log_time_ms=head.log_time_ms + 1), NOT_THE_ROWS),
    "type": (lambda head: head._replace(cluster_id=7), "a cluster_id that is no str: 7"),
    "version": (
        lambda head: head._replace(table_version=VERSION + 1),
        f"its tables have version {VERSION + 1}, this release reads and writes version {VERSION}",
    ),
    "further column": (lambda head: changed_header(head, more=1), "further columns"),
    "missing column": (lambda head: head._replace(header={}), "further columns"),
    "type of a further column": (lambda head: changed_header(head, leader_node_id="x"), "a leader_node_id that is no int: 'x'"),
    "partition": (lambda head: head._replace(metadata_partition=9), "is of metadata partition 9, not of 3"),
}


@pytest.mark.parametrize("damage", HEAD_DAMAGES)
def test_another_head_is_refused_and_the_earlier_database_stays(
    target: StateStores, snapshot: tuple[SnapshotHead, Rows], damage: str
) -> None:
    change, reason = HEAD_DAMAGES[damage]
    head, rows = snapshot
    check_refused(target, change(head), rows, reason)


def check_refused(target: StateStores, head: SnapshotHead, rows: Rows, reason: str) -> None:
    earlier = started(opener(target))
    earlier.flush()
    earlier.store.close(clean=True)
    if head.metadata_partition == PARTITION:
        with pytest.raises(BadSnapshot, match=reason):
            target.prove(head, rows)
    with pytest.raises(BadSnapshot, match=reason):
        target.build(PARTITION, head, rows)
    store = target.open(PARTITION, CLUSTER_ID, TOPIC_ID)
    stored = store.load()
    assert stored is not None
    assert stored.header.applied_offset == 0
    store.close(clean=True)


@pytest.mark.parametrize("trouble", [BadSnapshot("no footer"), OSError(5, "the snapshot cannot be read")])
def test_what_goes_wrong_while_rows_are_read_is_told_as_it_is(
    target: StateStores, snapshot: tuple[SnapshotHead, Rows], trouble: Exception
) -> None:
    head, rows = snapshot

    def torn() -> Iterator[TableRows]:
        yield rows[0]
        raise trouble

    for build in (lambda: target.build(PARTITION, head, torn()), lambda: target.prove(head, torn())):
        with pytest.raises(type(trouble)) as raised:
            build()
        assert raised.value is trouble
    assert target.build(PARTITION, head, rows).header.applied_offset == 4
