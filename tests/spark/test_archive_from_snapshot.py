"""An archive that begins with a snapshot has of live data what one of the whole log has: each record once, under its file."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from cli.log.replica_state import open_state
from spark_jobs.archive.columns import APPLIED, SCHEMA
from spark_jobs.archive.rows import archive_function, split
from spark_jobs.archive.snapshot_rows import snapshot_rows
from spark_jobs.archive.table import ArchiveTable
from spark_jobs.scan.head import Head
from spark_jobs.snapshots.content import read_content
from tests.spark.test_verify_from_snapshot import end_of
from tests.spark.written_states import Log, Written, write
from tests.sqlite.replicas import PARTITION

Row = dict[str, object]
Place = tuple[object, object]


def of_log(log: Log, heads: Mapping[int, Head]) -> list[Row]:
    """The rows of a log from its heads on."""
    begin = heads[PARTITION].next_offset if heads else 0
    entries = log.entries[begin:]
    batch = pa.record_batch(
        {
            "partition": pa.array([PARTITION] * len(entries), pa.int32()),
            "offset": pa.array(range(begin, len(log.entries)), pa.int64()),
            "key": pa.array([key for key, _ in entries], pa.binary()),
            "value": pa.array([value for _, value in entries], pa.binary()),
            "timestamp_ms": pa.array(range(len(entries)), pa.int64()),
        }
    )
    rows: list[Row] = split(pa.Table.from_batches(list(archive_function(heads, {})(iter([batch]))), SCHEMA)).rows.to_pylist()
    return rows


def live_records(written: Written, rows: Iterable[Row]) -> dict[Place, dict[int, object]]:
    """The file of every live record by partition and offset; a record that two rows have is an error."""
    with open_state(written.path) as state:
        starts = {(_text(one.key[:16]), int.from_bytes(one.key[16:])): (one.log_start, one.high_watermark) for one in state.partitions()}
    found: dict[Place, dict[int, object]] = {name: {} for name in starts}
    for row in rows:
        name = (row["topic_id"], row["partition"])
        if row["record"] == "FileCommitted" and row["verdict"] == APPLIED and name in starts:
            for offset in range(int(str(row["base_offset"])), int(str(row["next_offset"]))):
                if offset >= starts[name][0]:
                    assert offset not in found[name]
                    found[name][offset] = row["object_key"]
    return found


def _text(topic_id: bytes) -> str:
    return base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode()


@pytest.mark.parametrize("seed", range(6))
def test_live_data_is_there_once_whether_the_archive_began_with_a_snapshot_or_not(tmp_path: Path, seed: int) -> None:
    written = write(tmp_path, seed, snapshots_at=(50, 100))
    whole = of_log(written.log, {})
    for file in written.snapshots:
        content = read_content(file.path)
        head = content.head
        from_snapshot = [row for batch in snapshot_rows(content, None) for row in batch.to_pylist()]
        behind = {PARTITION: Head(next_offset=head.end_offset, epoch=head.epoch, term=head.term, seq=head.seq)}
        rows = [*from_snapshot, *of_log(written.log, behind)]
        assert live_records(written, rows) == live_records(written, whole)
        assert sum(int(str(row["batches"])) for row in from_snapshot) == sum(int(chunk.live.sum()) for chunk in content.batches())
        assert {row["snapshot"] for row in from_snapshot} <= {end_of(file)}
        assert len({(row["kpart"], row["offset"], row["record_number"], row["run_number"]) for row in from_snapshot}) == len(from_snapshot)
        for name in ("append_time", "uploader", "file_bytes"):
            known = {row["object_key"]: row[name] for row in whole if row["record"] == "FileCommitted"}
            assert all(known[row["object_key"]] == row[name] for row in from_snapshot), name


def test_of_entries_between_a_table_and_a_snapshot_live_files_alone_are_added(tmp_path: Path) -> None:
    """The archive stood still for too long: what it has of earlier files is not added again."""
    written = write(tmp_path, 4, snapshots_at=(100,))
    content = read_content(written.snapshots[0].path)
    stood_at = 60
    before = [row for row in of_log(written.log, {}) if int(str(row["offset"])) < stood_at]
    between = [row for batch in snapshot_rows(content, stood_at) for row in batch.to_pylist()]
    head = content.head
    behind = of_log(written.log, {PARTITION: Head(next_offset=head.end_offset, epoch=head.epoch, term=head.term, seq=head.seq)})
    assert min(int(str(row["offset"])) for row in between) >= stood_at
    assert live_records(written, [*before, *between, *behind]) == live_records(written, of_log(written.log, {}))


def test_rows_of_a_snapshot_and_the_head_behind_it_are_one_commit(tmp_path: Path) -> None:
    content = read_content(write(tmp_path, 4, snapshots_at=(100,)).snapshots[0].path)
    table = ArchiveTable.open(str(tmp_path / "table"), "meta", "id", {})
    head = Head(next_offset=content.head.end_offset, epoch=content.head.epoch, term=content.head.term, seq=content.head.seq)
    version = DeltaTable(tmp_path / "table").version()
    table.write(pa.RecordBatchReader.from_batches(SCHEMA, snapshot_rows(content, None)), {}, {PARTITION: head})
    assert table.heads(PARTITION + 1) == {PARTITION: head}
    assert DeltaTable(tmp_path / "table").version() == version + 1
    assert DeltaTable(tmp_path / "table").to_pyarrow_table().num_rows == sum(batch.num_rows for batch in snapshot_rows(content, None))
