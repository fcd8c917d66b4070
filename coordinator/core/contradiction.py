"""Whether what an entry says can be: the rule that makes applying total.

An entry that counts by the fence (`core.leadership.fence`) may still say what the log before it rules out: an offset that is not the next
one, a sequence with a gap, a partition that does not exist. Such an entry is void, as one of another term is: it uses up its seq
and changes nothing, on every replica, now and whenever the log is read again. So no entry can make a log unreadable, and no entry
can overwrite what was acknowledged before it. A transaction is judged as a whole.

Invariants: the verdict depends on the log before the entry alone, never on what this process has written or cleaned up so far; and
`ShardState` applies whatever passes. What a version of this program does not know at all is not for this rule: it stops the
replica (`core.tables.in_memory.NotSupported`), because a newer version knows it and replicas must not differ.
"""

from __future__ import annotations

from collections.abc import Sequence

from coordinator.core.limits import TOPIC_PARTITIONS_MAX
from coordinator.core.state.replica_state import ShardState
from coordinator.core.tables.in_memory import BYTE_OFFSET_MAX, Contradiction, HotState
from coordinator.kafka.batches import SEQUENCE_MASK, partition_key
from coordinator.kafka.names import topic_id_text
from records.file_columns import iterate
from records.model import (
    FileCommitted,
    FileHandedOver,
    FilesRemoved,
    LeadershipClaimed,
    PartitionCreated,
    Record,
    RecordsDeleted,
    TopicDeleted,
    TopicPlaced,
)


def check_records(state: ShardState, records: Sequence[Record], *, in_transaction: bool = False) -> None:
    """Judge the records of an entry, or of all chunks of a transaction, against the state before it; changes no answer.

    Raises `Contradiction`, which says what was expected and what was found.
    """
    bounds = _Bounds(state.hot)
    for record in records:
        match record:
            case FileCommitted():
                if in_transaction or len(records) > 1:
                    raise Contradiction(f"file {record.object_key} is committed beside other records; a file is alone in its entry")
                _check_key(state, record)
                _check_file(state.hot, record)
            case LeadershipClaimed():
                raise Contradiction(f"a claim of epoch {record.epoch} stands behind seq 0")
            case PartitionCreated():
                _check_range(record.name, record.first_partition, record.num_partitions)
                bounds.create(record)
            case TopicPlaced():
                for placed in record.ranges:
                    _check_range(record.name, placed.first_partition, placed.num_partitions)
            case TopicDeleted():
                bounds.delete(record.topic_id)
            case RecordsDeleted():
                high_watermark = bounds.high_watermark(record.topic_id, record.partition)
                if high_watermark is not None and record.new_log_start_offset > high_watermark:
                    raise Contradiction(
                        f"records of {_name(state.hot, record.topic_id, record.partition)} are deleted up to"
                        f" {record.new_log_start_offset}, past the high watermark {high_watermark}"
                    )
            case FilesRemoved():
                for key in record.object_keys:
                    _check_is_empty(state, key, "removed")
            case FileHandedOver():
                _check_is_empty(state, record.object_key, "handed over")
            case _:
                pass


class _Bounds:
    """High watermarks as the records of one operation leave them: those of created partitions are 0, deleted topics have none."""

    def __init__(self, hot: HotState) -> None:
        self._hot = hot
        self._gone: set[bytes] = set()
        self._created: dict[bytes, list[tuple[int, int]]] = {}

    def create(self, record: PartitionCreated) -> None:
        created = self._created.setdefault(record.topic_id, [])
        created.append((record.first_partition, record.first_partition + record.num_partitions))

    def delete(self, topic_id: bytes) -> None:
        self._gone.add(topic_id)
        self._created.pop(topic_id, None)

    def high_watermark(self, topic_id: bytes, partition: int) -> int | None:
        """None for a partition that is not there."""
        if topic_id not in self._gone:
            row = self._hot.partitions.index.get(partition_key(topic_id, partition))
            if row is not None:
                return self._hot.partitions.high_watermark.cells[row]
        is_created = any(first <= partition < stop for first, stop in self._created.get(topic_id, ()))
        return 0 if is_created else None


