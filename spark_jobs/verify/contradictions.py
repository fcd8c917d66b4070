"""Which entries that are due contradict what the log said before, for `verify`.

An entry of the term in force with the next seq, or a whole transaction that ended, contradicts the log when its records are
no lawful composition, or when a commit or a deletion does not fit the state: an offset that is not the high watermark of its
partition, a partition that does not exist, a batch that its producer cannot have sent next, an object key that is known or has
a tombstone, records deleted beyond the high watermark, a step of a migration or of a move that cannot be, a file removed or handed over
that has live batches, a file fenced that was committed. It uses up its seq and has no other effect.

Pure rules over a `Fold`, which says what is known. Apart on purpose from those of replicas and scan (`coordinator.core.contradiction`,
`records.log`): a fault that they share is found here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from records.committed_files.codec import FileCommitted
from records.log import BrokenRule
from records.model import (
    FilesFenced,
    FilesHandedOver,
    FilesRemoved,
    LeadershipClaimed,
    PartitionAdopted,
    PartitionCreated,
    PartitionReleased,
    ProducersAdopted,
    Record,
    RecordsDeleted,
    Restored,
    TopicDeleted,
    TopicPlaced,
    TransactionBegan,
    TransactionEnded,
)
from spark_jobs.contradiction import (
    BATCH_BYTE_MAX,
    SEQUENCE_MASK,
    deletion_conflict,
    first_sequence_conflict,
    live_conflict,
    offset_conflict,
    position_conflict,
    producer_conflict,
)
from spark_jobs.migration import MIGRATION_STEPS, PENDING, MigrationStanding, MigrationStep, pending_conflict, step_conflict
from spark_jobs.moves import (
    MoveStep,
    StretchStanding,
    adoption_conflict,
    producers_conflict,
    release_conflict,
    released_conflict,
    together_conflict,
)

ACCEPTED = 0
"""The verdict on a batch that got offsets."""

TOPIC_PARTITIONS_MAX = 10_000_000
"""More partitions than that no topic has: every replica would have to make them."""


class WrongEntry(NamedTuple):
    """A fault of an entry, and the user partition it concerns, if any."""

    fault: BrokenRule
    topic_id: bytes | None = None
    partition: int | None = None

    def __str__(self) -> str:
        fault = self.fault
        where = "" if self.partition is None or self.topic_id is None else f" in partition {self.partition} of topic {self.topic_id.hex()}"
        is_numbered = fault.expected is not None and fault.found is not None
        numbers = f": {fault.expected} was expected, {fault.found} was found" if is_numbered else ""
        return fault.message + where + numbers


class Void(NamedTuple):
    """A contradiction, and its entry: of a transaction not its end, which names the transaction."""

    offset: int
    contradiction: WrongEntry


class Fold(Protocol):
    """The facts of the log so far."""

    def missing(self, topic_id: bytes, partition: int) -> WrongEntry | None:
        """Why a user partition does not exist; None when it does, or when that is not known."""

    def high_watermark(self, topic_id: bytes, partition: int) -> int | None:
        """The high watermark of a user partition; None when it is not known."""

    def standing(self, topic_id: bytes, partition: int) -> MigrationStanding | None:
        """The state of a user partition's migration; None when it is not known."""

    def stretch(self, topic_id: bytes, partition: int) -> StretchStanding | None:
        """What is here of a user partition; None when it is not here, or when that is not known."""

    def producer(self, topic_id: bytes, partition: int, producer_id: int) -> tuple[int, int] | None:
        """The epoch and the next sequence of a producer; None when there is no state of it."""

    def known_key(self, object_key: str) -> WrongEntry | None:
        """Find the fault in committing an object key; None when it is new."""

    def has_file(self, object_key: str) -> bool:
        """Whether a file of this key was committed, and neither removed nor handed over since."""

    def live_batches(self, object_key: str) -> int:
        """How many live batches a known file has, 0 also when it is not known; a fold that does not count them says 1 for some."""


def check_file(record: FileCommitted, fold: Fold) -> WrongEntry | None:
    """Find the contradictions of a file that is alone in its entry."""
    return _check_positions(record) or fold.known_key(record.object_key) or _check_offsets(record, fold) or _check_producers(record, fold)


def _check_positions(record: FileCommitted) -> WrongEntry | None:
    for batch in record.batches:
        if batch.verdict == ACCEPTED and batch.byte_offset > BATCH_BYTE_MAX:
            return WrongEntry(position_conflict(record.object_key, batch.byte_offset))
    return None


