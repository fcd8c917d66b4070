"""What the entries of one coordinator add up to, as far as needed to say which of them contradict what stands before them.

An entry is applied as a whole or not at all: `apply` returns why it contradicts, and then nothing of it has taken effect.
A file contradicts when a run's partition is not there or its base offset is not the partition's high watermark, when a batch
begins beyond byte 2^31-1, when sequences or epochs of an idempotent producer cannot follow what is remembered, or when its
key is known. A deletion of records contradicts when it goes beyond the high watermark, a file when it is not alone in its
entry, and a claim anywhere behind sequence 0. Written anew, trusting no product code.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from records import model
from records.committed_files.codec import FileCommitted

TOPIC_PARTITIONS_MAX: Final = 10_000_000
BYTE_OFFSET_MAX: Final = 2**31 - 1
SEQUENCE_MODULUS: Final = 2**31
Where = tuple[bytes, int]
"""Topic id and partition."""


class Producer(NamedTuple):
    """What is remembered of a producer in a partition."""

    epoch: int
    last_sequence: int
    append_time_ms: int


MigrationRecord = model.DisklessLogInitialized | model.DisklessLogReset | model.DisklessLogRepaired | model.PrefixStartReported


@dataclass(slots=True)
class Migration:
    """Where a classic partition stands: B0 (None before it is set), the start of its classic part, the highest leader epoch."""

    start: int | None = None
    prefix: int = 0
    epoch: int = -1


@dataclass(slots=True)
class LogFold:
    """The state of one coordinator between two entries."""

    high_watermarks: dict[Where, int] = field(default_factory=dict)
    producers: dict[tuple[Where, int], Producer] = field(default_factory=dict)
    files: dict[str, int] = field(default_factory=dict)
    """Known object keys, with the creation times of their files."""
    tombstones: dict[str, int] = field(default_factory=dict)
    migrations: dict[Where, Migration] = field(default_factory=dict)
    """Of partitions that are, or were, classic ones."""
    released: set[Where] = field(default_factory=set)
    """Partitions that go on in another coordinator."""

    def apply(self, records: Sequence[model.Record], *, is_transaction: bool = False) -> str | None:
        """Apply records that take effect together; returns why they contradict, and then has applied none of them."""
        if any(isinstance(record, FileCommitted) for record in records) and (len(records) > 1 or is_transaction):
            return f"a file is not alone in its entry{', but inside a transaction' if is_transaction else ''}"
        if len(records) == 1:
            return self.apply_one(records[0])
        trial = copy.deepcopy(self)
        for record in records:
            reason = trial.apply_one(record)
            if reason is not None:
                return reason
        self.high_watermarks, self.producers = trial.high_watermarks, trial.producers
        self.files, self.tombstones, self.migrations = trial.files, trial.tombstones, trial.migrations
        self.released = trial.released
        return None

    def apply_one(self, record: model.Record) -> str | None:
        """Apply a record that takes effect alone; returns why it contradicts, and may then have applied a part of it."""
        match record:
            case FileCommitted():
                return self._commit(record)
            case model.LeadershipClaimed():
                return "a claim stands behind sequence 0"
            case model.Restored():
                return "a restore stands behind the beginning of the log"
            case model.RecordsDeleted():
                high_watermark = self.high_watermarks.get((record.topic_id, record.partition))
                if high_watermark is not None and record.new_log_start_offset > high_watermark:
                    return f"records are deleted up to {record.new_log_start_offset}, beyond the high watermark {high_watermark}"
            case model.PartitionCreated():
                if not 0 <= record.first_partition <= record.first_partition + record.num_partitions <= TOPIC_PARTITIONS_MAX:
                    return f"a topic gets {record.num_partitions} partitions from {record.first_partition} on"
                for partition in range(record.first_partition, record.first_partition + record.num_partitions):
                    where = (record.topic_id, partition)
                    if record.classic_pending and where not in self.high_watermarks:
                        self.migrations[where] = Migration()
                    self.high_watermarks.setdefault(where, 0)
            case model.DisklessLogInitialized() | model.DisklessLogReset() | model.DisklessLogRepaired() | model.PrefixStartReported():
                return self._migrate(record)
            case model.PartitionReleased():
                where = (record.topic_id, record.partition)
                if where not in self.high_watermarks or where in self.released or where in self.migrations:
                    return f"partition {where[0].hex()[:8]}-{where[1]} is released, and is not here, or was released before"
                self.released.add(where)
            case model.PartitionAdopted():
                where = (record.topic_id, record.partition)
                if where in self.high_watermarks and where not in self.released:
                    return f"partition {where[0].hex()[:8]}-{where[1]} is adopted, and is here"
                self.released.discard(where)
                self.high_watermarks[where] = record.base_offset
                self.producers = {key: known for key, known in self.producers.items() if key[0] != where}
            case model.ProducersAdopted():
                for seed in record.producers:
                    known = Producer(seed.producer_epoch, seed.last_sequence, record.time_ms)
                    self.producers[(record.topic_id, record.partition), seed.producer_id] = known
            case model.TopicDeleted():
                self.released = {where for where in self.released if where[0] != record.topic_id}
                self.high_watermarks = {where: end for where, end in self.high_watermarks.items() if where[0] != record.topic_id}
                self.migrations = {where: one for where, one in self.migrations.items() if where[0] != record.topic_id}
                self.producers = {key: known for key, known in self.producers.items() if key[0][0] != record.topic_id}
            case model.ProducersExpired():
                self.producers = {key: known for key, known in self.producers.items() if known.append_time_ms >= record.before_ms}
            case model.FilesFenced():
                self.tombstones.update(zip(record.object_keys, record.created_ms, strict=True))
            case model.FilesRemoved() | model.FilesHandedOver():
                self.tombstones.update((key, self.files.pop(key, -1)) for key in record.object_keys)
            case model.TombstonesExpired():
                self.tombstones = {key: at for key, at in self.tombstones.items() if not 0 <= at < record.keys_before_ms}
        return None

    def _migrate(self, record: MigrationRecord) -> str | None:
        """Apply a step of a migration, or say why it contradicts."""
        where = (record.topic_id, record.partition)
        known, end = self.migrations.get(where), self.high_watermarks.get(where)
        if known is None or end is None:
            return f"partition {where[0].hex()[:8]}-{where[1]} is no classic one"
        if record.leader_epoch < max(0, known.epoch):
            return f"leader epoch {record.leader_epoch} comes behind {known.epoch}"
        match record:
            case model.DisklessLogInitialized() if known.start is None:
                offsets = [seed.base_offset for seed in record.producers]
                if not 0 <= record.prefix_start_offset <= record.base_offset or not all(0 <= one < record.base_offset for one in offsets):
                    return f"a diskless log cannot begin at {record.base_offset} with what stands before it"
                known.start = self.high_watermarks[where] = record.base_offset
                known.prefix = record.prefix_start_offset
                for seed in record.producers:
                    self.producers[where, seed.producer_id] = Producer(seed.producer_epoch, seed.last_sequence, record.time_ms)
            case model.DisklessLogInitialized() if record.base_offset != known.start:
                return f"a diskless log begins at {known.start}, and at {record.base_offset}"
            case model.DisklessLogReset() if known.start is not None:
                if record.leader_epoch == known.epoch or end > known.start:
                    return f"the beginning {known.start} of a diskless log that ends at {end} is unset in epoch {record.leader_epoch}"
                known.start, self.high_watermarks[where] = None, 0
                self.producers = {key: one for key, one in self.producers.items() if key[0] != where}
            case model.DisklessLogRepaired():
                if known.start is None or not known.prefix <= record.base_offset <= known.start:
                    return f"the beginning {known.start} of a diskless log is lowered to {record.base_offset}"
                if end == known.start:
                    self.high_watermarks[where] = record.base_offset
                known.start = record.base_offset
            case model.PrefixStartReported():
                if known.start is None or not 0 <= record.prefix_start_offset <= known.start:
                    return f"the classic log is said to begin at {record.prefix_start_offset}, and to end at {known.start}"
                known.prefix = max(known.prefix, record.prefix_start_offset)
            case _:
                pass
        known.epoch = record.leader_epoch
        return None

    def _commit(self, record: FileCommitted) -> str | None:
        """Apply a file whole, or say why it contradicts."""
        if record.object_key in self.files or record.object_key in self.tombstones:
            return f"file {record.object_key} is known already"
        ends: dict[Where, int] = {}
        producers: dict[tuple[Where, int], Producer] = {}
        for batch in record.accepted:
            where = (batch.topic_id, batch.partition)
            due = ends.get(where, self.high_watermarks.get(where))
            name = f"partition {where[0].hex()[:8]}-{where[1]}"
            if due is None:
                return f"{name} does not exist"
            if where in self.released:
                return f"{name} was released"
            if where in self.migrations and self.migrations[where].start is None:
                return f"{name} takes no batches before its diskless log begins"
            if batch.base_offset != due:
                return f"offset {batch.base_offset} of {name} is given where {due} is due"
            if batch.byte_offset > BYTE_OFFSET_MAX:
                return f"a batch of {name} begins at byte {batch.byte_offset}, behind {BYTE_OFFSET_MAX}"
            ends[where] = due + batch.record_count
            if batch.producer_id >= 0:
                key = (where, batch.producer_id)
                known = producers.get(key, self.producers.get(key))
                fault = _sequence_fault(known, batch.base_offset, batch.producer_epoch, batch.base_sequence)
                if fault is not None:
                    return f"producer {batch.producer_id} of {name} {fault}"
                producers[key] = Producer(batch.producer_epoch, batch.last_sequence, record.append_time_ms)
        self.high_watermarks.update(ends)
        self.producers.update(producers)
        self.files[record.object_key] = record.created_ms
        return None


def _sequence_fault(known: Producer | None, base_offset: int, epoch: int, base_sequence: int) -> str | None:
    """Why a batch cannot follow what is remembered of its producer; without memory it begins anywhere but with the very first record."""
    if known is None:
        return f"begins an empty partition with sequence {base_sequence}" if base_offset == 0 and base_sequence else None
    if epoch < known.epoch:
        return f"has epoch {epoch} behind {known.epoch}"
    due = 0 if epoch > known.epoch else (known.last_sequence + 1) % SEQUENCE_MODULUS
    return None if base_sequence == due else f"has sequence {base_sequence} of epoch {epoch} where {due} is due"


def marker_fault(records: Sequence[model.Record]) -> str | None:
    """Why an entry cannot be a part of a transaction, nor stand for itself; it ends the one that is open."""
    if any(isinstance(record, model.TransactionBegan | model.TransactionEnded) for record in records) and len(records) > 1:
        return f"a transaction begins or ends among other records: {[type(record).__name__ for record in records]}"
    return None
