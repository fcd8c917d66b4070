"""The monitor's store that begins with a snapshot: behind it, it knows and finds what it does when it has read the whole log."""

from __future__ import annotations

from pathlib import Path

import pytest

from records.model import FilesFenced, NoOp
from spark_jobs.scan.blocks import unpack
from spark_jobs.snapshots.content import read_content
from spark_jobs.store.sink import StaleHeadsError, Store
from tests.spark.planted_violations import PLANTS, Plant
from tests.spark.scan_logs import Entry, LogWriter, findings, follow, rows
from tests.spark.test_verify_from_snapshot import end_of, snapshot_of
from tests.spark.written_states import write
from tests.sqlite.replicas import PARTITION

CHAINS = {
    "partition": "topic_id, partition, start_offset, next_offset, stretch_base, newest_move, released_to, moved_ms, chained",
    "producer": "topic_id, partition, producer_id, epoch, next_sequence, last_append_ms",
    "deleted_topic": "topic_id",
    "head": "next_offset, epoch, term, seq",
}


def known(folder: Path) -> dict[str, object]:
    """What a store knows that does not hang on where it began."""
    state: dict[str, object] = {table: sorted(rows(folder, f"select {columns} from {table}")) for table, columns in CHAINS.items()}
    live = "object_key, entry_offset, uploader, file_bytes, batches, live_batches, live_bytes, json(owners), created_ms, state"
    state["files"] = sorted(rows(folder, f"select {live} from file where state in ('live', 'deletable')"))
    state["gone"] = sorted(rows(folder, "select object_key, created_ms from file where state not in ('live', 'deletable')"))
    batches: dict[tuple[object, object], list[tuple[int, ...]]] = {}
    for topic_id, partition, runs in rows(folder, "select topic_id, partition, runs from run_block"):
        assert isinstance(runs, bytes)
        one = unpack(runs)
        columns = (one.base_offset, one.records, one.size_bytes, one.file, one.time_ms)
        batches.setdefault((topic_id, partition), []).extend(zip(*(column.tolist() for column in columns), strict=True))
    state["batches"] = {name: sorted(some) for name, some in batches.items()}
    return state


def check_alike(behind: Path, whole: Path) -> None:
    """A store that began with a snapshot knows what one knows that read the whole log.

    A store dates a deletion by its entry, a replica by the first file behind it: what the snapshot brought is forgotten later.
    """
    ours, all_of_it = known(behind), known(whole)
    assert set(all_of_it.pop("deleted_topic")) <= set(ours.pop("deleted_topic"))  # type: ignore[call-overload]
    for what in all_of_it:
        assert ours[what] == all_of_it[what], what


def found(folder: Path, begin: int) -> list[tuple[object, ...]]:
    """The findings from an entry on, but those that these logs are full of: their files are of another coordinator."""
    return [row for row in findings(folder) if int(str(row[0])) >= begin and row[1] != "owner-missing"]


@pytest.mark.parametrize("seed", range(6))
def test_a_store_that_begins_with_a_snapshot_knows_what_the_whole_log_says(tmp_path: Path, seed: int) -> None:
    written = write(tmp_path, seed, snapshots_at=(40, 90))
    entries = [Entry(offset, *entry, 1_700_000_000_000 + offset) for offset, entry in enumerate(written.log.entries)]
    with Store.open(tmp_path / "whole") as store:
        follow(store, entries, cuts=[50], kpart=PARTITION)
    for file in written.snapshots:
        end = end_of(file)
        folder = tmp_path / f"from-{end}"
        with Store.open(folder) as store:
            store.start_from(read_content(file.path), 0)
            follow(store, entries[end:], cuts=[20], kpart=PARTITION)
        check_alike(folder, tmp_path / "whole")
        assert found(folder, end) == found(tmp_path / "whole", end)
        assert rows(folder, "select from_offset, snapshot_offset, restarted_at from head") == [(end, end, None)]
        counted = rows(folder, "select value from total where name = 'entries'")
        assert counted == [(len(entries) - end,)]


