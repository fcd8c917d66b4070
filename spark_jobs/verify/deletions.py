"""First pass of `verify`: when the log deletes what, so that the second pass can leave it out as it goes.

Only entries that are not plain commits travel here with their bodies; of the others the key is enough. A deletion inside a
transaction counts when that ends, at its own offset; both passes read to the same end. Whether a deletion contradicts the log
is not known here, but told from outside (`EffectiveLog.known_void`).
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from records.model import DisklessLogReset, PartitionAdopted, PartitionCreated, RecordsDeleted, TopicDeleted
from spark_jobs.verify.effective import Effective, EffectiveLog

Int64s = npt.NDArray[np.int64]

NEVER = (1 << 63) - 1
"""The offset at which remaining batches are deleted, and a log start after everything."""

IN_SNAPSHOT = -1
"""Stands for the entry that created a partition of the snapshot at which reading begins."""


def _numbers() -> array[int]:
    return array("q")


@dataclass(slots=True)
class History:
    """How the log start of a user partition moved: the entries that moved it, and where to, both ascending."""

    offsets: array[int] = field(default_factory=_numbers)
    starts: array[int] = field(default_factory=_numbers)

    def move(self, offset: int, start: int) -> None:
        """Records before `start` were deleted by an entry."""
        if start > (self.starts[-1] if self.starts else 0):
            self.offsets.append(offset)
            self.starts.append(start)

    def deaths(self, ends: Int64s) -> Int64s:
        """The entry that deletes a batch which ends before an offset, of each of them; or NEVER."""
        at = np.searchsorted(np.array(self.starts, np.int64), ends, "left")
        deaths: Int64s = np.append(np.array(self.offsets, np.int64), NEVER)[at]
        return deaths


@dataclass(slots=True)
class Deletions:
    """The histories of user partitions that have one, by key and by the entry that created the partition, or IN_SNAPSHOT."""

    histories: dict[tuple[bytes, int], History] = field(default_factory=dict)


@dataclass(slots=True)
class DeletionScan:
    """Collects the deletions of one metadata partition, entry by entry."""

    log: EffectiveLog = field(default_factory=EffectiveLog)
    deletions: Deletions = field(default_factory=Deletions)
    _partitions: dict[bytes, dict[bytes, int]] = field(default_factory=dict)

    def read(self, offset: int, key: bytes | None, value: bytes | None) -> None:
        """Take the next entry. Raises `LogFault`."""
        unit = self.log.read(offset, key, value)
        for entry in unit.entries if unit is not None else ():
            self._take(entry)

    def know(self, topic_id: bytes, key: bytes, created: int) -> None:
        """A user partition exists since an entry, if it did not before."""
        self._partitions.setdefault(topic_id, {}).setdefault(key, created)

    def _take(self, entry: Effective) -> None:
        for record in entry.records or ():
            match record:
                case PartitionCreated():
                    for one in partitions_of(record):
                        self.know(record.topic_id, key_of(record.topic_id, one), entry.offset)
                case PartitionAdopted():
                    # What was here of it before was deleted, and does not concern later batches.
                    self._partitions.setdefault(record.topic_id, {})[key_of(record.topic_id, record.partition)] = entry.offset
                case TopicDeleted():
                    for gone, created in self._partitions.pop(record.topic_id, {}).items():
                        self._history(gone, created).move(entry.offset, NEVER)
                case RecordsDeleted():
                    key = key_of(record.topic_id, record.partition)
                    since = self._partitions.get(record.topic_id, {}).get(key)
                    if since is not None:
                        self._history(key, since).move(entry.offset, record.new_log_start_offset)
                case DisklessLogReset():
                    # The offsets of the partition begin anew: earlier deletions do not concern later batches.
                    key = key_of(record.topic_id, record.partition)
                    if key in self._partitions.get(record.topic_id, {}):
                        self._partitions[record.topic_id][key] = entry.offset
                case _:
                    pass

    def _history(self, key: bytes, created: int) -> History:
        return self.deletions.histories.setdefault((key, created), History())


def partitions_of(record: PartitionCreated) -> range:
    """The partitions that an entry creates."""
    return range(record.first_partition, record.first_partition + record.num_partitions)


def key_of(topic_id: bytes, partition: int) -> bytes:
    """The 20 bytes that name a user partition."""
    return topic_id + partition.to_bytes(4, "big", signed=True)
