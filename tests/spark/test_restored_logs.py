"""Jobs on a log that goes on from a snapshot of another one: states, files and chains are those of a replica that did so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cli.log.replica_state import database_replica, open_state
from coordinator.adapters.sqlite import StateDatabases
from coordinator.core.log_entry import entry_hash
from coordinator.runtime.loading.restored import moved_head
from records.codec import encode_entry
from records.entry_key import encode_key
from records.log import RESTORED_KEY
from records.model import NoOp, Restored
from records.snapshot import SnapshotFile, SnapshotReader
from spark_jobs.find_start import SnapshotStarts
from spark_jobs.log_begin import LogPrunedError, Start, WholeLog
from spark_jobs.snapshots.content import read_start
from spark_jobs.store.sink import Store
from spark_jobs.verify.compare import compare
from tests.spark.scan_logs import Entry, follow, rows
from tests.spark.test_store_from_snapshot import found
from tests.spark.test_verify_from_snapshot import IDENTITY, Folder, a_bit
from tests.spark.written_states import LocalRebuilder, Log, RandomWriter, claim
from tests.sqlite.replicas import CLUSTER_ID, PARTITION, TOPIC_ID, Replica

FLOOR, BASE, TERM = 1004, 5_000, 77


class RestoredLog:
    """A log that begins with a restore, the snapshot that it names, and the state database of the replica that applied it."""

    def __init__(self, folder: Path, seed: int, *, entries: int = 90) -> None:
        writer = RandomWriter(folder, seed)
        while writer.end < entries:
            writer.step()
        self.snapshot: SnapshotFile = writer.snapshot(folder)
        writer.replica.store.close(clean=True)
        with SnapshotReader(self.snapshot.path) as reader:
            head = reader.head
            self.restored = Restored(
                restore_id=b"r" * 16,
                old_cluster_id=CLUSTER_ID,
                old_topic_id=TOPIC_ID,
                metadata_partition=PARTITION,
                partition_count=4,
                old_end_offset=head.end_offset,
                epoch_floor=FLOOR,
                file_id_base=BASE,
                location=self.snapshot.path.name,
                size_bytes=self.snapshot.size_bytes,
                sha256=self.snapshot.sha256,
                digest=head.digest,
            )
            first = (encode_key(RESTORED_KEY), encode_entry([self.restored]))
            (folder / "restored").mkdir()
            stores = StateDatabases(folder / "restored", boot_id="boot")
            stores.build(PARTITION, moved_head(head, CLUSTER_ID, TOPIC_ID, entry_hash(*first)), reader.rows())
        writer.replica = Replica(lambda: stores.open(PARTITION, CLUSTER_ID, TOPIC_ID))
        writer.entries = [first, claim(FLOOR + 1, TERM)]
        writer.epoch, writer.term, writer.seq = FLOOR + 1, TERM, 0
        writer.replica.apply([self.restored], 0, first[1])
        while writer.end < entries:
            writer.step()
        writer.apply([(writer.add(NoOp()), [NoOp()])])
        writer.replica.position = (writer.epoch, writer.term, writer.seq)
        writer.replica.flush()
        self.second = writer.pinned(folder / "restored")
        writer.replica.store.close(clean=True)
        self.log = Log(writer.entries)
        self.path = folder / "restored" / f"partition-{PARTITION}.db"
        self._kept = folder / "kept"
        self._kept.mkdir()

    def starts(self) -> SnapshotStarts:
        """Where jobs begin."""
        return SnapshotStarts(Folder([self.snapshot.path]), IDENTITY, self._kept, newest_first=True, restored={PARTITION: self.restored})

    def begin(self) -> Start:
        """Where a job begins."""
        return self.starts().begin(PARTITION, 0, len(self.log.entries))


@pytest.mark.parametrize("seed", range(4))
def test_log_and_replica_agree_over_a_restore(tmp_path: Path, seed: int) -> None:
    made = RestoredLog(tmp_path, seed)
    with open_state(made.path) as state:
        (result,) = compare(LocalRebuilder(made.log, made.starts()), [database_replica("n", state)], {PARTITION: 0})
    assert result.agree, result.difference
    assert result.contradictions == {}


@pytest.mark.parametrize("seed", range(4))
def test_the_monitor_judges_a_restored_log_by_the_snapshot_it_goes_on_from(tmp_path: Path, seed: int) -> None:
    made = RestoredLog(tmp_path, seed)
    entries = [Entry(offset, *entry, 1_700_000_000_000 + offset) for offset, entry in enumerate(made.log.entries)]
    for name, is_seeded in (("seeded", True), ("unread", False)):
        with Store.open(tmp_path / name) as store:
            if is_seeded:
                store.start_from(read_start(made.begin()), 0)
            follow(store, entries, cuts=[30], kpart=PARTITION)
    with open_state(made.path) as state:
        partitions = {(one.key[:16], int.from_bytes(one.key[16:]), one.high_watermark) for one in state.partitions()}
        live = {(file.object_key, file.file_id - BASE, file.live_batches) for file, _ in state.files() if file.live_batches}
    assert set(rows(tmp_path / "seeded", "select topic_id, partition, next_offset from partition")) == partitions
    assert set(rows(tmp_path / "seeded", "select object_key, entry_offset, live_batches from file where state = 'live'")) == live
    # Without the snapshot nothing is known of what was before, and nothing is called wrong because of it.
    strange = ("void-carries-live-term", "epoch-jump")
    assert [row for name in ("seeded", "unread") for row in found(tmp_path / name, 0) if row[1] not in strange] == []


def test_a_snapshot_of_a_restored_log_says_where_ids_go_on(tmp_path: Path) -> None:
    made = RestoredLog(tmp_path, 1)
    content = read_start(Start(int(made.second.path.name[:20]), made.second.path))
    assert content.file_id_base == BASE
    with open_state(made.path) as state:
        replica = database_replica("n", state)
        kept = tmp_path / "kept"
        starts = SnapshotStarts(Folder([made.second.path]), IDENTITY, kept, newest_first=True)
        (result,) = compare(LocalRebuilder(made.log, starts), [replica], {PARTITION: 1})
    assert result.agree, result.difference


def test_a_restored_log_begins_with_the_very_snapshot_that_it_names(tmp_path: Path) -> None:
    made = RestoredLog(tmp_path, 1)
    assert made.begin().restored == made.restored
    other = made.restored
    for wrong in (replace(other, digest=bytes(16)), replace(other, sha256=bytes(32)), replace(other, old_cluster_id="x")):
        starts = SnapshotStarts(Folder([made.snapshot.path]), IDENTITY, tmp_path, newest_first=True, restored={PARTITION: wrong})
        with pytest.raises(LogPrunedError, match="goes on from a snapshot of another log"):
            starts.begin(PARTITION, 0, 9)
    with pytest.raises(LogPrunedError, match=made.restored.location):
        WholeLog({PARTITION: made.restored}).begin(PARTITION, 0, 9)
    a_bit(made.snapshot, tmp_path)
    with pytest.raises(LogPrunedError, match=made.restored.location):
        made.begin()


def test_a_partition_whose_loss_was_accepted_begins_with_nothing(tmp_path: Path) -> None:
    lost = Restored(
        restore_id=bytes(16), old_cluster_id="c", old_topic_id=bytes(16), metadata_partition=PARTITION, partition_count=4,
        old_end_offset=0, epoch_floor=FLOOR, file_id_base=1 << 40, location="", size_bytes=0, sha256=bytes(32), digest=bytes(16),
    )  # fmt: skip
    assert WholeLog({PARTITION: lost}).begin(PARTITION, 0, 9) == Start()
    assert SnapshotStarts(Folder([]), IDENTITY, tmp_path, newest_first=True, restored={PARTITION: lost}).begin(PARTITION, 0, 9) == Start()