def _check_offsets(record: FileCommitted, fold: Fold) -> WrongEntry | None:
    following: dict[tuple[bytes, int], int | None] = {}
    for batch in record.batches:
        if batch.verdict != ACCEPTED:
            continue
        name = (batch.topic_id, batch.partition)
        if name not in following:
            missing = fold.missing(*name)
            if missing is not None:
                return missing
            standing = fold.standing(*name)
            if standing is not None and standing.base == PENDING:
                return WrongEntry(pending_conflict(), *name)
            stretch = fold.stretch(*name)
            if stretch is not None and stretch.is_released:
                return WrongEntry(released_conflict(), *name)
            following[name] = fold.high_watermark(*name)
        expected, end = following[name], batch.base_offset + batch.record_count
        conflict = None if expected is None else offset_conflict(expected, batch.base_offset, end)
        if conflict is not None:
            return WrongEntry(conflict, *name)
        following[name] = end
    return None


def _check_producers(record: FileCommitted, fold: Fold) -> WrongEntry | None:
    following: dict[tuple[bytes, int, int], tuple[int, int] | None] = {}
    for batch in record.batches:
        if batch.verdict != ACCEPTED or batch.producer_id < 0:
            continue
        name = (batch.topic_id, batch.partition, batch.producer_id)
        state = following[name] if name in following else fold.producer(*name)
        if state is None:
            conflict = first_sequence_conflict(batch.producer_id, batch.base_offset, batch.base_sequence)
        else:
            conflict = producer_conflict(batch.producer_id, *state, batch.producer_epoch, batch.base_sequence)
        if conflict is not None:
            return WrongEntry(conflict, batch.topic_id, batch.partition)
        following[name] = (batch.producer_epoch, (batch.base_sequence + batch.record_count) & SEQUENCE_MASK)
    return None


def check_composition(records: Sequence[Record], *, in_transaction: bool = False) -> BrokenRule | None:
    """Find the faults in the records of one entry that need no knowledge of the log before it."""
    files = sum(isinstance(record, FileCommitted) for record in records)
    if files > 1:
        return BrokenRule("misplaced-file", f"{files} files in one entry, each must be alone in its own", expected=1, found=files)
    if files and len(records) > 1:
        return BrokenRule("misplaced-file", "a file is among other records, it must be alone in its entry")
    if files and in_transaction:
        return BrokenRule("misplaced-file", "a file is committed inside a transaction")
    for record in records:
        match record:
            case LeadershipClaimed():
                return BrokenRule("misplaced-claim", f"a claim of epoch {record.epoch} is inside a term")
            case Restored():
                return BrokenRule("misplaced-restore", f"a restore from topic id {record.old_topic_id.hex()} is inside a term")
            case PartitionCreated():
                wrong = _check_range(record.topic_id, record.first_partition, record.num_partitions)
                if wrong is not None:
                    return wrong
            case TopicPlaced():
                for one in record.ranges:
                    wrong = _check_range(record.topic_id, one.first_partition, one.num_partitions)
                    if wrong is not None:
                        return wrong
            case _:
                continue
    return None


def check_marks(records: Sequence[Record]) -> BrokenRule | None:
    """Beginnings and ends of transactions are alone in their entries; this is reported as soon as the entry is read."""
    for record in records:
        if isinstance(record, TransactionBegan | TransactionEnded) and len(records) > 1:
            return BrokenRule("misplaced-transaction", f"a {type(record).__name__} is among other records")
    return None


def _check_range(topic_id: bytes, first: int, count: int) -> BrokenRule | None:
    if first >= 0 and count >= 0 and first + count <= TOPIC_PARTITIONS_MAX:
        return None
    message = f"partitions {first} to {first + count - 1} are created, a topic has at most {TOPIC_PARTITIONS_MAX}"
    return BrokenRule("absurd-partition-count", message, TOPIC_PARTITIONS_MAX, first + count, topic_id)


def check_effects(entries: Sequence[tuple[int, Sequence[Record]]], fold: Fold) -> Void | None:
    """Find the contradictions of entries that take effect together, apart from files: deletions, and files that go with live batches."""
    operation = _Operation(fold)
    for offset, records in entries:
        for record in records:
            wrong = operation.check(record)
            if wrong is not None:
                of_partition = RecordsDeleted | MigrationStep | MoveStep
                where = (record.topic_id, record.partition) if isinstance(record, of_partition) else (None, None)
                return Void(offset, WrongEntry(wrong, *where))
    return None


