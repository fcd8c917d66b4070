"""`verify` from a snapshot on, without Spark: it finds what it finds in the whole log, and refuses snapshots that are none."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest

from coordinator.adapters.sqlite.schema import VERSION
from coordinator.core.yielding import no_rest
from records.codec import decode_entry, decode_key
from records.model import LeadershipClaimed, NoOp
from records.snapshot import SnapshotFile, SnapshotHead, SnapshotReader, TableRows, write_snapshot
from spark_jobs.find_start import LogIdentity, SnapshotStarts, SnapshotStoreError, StoredCopy
from spark_jobs.log_begin import LogPrunedError, Start
from spark_jobs.snapshots.content import TABLE_VERSION
from spark_jobs.verify.compare import compare
from spark_jobs.verify.job import Rebuilt
from tests.spark.planted_violations import PLANTS, Plant
from tests.spark.scan_logs import LogWriter
from tests.spark.test_verify_rebuild import FLIPS
from tests.spark.written_states import LocalRebuilder, Log, RandomWriter, change, write
from tests.sqlite.replicas import CLUSTER_ID, PARTITION, TOPIC_ID

IDENTITY = LogIdentity(CLUSTER_ID, TOPIC_ID)
SPLITS = (20, 60, 61, 110)


class Folder:
    """Snapshots that lie in a folder as they would in an object store."""

    def __init__(self, files: Iterable[Path]) -> None:
        self.files = {file.name: file for file in files}
        self.fetched: list[str] = []

    def list(self, identity: LogIdentity, kpart: int) -> Sequence[StoredCopy]:
        assert (identity, kpart) == (IDENTITY, PARTITION)
        return [StoredCopy(int(name[:20]), int(name[21:31]), name) for name in self.files]

    def fetch(self, location: str, target: Path) -> None:
        self.fetched.append(location)
        shutil.copy(self.files[location], target)


class NoStore:
    """An object store that does not answer."""

    def list(self, identity: LogIdentity, kpart: int) -> Sequence[StoredCopy]:
        raise SnapshotStoreError(f"snapshots of {kpart} cannot be listed: no route to host")

    def fetch(self, location: str, target: Path) -> None:
        raise AssertionError(location)


def starts_of(files: Iterable[SnapshotFile], folder: Path, *, newest_first: bool = False) -> SnapshotStarts:
    kept = folder / "kept"
    kept.mkdir(exist_ok=True)
    return SnapshotStarts(Folder(file.path for file in files), IDENTITY, kept, newest_first=newest_first)


def end_of(file: SnapshotFile) -> int:
    return int(file.path.name[:20])


def test_the_tables_that_are_read_are_those_of_the_service() -> None:
    assert TABLE_VERSION == VERSION


@pytest.mark.parametrize("seed", range(8))
def test_a_snapshot_and_the_rest_of_the_log_are_the_whole_log(tmp_path: Path, seed: int) -> None:
    written = write(tmp_path, seed, is_trimmed=seed % 3 == 0, snapshots_at=SPLITS)
    whole = written.compare()
    assert whole.agree, whole.difference
    for file in written.snapshots:
        result = written.compare(starts_of([file], tmp_path), log_start=1)
        assert result.agree, result.difference
        assert (result.begin, result.digest) == (end_of(file), whole.digest)
        behind = {offset: why for offset, why in whole.contradictions.items() if offset >= end_of(file)}
        assert result.contradictions == behind


@pytest.mark.parametrize("flip", ["partition", "producer", "lost file", "lost counter", "tombstone", "timestamp", "term"])
def test_one_flipped_row_is_named_from_a_snapshot_on_as_from_the_whole_log(tmp_path: Path, flip: str) -> None:
    written = write(tmp_path, 6, is_trimmed=True, snapshots_at=SPLITS)
    statement, kind = FLIPS[flip]
    assert change(written.path, statement) == 1
    from_snapshot = written.compare(starts_of(written.snapshots, tmp_path), log_start=1)
    assert from_snapshot.agree is False
    assert from_snapshot.differences[0].kind == kind
    assert from_snapshot.differences == written.compare().differences


def test_the_state_of_a_replica_that_stands_at_a_snapshot_is_the_snapshots(tmp_path: Path) -> None:
    written = write(tmp_path, 2, snapshots_at=SPLITS)
    end = end_of(written.snapshots[1])
    ended: list[Rebuilt] = []
    for starts, log_start in ((None, 0), (starts_of([written.snapshots[1]], tmp_path), 1)):
        rebuilder = LocalRebuilder(written.log, starts)
        assert rebuilder.begin(PARTITION, log_start, end).offset == (end if starts else 0)
        ended.append(rebuilder.rebuild({PARTITION: end})[PARTITION])
    assert ended[0].tally.groups == ended[1].tally.groups
    assert ended[1].fault == ""


def snapshot_of(writer: LogWriter, folder: Path) -> SnapshotFile:
    """The snapshot that a replica takes which applied a log without anything wrong in it."""
    random = RandomWriter(folder, 0)
    last = None
    for entry in writer.entries:
        records, last = decode_entry(entry.value or b""), decode_key(entry.key)
        if not isinstance(records[0], LeadershipClaimed):
            random.replica.apply(list(records), entry.offset, entry.value)
    assert last is not None
    random.replica.position = last
    return random.pinned(folder)


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_whatever_contradicts_the_log_is_found_behind_a_snapshot_too(plant: Plant, tmp_path: Path) -> None:
    writer = LogWriter(partitions=3)
    writer.commit((0, 2), (1, 2))
    file = snapshot_of(writer, tmp_path)
    before = list(writer.entries)
    assert end_of(file) == len(before)
    plant(writer)
    writer.add(NoOp())
    writer.commit((1, 1))
    if writer.first_offset or writer.entries[: len(before)] != before:
        pytest.skip("this one begins a log of its own, or has a hole, which ends every rebuild")
    ends = {PARTITION: writer.end}
    log = Log([(entry.key, entry.value) for entry in writer.entries])
    whole = LocalRebuilder(log).rebuild(ends)[PARTITION]
    behind = LocalRebuilder(log, starts_of([file], tmp_path))
    assert behind.begin(PARTITION, 1, writer.end).offset == end_of(file)
    found = behind.rebuild(ends)[PARTITION]
    assert (found.fault, found.contradictions) == (whole.fault, whole.contradictions)
    assert found.tally.groups == whole.tally.groups


# ---- which snapshot is taken


def rewritten(
    file: SnapshotFile,
    folder: Path,
    head: Callable[[SnapshotHead], SnapshotHead] = lambda head: head,
    rows: Callable[[TableRows], TableRows] = lambda rows: rows,
) -> None:
    """Put another whole snapshot in the place of one."""
    with SnapshotReader(file.path) as reader:
        made = write_snapshot(folder, head(reader.head), map(rows, list(reader.rows())), log_timestamp_ms=0, rest=no_rest)
    made.path.replace(file.path)


def a_bit(file: SnapshotFile, folder: Path) -> None:
    data = bytearray(file.path.read_bytes())
    data[len(data) // 2] ^= 4
    file.path.write_bytes(data)


def cut(size_bytes: int) -> Callable[[SnapshotFile, Path], None]:
    """Leave so many bytes of a file; less than 0: take so many from its end."""

    def damage(file: SnapshotFile, _: Path) -> None:
        file.path.write_bytes(file.path.read_bytes()[:size_bytes])

    return damage


def one_more(rows: TableRows) -> TableRows:
    """Rows with one number of a column changed."""
    if rows.table != "partition":
        return rows
    high_watermark = [int(one) + 1 for one in rows.columns["high_watermark"]]
    return rows._replace(columns={**rows.columns, "high_watermark": high_watermark})


def lost(name: str) -> Callable[[TableRows], TableRows]:
    """Rows of a table whose ids are others."""

    def change_ids(rows: TableRows) -> TableRows:
        return (
            rows._replace(columns={**rows.columns, "id": [int(one) + 10**6 for one in rows.columns["id"]]}) if rows.table == name else rows
        )

    return change_ids


BAD: dict[str, tuple[Callable[[SnapshotFile, Path], None], str]] = {
    "one bit": (a_bit, "batch at byte"),
    "cut off": (cut(-30), "batch at byte"),
    "empty": (cut(0), "incomplete"),
    "another cluster": (lambda file, folder: rewritten(file, folder, lambda head: head._replace(cluster_id="other")), "this is cluster"),
    "another topic": (lambda file, folder: rewritten(file, folder, lambda head: head._replace(topic_id=bytes(16))), "this is cluster"),
    "another partition": (lambda file, folder: rewritten(file, folder, lambda head: head._replace(metadata_partition=0)), "partition 0"),
    "another end": (lambda file, folder: rewritten(file, folder, lambda head: head._replace(end_offset=3)), "its name says otherwise"),
    "newer tables": (lambda file, folder: rewritten(file, folder, lambda head: head._replace(table_version=99)), "have version 99"),
    "another digest": (lambda file, folder: rewritten(file, folder, lambda head: head._replace(digest=bytes(16))), "its head says 0000"),
    "another row": (lambda file, folder: rewritten(file, folder, rows=one_more), "its rows have digest"),
    "rows of no partition": (lambda file, folder: rewritten(file, folder, rows=lost("partition")), "has no"),
    "batches of no file": (lambda file, folder: rewritten(file, folder, rows=lost("file")), "batches are of the file"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_snapshot_is_refused_by_name_and_the_older_one_is_used(name: str, tmp_path: Path) -> None:
    # A log that has partitions and batches at both snapshots.
    written = write(tmp_path, 2, snapshots_at=(40, 90))
    older, newer = written.snapshots
    damage, says = BAD[name]
    (tmp_path / "damaged").mkdir()
    damage(newer, tmp_path / "damaged")
    result = written.compare(starts_of(written.snapshots, tmp_path, newest_first=True), log_start=1)
    assert (result.agree, result.begin) == (True, end_of(older))
    alone = written.compare(starts_of([newer], tmp_path), log_start=1)
    assert alone.agree is None
    assert newer.path.name in alone.difference
    assert says in alone.difference
    assert "begins at offset 1" in alone.difference


CHOICES: dict[str, tuple[int, int, bool, int | None]] = {
    "the log is whole": (0, 999, True, -1),
    "the newest": (1, 999, True, 2),
    "the oldest": (1, 999, False, 0),
    "the newest that is not too far on": (1, 100, True, 1),
    "none is behind the log's start": (998, 999, True, None),
}


@pytest.mark.parametrize("name", CHOICES)
def test_which_of_good_snapshots_is_taken(name: str, tmp_path: Path) -> None:
    snapshots = write(tmp_path, 5, snapshots_at=(40, 70, 120)).snapshots
    log_start, end, newest_first, expected = CHOICES[name]
    starts = starts_of(snapshots, tmp_path, newest_first=newest_first)
    if expected is None:
        with pytest.raises(LogPrunedError, match="the object store has none"):
            starts.begin(PARTITION, log_start, end)
    else:
        assert starts.begin(PARTITION, log_start, end).offset == (end_of(snapshots[expected]) if expected >= 0 else 0)


def test_each_snapshot_is_fetched_and_proven_once(tmp_path: Path) -> None:
    good, bad = write(tmp_path, 5, snapshots_at=(40, 90)).snapshots
    a_bit(bad, tmp_path)
    source = Folder([good.path, bad.path])
    (tmp_path / "kept").mkdir()
    starts = SnapshotStarts(source, IDENTITY, tmp_path / "kept", newest_first=True)
    assert starts.begin(PARTITION, 1, 999) == starts.begin(PARTITION, 1, 998) != Start()
    assert sorted(source.fetched) == [good.path.name, bad.path.name]


def test_an_object_store_that_does_not_answer_is_named(tmp_path: Path) -> None:
    written = write(tmp_path, 5)
    result = written.compare(SnapshotStarts(NoStore(), IDENTITY, tmp_path, newest_first=False), log_start=1)
    assert result.agree is None
    assert "no route to host" in result.difference
    assert compare(LocalRebuilder(written.log), [], {}) == []