@pytest.mark.parametrize("seed", range(2))
def test_a_store_that_stood_still_goes_on_with_a_snapshot_and_names_what_it_missed(tmp_path: Path, seed: int) -> None:
    written = write(tmp_path, seed, snapshots_at=(90,))
    entries = [Entry(offset, *entry, 1_700_000_000_000 + offset) for offset, entry in enumerate(written.log.entries)]
    end = end_of(written.snapshots[0])
    with Store.open(tmp_path / "whole") as store:
        follow(store, entries, kpart=PARTITION)
    with Store.open(tmp_path / "behind") as store:
        follow(store, entries[:30], kpart=PARTITION)
        store.start_from(read_content(written.snapshots[0].path), 0)
        follow(store, entries[end:], kpart=PARTITION)
    check_alike(tmp_path / "behind", tmp_path / "whole")
    missed = [(end, "log-lost", 30, end)]
    assert sorted(found(tmp_path / "behind", 30)) == sorted([*missed, *found(tmp_path / "whole", end)])
    assert rows(tmp_path / "behind", "select value from total where name = 'entries'") == [(len(entries) - end + 30,)]
    counted = rows(tmp_path / "behind", "select (select value from total where name = 'findings') = (select count(*) from finding)")
    assert counted == [(1,)]


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_whatever_is_wrong_behind_a_snapshot_is_found(plant: Plant, tmp_path: Path) -> None:
    log = LogWriter(partitions=3)
    log.commit((0, 2), (1, 2))
    file = snapshot_of(log, tmp_path)
    before = list(log.entries)
    plant(log)
    log.add(NoOp())
    if log.first_offset or log.entries[: len(before)] != before:
        pytest.skip("this one begins a log of its own")
    for name in ("whole", "behind"):
        with Store.open(tmp_path / name) as store:
            if name == "behind":
                store.start_from(read_content(file.path), 0)
            follow(store, log.entries[len(before) if name == "behind" else 0 :], kpart=PARTITION)
    assert found(tmp_path / "behind", len(before)) == found(tmp_path / "whole", len(before))
    assert known(tmp_path / "behind") == known(tmp_path / "whole")


def test_a_partition_that_was_read_does_not_begin_with_a_snapshot(tmp_path: Path) -> None:
    log = LogWriter(partitions=3)
    log.commit((0, 2))
    content = read_content(snapshot_of(log, tmp_path).path)
    with Store.open(tmp_path) as store:
        store.start_from(content, 0)
        with pytest.raises(StaleHeadsError):
            store.start_from(content, 0)
    assert rows(tmp_path, "select count(*) from head") == [(1,)]


def test_a_partition_that_does_not_exist_is_known_as_such_behind_a_snapshot(tmp_path: Path) -> None:
    log = LogWriter(partitions=2)
    log.commit((0, 2))
    file, end = snapshot_of(log, tmp_path), log.end
    log.commit((7, 1))
    with Store.open(tmp_path) as store:
        store.start_from(read_content(file.path), 0)
        follow(store, log.entries[end:], kpart=PARTITION)
    assert [rule for _, rule, _, _ in found(tmp_path, end)] == ["unknown-partition"]


def test_a_file_that_was_fenced_though_it_lives_is_fenced_behind_a_snapshot_too(tmp_path: Path) -> None:
    log = LogWriter(partitions=2)
    log.commit((0, 2))
    log.add(FilesFenced(object_keys=["wal/000001", "never"], created_ms=[1, 2]))
    content = read_content(snapshot_of(log, tmp_path).path)
    with Store.open(tmp_path / "behind") as store:
        store.start_from(content, 0)
    with Store.open(tmp_path / "whole") as store:
        follow(store, log.entries, kpart=PARTITION)
    query = "select object_key, state, live_batches, created_ms from file order by object_key"
    assert rows(tmp_path / "behind", query) == rows(tmp_path / "whole", query)
