"""Logs to scan: written entry by entry, or by real coordinators that live a random life; and ways to scan and look at them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import groupby, pairwise
from typing import NamedTuple

import pyarrow as pa

from coordinator.core.commands import (
    OK,
    AdoptPartition,
    CommitFile,
    RaiseSchemaLevel,
    ReleasedPartition,
    ReleasePartition,
    RemoveTopics,
    TopicRemoval,
)
from coordinator.core.events import Assigned, SchemaLevel, Unassigned
from coordinator.core.limits import Limits
from records import model
from records.codec import InvalidRecord, encode_entry, encode_key
from records.committed_files.codec import CommittedBatch, FileCommitted
from records.entry_key import EntryKey
from records.history import levels
from records.levels import LEVEL_LATEST
from records.log import RESTORED_KEY
from simulation.fakes.shard_harness import START_MS, HarnessReplica, World
from spark_jobs.scan import SUMMARY_SCHEMA, scan_function
from spark_jobs.scan.head import Head
from spark_jobs.store.engine import StorePlace, open_reader
from spark_jobs.store.judging import merge_judged
from spark_jobs.store.sink import Store
from tests.core.build import batch, commit, delete_records, place

INPUT_SCHEMA = pa.schema(
    [("partition", pa.int32()), ("offset", pa.int64()), ("key", pa.binary()), ("value", pa.binary()), ("timestamp_ms", pa.int64())]
)
TOPIC = bytes([7] * 16)
MASK = 0x7FFFFFFF


class Entry(NamedTuple):
    """One message of the metadata topic."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int


def values_of(records: Sequence[model.Record], level: int) -> list[bytes]:
    """The entry of records at a schema level, none when the level lacks what they say."""
    try:
        return [encode_entry(records, level)]
    except InvalidRecord:
        return []


