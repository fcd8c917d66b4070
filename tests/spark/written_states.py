"""Random logs, and the state databases of replicas that applied them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence, Set
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path

import apsw
import pyarrow as pa

from cli.log.replica_state import database_replica, open_state
from coordinator.adapters.sqlite import StateDatabase, StateDatabases
from coordinator.core.yielding import no_rest
from records.codec import encode_entry, encode_key
from records.committed_files.codec import FileCommitted, begins_like_a_file
from records.committed_files.lines import BatchVerdict
from records.entry_key import EntryKey
from records.history import levels
from records.model import (
    LeadershipClaimed,
    NoOp,
    PartitionAdopted,
    PartitionCreated,
    Record,
    SnapshotMark,
    TransactionAborted,
    TransactionBegan,
    TransactionEnded,
)
from records.snapshot import SnapshotFile, write_snapshot
from spark_jobs.log_begin import Starts, WholeLog
from spark_jobs.verify.compare import ReplicaComparison, compare
from spark_jobs.verify.job import Rebuilder
from spark_jobs.verify.judged import PLAIN_COMMIT
from spark_jobs.verify.passes import find_deletions, rebuild_states
from spark_jobs.verify.tally import Group
from tests.spark.scan_logs import refused, values_of
from tests.sqlite.random_log import LogModel
from tests.sqlite.replicas import CLUSTER_ID, PARTITION, TOPIC_ID, Replica

TERM = -(1 << 62)
HUGE = PartitionCreated(topic_id=b"t" * 16, name="t", first_partition=0, num_partitions=(1 << 31) - 1, order_offset=1)
ENTRIES = 150

Entry = tuple[bytes | None, bytes | None]


def claim(epoch: int, term: int) -> Entry:
    record = LeadershipClaimed(epoch=epoch, term=term, node_id=1, rack="", endpoints=[])
    return encode_key(EntryKey(epoch, term, 0)), encode_entry([record])


@dataclass(slots=True)
class Log:
    """A metadata partition in memory, and the passes over it as Spark would run them."""

    entries: list[Entry]
    rows_per_batch: int = 7

    def batches(self, end: int, *, begin: int = 0, plain_commits: bool) -> Iterator[pa.RecordBatch]:
        for start in range(begin, end, self.rows_per_batch):
            part = self.entries[start : min(end, start + self.rows_per_batch)]
            values = [PLAIN_COMMIT if not plain_commits and value is not None and begins_like_a_file(value) else value for _, value in part]
            yield pa.record_batch(
                {
                    "partition": pa.array([PARTITION] * len(part), pa.int32()),
                    "offset": pa.array(range(start, start + len(part)), pa.int64()),
                    "key": pa.array([key for key, _ in part], pa.binary()),
                    "value": pa.array(values, pa.binary()),
                }
            )


class LocalRebuilder(Rebuilder):
    """Runs the passes in this process."""

    def __init__(self, log: Log, starts: Starts | None = None) -> None:
        super().__init__(session=None, place=None, starts=starts or WholeLog())  # type: ignore[arg-type]
        self.log = log

    def ship(self, snapshot: Path) -> None:
        """It is read where it is."""

    def _entries(self, ends: Mapping[int, int], *, plain_commits: bool) -> Iterator[pa.RecordBatch]:
        return self.log.batches(ends[PARTITION], begin=self.begin_of(PARTITION, ends[PARTITION]).offset, plain_commits=plain_commits)

    def deletions_of(self, ends: Mapping[int, int]) -> list[dict[str, object]]:
        batches = find_deletions(self._void, self.with_snapshots(ends))(self._entries(ends, plain_commits=False))
        return [row for batch in batches for row in batch.to_pylist()]

    def states_of(
        self, ends: Mapping[int, int], deletions: Mapping[int, bytes], wanted: Mapping[int, Set[Group]]
    ) -> list[dict[str, object]]:
        batches = rebuild_states(deletions, wanted, self.with_snapshots(ends))(self._entries(ends, plain_commits=True))
        return [row for batch in batches for row in batch.to_pylist()]


@dataclass(slots=True)
class Written:
    """A log, and the state database of the replica that applied it; some of it may not be trimmed yet."""

    log: Log
    path: Path
    files: list[tuple[int, FileCommitted]]
    spans: list[tuple[int, int]]
    snapshots: list[SnapshotFile]

    def compare(self, starts: Starts | None = None, log_start: int = 0) -> ReplicaComparison:
        """Compare the replica with the log, whose beginning may be deleted."""
        with open_state(self.path) as state:
            (result,) = compare(LocalRebuilder(self.log, starts), [database_replica("n", state)], {PARTITION: log_start})
        return result


class RandomWriter:
    """Writes a random log, with void entries and transactions in it, and applies what counts to a replica with a state database."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.rng, self.others = random.Random(seed), random.Random(seed + 2000)
        self.model = LogModel(random.Random(seed + 1000), files_per_record=self.rng.choice([0.5, 0.8]))
        stores = StateDatabases(folder, boot_id="boot")
        self.replica = Replica(lambda: stores.open(PARTITION, CLUSTER_ID, TOPIC_ID))
        self.entries = [claim(1, 5), claim(2, 6), claim(4, 9), claim(3, 7), claim(3, 8), claim(4, TERM)]
        self.epoch, self.term, self.seq = 4, TERM, 0
        self.files: list[tuple[int, FileCommitted]] = []
        self.spans: list[tuple[int, int]] = []
        """Where transactions began, and the first entry behind them."""

    @property
    def end(self) -> int:
        return len(self.entries)

    def step(self) -> None:
        """Write an entry, or some."""
        kind = self.rng.random()
        if kind < 0.1:
            self.void()
        elif kind < 0.15:
            self.transaction()
        else:
            records = self.records(self.model)
            self.apply([(self.add(*records), records)])

    def void(self) -> None:
        """A message that does not count."""
        foreign = [(None, b"x"), (b"stray", None), (encode_key(EntryKey(self.epoch, 3, 1)), b"")]
        self.entries.append(self.rng.choice([self.entries[-1], claim(self.epoch, 11), claim(self.epoch + 5, 9), *foreign]))

    def records(self, model: LogModel) -> list[Record]:
        record = model.next_record()
        if isinstance(record, FileCommitted) and self.others.random() < 0.4:
            # A batch that was not accepted has a place in the request as the others have.
            other = self.others.choice(refused(BatchVerdict.DUPLICATE, BatchVerdict.SEQUENCE_GAP))
            at = self.others.randrange(len(record.batches) + 1)
            record = replace(record, batches=[*record.batches[:at], other, *record.batches[at:]])
        is_beside = self.rng.random() < 0.1 and not isinstance(record, FileCommitted)
        records: list[Record] = [NoOp(), record, SnapshotMark(mark_id=self.seq)] if is_beside else [record]
        if isinstance(record, PartitionAdopted):
            records += model.producers_of(record)
        return records

    def add(self, *records: Record) -> int:
        """Write an entry of the term in force, at any schema level that has what it says; returns its offset."""
        self.seq += 1
        value = self.rng.choice([value for level in levels() for value in values_of(records, level)])
        self.entries.append((encode_key(EntryKey(self.epoch, self.term, self.seq)), value))
        return self.end - 1

    def transaction(self, how: str | None = None) -> None:
        """A transaction that is ended, aborted by a note or by a claim, or left open."""
        how = how or self.rng.choice(["ended", "ended", "noted", "claimed", "claimed and noted"])
        model = self.model
        if how != "ended":
            # What does not count must not have happened for the model either; some of it is tried again, some is not.
            model = deepcopy(self.model)
            if self.rng.random() < 0.8:
                model.rng = random.Random(self.rng.random())
        began, count = self.end, self.rng.randint(0, 4)
        self.add(TransactionBegan(name="t", num_chunks=self.rng.choice([count, -1])))
        chunks: list[tuple[int, list[Record]]] = []
        for _ in range(count):
            if self.rng.random() < 0.3:
                self.void()
            # Files are never in a transaction.
            share, model.files_per_record, model.may_remove = model.files_per_record, 0.0, False
            records = self.records(model)
            model.files_per_record, model.may_remove = share, True
            chunks.append((self.add(*records), records))
        if how == "open":
            return
        if how == "ended":
            end = self.add(TransactionEnded(num_chunks=count))
            self.apply(chunks)
            self.replica.state.skip_entry(end)
        if how.startswith("claimed"):
            self.epoch, self.term, self.seq = self.epoch + 1, self.rng.randrange(1 << 40, 1 << 62), 0
            self.entries.append(claim(self.epoch, self.term))
            self.spans.append((began, self.end))
        if how.endswith("noted"):
            self.add(TransactionAborted(reason="cut off"))
        if not how.startswith("claimed"):
            self.spans.append((began, self.end))

    def apply(self, entries: list[tuple[int, list[Record]]]) -> None:
        for offset, records in entries:
            self.replica.apply(records, offset, self.entries[offset][1])
            self.files += [(offset, record) for record in records if isinstance(record, FileCommitted)]
            if self.rng.random() < 0.2:
                self.replica.state.trim_step(rows_max=self.rng.choice([1, 3, 1000]))
        if self.rng.random() < 0.1:
            self.replica.flush()

    def snapshot(self, folder: Path) -> SnapshotFile:
        """Take a snapshot of the replica's state behind one more entry."""
        self.apply([(self.add(NoOp()), [NoOp()])])
        self.replica.position = (self.epoch, self.term, self.seq)
        return self.pinned(folder)

    def pinned(self, folder: Path) -> SnapshotFile:
        """Take a snapshot of the state as it is."""
        self.replica.flush()
        assert isinstance(self.replica.store, StateDatabase)
        pinned = self.replica.store.pin()
        try:
            return write_snapshot(folder, pinned.head, pinned.tables(), log_timestamp_ms=0, rest=no_rest)
        finally:
            pinned.close()


