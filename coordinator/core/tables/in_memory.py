"""The part of a coordinator's state that every decision needs, and the one place where it changes.

Two copies exist at a leader: the committed one, changed by what the log holds, and the speculative one, which has the
entries in flight applied on top and is what decisions look at. Both change through `HotState.apply` with the very
same records, so they agree once everything in flight is acknowledged; when a term ends the speculative copy is
dropped. Followers have the committed copy only.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from coordinator.core.directory.directory import UNDATED, Directory, apply_directory, date_deletions, forget_deletions
from coordinator.core.tables.scratch import Scratch
from coordinator.core.tables.tables import PartitionTable, ProducerTable, RememberedBatch
from coordinator.kafka.batches import LOG_APPEND_TIME, SEQUENCE_MASK, partition_key
from coordinator.kafka.names import topic_id_text
from records.file_columns import CommittedBatch, iterate
from records.levels import LEVEL_LATEST
from records.model import (
    FeatureLevelSet,
    FileCommitted,
    NoOp,
    PartitionCreated,
    ProducersExpired,
    Record,
    RecordsDeleted,
    SnapshotCommitted,
    SnapshotMark,
    TombstonesExpired,
    TopicDeleted,
    TransactionAborted,
)

BYTE_OFFSET_MAX = (1 << 31) - 1
"""Where in its file a batch may begin."""


class BrokenInvariant(Exception):
    """An invariant does not hold: this replica stops and keeps the evidence."""


class NotSupported(BrokenInvariant):
    """The log holds what this version cannot apply; a newer version wrote it. Building the state anew does not help."""


class Contradiction(Exception):
    """An entry says what the log before it rules out, so it is void (`core.contradiction`)."""


@dataclass(slots=True)
class Topic:
    """A topic with partitions here. `order_offset` is the newest directory entry that was obeyed."""

    topic_id: bytes
    name: str
    order_offset: int
    partitions: set[int] = field(default_factory=set)


@dataclass(slots=True)
class DeletedTopic:
    """A topic id that does not come back as long as it is remembered; `time_ms` is log time, UNDATED before the next file."""

    order_offset: int
    time_ms: int


@dataclass(slots=True)
class Touched:
    """Rows that changed since they were last taken for writing; a dropped producer is (row, partition row, producer id)."""

    partitions: set[int] = field(default_factory=set)
    producers: set[int] = field(default_factory=set)
    producers_dropped: list[tuple[int, int, int]] = field(default_factory=list)
    partitions_forgotten: list[int] = field(default_factory=list)
    topics: set[bytes] = field(default_factory=set)
    directory: bool = False


@dataclass(slots=True)
class HotState:
    """Tables of partitions and producers, topics, deleted topics, log time, and the directory in partition 0."""

    partitions: PartitionTable = field(default_factory=PartitionTable)
    producers: ProducerTable = field(default_factory=ProducerTable)
    topics: dict[bytes, Topic] = field(default_factory=dict)
    deleted_topics: dict[bytes, DeletedTopic] = field(default_factory=dict)
    undated: set[bytes] = field(default_factory=set)
    directory: Directory = field(default_factory=Directory)
    log_time_ms: int = 0
    touched: Touched = field(default_factory=Touched)
    scratch: Scratch = field(default_factory=Scratch)

    def copy(self) -> HotState:
        """An independent state with the same content; what was touched stays with the original."""
        topics = {i: Topic(t.topic_id, t.name, t.order_offset, set(t.partitions)) for i, t in self.topics.items()}
        return HotState(
            partitions=self.partitions.copy(),
            producers=self.producers.copy(),
            topics=topics,
            deleted_topics=dict(self.deleted_topics),
            undated=set(self.undated),
            directory=self.directory.copy(),
            log_time_ms=self.log_time_ms,
        )

    def take_touched(self) -> Touched:
        """The rows that changed since the last call."""
        touched, self.touched = self.touched, Touched()
        return touched

    def apply(self, record: Record, offset: int) -> bool:
        """Apply one record of the entry at `offset`, not one that only concerns files; returns whether the directory changed."""
        match record:
            case FileCommitted():
                return self._apply_file(record, offset)
            case PartitionCreated():
                self._apply_created(record)
            case TopicDeleted():
                self._apply_deleted(record)
            case RecordsDeleted():
                self._apply_records_deleted(record)
            case ProducersExpired():
                for row in self.producers.idle_since(record.before_ms).tolist():
                    self._drop_producer(row)
            case TombstonesExpired():
                return self._forget_deleted(record.before_ms)
            case NoOp() | SnapshotMark() | SnapshotCommitted() | TransactionAborted():
                pass
            case FeatureLevelSet() if record.level > LEVEL_LATEST:
                # Entries of that level follow, in other coordinators perhaps already: better to stop with the reason.
                raise NotSupported(
                    f"entry {offset} raises the schema level to {record.level}, this version has levels up to {LEVEL_LATEST}:"
                    " run the version that the other nodes run"
                )
            case _:
                if not apply_directory(self.directory, record, offset):
                    # Skipping what others apply would make replicas differ.
                    raise NotSupported(f"entry {offset} holds a {type(record).__name__}, which this version cannot apply")
                self.touched.directory = True
                return True
        return False

    def advance_time(self, first_ms: int, last_ms: int) -> bool:
        """Files were appended from `first_ms` to `last_ms`; returns whether the directory changed.

        The log has no other clock. A deletion gets the time of the first file behind it: the newest one before it may be
        days old on a quiet coordinator, and the deletion would be forgotten as soon as it was logged.
        """
        if self.undated:
            for topic_id in self.undated:
                self.deleted_topics[topic_id] = DeletedTopic(self.deleted_topics[topic_id].order_offset, first_ms)
            self.touched.topics |= self.undated
            self.undated.clear()
        is_directory_dated = bool(self.directory.undated)
        if is_directory_dated:
            date_deletions(self.directory, first_ms)
            self.touched.directory = True
        self.log_time_ms = max(self.log_time_ms, last_ms)
        return is_directory_dated

    def _forget_deleted(self, before_ms: int) -> bool:
        old = [topic_id for topic_id, gone in self.deleted_topics.items() if UNDATED < gone.time_ms < before_ms]
        for topic_id in old:
            del self.deleted_topics[topic_id]
        self.touched.topics.update(old)
        has_forgotten = forget_deletions(self.directory, before_ms)
        if has_forgotten:
            self.touched.directory = True
        return has_forgotten

    def _apply_created(self, record: PartitionCreated) -> None:
        topic = self.topics.get(record.topic_id)
        if topic is None:
            topic = self.topics[record.topic_id] = Topic(record.topic_id, record.name, record.order_offset)
            self.deleted_topics.pop(record.topic_id, None)
            self.undated.discard(record.topic_id)
        topic.order_offset = max(topic.order_offset, record.order_offset)
        self.touched.topics.add(record.topic_id)
        for partition in range(record.first_partition, record.first_partition + record.num_partitions):
            if partition not in topic.partitions:
                topic.partitions.add(partition)
                row = self.partitions.add(partition_key(record.topic_id, partition))
                self.touched.partitions.add(row)

    def _apply_deleted(self, record: TopicDeleted) -> None:
        self.deleted_topics[record.topic_id] = DeletedTopic(record.order_offset, UNDATED)
        self.undated.add(record.topic_id)
        self.touched.topics.add(record.topic_id)
        topic = self.topics.pop(record.topic_id, None)
        if topic is None:
            return
        rows = {self.partitions.forget(partition_key(record.topic_id, partition)) for partition in topic.partitions}
        gone = {row for row in rows if row is not None}
        for row in gone:
            for producer_row in list(self.producers.index.get(row, {}).values()):
                self._drop_producer(producer_row)
        self.touched.partitions -= gone
        self.touched.partitions_forgotten.extend(sorted(gone))

    def _apply_records_deleted(self, record: RecordsDeleted) -> None:
        row = self.partitions.index.get(partition_key(record.topic_id, record.partition))
        if row is None:
            return
        log_start = self.partitions.log_start.cells
        if record.new_log_start_offset > self.partitions.high_watermark.cells[row]:
            raise BrokenInvariant(
                f"records deleted up to {record.new_log_start_offset}, past the high watermark {self.partitions.high_watermark.cells[row]}"
            )
        log_start[row] = max(log_start[row], record.new_log_start_offset)
        self.touched.partitions.add(row)

    def _drop_producer(self, row: int) -> None:
        key = (self.producers.owner.cells[row], self.producers.producer.cells[row])
        self.producers.drop(row)
        self.touched.producers.discard(row)
        self.touched.producers_dropped.append((row, *key))

    def place(self, record: FileCommitted) -> list[tuple[int, CommittedBatch]]:
        """The accepted batches of a file, each with the row of its partition; changes nothing.

        Raises `Contradiction` when a partition does not exist, when offsets or sequences are not the next ones, each partition's and
        each producer's in their order, and when a batch begins beyond what a request can name and packed batches have room for.
        """
        placed: list[tuple[int, CommittedBatch]] = []
        due: dict[int, int] = {}
        last: dict[tuple[int, int], tuple[int, int]] = {}
        for batch in iterate(record):
            topic_id = record.topic_ids[batch.topic_index]
            row = self.partitions.index.get(partition_key(topic_id, batch.partition))
            if row is None:
                where = self.name_of(topic_id, batch.partition)
                raise Contradiction(f"file {record.object_key} commits to {where}, which does not exist here")
            expected = due.get(row, self.partitions.high_watermark.cells[row])
            if batch.base_offset != expected:
                where = self.name_of(topic_id, batch.partition)
                raise Contradiction(f"file {record.object_key} gives {where} offset {batch.base_offset}, {expected} is next")
            due[row] = batch.base_offset + batch.record_count
            if batch.byte_offset > BYTE_OFFSET_MAX:
                raise Contradiction(
                    f"file {record.object_key} has a batch at byte {batch.byte_offset}, the last possible is {BYTE_OFFSET_MAX}"
                )
            if batch.producer_id >= 0:
                producer = (row, batch.producer_id)
                known = last[producer] if producer in last else self._last_sequence(*producer)
                fault = None if known is None else _sequence_fault(known, batch.producer_epoch, batch.base_sequence)
                if fault is not None:
                    where = self.name_of(topic_id, batch.partition)
                    raise Contradiction(f"file {record.object_key}, producer {batch.producer_id} in {where}: {fault}")
                last[producer] = (batch.producer_epoch, batch.last_sequence)
            placed.append((row, batch))
        return placed

    def name_of(self, topic_id: bytes, partition: int) -> str:
        """A user partition for people."""
        topic = self.topics.get(topic_id)
        return f"{topic_id_text(topic_id) if topic is None else topic.name}-{partition}"

    def _last_sequence(self, row: int, producer_id: int) -> tuple[int, int] | None:
        """Epoch and last sequence of a producer, None when nothing is known of it."""
        slot = self.producers.find(row, producer_id)
        return None if slot is None else (self.producers.epoch.cells[slot], self.producers.last_sequence(slot))

    def _apply_file(self, record: FileCommitted, offset: int) -> bool:
        try:
            placed = self.place(record)
        except Contradiction as contradiction:
            raise BrokenInvariant(f"entry {offset} was let through though it cannot be applied: {contradiction}") from contradiction
        is_directory_dated = self.advance_time(record.append_time_ms, record.append_time_ms)
        partitions = self.partitions
        for row, batch in placed:
            next_offset = batch.base_offset + batch.record_count
            partitions.high_watermark.cells[row] = next_offset
            self.touched.partitions.add(row)
            append_time = record.append_time_ms if batch.timestamp_type == LOG_APPEND_TIME else -1
            timestamp = batch.timestamp_ms if append_time < 0 else append_time
            # The last offset of the first batch that has the greatest effective timestamp.
            if timestamp > partitions.max_timestamp.cells[row]:
                partitions.max_timestamp.cells[row] = timestamp
                partitions.max_timestamp_offset.cells[row] = next_offset - 1
            if batch.producer_id >= 0:
                producer = self.producers.add(row, batch.producer_id)
                remembered = RememberedBatch(batch.base_sequence, batch.last_sequence, batch.base_offset, append_time)
                self.producers.remember(producer, batch.producer_epoch, remembered, record.append_time_ms)
                self.touched.producers.add(producer)
        return is_directory_dated


def _sequence_fault(known: tuple[int, int], epoch: int, sequence: int) -> str | None:
    known_epoch, last_sequence = known
    if epoch < known_epoch:
        return f"epoch {epoch} after epoch {known_epoch}"
    expected = 0 if epoch > known_epoch else (last_sequence + 1) & SEQUENCE_MASK
    return None if sequence == expected else f"sequence {sequence} of epoch {epoch}, {expected} is next"