@dataclass(slots=True)
class _Operation:
    """Entries that take effect together, and what those that were checked say of topics and partitions."""

    fold: Fold
    gone: set[bytes] = field(default_factory=set)
    created: dict[bytes, list[range]] = field(default_factory=dict)
    stepped: set[tuple[bytes, int]] = field(default_factory=set)
    """Partitions of which there was a step of a migration or of a move."""
    begins: dict[tuple[bytes, int], int] = field(default_factory=dict)
    """Where partitions begin here that were adopted."""
    producers: dict[tuple[bytes, int], set[int]] = field(default_factory=dict)
    """The producers of adopted partitions that were named."""

    def check(self, record: Record) -> BrokenRule | None:
        """Find the contradictions of the next record."""
        match record:
            case TopicDeleted():
                self.gone.add(record.topic_id)
                self.created.pop(record.topic_id, None)
            case PartitionCreated():
                first = record.first_partition
                self.created.setdefault(record.topic_id, []).append(range(first, first + record.num_partitions))
            case record if isinstance(record, MIGRATION_STEPS):
                return self._check_migration(record)
            case PartitionReleased():
                return self._check_release(record)
            case PartitionAdopted():
                self.begins[record.topic_id, record.partition] = record.base_offset
                return self._step(record) or adoption_conflict(self.fold.stretch(record.topic_id, record.partition), record)
            case ProducersAdopted():
                name = (record.topic_id, record.partition)
                named = self.producers.setdefault(name, set())
                wrong = producers_conflict(self.begins.get(name), record, named)
                named.update(one.producer_id for one in record.producers)
                return wrong
            case RecordsDeleted():
                return self._check_deletion(record)
            case FilesRemoved() | FilesHandedOver():
                rule = "live-file-removed" if isinstance(record, FilesRemoved) else "live-file-handed-over"
                conflicts = (live_conflict(rule, key, self.fold.live_batches(key)) for key in record.object_keys)
                return next(filter(None, conflicts), None)
            case FilesFenced():
                known = next(filter(self.fold.has_file, record.object_keys), None)
                return None if known is None else BrokenRule("live-file-fenced", f"file {known} is fenced though it was committed")
            case _:
                pass
        return None

    def _is_created(self, topic_id: bytes, partition: int) -> bool:
        return any(partition in one for one in self.created.get(topic_id, ()))

    def _step(self, step: PartitionReleased | PartitionAdopted) -> BrokenRule | None:
        """A step of a move is the only record of its operation that says something of its partition, but for producers."""
        name = (step.topic_id, step.partition)
        if name in self.stepped or step.topic_id in self.gone or self._is_created(*name):
            return together_conflict(step)
        self.stepped.add(name)
        return None

    def _check_release(self, step: PartitionReleased) -> BrokenRule | None:
        wrong = self._step(step)
        if wrong is not None:
            return wrong
        missing, stretch = self.fold.missing(step.topic_id, step.partition), self.fold.stretch(step.topic_id, step.partition)
        if missing is not None:
            return missing.fault
        return None if stretch is None else release_conflict(stretch, step)

    def _check_migration(self, step: MigrationStep) -> BrokenRule | None:
        """A step of a migration is the only record of its entry that says something of its partition, and comes before a deletion."""
        name = (step.topic_id, step.partition)
        if name in self.stepped or self._is_created(*name):
            return BrokenRule("migration-unlawful", "an entry has a step of a migration and another record of its partition")
        missing = self.fold.missing(*name)
        if missing is not None or step.topic_id in self.gone:
            return BrokenRule("unknown-partition", "a partition is migrated that does not exist") if missing is None else missing.fault
        self.stepped.add(name)
        standing = self.fold.standing(*name)
        return None if standing is None else step_conflict(standing, step)

    def _check_deletion(self, record: RecordsDeleted) -> BrokenRule | None:
        """A partition that does not exist, or of which nothing is known, contradicts nothing: the deletion has no effect there."""
        name = (record.topic_id, record.partition)
        if name in self.stepped:
            return BrokenRule("migration-unlawful", "an entry migrates or moves a partition and deletes its records")
        if record.topic_id not in self.gone and self.fold.missing(*name) is None:
            high_watermark = self.fold.high_watermark(*name)
        else:
            high_watermark = 0 if self._is_created(*name) else None
        return None if high_watermark is None else deletion_conflict(record, high_watermark)
