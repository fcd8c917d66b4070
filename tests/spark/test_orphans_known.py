"""Which files the log knows, without Spark: what random logs leave is what replicas of them know."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from cli.log.replica_state import open_state
from records.levels import LEVEL_LATEST
from records.model import FeatureLevelSet, FilesFenced, FilesRemoved, Record, TransactionAborted, TransactionBegan, TransactionEnded
from spark_jobs.log_begin import Start
from spark_jobs.orphans.inventory import OBJECTS_SCHEMA, Inventory, InventoryError, ObjectWriter
from spark_jobs.orphans.known import EMPTY, FAULT, LIVE, known_at_start, known_files
from spark_jobs.verify.passes import find_deletions
from tests.spark.written_states import Entry, Log, claim, claimed, write
from tests.sqlite.replicas import PARTITION


def known(log: Log) -> list[dict[str, object]]:
    """The rows of a whole log."""
    end = len(log.entries)
    return known_behind(log, {}, 0, end)


def known_behind(log: Log, starts: Mapping[int, Start], begin: int, end: int) -> list[dict[str, object]]:
    """The rows of a log that is read from an offset on."""
    deletions = find_deletions({}, starts)(log.batches(end, begin=begin, plain_commits=False))
    (found,) = [row for batch in deletions for row in batch.to_pylist()]
    batches = known_files({PARTITION: found["deletions"]}, starts)(log.batches(end, begin=begin, plain_commits=True))
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("seed", range(6))
def test_known_files_are_those_of_a_replica(tmp_path: Path, seed: int) -> None:
    written = write(tmp_path, seed)
    rows = known(written.log)
    with open_state(written.path) as state:
        files = {(file.object_key, LIVE if file.live_batches else EMPTY, file.file_id) for file, _ in state.files()}
        stones = {(stone.object_key, stone.reason, -1) for stone in state.tombstones()}
    assert {(row["object_key"], row["state"], row["file_offset"]) for row in rows} == files | stones
    assert len(rows) == len(files) + len(stones)


def test_files_of_a_snapshot_and_of_the_rest_are_those_of_the_log(tmp_path: Path) -> None:
    written = write(tmp_path, 3, snapshots_at=(50, 100))
    whole = sorted(known(written.log), key=str)
    for file in written.snapshots:
        begin = int(file.path.name[:20])
        starts = {PARTITION: Start(begin, file.path)}
        assert sorted(known_behind(written.log, starts, begin, len(written.log.entries)), key=str) == whole
    with_snapshot = sorted(known_at_start(starts, PARTITION), key=str)
    assert with_snapshot == sorted(known(Log(written.log.entries[:begin])), key=str)


def test_a_log_that_cannot_be_followed_is_told() -> None:
    (row,) = known(Log(claimed([FeatureLevelSet(level=LEVEL_LATEST + 1)])))
    assert row["state"] == FAULT
    assert "replicas of this version stop here" in str(row["object_key"])


FENCED: list[Record] = [FilesFenced(object_keys=["a"], created_ms=[1])]
REMOVED: list[Record] = [FilesRemoved(object_keys=["b"])]
BEGAN: list[Record] = [TransactionBegan(name="t", num_chunks=1)]
ENDED: list[Record] = [TransactionEnded(num_chunks=1)]
NOTE: list[Record] = [TransactionAborted(reason="no")]


@pytest.mark.parametrize(
    ("log", "keys"),
    [
        (claimed(FENCED, BEGAN, REMOVED), {"a"}),
        (claimed(FENCED, BEGAN, REMOVED, ENDED), {"a", "b"}),
        (claimed(FENCED, BEGAN, REMOVED, NOTE), {"a"}),
        ([*claimed(FENCED, BEGAN, REMOVED), claim(2, 6)], {"a"}),
    ],
    ids=["open", "ended", "aborted", "cut off by a claim"],
)
def test_a_transaction_that_has_not_ended_says_nothing_of_files(log: list[Entry], keys: set[str]) -> None:
    assert {str(row["object_key"]) for row in known(Log(log))} == keys


def test_a_listing_is_written_chunk_by_chunk(tmp_path: Path) -> None:
    file = tmp_path / "listing.parquet"
    with ObjectWriter(file) as writer:
        writer.write([("a", 1, 2), ("b", 3, 4)])
        writer.write([])
        writer.write([("c", 5, 6)])
    assert writer.objects == 3
    table = pa.parquet.read_table(file)
    assert table.schema == OBJECTS_SCHEMA
    assert table.to_pydict() == {"key": ["a", "b", "c"], "size_bytes": [1, 3, 5], "modified_ms": [2, 4, 6]}


def test_a_name_that_does_not_tell_the_format_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "inventory"
    file.write_bytes(b"")
    with pytest.raises(InventoryError, match="--inventory-format"):
        Inventory(path=file).guess_format()
    assert Inventory(path=tmp_path / "i.csv.gz").guess_format() == "csv"
    assert Inventory(path=tmp_path / "i.jsonl").guess_format() == "json"