class LogWriter:
    """Writes a log as a leader would, and whatever else a test wants; knows nothing of the rules."""

    def __init__(self, *, first_offset: int = 0, partitions: int = 3, restored: model.Restored | None = None) -> None:
        self.entries: list[Entry] = []
        self.first_offset = first_offset
        self.epoch, self.term, self.seq = 0, 0, 0
        self.now_ms = START_MS
        self.next: dict[tuple[bytes, int], int] = {}
        self.starts: dict[tuple[bytes, int], int] = {}
        self.files = 0
        self.level = 1
        if restored is not None:
            self.raw(encode_key(RESTORED_KEY), encode_entry([restored], 1))
            self.epoch = restored.epoch_floor
        if not first_offset:
            self.claim()
            self.add(self.creation(TOPIC, partitions), model.FeatureLevelSet(level=LEVEL_LATEST))
        self.level = LEVEL_LATEST

    @property
    def end(self) -> int:
        return self.first_offset + len(self.entries)

    def raw(self, key: bytes | None, value: bytes | None) -> int:
        """Append any message; returns its offset."""
        self.entries.append(Entry(self.end, key, value, self.now_ms))
        return self.end - 1

    def add(self, *records: model.Record) -> int:
        """Append an entry of the term in force, in turns at every schema level that has what it says."""
        self.seq += 1
        fit = [value for level in levels() if level <= self.level for value in values_of(records, level)]
        return self.raw(encode_key(EntryKey(self.epoch, self.term, self.seq)), fit[self.seq % len(fit)])

    def claim(self, node_id: int = 1) -> int:
        """A claim that comes into force."""
        self.epoch += 1
        self.term = 7_000_000_000_000 + self.epoch * 13
        self.seq = 0
        claim = model.LeadershipClaimed(epoch=self.epoch, term=self.term, node_id=node_id, rack="a", endpoints=[])
        return self.raw(encode_key(EntryKey(self.epoch, self.term, 0)), encode_entry([claim], self.level))

    def create(self, topic_id: bytes, partitions: int, name: str = "orders") -> int:
        return self.add(self.creation(topic_id, partitions, name))

    def await_partition(self, partition: int) -> int:
        """Create a classic partition that is to be migrated."""
        created = self.creation(TOPIC, 1)
        return self.add(replace(created, first_partition=partition, classic_pending=True))

    def creation(self, topic_id: bytes, partitions: int, name: str = "orders") -> model.PartitionCreated:
        return model.PartitionCreated(topic_id=topic_id, name=name, first_partition=0, num_partitions=partitions, order_offset=self.end)

    def file(
        self,
        runs: Sequence[tuple[int, int]],
        *,
        topic_id: bytes = TOPIC,
        gaps: Sequence[int] = (),
        log_start: int | None = None,
        producer: tuple[int, int, int] = (-1, -1, -1),
        **fields: object,
    ) -> FileCommitted:
        """A file with runs (partition, batches), each batch of 2 records and 10 bytes, that continue what was written before.

        `gaps` are the bytes before each batch, `producer` is id, epoch and sequence of the first one.
        """
        self.files += 1
        self.now_ms += 3
        batches: list[CommittedBatch] = []
        end = 0
        for partition, count in runs:
            where = (topic_id, partition)
            start = self.starts.get(where, 0) if log_start is None else log_start
            for _ in range(count):
                base, at = self.next.get(where, 0), end + (gaps[len(batches)] if gaps else 0)
                batches.append(CommittedBatch(*where, 0, base, 2, at, 10, self.now_ms, log_start=start))
                self.next[where], end = base + 2, at + 10
        if batches:
            batches[0] = batches[0]._replace(producer_id=producer[0], producer_epoch=producer[1], base_sequence=producer[2])
        record = FileCommitted(
            object_key=f"wal/{self.files:06}", object_format=1, file_size=10 * len(batches) + 5, uploader_broker_id=3, owner_ids=[0],
            created_ms=self.now_ms - 50, append_time_ms=self.now_ms, content_hash=bytes(16), batches=batches,
        )  # fmt: skip
        return replace(record, **fields)  # type: ignore[arg-type]

    def commit(self, *runs: tuple[int, int], **fields: object) -> int:
        """Append `file`."""
        return self.add(self.file(runs, **fields))  # type: ignore[arg-type]

    def produce(self, sequence: int, *, partition: int = 0, epoch: int = 0, producer_id: int = 5) -> int:
        """Append a file with one idempotent batch of 2 records."""
        return self.add(self.file([(partition, 1)], producer=(producer_id, epoch, sequence)))


def moved(record: FileCommitted, shifts: Sequence[int]) -> FileCommitted:
    """The file with other offsets: its runs of batches of one partition are shifted."""
    batches = []
    runs = groupby(record.batches, lambda one: (one.topic_id, one.partition, one.verdict))
    for (_, run), shift in zip(runs, shifts, strict=True):
        same = list(run)
        by = 0 if same[0].verdict else max(shift, -same[0].base_offset)
        batches += [one._replace(base_offset=one.base_offset + by) for one in same]
    return replace(record, batches=batches)


def refused(*verdicts: int) -> list[CommittedBatch]:
    """Batches that were not accepted: duplicates of offset 0, and others."""
    return [CommittedBatch(TOPIC, 0, verdict, 0 if verdict == 1 else -1, 2, 0, 10, START_MS) for verdict in verdicts]


TRANSACTIONS = ("ended", "noted", "claimed", "claimed and noted", "ended", "open")
"""What becomes of the transactions of a log: aborted by a note of their leader, cut off by a claim, ..."""


def with_transactions() -> LogWriter:
    """A log with all kinds of `TRANSACTIONS`, each with two deletions in three entries, and a file before each."""
    log = LogWriter(partitions=2)
    for how in TRANSACTIONS:
        log.commit((0, 1))
        known = (dict(log.next), dict(log.starts))
        log.add(model.TransactionBegan(name=how, num_chunks=3 if how == "ended" else -1))
        log.add(model.NoOp())
        log.raw(b"stray", None)
        for first in (model.FilesFenced(object_keys=[f"wal/{how} {log.end}"], created_ms=[1]), model.NoOp()):
            log.starts[(TOPIC, 0)] = log.starts.get((TOPIC, 0), 0) + 1
            log.add(first, model.RecordsDeleted(topic_id=TOPIC, partition=0, new_log_start_offset=log.starts[(TOPIC, 0)]))
        if how == "ended":
            log.add(model.TransactionEnded(num_chunks=3))
        elif how != "open":
            log.next, log.starts = known
            if how.startswith("claimed"):
                log.claim()
            if how.endswith("noted"):
                log.add(model.TransactionAborted(reason=how))
    return log


