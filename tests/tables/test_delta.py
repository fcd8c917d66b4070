"""A Delta table with one writer: rows and position move in one commit, and of two writers the second is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from tables.delta import DeltaContent, DeltaSink
from tables.errors import CommitConflictError, OtherContentError, RivalWriterError, TableError

SCHEMA = pa.schema([pa.field("offset", pa.int64()), pa.field("date", pa.date32())])
CONTENT = DeltaContent(name="orders", identity={"topic_id": "one", "cluster_id": "here"}, what="exports", schema=SCHEMA)


def rows(first: int, last: int) -> pa.Table:
    return pa.table({"offset": list(range(first, last + 1)), "date": [None] * (last - first + 1)}, SCHEMA)


def offsets(place: Path) -> list[int]:
    return sorted(DeltaTable(place).to_pyarrow_table().column("offset").to_pylist())


def open_sink(place: Path, content: DeltaContent = CONTENT) -> DeltaSink:
    return DeltaSink.open(str(place), content, {}, {"at": 0})


def test_rows_and_position_move_in_one_commit_and_a_checkpoint_keeps_the_position(tmp_path: Path) -> None:
    sink = open_sink(tmp_path)
    assert sink.number("at") == 0
    sink.append(rows(0, 2), {"at": 0}, {"at": 3})
    assert DeltaTable(tmp_path).version() == 1
    sink.table.create_checkpoint()
    found = DeltaSink.find(str(tmp_path), CONTENT, {})
    assert found is not None
    assert found.number("at") == 3
    assert found.number("other") is None
    assert offsets(tmp_path) == [0, 1, 2]


def test_a_writer_that_was_overtaken_is_refused(tmp_path: Path) -> None:
    first, second = open_sink(tmp_path), open_sink(tmp_path)
    first.append(rows(0, 2), {"at": 0}, {"at": 3})
    with pytest.raises(RivalWriterError, match=r"another process writes .*: its at is 3, not 0; stop one of them"):
        second.append(rows(0, 2), {"at": 0}, {"at": 3})
    assert offsets(tmp_path) == [0, 1, 2]


def during(rows_: pa.Table, work: Callable[[], None]) -> pa.RecordBatchReader:
    """Rows that are read after something else was done."""

    def batches() -> Iterator[pa.RecordBatch]:
        # delta-rs reads rows on a thread that may not begin a write.
        with ThreadPoolExecutor(1) as other:
            other.submit(work).result()
        yield from rows_.to_batches()

    return pa.RecordBatchReader.from_batches(SCHEMA, batches())


def test_of_two_writers_that_commit_at_once_the_second_is_refused(tmp_path: Path) -> None:
    first, second = open_sink(tmp_path), open_sink(tmp_path)
    racing = during(rows(0, 2), lambda: second.append(rows(0, 4), {"at": 0}, {"at": 5}))
    with pytest.raises(CommitConflictError, match="another commit of the table came first"):
        first.append(racing, {"at": 0}, {"at": 3})
    assert offsets(tmp_path) == [0, 1, 2, 3, 4]


def test_the_library_alone_would_take_a_lower_position(tmp_path: Path) -> None:
    """The reason why `append` compares first; once this fails the comparison is not needed any more."""
    open_sink(tmp_path).append(rows(0, 2), {"at": 0}, {"at": 3})
    lower = CommitProperties(app_transactions=[Transaction("at", 1)], max_commit_retries=0)
    write_deltalake(DeltaTable(tmp_path), rows(0, 0), mode="append", commit_properties=lower)
    assert DeltaTable(tmp_path).transaction_version("at") == 1


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (replace(CONTENT, identity={"topic_id": "two", "cluster_id": "here"}), "exports topic orders with topic id one, .*recreated"),
        (replace(CONTENT, identity={"topic_id": "one", "cluster_id": "there"}), "not orders with topic id one, cluster id there"),
        (replace(CONTENT, name="clicks"), "exports topic orders .*not clicks"),
        (replace(CONTENT, schema=SCHEMA.append(pa.field("more", pa.string()))), "has other columns"),
    ],
)
def test_a_table_of_other_content_is_refused(tmp_path: Path, other: DeltaContent, told: str) -> None:
    open_sink(tmp_path)
    with pytest.raises(OtherContentError, match=told):
        open_sink(tmp_path, other)


@pytest.mark.parametrize("description", [None, "sales", "[]", json.dumps({"topic_id": "one"})])
def test_a_table_of_others_is_refused(tmp_path: Path, description: str | None) -> None:
    DeltaTable.create(tmp_path, SCHEMA, name="orders", description=description)
    with pytest.raises(TableError, match=r"nothing in its description says that it exports a topic; name an empty folder"):
        open_sink(tmp_path)


def test_a_position_that_would_expire_is_refused(tmp_path: Path) -> None:
    open_sink(tmp_path).table.alter.set_table_properties({"delta.setTransactionRetentionDuration": "interval 7 days"})
    with pytest.raises(TableError, match="the position of its writer expires; remove the property"):
        open_sink(tmp_path)


def test_compaction_joins_files_and_keeps_the_position(tmp_path: Path) -> None:
    sink = open_sink(tmp_path)
    sink.append(rows(0, 2), {"at": 0}, {"at": 3})
    assert sink.compact(None) == "0 files joined into 0"
    sink.append(rows(3, 4), {"at": 3}, {"at": 5})
    assert sink.compact(0) == "2 files joined into 1, 2 deleted"
    sink.refresh()
    assert sink.number("at") == 5
    assert offsets(tmp_path) == [0, 1, 2, 3, 4]


def test_what_is_no_place_of_a_table_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(TableError, match="file"):
        open_sink(tmp_path / "file")
    with pytest.raises(TableError, match="nowhere://bucket/table"):
        DeltaSink.open("nowhere://bucket/table", CONTENT, {})
