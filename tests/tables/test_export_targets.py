"""Tables as targets of exports: Delta and Iceberg keep the same contract, and a commit's outcome is known in the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog import Catalog, load_catalog

from tables.errors import CommitConflictError, OtherContentError, RivalWriterError, TableError
from tables.export.columns import NotTextError, ValueType, table_rows
from tables.export.delta import DeltaTarget
from tables.export.iceberg import IcebergTarget
from tables.export.target import ExportedTopic, ExportTarget, Position, commit
from tests.tables.fake_log import SCHEMA, FakeLog

TOPIC = ExportedTopic(name="orders", topic_id="one", cluster_id="here", value_type=ValueType.BINARY)


class Lake(Protocol):
    """Where tables of one kind are."""

    def open(self, topic: ExportedTopic = TOPIC, begin: Position | None = None) -> ExportTarget: ...

    def find(self, topic: ExportedTopic = TOPIC) -> ExportTarget | None: ...

    def add_foreign(self, rows: pa.RecordBatch) -> None:
        """Append rows as a stranger does, without a position."""

    def table(self) -> pa.Table: ...


@dataclass(frozen=True)
class DeltaLake:
    folder: Path

    def open(self, topic: ExportedTopic = TOPIC, begin: Position | None = None) -> ExportTarget:
        return DeltaTarget.open(str(self.folder), topic, {}, begin or {})

    def find(self, topic: ExportedTopic = TOPIC) -> ExportTarget | None:
        return DeltaTarget.find(str(self.folder), topic, {})

    def add_foreign(self, rows: pa.RecordBatch) -> None:
        write_deltalake(self.folder, [rows], mode="append")

    def table(self) -> pa.Table:
        return DeltaTable(self.folder).to_pyarrow_table()


@dataclass(frozen=True)
class IcebergLake:
    folder: Path

    @property
    def options(self) -> dict[str, str]:
        return {"uri": f"sqlite:///{self.folder}/catalog.db", "warehouse": f"file://{self.folder}/warehouse"}

    def catalog(self) -> Catalog:
        return load_catalog("lake", **self.options)

    def open(self, topic: ExportedTopic = TOPIC, begin: Position | None = None) -> ExportTarget:
        return IcebergTarget.open("lake.shop.orders", topic, self.options, begin or {})

    def find(self, topic: ExportedTopic = TOPIC) -> ExportTarget | None:
        return IcebergTarget.find("lake.shop.orders", topic, self.options)

    def add_foreign(self, rows: pa.RecordBatch) -> None:
        self.catalog().load_table("shop.orders").append(pa.Table.from_batches([rows]))

    def table(self) -> pa.Table:
        return self.catalog().load_table("shop.orders").scan().to_arrow()


@pytest.fixture(params=["delta", "iceberg"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    return DeltaLake(tmp_path / "table") if request.param == "delta" else IcebergLake(tmp_path)


def rows(first: int, last: int, partition: int = 0) -> pa.RecordBatch:
    log = FakeLog(partitions=[[], []])
    log.add(partition, last + 1)
    read = pa.RecordBatch.from_pylist([log.row(partition, offset) for offset in range(first, last + 1)], SCHEMA)
    return table_rows(read, TOPIC.schema)


def offsets(lake: Lake) -> list[tuple[int, int]]:
    table = lake.table()
    return sorted(zip(table.column("partition").to_pylist(), table.column("offset").to_pylist(), strict=True))


def of(partition: int, count: int) -> list[tuple[int, int]]:
    return [(partition, offset) for offset in range(count)]


class Racing(list[pa.RecordBatch]):
    """Rows during whose writing something else happens."""

    def __init__(self, batches: Sequence[pa.RecordBatch], work: Callable[[], None]) -> None:
        super().__init__(batches)
        self._work = work

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        work, self._work = self._work, lambda: None
        work()
        return super().__iter__()


def test_a_table_is_made_with_a_position_and_found_with_it(lake: Lake) -> None:
    assert lake.find() is None
    lake.open(begin={0: 5, 1: 0})
    found = lake.find()
    assert found is not None
    assert found.position(range(3)) == {0: 5, 1: 0}
    assert lake.open(begin={0: 9, 1: 9}).position(range(3)) == {0: 5, 1: 0}


def test_rows_and_position_move_together_and_others_stay(lake: Lake) -> None:
    target = lake.open(begin={0: 0, 1: 0})
    target.append([rows(0, 2), rows(3, 4)], {0: 0}, {0: 5})
    target.append([rows(0, 0, 1)], {1: 0}, {1: 1})
    target.append([rows(0, 0).slice(1)], {}, {2: 0})
    assert lake.open().position(range(4)) == {0: 5, 1: 1, 2: 0}
    assert offsets(lake) == of(0, 5) + of(1, 1)


def test_the_second_of_two_exports_is_refused(lake: Lake) -> None:
    first, second = lake.open(begin={0: 0}), lake.open()
    commit(first, [rows(0, 2)], {0: 0}, {0: 3})
    with pytest.raises(RivalWriterError, match="another process writes"):
        commit(second, [rows(0, 2)], {0: 0}, {0: 3})
    assert offsets(lake) == of(0, 3)


def test_the_slower_of_two_exports_that_commit_at_once_is_refused(lake: Lake) -> None:
    first, second = lake.open(begin={0: 0}), lake.open()
    racing = Racing([rows(0, 2)], lambda: commit(second, [rows(0, 4)], {0: 0}, {0: 5}))
    with pytest.raises(RivalWriterError, match=r"another export writes .*; stop one of the two"):
        commit(first, racing, {0: 0}, {0: 3})
    assert offsets(lake) == of(0, 5)
    same = Racing([rows(5, 6)], lambda: commit(second, [rows(5, 6)], {0: 5}, {0: 7}))
    with pytest.raises(RivalWriterError, match="another export"):
        commit(first, same, {0: 5}, {0: 7})
    assert offsets(lake) == of(0, 7)


def test_a_commit_that_lost_to_a_strangers_commit_is_repeated(lake: Lake) -> None:
    target = lake.open(begin={0: 0})
    racing = Racing([rows(0, 2)], lambda: lake.add_foreign(rows(8, 8)))
    commit(target, racing, {0: 0}, {0: 3})
    assert offsets(lake) == [*of(0, 3), (0, 8)]
    assert target.position([0]) == {0: 3}


@dataclass
class Unsure:
    """A target whose answers are lost: after the commit, or before."""

    target: ExportTarget
    is_after: bool
    place: str = "here"
    tries: int = 0

    def position(self, partitions: Sequence[int]) -> dict[int, int]:
        return self.target.position(partitions)

    def append(self, rows_: Sequence[pa.RecordBatch], before: Position, after: Position) -> None:
        self.tries += 1
        if self.is_after or self.tries > 1:
            self.target.append(rows_, before, after)
        if self.tries == 1:
            raise TableError("the store did not answer")


@pytest.mark.parametrize("is_after", [True, False])
def test_a_commit_whose_answer_is_lost_is_there_once(lake: Lake, is_after: bool) -> None:
    unsure = Unsure(lake.open(begin={0: 0}), is_after)
    commit(unsure, [rows(0, 2)], {0: 0}, {0: 3})
    assert unsure.tries == (1 if is_after else 2)
    assert offsets(lake) == of(0, 3)


@pytest.mark.parametrize("change", [{"topic_id": "two"}, {"cluster_id": "there"}, {"value_type": ValueType.UTF8}])
def test_a_topic_made_anew_another_cluster_and_other_columns_are_refused(lake: Lake, change: dict[str, object]) -> None:
    lake.open()
    with pytest.raises(OtherContentError, match=r"Use another (folder|table)"):
        lake.open(replace(TOPIC, **change))


def test_maintenance_is_due_once_a_day_and_keeps_rows_and_position(lake: Lake) -> None:
    target = lake.open(begin={0: 0})
    for offset in range(4):
        target.append([rows(offset, offset)], {0: offset}, {0: offset + 1})
    assert target.is_maintenance_due()
    assert target.maintain() in ("4 files joined into 1, 0 deleted", "0 snapshots expired")
    assert not target.is_maintenance_due()
    assert not lake.open().is_maintenance_due()
    assert target.position([0]) == {0: 4}
    assert offsets(lake) == of(0, 4)


def test_an_iceberg_table_that_would_repeat_commits_is_refused(tmp_path: Path) -> None:
    lake = IcebergLake(tmp_path)
    target = lake.open(begin={0: 0})
    table = lake.catalog().load_table("shop.orders")
    with table.transaction() as change:
        change.set_properties({"commit.retry.num-retries": "4"})
    told = r"commit\.retry\.num-retries must be 0"
    with pytest.raises(TableError, match=told):
        target.append([rows(0, 0)], {0: 0}, {0: 1})
    with pytest.raises(TableError, match=told):
        lake.open()


def test_the_library_alone_would_write_rows_of_iceberg_twice(tmp_path: Path) -> None:
    """The reason for the property; once this fails it is not needed any more."""
    lake = IcebergLake(tmp_path)
    lake.open(begin={0: 0})
    catalog = lake.catalog()
    first = catalog.load_table("shop.orders")
    with first.transaction() as change:
        change.remove_properties("commit.retry.num-retries")
    first.append(pa.Table.from_batches([rows(0, 0)]))
    second, third = catalog.load_table("shop.orders"), catalog.load_table("shop.orders")
    for one in (second, third):
        one.append(pa.Table.from_batches([rows(1, 1)]))
    assert offsets(lake) == [(0, 0), (0, 1), (0, 1)]


@pytest.mark.parametrize("place", ["orders", "lake.orders", "lake..orders", ".a.b"])
def test_what_names_no_iceberg_table_is_said(place: str) -> None:
    with pytest.raises(TableError, match=r"expected iceberg:CATALOG\.NAMESPACE\.TABLE"):
        IcebergTarget.open(place, TOPIC, {}, {})


def test_a_catalog_that_is_not_configured_is_said() -> None:
    with pytest.raises(TableError, match=r"iceberg:nowhere\.a\.b: ValueError: URI missing"):
        IcebergTarget.open("nowhere.a.b", TOPIC, {}, {})


def test_duckdb_reads_the_columns(lake: Lake) -> None:
    lake.open(begin={0: 0}).append([rows(0, 19)], {0: 0}, {0: 20})
    exported = duckdb.from_arrow(lake.table())
    found = exported.aggregate('CAST(date AS VARCHAR) AS day, count(*), min("offset"), min(decode(value))', "date").order("day").fetchall()
    assert found == [("2026-01-01", 10, 0, "0"), ("2026-01-02", 10, 10, "10")]


def test_a_timestamp_out_of_all_calendars_has_no_date() -> None:
    values = [-1_000, 0, (1 << 63) - 1, -(1 << 63) + 1, 253_402_300_799_999_999]
    times = pa.array(values, pa.timestamp("us", tz="UTC"))
    read = rows(0, 4)
    batch = pa.RecordBatch.from_arrays([times if field.name == "timestamp" else read.column(field.name) for field in SCHEMA], schema=SCHEMA)
    dates = table_rows(batch, TOPIC.schema).column("date").to_pylist()
    assert [None if date is None else date.isoformat() for date in dates] == ["1969-12-31", "1970-01-01", None, None, "9999-12-31"]


def test_texts_are_texts_and_a_value_that_is_none_is_named() -> None:
    log = FakeLog(partitions=[["h\u00e9".encode(), b"", b"\xff"]])
    read = pa.RecordBatch.from_pylist([log.row(0, offset) for offset in range(3)], SCHEMA)
    schema = replace(TOPIC, value_type=ValueType.UTF8).schema
    assert table_rows(read.slice(0, 2), schema).column("value").to_pylist() == ["h\u00e9", ""]
    with pytest.raises(NotTextError, match="orders-0 offset 2: the value is not UTF-8; export with --value binary"):
        table_rows(read, schema)


def test_conflicts_without_end_are_told(lake: Lake) -> None:
    target = lake.open(begin={0: 0})

    class Losing(Unsure):
        def append(self, rows_: Sequence[pa.RecordBatch], before: Position, after: Position) -> None:
            self.tries += 1
            raise CommitConflictError("the table")

    losing = Losing(target, is_after=False)
    with pytest.raises(CommitConflictError):
        commit(losing, [rows(0, 2)], {0: 0}, {0: 3})
    assert losing.tries == 5
