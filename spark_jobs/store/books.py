"""Stored states of user partitions and producers that a micro-batch touches: read at once, changed in memory, written back."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from spark_jobs.migration import PENDING
from spark_jobs.store.chain_rules import UNSEEN, PartitionState, ProducerState
from spark_jobs.store.engine import StoreConnection
from spark_jobs.store.statements import upsert

PartitionName = tuple[bytes, int]
ProducerName = tuple[bytes, int, int]

TEMPORARY = """
create temp table if not exists touched_partition (topic_id blob, partition integer, primary key (topic_id, partition)) without rowid;
create temp table if not exists touched_producer
    (topic_id blob, partition integer, producer_id integer, primary key (topic_id, partition, producer_id)) without rowid;
"""

_PARTITION = """p.topic_id, p.partition, p.start_offset, p.next_offset, p.since_offset, p.batches, p.records, p.bytes, p.last_append_ms,
    p.diskless_base, p.prefix_start, p.leader_epoch, p.stretch_base, p.newest_move, p.released_to, p.moved_ms, p.said_start,
    p.chained, p.block_offset, p.block_bytes"""
_READ_PARTITIONS = f"""select {_PARTITION} from touched_partition t cross join partition p
    where p.kpart = ? and p.topic_id = t.topic_id and p.partition = t.partition"""
_READ_TOPIC = f"select {_PARTITION} from partition p where kpart = ? and topic_id = ?"
_READ_PRODUCERS = """select p.topic_id, p.partition, p.producer_id, p.epoch, p.next_sequence, p.last_append_ms
    from touched_producer t cross join producer p
    where p.kpart = ? and p.topic_id = t.topic_id and p.partition = t.partition and p.producer_id = t.producer_id"""
_WRITE_PARTITION = upsert(
    "partition", "kpart,topic_id,partition",
    "kpart", "topic_id", "partition", "start_offset", "next_offset", "since_offset", "batches", "records", "bytes", "last_append_ms",
    "diskless_base", "prefix_start", "leader_epoch", "stretch_base", "newest_move", "released_to", "moved_ms", "said_start",
    "chained", "block_offset", "block_bytes",
)  # fmt: skip
_UNCHAIN = """update partition set chained = 0, leader_epoch = ?, diskless_base = nullif(diskless_base, ?), released_to = null
    where kpart = ?"""
_PRODUCER_KEY = ("kpart", "topic_id", "partition", "producer_id")
_WRITE_PRODUCER = upsert("producer", ",".join(_PRODUCER_KEY), *_PRODUCER_KEY, "epoch", "next_sequence", "last_append_ms")


class PartitionBook:
    """User partitions of one partition of the metadata topic; `states` are those read or made so far."""

    def __init__(self, db: StoreConnection, kpart: int, names: Collection[PartitionName]) -> None:
        self._db = db
        self._kpart = kpart
        self.states: dict[PartitionName, PartitionState] = {}
        if names:
            db.execute("delete from touched_partition")
            db.executemany("insert into touched_partition (topic_id, partition) values (?, ?)", sorted(names))
            self._take(db.execute(_READ_PARTITIONS, (kpart,)).fetchall())

    def _take(self, rows: Iterable[tuple[Any, ...]]) -> None:
        for topic_id, partition, *numbers, chained, block_offset, block_bytes in rows:
            name = (topic_id, partition)
            if name not in self.states:
                values = (*numbers, bool(chained), block_offset, block_bytes or 0)
                self.states[name] = PartitionState(*values)

    def read_topic(self, topic_id: bytes) -> list[PartitionName]:
        """Read all partitions of a topic; returns their names. None may be read again after it was dropped."""
        self._take(self._db.execute(_READ_TOPIC, (self._kpart, topic_id)).fetchall())
        return [name for name in self.states if name[0] == topic_id]

    def drop_topic(self, topic_id: bytes) -> None:
        """Forget all partitions of a topic."""
        for name in [name for name in self.states if name[0] == topic_id]:
            del self.states[name]
        self._db.execute("delete from partition where kpart = ? and topic_id = ?", (self._kpart, topic_id))

    def unchain(self) -> None:
        """Entries were lost: the next values of every partition are unknown, the state of its migration, and whether it is released."""
        for state in self.states.values():
            state.chained = False
            state.leader_epoch = UNSEEN
            state.base = None if state.base == PENDING else state.base
            state.released_to = None
            state.is_changed = True
        self._db.execute(_UNCHAIN, (UNSEEN, PENDING, self._kpart))

    def write(self) -> None:
        """Write what changed."""
        kpart = self._kpart
        rows = [
            (
                kpart, *name, state.start, state.next, state.since, state.batches, state.records, state.size_bytes, state.append_ms,
                state.base, state.prefix, state.leader_epoch, state.stretch_base, state.newest_move, state.released_to, state.moved_ms,
                state.said_start, int(state.chained), state.block_offset, state.block_bytes,
            )
            for name, state in self.states.items()
            if state.is_changed
        ]  # fmt: skip
        rows.sort(key=lambda row: row[1:3])
        self._db.executemany(_WRITE_PARTITION, rows)


class ProducerBook:
    """Producers of one partition of the metadata topic."""

    def __init__(self, db: StoreConnection, kpart: int, names: Collection[ProducerName]) -> None:
        self._db = db
        self._kpart = kpart
        self.states: dict[ProducerName, ProducerState] = {}
        if names:
            db.execute("delete from touched_producer")
            db.executemany("insert into touched_producer (topic_id, partition, producer_id) values (?, ?, ?)", sorted(names))
            for topic_id, partition, producer_id, epoch, following, append_time_ms in db.execute(_READ_PRODUCERS, (kpart,)).fetchall():
                self.states[(topic_id, partition, producer_id)] = ProducerState(epoch, following, append_time_ms, is_changed=False)

    def drop_topic(self, topic_id: bytes) -> None:
        """Forget the producers of a topic."""
        self._drop([name for name in self.states if name[0] == topic_id])
        self._db.execute("delete from producer where kpart = ? and topic_id = ?", (self._kpart, topic_id))

    def drop_partition(self, topic_id: bytes, partition: int) -> None:
        """Forget the producers of a partition."""
        self._drop([name for name in self.states if name[:2] == (topic_id, partition)])
        self._db.execute("delete from producer where kpart = ? and topic_id = ? and partition = ?", (self._kpart, topic_id, partition))

    def drop_idle(self, before_ms: int) -> None:
        """Forget producers without a batch since a time."""
        self._drop([name for name, state in self.states.items() if state.append_time_ms < before_ms])
        # The value in memory is newer than its row, and is written again.
        for state in self.states.values():
            state.is_changed = True
        self._db.execute("delete from producer where kpart = ? and last_append_ms < ?", (self._kpart, before_ms))

    def drop_all(self) -> None:
        """Entries were lost: nothing is known of any producer."""
        self.states.clear()
        self._db.execute("delete from producer where kpart = ?", (self._kpart,))

    def _drop(self, names: Iterable[ProducerName]) -> None:
        for name in names:
            del self.states[name]

    def write(self) -> None:
        """Write what changed."""
        kpart = self._kpart
        rows = [
            (kpart, *name, state.epoch, state.next_sequence, state.append_time_ms)
            for name, state in self.states.items()
            if state.is_changed
        ]
        rows.sort()
        self._db.executemany(_WRITE_PRODUCER, rows)
