"""The part of a coordinator's state that every decision needs, and the one place where it changes.

Two copies exist at a leader: the committed one, changed by what the log holds, and the overlay, which has the entries in flight on top and
on which the leader decides. Files change them in `core.files` (decided into the overlay, applied to the committed copy), all other records
in `HotState.apply`. They agree once everything in flight is acknowledged; when a term ends the overlay is dropped. Followers have the
committed copy only.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

import numpy as np

from coordinator.core.commands import LogOrigin
from coordinator.core.directory.content import Restoration
from coordinator.core.directory.directory import UNDATED, Directory, apply_directory, date_deletions, forget_deletions, reopen_orders
from coordinator.core.moves import NO_MOVE, WHOLE, Released, Stretch
from coordinator.core.tables.diskless_log import MIGRATION_RECORDS, UNSET, MigrationRecord, apply_migration, facts_of, seed_producers
from coordinator.core.tables.stretches import release
from coordinator.core.tables.tables import Int64s, PartitionTable, ProducerTable
from coordinator.kafka.batches import partition_key
from records.levels import LEVEL_LATEST
from records.model import (
    DisklessLogReset,
    FeatureLevelSet,
    FilesFenced,
    FilesHandedOver,
    FilesRemoved,
    NoOp,
    PartitionAdopted,
    PartitionCreated,
    PartitionReleased,
    ProducersAdopted,
    ProducersExpired,
    Record,
    RecordsDeleted,
    Restored,
    RestoreFinished,
    SnapshotCommitted,
    SnapshotMark,
    TombstonesExpired,
    TopicDeleted,
    TransactionAborted,
)

SNAPSHOTS_REMEMBERED = 3
"""Two are kept for replicas; the one before them is known until its object is removed."""


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
    """The changes since they were last taken for writing, besides rows of partitions and producers, which their tables note.

    A dropped producer is (row, partition row, producer id).
    """

    producers_dropped: list[int] = field(default_factory=list)
    partitions_forgotten: list[int] = field(default_factory=list)
    topics: set[bytes] = field(default_factory=set)
    content: bool = False
    """Whether the directory, the committed snapshots, the restore or the stretches changed."""


@dataclass(slots=True)
class HotState:
    """Tables of partitions and producers, topics, deleted topics, log time, and the directory in partition 0."""

    partitions: PartitionTable = field(default_factory=PartitionTable)
    producers: ProducerTable = field(default_factory=ProducerTable)
    topics: dict[bytes, Topic] = field(default_factory=dict)
    deleted_topics: dict[bytes, DeletedTopic] = field(default_factory=dict)
    undated: set[bytes] = field(default_factory=set)
    directory: Directory = field(default_factory=Directory)
    snapshots: tuple[SnapshotCommitted, ...] = ()
    """The newest committed snapshots, the oldest first."""
    restoration: Restoration | None = None
    """The restore that the log began with."""
    stretches: dict[bytes, Stretch] = field(default_factory=dict)
    """The partitions that moved, by key."""
    newest_move: int = NO_MOVE
    """The newest move of which a step was taken here; it may be forgotten with its topic when the state is loaded."""
    log_time_ms: int = 0
    touched: Touched = field(default_factory=Touched)

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
            snapshots=self.snapshots,
            restoration=self.restoration,
            stretches=dict(self.stretches),
            newest_move=self.newest_move,
            log_time_ms=self.log_time_ms,
        )

    @property
    def file_id_base(self) -> int:
        """The id of a file, or of an order of the directory, less the offset of its entry.

        It is the one rule that makes ids of offsets. Ids of a restored log go on from those of the log before it.
        """
        return 0 if self.restoration is None else self.restoration.begun.file_id_base

    def has_changed_rows(self) -> bool:
        """Whether rows of partitions or producers changed since they were last taken for writing."""
        return self.partitions.rows.has_changed() or self.producers.rows.has_changed()

    def take_touched(self) -> Touched:
        """Return the changes since the last call, and begin to note anew."""
        touched, self.touched = self.touched, Touched()
        return touched

    def apply(self, record: Record, offset: int) -> bool:
        """Apply one record of the entry at `offset`; returns whether the directory changed. Those about files change nothing here."""
        match record:
            case PartitionCreated():
                self._apply_created(record)
            case TopicDeleted():
                self._apply_deleted(record)
            case RecordsDeleted():
                self._apply_records_deleted(record)
            case record if isinstance(record, MIGRATION_RECORDS):
                self._apply_migration(record)
            case PartitionReleased():
                self._apply_released(record, offset)
            case PartitionAdopted():
                self._apply_adopted(record)
            case ProducersAdopted():
                self._apply_producers(record)
            case ProducersExpired():
                self._drop_producers(self.producers.idle_since(record.before_ms))
            case TombstonesExpired():
                return self._forget_deleted(record.topics_before_ms)
            case NoOp() | SnapshotMark() | TransactionAborted() | FilesFenced() | FilesRemoved() | FilesHandedOver():
                pass
            case SnapshotCommitted():
                self._apply_snapshot(record)
            case Restored():
                self._apply_restored(record)
                return True
            case RestoreFinished():
                self._apply_restore_finished(record)
            case FeatureLevelSet() if record.level > LEVEL_LATEST:
                # Entries of that level follow, in other coordinators perhaps already: better to stop with the reason.
                raise NotSupported(
                    f"entry {offset} raises the schema level to {record.level}, this version has levels up to {LEVEL_LATEST}:"
                    " run the version that the other nodes run"
                )
            case _:
                if not apply_directory(self.directory, record, offset + self.file_id_base):
                    # Skipping what others apply would make replicas differ.
                    raise NotSupported(f"entry {offset} holds a {type(record).__name__}, which this version cannot apply")
                self.touched.content = True
                return True
        return False

    def advance_time(self, first_ms: int, last_ms: int) -> bool:
        """Files were appended from `first_ms` to `last_ms`; returns whether the directory changed.

        The log has no other clock. A deletion gets the time of the next file: the newest one before it may be
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
            self.touched.content = True
        self.log_time_ms = max(self.log_time_ms, last_ms)
        return is_directory_dated

    def _forget_deleted(self, before_ms: int) -> bool:
        old = [topic_id for topic_id, gone in self.deleted_topics.items() if UNDATED < gone.time_ms < before_ms]
        for topic_id in old:
            del self.deleted_topics[topic_id]
        self.touched.topics.update(old)
        has_forgotten = forget_deletions(self.directory, before_ms)
        if has_forgotten:
            self.touched.content = True
        return has_forgotten

    def _apply_snapshot(self, record: SnapshotCommitted) -> None:
        """Keep the newest; one that is no newer than those (it was taken by an earlier leader) is of no use."""
        if not self.snapshots or record.end_offset > self.snapshots[-1].end_offset:
            self.snapshots = (*self.snapshots, record)[-SNAPSHOTS_REMEMBERED:]
            self.touched.content = True

    def _apply_restored(self, record: Restored) -> None:
        """The log goes on from a snapshot of another one, of which the committed snapshots speak.

        Snapshots of several coordinators are of several moments: owners are sent every order of the directory once more.
        """
        self.restoration = Restoration(record, is_finished=False)
        self.snapshots = ()
        reopen_orders(self.directory)
        self.touched.content = True

    def _apply_restore_finished(self, record: RestoreFinished) -> None:
        if self.restoration is not None and self.restoration.begun.restore_id == record.restore_id:
            self.restoration = Restoration(self.restoration.begun, is_finished=True)
            self.touched.content = True

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
                if record.classic_pending:
                    self.partitions.first_offset.cells[row] = UNSET
                self.partitions.rows.touch(row)

    def _apply_deleted(self, record: TopicDeleted) -> None:
        self.deleted_topics[record.topic_id] = DeletedTopic(record.order_offset, UNDATED)
        self.undated.add(record.topic_id)
        self.touched.topics.add(record.topic_id)
        topic = self.topics.pop(record.topic_id, None)
        if topic is None:
            return
        for partition in topic.partitions:
            if self.stretches.pop(partition_key(record.topic_id, partition), None) is not None:
                self.touched.content = True
        self._forget_partitions(record.topic_id, topic.partitions)

    def _forget_partitions(self, topic_id: bytes, partitions: Collection[int]) -> None:
        gone = self.partitions.forget(topic_id, partitions)
        self._drop_producers(self.producers.of_partitions(gone))
        self.touched.partitions_forgotten += gone.tolist()

    def _apply_records_deleted(self, record: RecordsDeleted) -> None:
        row = self.partitions.find(record.topic_id, record.partition)
        if row is None:
            return
        log_start = self.partitions.log_start.cells
        if record.new_log_start_offset > self.partitions.high_watermark.cells[row]:
            raise BrokenInvariant(
                f"records deleted up to {record.new_log_start_offset}, past the high watermark {self.partitions.high_watermark.cells[row]}"
            )
        log_start[row] = max(log_start[row], record.new_log_start_offset)
        self.partitions.rows.touch(row)

    def _apply_migration(self, record: MigrationRecord) -> None:
        row = self.partitions.find(record.topic_id, record.partition)
        if row is None:
            return
        if isinstance(record, DisklessLogReset) and facts_of(self.partitions, row).origin is LogOrigin.INITIALISED:
            self._drop_producers(self.producers.of_partitions(np.array([row], np.int64)))
        apply_migration(self.partitions, self.producers, row, record, self.log_time_ms)

    def stretch_of(self, topic_id: bytes, partition: int) -> Stretch:
        """What is known here of the moves of a partition."""
        return self.stretches.get(partition_key(topic_id, partition), WHOLE)

    def _apply_released(self, record: PartitionReleased, offset: int) -> None:
        row = self.partitions.find(record.topic_id, record.partition)
        if row is None:
            return
        key = partition_key(record.topic_id, record.partition)
        # The leader's overlay knows no offsets; it asks no more than whether the partition is released.
        released = Released(
            move_id=record.move_id,
            to_coordinator=record.to_coordinator,
            time_ms=record.time_ms,
            entry_id=offset if offset < 0 else offset + self.file_id_base,
        )
        self.stretches[key] = replace(self.stretches.get(key, WHOLE), released=released)
        self.newest_move = max(self.newest_move, record.move_id)
        release(self.partitions, row)
        self.touched.content = True

    def _apply_adopted(self, record: PartitionAdopted) -> None:
        """Begin a stretch; what is left of an empty one that was here before is forgotten."""
        topic = self.topics.get(record.topic_id)
        if topic is None:
            topic = self.topics[record.topic_id] = Topic(record.topic_id, record.name, 0)
            self.deleted_topics.pop(record.topic_id, None)
            self.undated.discard(record.topic_id)
        elif record.partition in topic.partitions:
            self._forget_partitions(record.topic_id, [record.partition])
        topic.partitions.add(record.partition)
        self.touched.topics.add(record.topic_id)
        key = partition_key(record.topic_id, record.partition)
        row = self.partitions.add(key)
        self.partitions.log_start.cells[row] = record.start_offset
        self.partitions.high_watermark.cells[row] = record.base_offset
        self.partitions.rows.touch(row)
        self.stretches[key] = Stretch(base_offset=record.base_offset, move_id=record.move_id, earlier=tuple(record.earlier))
        self.newest_move = max(self.newest_move, record.move_id)
        self.touched.content = True

    def _apply_producers(self, record: ProducersAdopted) -> None:
        row = self.partitions.find(record.topic_id, record.partition)
        if row is not None:
            seed_producers(self.producers, row, record.producers, max(record.time_ms, self.log_time_ms))

    def _drop_producers(self, rows: Int64s) -> None:
        self.producers.drop(rows)
        self.touched.producers_dropped += rows.tolist()
