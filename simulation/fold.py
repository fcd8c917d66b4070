"""The meaning of one metadata log, by the rules every replica must follow; written anew, trusting no code of the core.

A log that goes on from a lost one begins with `Restored` at offset 0, which names the epoch before the first claim.
A claim is in force iff its key has seq 0 and the epoch after the one in force, and its body is one LeadershipClaimed of
the same epoch and term. Another entry counts iff its epoch and term are in force and its seq is the next. All else is void.
What counts between TransactionBegan and TransactionEnded takes effect at the end, or never if a claim comes before it.
An entry that a stranger forged, in the name of the term in force and against what the log says, uses up its seq and is void; an
open transaction is void with it. The leader learns of the forgery only when it reads it: what it had under way by then was decided
without the void one before it, is never acknowledged, and is void as well where it contradicts the log. When a leader writes a
contradiction in an undisturbed term, that is a violation.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from records.codec import UnreadableEntry, decode_entry, decode_key
from records.committed_files.codec import FileCommitted
from records.entry_key import EntryKey
from records.model import (
    DisklessLogInitialized,
    DisklessLogRepaired,
    DisklessLogReset,
    FeatureLevelSet,
    FilesFenced,
    FilesHandedOver,
    FilesRemoved,
    LeadershipClaimed,
    PartitionAdopted,
    PartitionCreated,
    PartitionMoved,
    PartitionMoving,
    PartitionReleased,
    PlacedRange,
    PrefixStartReported,
    ProducersAdopted,
    ProducersExpired,
    Record,
    RecordsDeleted,
    ReplicasAssignedToDirs,
    Restored,
    RestoreFinished,
    TombstonesExpired,
    TopicConfigured,
    TopicDeleted,
    TopicDeleting,
    TopicPlaced,
    TransactionBegan,
    TransactionEnded,
)
from simulation.story import Violation

Where: TypeAlias = tuple[bytes, int]
"""Topic id and partition."""

MigrationRecord: TypeAlias = DisklessLogInitialized | DisklessLogReset | DisklessLogRepaired | PrefixStartReported

LOG_APPEND_TIME = 1
HELD = "nothing is deleted while a restore is open"
"""The rule, for all that may be deleted: nobody knows yet what was committed behind the snapshots."""


class ContradictingEntry(Violation):
    """An entry says what the log before it rules out; replicas find it void."""


@dataclass(slots=True)
class FoldedProducer:
    """The state of a producer in one partition: its epoch, its last sequence, and when its last batch was appended."""

    epoch: int
    last_sequence: int
    append_time_ms: int


class TimedBatch(NamedTuple):
    """A batch and its time: that of its append, or the greatest of its records."""

    base_offset: int
    last_offset: int
    time_ms: int
    size_bytes: int


class DeletedRange(NamedTuple):
    """The records of a partition in `[start, end)` were deleted, by whomever."""

    where: Where
    start: int
    end: int


@dataclass(slots=True)
class FoldedPartition:
    """A user partition: its bounds, its batches by base offset as (object key, byte offset, last offset), and their times."""

    high_watermark: int = 0
    log_start: int = 0
    batches: dict[int, tuple[str, int, int]] = field(default_factory=dict)
    times: list[TimedBatch] = field(default_factory=list)
    producers: dict[int, FoldedProducer] = field(default_factory=dict)
    start: int | None = 0
    """B0; None while the partition takes no batches."""
    leader_epoch: int = -1
    base_offset: int = 0
    """Where the batches of this coordinator begin."""
    newest_move: int = -1
    is_released: bool = False
    """Whether it goes on in another coordinator."""


class LogFold:
    """One metadata partition, entry by entry."""

    def __init__(self, partition: int, *, producers_kept_ms: int = 0, fences_kept_ms: int = 0) -> None:
        self.partition = partition
        self.producers_kept_ms = producers_kept_ms
        self.fences_kept_ms = fences_kept_ms
        self.log_time_ms = 0
        self.forgotten: Counter[tuple[Where, int]] = Counter()
        self.end_offset = 0
        self.leader = -1
        self.claims = 0
        self.is_restore_open = False
        """Whether the log was restored and its end is not in the log yet; of partition 0 only."""
        self.last_counted = -1
        """A replica that has applied every entry up to here agrees with the fold."""
        self.schema_level = 1
        self.transactions = 0
        self.cut_off = 0
        self.inside: set[int] = set()
        """Offsets of transactions before their end."""
        self._opened: list[tuple[int, list[Record]]] | None = None
        self.has_deleted = False
        self.is_forged = False
        """Whether the next entry is made to contradict the log."""
        self.forged: set[int] = set()
        """The offsets of such entries, and of those of a leader that the forgery made contradict the log."""
        self._is_disturbed = False
        """Whether a forged entry has taken a seq from the leader of this term."""
        self.files: dict[str, FileCommitted] = {}
        self.committed: dict[str, FileCommitted] = {}
        """All files that were ever committed; `files` are those that are neither removed nor handed over."""
        self.tombstones: dict[str, int] = {}
        """When the files were created that may not be committed any more, -1 for those that do not tell."""
        self.partitions: dict[Where, FoldedPartition] = {}
        self.deleted: set[bytes] = set()
        self.placements: dict[bytes, list[PlacedRange]] = {}
        self.confirmed: set[bytes] = set()
        self.deleting: set[bytes] = set()
        self.deletions: list[DeletedRange] = []
        self.configured: list[tuple[bytes, dict[str, str]]] = []
        """The settings of topics, one after the other; of partition 0 only."""
        self.moved: dict[Where, list[tuple[int, int]]] = {}
        """The coordinators that had a partition before, and where their parts end; of partition 0 only."""
        self.moving: dict[Where, PartitionMoving] = {}
        self.moves = 0
        self.replica_dirs: dict[tuple[int, int], bytes] = {}
        """The data directories of replicas, by node and metadata partition; of partition 0 only."""
        self.in_force = EntryKey(0, 0, 0)
        self.positions: list[tuple[int, int, int, int]] = []
        """For each offset the epoch, term and seq in force after it, and the log's time."""

    def take(self, offset: int, key: bytes | None, value: bytes | None) -> str | None:
        """Take the next message; returns what it means, None when it is void. Raises `Violation`."""
        if offset != self.end_offset:
            raise AssertionError(f"offset {offset} came where {self.end_offset} was due")
        self.end_offset += 1
        what = self._take(offset, key, value)
        self.positions.append((*self.in_force, self.log_time_ms))
        return what

    def _take(self, offset: int, key: bytes | None, value: bytes | None) -> str | None:
        parts = decode_key(key)
        now = self.in_force
        if parts is None:
            return None
        if offset == 0 and parts == EntryKey(0, 0, 0):
            return self._restored(value or b"")
        if parts.seq == 0 and parts.epoch == now.epoch + 1:
            return self._claim(parts, value or b"", offset)
        if now.term and parts == (now.epoch, now.term, now.seq + 1):
            self.in_force = parts
            self._is_disturbed |= self.is_forged
            if self.is_forged:
                return self._forgery(offset)
            records = decode_entry(value or b"")
            if self._is_disturbed and self._contradicts(records, offset):
                return self._forgery(offset)
            self._count(records, offset)
            return ", ".join(f"{type(record).__name__} {getattr(record, 'object_key', '')}".strip() for record in records)
        return None

    def _restored(self, value: bytes) -> str | None:
        match decode_entry(value):
            case [Restored(epoch_floor=floor)]:
                self.in_force = EntryKey(floor, 0, 0)
                self.is_restore_open = True
                self.last_counted = 0
                return f"the restore of a lost log, epoch {floor}"
        return None

    def _forgery(self, offset: int) -> str:
        self.forged.add(offset)
        if self._opened is not None:
            self._opened = None
            self.cut_off += 1
        self.last_counted = offset
        return "an entry that contradicts the log"

    def _contradicts(self, records: list[Record], offset: int) -> bool:
        probe = copy.deepcopy(self)
        try:
            probe._count(records, offset)
        except ContradictingEntry:
            return True
        return False

    def _claim(self, parts: EntryKey, value: bytes, offset: int) -> str | None:
        try:
            records = decode_entry(value)
        except UnreadableEntry:
            return None
        match records:
            case [LeadershipClaimed(epoch=parts.epoch, term=parts.term, node_id=node_id)]:
                self.in_force, self.leader = parts, node_id
                self.claims += 1
                self._is_disturbed = False
                self.last_counted = offset
                self.cut_off += self._opened is not None
                self._opened = None
                return f"claim of node {node_id}, epoch {parts.epoch}"
        return None

    def _count(self, records: list[Record], offset: int) -> None:
        """Let an entry that counts take effect, or keep it until its transaction ends."""
        match records:
            case [TransactionBegan()] if self._opened is None:
                self._opened = []
            case [TransactionEnded(num_chunks=count)] if self._opened is not None and count == len(self._opened):
                chunks, self._opened = self._opened, None
                self.transactions += 1
                for at, chunk in chunks:
                    self._apply_all(chunk, at)
            case [TransactionBegan() | TransactionEnded()]:
                text = f"{records[0]} at {offset} of partition {self.partition} in {self._opened}"
                raise ContradictingEntry("transactions are whole", text)
            case _ if self._opened is not None:
                self._opened.append((offset, records))
            case _:
                self._apply_all(records, offset)
        if self._opened is None:
            self.last_counted = offset
        else:
            self.inside.add(offset)

    def _apply_all(self, records: list[Record], offset: int) -> None:
        for record in records:
            self._apply(record, offset)

    def _apply(self, record: Record, offset: int) -> None:
        match record:
            case FileCommitted():
                self._file(record, offset)
            case PartitionCreated():
                self._created(record)
            case TopicDeleted():
                self.deleted.add(record.topic_id)
                self.has_deleted = True
                self.partitions = {where: known for where, known in self.partitions.items() if where[0] != record.topic_id}
            case RecordsDeleted():
                self.has_deleted = True
                self._deleted_records(record, offset)
            case DisklessLogInitialized() | DisklessLogReset() | DisklessLogRepaired() | PrefixStartReported():
                self._migrated(record, offset)
            case TopicPlaced():
                if record.topic_id in self.deleting:
                    raise Violation("deleted stays deleted", f"topic {record.topic_id.hex()[:6]} is placed again at {offset}")
                self.placements[record.topic_id] = record.ranges
                (self.confirmed.add if record.confirmed else self.confirmed.discard)(record.topic_id)
            case ReplicasAssignedToDirs():
                for one in record.assignments:
                    self.replica_dirs |= {(record.node_id, partition): one.directory_id for partition in one.partitions}
            case TopicConfigured():
                self.configured.append((record.topic_id, dict(zip(record.names, record.values, strict=True))))
            case TopicDeleting():
                self.deleting.add(record.topic_id)
                self.moving = {where: move for where, move in self.moving.items() if where[0] != record.topic_id}
            case PartitionMoving():
                self._ordered_move(record, offset)
            case PartitionMoved():
                self._done_move(record, offset)
            case PartitionReleased():
                self._released(record, offset)
            case PartitionAdopted():
                self._adopted(record, offset)
            case ProducersAdopted():
                known = self.partitions[record.topic_id, record.partition]
                for seed in record.producers:
                    time_ms = max(record.time_ms, self.log_time_ms)
                    known.producers[seed.producer_id] = FoldedProducer(seed.producer_epoch, seed.last_sequence, time_ms)
            case FilesFenced():
                self._fenced(record, offset)
            case FilesRemoved() | FilesHandedOver():
                self._let_go(record.object_keys, offset)
            case TombstonesExpired():
                self._forget_tombstones(record.keys_before_ms, offset)
            case ProducersExpired():
                self._forget_producers(record.before_ms, offset)
            case Restored():
                raise ContradictingEntry("a log is restored once", f"a Restored stands at {offset} of partition {self.partition}")
            case RestoreFinished():
                self.is_restore_open = False
            case FeatureLevelSet():
                self.schema_level = max(self.schema_level, record.level)
            case _:
                pass

    def _created(self, record: PartitionCreated) -> None:
        if record.topic_id in self.deleted:
            text = f"topic {record.topic_id.hex()[:6]} is created again in partition {self.partition}"
            raise Violation("deleted stays deleted", text)
        for partition in range(record.first_partition, record.first_partition + record.num_partitions):
            self.partitions.setdefault((record.topic_id, partition), FoldedPartition(start=None if record.classic_pending else 0))

    def _migrated(self, record: MigrationRecord, offset: int) -> None:
        known = self.partitions.get((record.topic_id, record.partition))
        text = f"{record} at {offset}"
        if known is None:
            raise ContradictingEntry("only what is there is migrated", text)
        if record.leader_epoch < known.leader_epoch or (known.start is not None and known.leader_epoch < 0):
            raise ContradictingEntry("migrations are fenced", f"{text}, after epoch {known.leader_epoch}")
        match record:
            case DisklessLogInitialized() if known.start is None:
                known.start = known.high_watermark = known.log_start = record.base_offset
                for seed in record.producers:
                    time_ms = max(record.time_ms, self.log_time_ms)
                    known.producers[seed.producer_id] = FoldedProducer(seed.producer_epoch, seed.last_sequence, time_ms)
            case DisklessLogInitialized() if known.start != record.base_offset:
                raise ContradictingEntry("B0 is one", f"{text}, after {known.start}")
            case DisklessLogReset() if known.start is not None:
                if known.high_watermark > known.start or record.leader_epoch == known.leader_epoch:
                    raise ContradictingEntry("only an empty log is reset, by a later leader", text)
                known.start, known.high_watermark, known.log_start = None, 0, 0
                known.producers.clear()
            case DisklessLogRepaired():
                if known.start is None or record.base_offset > known.start:
                    raise ContradictingEntry("B0 is only lowered", f"{text}, after {known.start}")
                if known.high_watermark == known.start:
                    known.high_watermark = known.log_start = record.base_offset
                known.start = record.base_offset
            case _:
                pass
        known.leader_epoch = record.leader_epoch

    def _ordered_move(self, record: PartitionMoving, offset: int) -> None:
        where = (record.topic_id, record.partition)
        if where in self.moving or self.owner_of(where) != record.from_coordinator or record.topic_id in self.deleting:
            raise Violation("a partition has one owner", f"{record} at {offset}, though {self.owner_of(where)} has it, or it moves already")
        self.moving[where] = record

    def _done_move(self, record: PartitionMoved, offset: int) -> None:
        where = (record.topic_id, record.partition)
        order = self.moving.pop(where, None)
        if order is None or order.move_id != record.move_id:
            raise Violation("a partition has one owner", f"{record} at {offset} ends {order}")
        self.moves += 1
        self.moved[where] = [(one.coordinator_id, one.end_offset) for one in record.earlier if one.coordinator_id != order.to_coordinator]
        self.placements[record.topic_id] = [
            PlacedRange(first_partition=partition, num_partitions=1, coordinator_id=owner)
            for placed in self.placements[record.topic_id]
            for partition in range(placed.first_partition, placed.first_partition + placed.num_partitions)
            for owner in [order.to_coordinator if partition == record.partition else placed.coordinator_id]
        ]

    def _released(self, record: PartitionReleased, offset: int) -> None:
        known = self.partitions.get((record.topic_id, record.partition))
        if known is None or known.is_released or record.move_id <= known.newest_move:
            raise ContradictingEntry("a partition is released once", f"{record} at {offset} of {known}")
        known.is_released, known.start, known.newest_move = True, None, record.move_id

    def _adopted(self, record: PartitionAdopted, offset: int) -> None:
        where = (record.topic_id, record.partition)
        known = self.partitions.get(where)
        if record.topic_id in self.deleted:
            raise Violation("deleted stays deleted", f"{record} at {offset} of partition {self.partition}")
        if known is not None and (not known.is_released or known.log_start < known.high_watermark or record.move_id <= known.newest_move):
            raise ContradictingEntry("a partition has one owner", f"{record} at {offset} of {known}")
        self.partitions[where] = FoldedPartition(
            high_watermark=record.base_offset, log_start=record.start_offset, base_offset=record.base_offset, newest_move=record.move_id
        )

    def _deleted_records(self, record: RecordsDeleted, offset: int) -> None:
        known = self.partitions.get((record.topic_id, record.partition))
        if known is None:
            if not self._is_disturbed:
                text = f"records of {record.topic_id.hex()[:6]}-{record.partition}, which is not there, are deleted at {offset}"
                raise Violation("deleted stays deleted", text)
        elif record.new_log_start_offset > known.high_watermark:
            text = f"records up to {record.new_log_start_offset} are deleted at {offset}, the end is {known.high_watermark}"
            raise ContradictingEntry("only what is there is deleted", text)
        elif record.new_log_start_offset > known.log_start:
            self.deletions.append(DeletedRange((record.topic_id, record.partition), known.log_start, record.new_log_start_offset))
            known.log_start = record.new_log_start_offset

    def _file(self, record: FileCommitted, offset: int) -> None:
        key = record.object_key
        if key in self.committed:
            raise Violation("committed once", f"file {key} counts again in partition {self.partition} at {offset}")
        if key in self.tombstones:
            raise ContradictingEntry("fenced stays fenced", f"file {key} at {offset} of partition {self.partition} was fenced before")
        if record.append_time_ms < self.log_time_ms:
            text = f"file {key} at {offset} of partition {self.partition} has {record.append_time_ms} after {self.log_time_ms}"
            raise Violation("append times never go back", text)
        self.log_time_ms = record.append_time_ms
        self.files[key] = self.committed[key] = record
        for batch in record.accepted:
            where = (batch.topic_id, batch.partition)
            known = self.partitions.get(where)
            if known is None:
                text = f"file {key} at {offset} commits to {where[0].hex()[:6]}-{where[1]}, which is not there"
                raise ContradictingEntry("deleted stays deleted", text)
            if known.start is None:
                text = f"file {key} at {offset} commits to {where[0].hex()[:6]}-{where[1]}, whose diskless log has not begun"
                raise ContradictingEntry("pending partitions take nothing", text)
            if batch.base_offset != known.high_watermark:
                text = f"file {key} at {offset} of partition {self.partition} begins at {batch.base_offset}, {known.high_watermark} is due"
                raise ContradictingEntry("dense offsets", text)
            known.high_watermark += batch.record_count
            known.batches[batch.base_offset] = (key, batch.byte_offset, known.high_watermark - 1)
            time_ms = record.append_time_ms if batch.timestamp_type == LOG_APPEND_TIME else batch.timestamp_ms
            known.times.append(TimedBatch(batch.base_offset, known.high_watermark - 1, time_ms, batch.byte_size))
            if batch.producer_id >= 0:
                last = known.producers.get(batch.producer_id)
                given = (batch.producer_epoch, batch.base_sequence)
                if last is None:
                    follows = batch.base_offset > 0 or batch.base_sequence == 0
                else:
                    begins_epoch = batch.producer_epoch > last.epoch and batch.base_sequence == 0
                    follows = begins_epoch or given == (last.epoch, last.last_sequence + 1)
                if not follows:
                    text = f"producer {batch.producer_id}: {given} after {last} in {key} at {offset}"
                    raise ContradictingEntry("producers have no gaps", text)
                known.producers[batch.producer_id] = FoldedProducer(batch.producer_epoch, batch.last_sequence, record.append_time_ms)

    def _fenced(self, record: FilesFenced, offset: int) -> None:
        for key, created_ms in zip(record.object_keys, record.created_ms, strict=True):
            if key in self.files:
                text = f"file {key} is fenced at {offset} of partition {self.partition}, which has committed it"
                raise ContradictingEntry("only unknown files are fenced", text)
            self.tombstones[key] = created_ms

    def _let_go(self, keys: list[str], offset: int) -> None:
        for key in keys:
            if self.has_live_batches(key):
                text = f"file {key} is let go at {offset} of partition {self.partition}, which has live batches of it"
                raise ContradictingEntry("only empty files are let go", text)
            file = self.files.pop(key, None)
            self.tombstones[key] = -1 if file is None else file.created_ms

    def _forget_tombstones(self, before_ms: int, offset: int) -> None:
        if before_ms > max(0, self.log_time_ms - self.fences_kept_ms):
            text = f"fences of files created before {before_ms} are forgotten at {offset}, when the log's time is {self.log_time_ms}"
            raise Violation("only what is old is forgotten", text)
        self.tombstones = {key: created_ms for key, created_ms in self.tombstones.items() if not 0 <= created_ms < before_ms}

    def _forget_producers(self, before_ms: int, offset: int) -> None:
        if before_ms > self.log_time_ms - self.producers_kept_ms:
            text = f"producers before {before_ms} are forgotten at {offset}, when the log's time is {self.log_time_ms}"
            raise Violation("only what is old is forgotten", text)
        for where, known in self.partitions.items():
            for producer_id in [producer_id for producer_id, one in known.producers.items() if one.append_time_ms < before_ms]:
                del known.producers[producer_id]
                self.forgotten[where, producer_id] += 1

    def batches_of(self, object_key: str) -> Iterator[tuple[Where, int]]:
        """The accepted batches of a file: where each is, and its last offset."""
        record = self.files.get(object_key)
        if record is not None:
            for batch in record.accepted:
                yield (batch.topic_id, batch.partition), batch.base_offset + batch.record_count - 1

    def has_live_batches(self, object_key: str) -> bool:
        """Whether some batch of a file is neither deleted nor in a deleted topic."""
        known = self.partitions
        return any(where in known and last_offset >= known[where].log_start for where, last_offset in self.batches_of(object_key))

    def owner_of(self, where: Where) -> int | None:
        """The coordinator a user partition was placed at, by partition 0; deleted topics keep theirs."""
        for placed in self.placements.get(where[0], ()):
            if placed.first_partition <= where[1] < placed.first_partition + placed.num_partitions:
                return placed.coordinator_id
        return None
