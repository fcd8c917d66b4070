"""Contradictions: the rule by which an entry is void because the log before it rules it out.

An entry that counts by the fence and has a lawful form (`records.log`) may still contradict the log: an offset that is not the next one,
a sequence with a gap, a partition that does not exist. Such an entry is void, like an entry of another term: it uses up its seq and changes
nothing, on every replica, now and whenever the log is read again. So no entry can make a log unreadable, and no entry can overwrite
acknowledged content. A transaction is judged as a whole.

Invariants: the verdict depends on the log before the entry alone, never on what this process has written or cleaned up so far; and
`ShardState` applies every entry that passes. Records that this version does not know are not judged here: they stop the replica
(`core.tables.in_memory.NotSupported`), because a newer version knows them and replicas must not differ.
"""

from __future__ import annotations

from collections.abc import Sequence

from coordinator.core.state.replica_state import ShardState
from coordinator.core.tables.diskless_log import MIGRATION_RECORDS, MigrationRecord, facts_of, fault_of
from coordinator.core.tables.in_memory import Contradiction, HotState
from coordinator.core.tables.stretches import fault_of_adoption, fault_of_producers, fault_of_release
from coordinator.core.wording import partition_text
from records.model import (
    FilesFenced,
    FilesHandedOver,
    FilesRemoved,
    PartitionAdopted,
    PartitionCreated,
    PartitionReleased,
    ProducersAdopted,
    Record,
    RecordsDeleted,
    TopicDeleted,
)


def check_records(state: ShardState, records: Sequence[Record]) -> None:
    """Judge the records of an entry, or of all chunks of a transaction, against the state before it; changes no answer.

    None of them is a file: `check_key` and `core.files.apply` judge those. Their form was judged before (`records.log`).
    Raises `Contradiction`, which says what was expected and what was found.
    """
    bounds = _Bounds(state.hot)
    for record in records:
        match record:
            case PartitionCreated():
                bounds.create(record)
            case TopicDeleted():
                bounds.delete(record.topic_id)
            case record if isinstance(record, MIGRATION_RECORDS):
                bounds.migrate(record)
            case PartitionReleased() | PartitionAdopted():
                bounds.move(record)
            case ProducersAdopted():
                bounds.adopt_producers(record)
            case RecordsDeleted():
                high_watermark = bounds.high_watermark(record.topic_id, record.partition)
                if high_watermark is not None and record.new_log_start_offset > high_watermark:
                    raise Contradiction(
                        f"records of {partition_text(state.hot, record.topic_id, record.partition)} are deleted up to"
                        f" {record.new_log_start_offset}, past the high watermark {high_watermark}"
                    )
            case FilesRemoved():
                _check_are_empty(state, record.object_keys, "removed")
            case FilesHandedOver():
                _check_are_empty(state, record.object_keys, "handed over")
            case FilesFenced():
                for known in state.find_files(record.object_keys).values():
                    raise Contradiction(f"file {known.object_key} is fenced though entry {known.file_id} committed it")
            case _:
                pass


