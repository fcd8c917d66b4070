"""First pass of `verify`: what the log says was deleted in the end, so that the second pass can leave it out as it goes.

Only entries that are not plain commits travel here with their bodies; of the others the key is enough. A deletion inside a
transaction counts when that ends, at its own offset; both passes read to the same end.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from records.model import PartitionCreated, RecordsDeleted, TopicDeleted
from spark_jobs.verify.effective import Effective, EffectiveLog
from spark_jobs.verify.judged import LogFault

PARTITIONS_MAX = 10_000_000
"""Far more than a topic can have; bounds what one entry of garbage can cost."""


@dataclass(slots=True)
class Deletions:
    """Log starts that were moved, by partition key, and where each topic was deleted last."""

    log_starts: dict[bytes, int] = field(default_factory=dict)
    deleted_at: dict[bytes, int] = field(default_factory=dict)


@dataclass(slots=True)
class DeletionScan:
    """Collects the deletions of one metadata partition, entry by entry."""

    log: EffectiveLog = field(default_factory=EffectiveLog)
    deletions: Deletions = field(default_factory=Deletions)
    _partitions: dict[bytes, set[bytes]] = field(default_factory=dict)

    def read(self, offset: int, key: bytes | None, value: bytes | None) -> None:
        """Take the next entry. Raises `LogFault`."""
        for entry in self.log.read(offset, key, value):
            self._take(entry)

    def _take(self, entry: Effective) -> None:
        for record in entry.records or ():
            match record:
                case PartitionCreated():
                    made = (key_of(record.topic_id, one) for one in partitions_of(record, entry.offset))
                    self._partitions.setdefault(record.topic_id, set()).update(made)
                case TopicDeleted():
                    self.deletions.deleted_at[record.topic_id] = entry.offset
                    for gone in self._partitions.pop(record.topic_id, ()):
                        self.deletions.log_starts.pop(gone, None)
                case RecordsDeleted():
                    self._move(key_of(record.topic_id, record.partition), record)
                case _:
                    pass

    def _move(self, key: bytes, record: RecordsDeleted) -> None:
        if key in self._partitions.get(record.topic_id, ()):
            starts = self.deletions.log_starts
            starts[key] = max(starts.get(key, 0), record.new_log_start_offset)


def partitions_of(record: PartitionCreated, offset: int) -> range:
    """The partitions that an entry creates. Raises `LogFault` for a range that no coordinator can hold."""
    end = record.first_partition + record.num_partitions
    if not 0 <= record.first_partition <= end <= PARTITIONS_MAX:
        raise LogFault(offset, f"it creates partitions {record.first_partition} to {end - 1} of a topic")
    return range(record.first_partition, end)


def key_of(topic_id: bytes, partition: int) -> bytes:
    """The 20 bytes that name a user partition."""
    return topic_id + partition.to_bytes(4, "big", signed=True)
