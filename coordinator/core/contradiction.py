"""Whether what an entry says can be: the rule that makes applying total.

An entry that counts by the fence and has a lawful form (`records.log`) may still say what the log before it rules out: an offset that
is not the next one, a sequence with a gap, a partition that does not exist. Such an entry is void, as one of another term is: it uses
up its seq and changes nothing, on every replica, now and whenever the log is read again. So no entry can make a log unreadable, and no
entry can overwrite what was acknowledged before it. A transaction is judged as a whole.

Invariants: the verdict depends on the log before the entry alone, never on what this process has written or cleaned up so far; and
`ShardState` applies whatever passes. What a version of this program does not know at all is not for this rule: it stops the
replica (`core.tables.in_memory.NotSupported`), because a newer version knows it and replicas must not differ.
"""

from __future__ import annotations

from collections.abc import Sequence

from coordinator.core.state.replica_state import ShardState
from coordinator.core.tables.in_memory import Contradiction, HotState
from coordinator.kafka.batches import partition_key
from records.model import (
    FileCommitted,
    FileHandedOver,
    FilesRemoved,
    PartitionCreated,
    Record,
    RecordsDeleted,
    TopicDeleted,
)


def check_records(state: ShardState, records: Sequence[Record]) -> None:
    """Judge the records of an entry, or of all chunks of a transaction, against the state before it; changes no answer.

    Their form was judged before (`records.log`). Raises `Contradiction`, which says what was expected and what was found.
    """
    bounds = _Bounds(state.hot)
    for record in records:
        match record:
            case FileCommitted():
                _check_key(state, record)
                state.hot.place(record)
            case PartitionCreated():
                bounds.create(record)
            case TopicDeleted():
                bounds.delete(record.topic_id)
            case RecordsDeleted():
                high_watermark = bounds.high_watermark(record.topic_id, record.partition)
                if high_watermark is not None and record.new_log_start_offset > high_watermark:
                    raise Contradiction(
                        f"records of {state.hot.name_of(record.topic_id, record.partition)} are deleted up to"
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