class _Bounds:
    """High watermarks as the records of one operation leave them: those of created partitions are 0, deleted topics have none."""

    def __init__(self, hot: HotState) -> None:
        self._hot = hot
        self._gone: set[bytes] = set()
        self._created: dict[bytes, list[tuple[int, int]]] = {}
        self._migrated: set[tuple[bytes, int]] = set()
        self._moved: set[tuple[bytes, int]] = set()
        self._adopted: dict[tuple[bytes, int], int] = {}
        self._producers: set[tuple[bytes, int, int]] = set()

    def create(self, record: PartitionCreated) -> None:
        created = self._created.setdefault(record.topic_id, [])
        created.append((record.first_partition, record.first_partition + record.num_partitions))

    def delete(self, topic_id: bytes) -> None:
        self._gone.add(topic_id)
        self._created.pop(topic_id, None)

    def migrate(self, record: MigrationRecord) -> None:
        """Judge a step of a migration, which knows the partition as it was before the operation: so it is the only one on it."""
        where = (record.topic_id, record.partition)
        text = partition_text(self._hot, *where)
        if where in self._migrated or where in self._moved or self._is_created(*where):
            raise Contradiction(f"a {type(record).__name__} of {text} is in one entry with another record of it")
        row = None if record.topic_id in self._gone else self._hot.partitions.find(*where)
        if row is None:
            raise Contradiction(f"a {type(record).__name__} is of {text}, which does not exist here")
        self._migrated.add(where)
        fault = fault_of(facts_of(self._hot.partitions, row), record)
        if fault is not None:
            raise Contradiction(f"{type(record).__name__} of {text}: {fault.message}")

    def move(self, record: PartitionReleased | PartitionAdopted) -> None:
        """Judge a step of a move, which knows the partition as it was before the operation: so it is the only one on it."""
        where, hot = (record.topic_id, record.partition), self._hot
        text = partition_text(hot, *where)
        if where in self._moved or where in self._migrated or record.topic_id in self._gone or self._is_created(*where):
            raise Contradiction(f"a {type(record).__name__} of {text} is in one entry with another record of it")
        self._moved.add(where)
        row, known = hot.partitions.find(*where), hot.stretch_of(*where)
        if isinstance(record, PartitionReleased):
            fault = fault_of_release(hot.partitions, row, known, record.move_id)
        else:
            self._adopted[where] = record.base_offset
            fault = fault_of_adoption(hot.partitions, row, known, record)
        if fault is not None:
            raise Contradiction(f"{type(record).__name__} of {text}: {fault}")

    def adopt_producers(self, record: ProducersAdopted) -> None:
        """Judge what is said of producers of a partition that the operation has adopted before: of each once."""
        where = (record.topic_id, record.partition)
        text = partition_text(self._hot, *where)
        if where not in self._adopted:
            raise Contradiction(f"producers of {text} are adopted, and it is not adopted with them")
        producers = {(*where, one.producer_id) for one in record.producers}
        fault = fault_of_producers(record.producers, self._adopted[where])
        if fault is not None or not self._producers.isdisjoint(producers):
            raise Contradiction(f"producers of {text} are adopted: {fault or 'one of them twice'}")
        self._producers |= producers

    def high_watermark(self, topic_id: bytes, partition: int) -> int | None:
        """None for a partition that is not there. Raises `Contradiction` for one that the operation migrates or moves."""
        if (topic_id, partition) in self._migrated | self._moved:
            raise Contradiction(
                f"{partition_text(self._hot, topic_id, partition)} is migrated or moved by one entry that deletes its records"
            )
        if topic_id not in self._gone:
            row = self._hot.partitions.find(topic_id, partition)
            if row is not None:
                return self._hot.partitions.high_watermark.cells[row]
        return 0 if self._is_created(topic_id, partition) else None

    def _is_created(self, topic_id: bytes, partition: int) -> bool:
        return any(first <= partition < stop for first, stop in self._created.get(topic_id, ()))


def check_key(state: ShardState, object_key: str) -> None:
    """Judge the key of a file against the state before it. Raises `Contradiction` when it was committed or has a tombstone."""
    if not state.may_know(object_key):
        return
    known = state.find_file(object_key)
    if known is not None:
        raise Contradiction(f"file {object_key} was committed by entry {known.file_id} already")
    stone = state.find_tombstone(object_key)
    if stone is not None:
        raise Contradiction(f"file {object_key} is committed though its key has a tombstone ({stone.reason})")


def _check_are_empty(state: ShardState, object_keys: Sequence[str], what: str) -> None:
    live = [row for row in state.find_files(object_keys).values() if row.live_batches]
    # Deleted batches are subtracted from their files step by step; the verdict must not depend on the progress of that.
    while live and state.trimming:
        state.trim_step()
        live = [row for row in state.find_files(row.object_key for row in live).values() if row.live_batches]
    if live:
        raise Contradiction(f"file {live[0].object_key} is {what} though {live[0].live_batches} of its batches are live")