def _check_range(name: str, first: int, count: int) -> None:
    # Every replica builds them all: an absurd number would end each of them for want of memory.
    if first < 0 or count < 0 or first + count > TOPIC_PARTITIONS_MAX:
        raise Contradiction(f"topic {name} gets partitions {first} to {first + count - 1}; a topic has at most {TOPIC_PARTITIONS_MAX}")


def _check_key(state: ShardState, record: FileCommitted) -> None:
    if not state.may_know(record.object_key):
        return
    known = state.find_file(record.object_key)
    if known is not None:
        raise Contradiction(f"file {record.object_key} was committed by entry {known.file_id} already")
    stone = state.find_tombstone(record.object_key)
    if stone is not None:
        raise Contradiction(f"file {record.object_key} is committed though its key has a tombstone ({stone.reason})")


def _check_is_empty(state: ShardState, object_key: str, what: str) -> None:
    # Deleted batches are counted out of their files bit by bit; the verdict may not depend on how far that is.
    while state.trimming:
        state.trim_step()
    known = state.find_file(object_key)
    if known is not None and known.live_batches:
        raise Contradiction(f"file {object_key} is {what} though {known.live_batches} of its batches are live")


def _check_file(hot: HotState, record: FileCommitted) -> None:
    """Offsets, byte positions and sequences of the accepted batches, each partition's and each producer's in their order."""
    due: dict[int, int] = {}
    producers: dict[tuple[int, int], tuple[int, int]] = {}
    for batch in iterate(record):
        topic_id = record.topic_ids[batch.topic_index]
        row = hot.partitions.index.get(partition_key(topic_id, batch.partition))
        if row is None:
            raise Contradiction(f"file {record.object_key} commits to {_name(hot, topic_id, batch.partition)}, which does not exist here")
        expected = due.get(row, hot.partitions.high_watermark.cells[row])
        if batch.base_offset != expected:
            raise Contradiction(
                f"file {record.object_key} gives {_name(hot, topic_id, batch.partition)} offset {batch.base_offset}, {expected} is next"
            )
        due[row] = batch.base_offset + batch.record_count
        if batch.byte_offset > BYTE_OFFSET_MAX:
            raise Contradiction(f"file {record.object_key} has a batch at byte {batch.byte_offset}, the last possible is {BYTE_OFFSET_MAX}")
        if batch.producer_id >= 0:
            producer = (row, batch.producer_id)
            known = producers[producer] if producer in producers else _remembered(hot, row, batch.producer_id)
            fault = None if known is None else _sequence_fault(known, batch.producer_epoch, batch.base_sequence)
            if fault is not None:
                where_text = _name(hot, topic_id, batch.partition)
                raise Contradiction(f"file {record.object_key}, producer {batch.producer_id} in {where_text}: {fault}")
            producers[producer] = (batch.producer_epoch, batch.last_sequence)


def _remembered(hot: HotState, row: int, producer_id: int) -> tuple[int, int] | None:
    """Epoch and last sequence of a producer, None when nothing is known of it."""
    slot = hot.producers.find(row, producer_id)
    return None if slot is None else (hot.producers.epoch.cells[slot], hot.producers.last_sequence(slot))


def _sequence_fault(known: tuple[int, int], epoch: int, sequence: int) -> str | None:
    known_epoch, last_sequence = known
    if epoch < known_epoch:
        return f"epoch {epoch} after epoch {known_epoch}"
    expected = 0 if epoch > known_epoch else (last_sequence + 1) & SEQUENCE_MASK
    return None if sequence == expected else f"sequence {sequence} of epoch {epoch}, {expected} is next"


def _name(hot: HotState, topic_id: bytes, partition: int) -> str:
    topic = hot.topics.get(topic_id)
    return f"{topic_id_text(topic_id) if topic is None else topic.name}-{partition}"