def write(folder: Path, seed: int, *, is_trimmed: bool = False, snapshots_at: Sequence[int] = ()) -> Written:
    """Write a random log and the state database of a replica that applied it, and snapshots when the log has so many entries."""
    writer = RandomWriter(folder, seed)
    snapshots: list[SnapshotFile] = []
    while writer.end < ENTRIES:
        writer.step()
        if len(snapshots) < len(snapshots_at) and writer.end >= snapshots_at[len(snapshots)]:
            snapshots.append(writer.snapshot(folder))
    writer.apply([(writer.add(NoOp()), [NoOp()])])  # the replica's offset is behind everything that counts
    replica = writer.replica
    replica.position = (writer.epoch, writer.term, writer.seq)
    if seed % 2:
        writer.transaction("open")
    if is_trimmed:
        replica.trim()
    replica.flush()
    replica.store.close(clean=True)
    path = folder / f"partition-{PARTITION}.db"
    return Written(Log(writer.entries, writer.rng.choice([1, 7, 1000])), path, writer.files, writer.spans, snapshots)


def change(path: Path, statement: str, *values: object) -> int:
    """Change a state database; returns how many rows."""
    connection = apsw.Connection(str(path))
    try:
        connection.execute(statement, values)  # type: ignore[arg-type]
        return connection.changes()
    finally:
        connection.close()


def claimed(*records: Sequence[Record]) -> list[Entry]:
    """A claim, and entries of its term."""
    return [claim(1, 5), *((encode_key(EntryKey(1, 5, seq)), encode_entry(some)) for seq, some in enumerate(records, 1))]