class Life:
    """Coordinators that live a random life over one log: fail-overs, late entries, deletes, duplicates, expiry, moves of partitions."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.world = World()
        self.limits = Limits(producer_id_expiration_ms=5000, expiration_interval_ms=1000, deleted_topic_retention_ms=4000)
        self.replicas = [self.world.add_replica(limits=self.limits) for _ in range(2)]
        self.leader = self.replicas[0]
        self.leader.lead()
        assert self.leader.ask(RaiseSchemaLevel(level=LEVEL_LATEST)) == [OK]
        for replica in self.replicas:
            replica.feed(SchemaLevel(LEVEL_LATEST))
        self.files = 0
        self.sequences: dict[tuple[bytes, int, int], tuple[int, int]] = {}
        self.topics: list[bytes] = []
        self.times: list[int] = []
        self.elsewhere: dict[tuple[bytes, int], ReleasedPartition] = {}
        """Partitions that are in another coordinator, and what they were when they went there."""
        self.last_move = 0
        self.new_topic()

    def new_topic(self) -> None:
        topic_id = bytes([len(self.times) % 251 + 1, len(self.topics) + 1] * 8)
        self.topics.append(topic_id)
        self.leader.ask(place(topic_id, 3, name=f"topic-{topic_id[0]}-{topic_id[1]}", order=len(self.world.log) + 1))

    def run(self, steps: int) -> list[Entry]:
        """Live on and return the log."""
        actions = [self.commit, self.delete_records, self.fail_over, self.delete_topic, self.wait, self.stray, self.move]
        for _ in range(steps):
            self.random.choices(actions, [12, 2, 1, 1, 2, 2, 3])[0]()
            self._note_times()
        return [Entry(offset, *message, self.times[offset]) for offset, message in enumerate(self.world.log)]

    def _note_times(self) -> None:
        self.times += [self.world.now_ms] * (len(self.world.log) - len(self.times))

    def command(self) -> CommitFile:
        rows = []
        for _ in range(self.random.randint(1, 5)):
            topic_id, partition = self.random.choice(self.topics), self.random.randrange(3)
            fields: dict[str, int] = {}
            count = self.random.randint(1, 4)
            if self.random.random() < 0.6:
                fields = self.idempotent(topic_id, partition, count)
            rows.append(batch(partition, count, topic_id=topic_id, size=self.random.randint(1, 40), **fields))
        self.files += 1
        return commit(f"wal/{self.files:05}", rows, owner_ids=self.random.choice([[0], [0, 1], [1, 0]]), created_ms=self.world.now_ms - 10)

    def idempotent(self, topic_id: bytes, partition: int, count: int) -> dict[str, int]:
        """The next batch of a producer, or one that was sent before, out of order or of another epoch."""
        producer_id = self.random.randint(1, 3)
        name = (topic_id, partition, producer_id)
        epoch, sequence = self.sequences.get(name, (0, self.random.choice([0, MASK - 3])))
        kind = self.random.random()
        if kind < 0.1:
            epoch, sequence = epoch + 1, 0
        elif kind < 0.2:
            sequence = (sequence + 7) & MASK
        if kind < 0.1 or kind >= 0.3:
            self.sequences[name] = (epoch, (sequence + count) & MASK)
        last = (sequence + count - 1) & MASK
        return {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence, "last_sequence": last}

    def commit(self) -> None:
        self.leader.submit(*[self.command() for _ in range(self.random.randint(1, 3))])
        self.world.settle()

    def delete_records(self) -> None:
        topic_id, partition = self.random.choice(self.topics), self.random.randrange(3)
        state = self.leader.view.state.hot.partitions
        row = state.find(topic_id, partition)
        assert row is not None
        self.leader.ask(delete_records((partition, self.random.randint(0, state.high_watermark.cells[row])), topic_id=topic_id))
        while self.leader.view.state.trimming:
            self.leader.tick()

    def move(self) -> None:
        """Let a partition go on elsewhere; or, once nothing is left of it here, come back from there, longer and with fewer producers."""
        topic_id, partition = self.random.choice(self.topics), self.random.randrange(3)
        self.last_move += 1
        there = self.elsewhere.pop((topic_id, partition), None)
        if there is None:
            release = ReleasePartition(topic_id=topic_id, partition=partition, move_id=self.last_move, to_coordinator=1)
            ((released,),) = self.leader.ask(release)
            assert isinstance(released, ReleasedPartition)
            assert released.outcome == OK, released.outcome
            self.elsewhere[topic_id, partition] = released
            return
        self.leader.ask(replace(delete_records((partition, there.end_offset), topic_id=topic_id), of_released=True))
        forgotten = self.random.randint(1, 3)
        end = there.end_offset + self.random.randrange(5)
        ended = model.EarlierStretch(coordinator_id=1, end_offset=end, move_id=self.last_move, time_ms=self.world.now_ms)
        back = replace(
            there,
            start_offset=self.random.randint(there.start_offset, end),
            end_offset=end,
            time_ms=self.world.now_ms,
            earlier=(*there.earlier, ended),
            producers=tuple(one for one in there.producers if one.producer_id != forgotten),
        )
        adopt = AdoptPartition(topic_id=topic_id, partition=partition, move_id=self.last_move, released=back)
        (outcome,) = self.leader.ask(adopt)
        assert outcome == OK, outcome

    def delete_topic(self) -> None:
        if len(self.topics) > 1:
            topic_id = self.topics.pop(self.random.randrange(len(self.topics)))
            self.elsewhere = {name: one for name, one in self.elsewhere.items() if name[0] != topic_id}
            self.leader.ask(RemoveTopics(removals=[TopicRemoval(topic_id=topic_id, order_offset=len(self.world.log))]))
            while self.leader.view.state.trimming:
                self.leader.tick()
        self._note_times()
        self.new_topic()

    def wait(self) -> None:
        self.leader.tick(self.random.choice([100, 1500, 6000]))
        self.world.settle()

    def fail_over(self) -> None:
        """The other replica takes over; what the old leader had under way lands behind its claim."""
        old, new = self.leader, next(replica for replica in self.replicas if replica is not self.leader)
        old.submit(self.command(), self.command())
        old.feed(Unassigned())
        new.feed(Assigned())
        if new.recover is not None:
            new.read()
            new.may_claim()
        new.land()
        self.world.settle()
        assert new.view.is_leading
        self.leader = new

    def stray(self) -> None:
        """Messages of outsiders; replicas read them like all others."""
        epoch, term, seq = self.leader.view.fence.epoch, self.leader.view.fence.term, self.leader.view.fence.seq
        keys = [None, b"stray", b"x" * 20, encode_key(EntryKey(epoch - 1, term ^ 1, seq + 1)), encode_key(EntryKey(epoch, term ^ 1, 0))]
        value = self.random.choice([None, b"", b"junk", self.world.log[0][1]])
        self.world.append(self.random.choice(keys), value)
        self.world.settle()

    def follower(self) -> HarnessReplica:
        """A replica that has read the whole log."""
        replica = self.world.add_replica(limits=self.limits)
        replica.read()
        while replica.view.state.trimming:
            replica.view.state.trim_step()
        return replica


# ---- scanning


def arrow(entries: Sequence[Entry], kpart: int = 0) -> pa.RecordBatch:
    """Entries as Spark hands them over."""
    columns = zip(*[(kpart, entry.offset, entry.key, entry.value, entry.timestamp_ms) for entry in entries], strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, INPUT_SCHEMA, strict=True)], schema=INPUT_SCHEMA
    )


def pieces(entries: Sequence[Entry], cuts: Iterable[int]) -> list[Sequence[Entry]]:
    """The entries cut at these places."""
    edges = [0, *sorted({cut for cut in cuts if 0 < cut < len(entries)}), len(entries)]
    return [entries[start:stop] for start, stop in pairwise(edges) if start < stop]


def scan(entries: Sequence[Entry], head: Head | None, arrow_cuts: Iterable[int] = (), kpart: int = 0) -> pa.Table:
    """The summary of some entries, handed over in the pieces that the cuts give."""
    heads = {} if head is None else {kpart: head}
    batches = [arrow(piece, kpart) for piece in pieces(entries, arrow_cuts)]
    return pa.Table.from_batches(list(scan_function(heads)(iter(batches))), SUMMARY_SCHEMA)


def follow(
    store: Store,
    entries: Sequence[Entry],
    *,
    cuts: Iterable[int] = (),
    arrow_cuts: Sequence[int] = (),
    now_ms: int | None = None,
    kpart: int = 0,
) -> None:
    """Scan and merge a log in micro-batches."""
    for piece in pieces(entries, cuts):
        heads = store.heads()
        summary = scan(piece, heads.get(kpart), arrow_cuts, kpart)

        def read_again(of: int, start: int, end: int, piece: Sequence[Entry] = piece) -> pa.Table:
            return pa.Table.from_batches([arrow([entry for entry in piece if start <= entry.offset < end], of)])

        seen_ms = entries[-1].timestamp_ms + 1000 if now_ms is None else now_ms
        merge_judged(store, summary, heads, read_again, {kpart: piece[-1].offset + 1}, seen_ms)


def rows(place: StorePlace, query: str, *parameters: object) -> list[tuple[object, ...]]:
    """Ask a store."""
    with closing(open_reader(place)) as db:
        return [tuple(row) for row in db.execute(query, parameters).fetchall()]


def findings(place: StorePlace) -> list[tuple[object, ...]]:
    """(offset, rule, expected, found) of all findings, by offset."""
    return rows(place, "select entry_offset, rule, expected, found from finding order by entry_offset, rule, expected, found")


_COMPARED = {
    "head": "kpart, next_offset, epoch, term, seq, from_offset, from_ms, append_ms, restarted_at",
    "activity_second": "*", "activity_topic": "*", "activity_partition": "*", "activity_uploader": "*", "total": "*", "topic": "*",
    "partition": "kpart, topic_id, partition, start_offset, next_offset, since_offset, batches, records, bytes, last_append_ms,"
    " diskless_base, prefix_start, leader_epoch, stretch_base, newest_move, released_to, moved_ms, said_start, chained",
    "migration_step": "*",
    "producer": "*", "deleted_topic": "*", "claim": "*", "node": "*",
    "happening": "*", "node_directory": "*", "replica_directory": "*", "feature": "*",
    "snapshot": "*", "open_transaction": "*", "held_entry": "*",
    "file": "kpart, object_key, entry_offset, append_ms, uploader, file_bytes, batches, live_batches, live_bytes, owners, next_owner,"
    " state, state_since_ms, created_ms",
    "finding": "kpart, entry_offset, rule, message, topic_id, partition, producer_id, object_key, expected, found",
    "quarantine": "kpart, entry_offset, error, size_bytes, first_bytes", "note": "kpart, entry_offset, text",
}  # fmt: skip


def content(place: StorePlace) -> dict[str, list[tuple[object, ...]]]:
    """Everything in the store that must not depend on how the log was cut; rows in an order of their own."""
    queries = {table: f"select {columns} from {table}" for table, columns in _COMPARED.items()}
    queries["histogram"] = "select * from histogram where name != 'freshness_ms'"
    return {table: sorted(rows(place, query), key=repr) for table, query in queries.items()}
