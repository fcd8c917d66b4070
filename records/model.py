"""The metadata records as frozen dataclasses, and the atomic entry that carries them.

One Kafka message of `__diskless_metadata` is one entry: a key (`EntryKey`) and a list of these records. Records
state outcomes, never requests, and the logical state of a partition is a function of its log prefix alone.
Units: offsets are inclusive unless named `*_end`; times are milliseconds since the epoch; sizes are bytes.
Topic ids are the 16 raw bytes of a Kafka uuid.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class EntryKey(NamedTuple):
    """The 20-byte key of an entry: leadership epoch, random id of the term, place of the entry in the term."""

    epoch: int
    term: int
    seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where a node listens."""

    listener: str
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadershipClaimed:
    """A node claims the partition. In force only under the rules of `coordinator.core.leadership.fence`."""

    epoch: int
    term: int
    node_id: int
    rack: str
    endpoints: list[Endpoint]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCreated:
    """Partitions `[first_partition, first_partition + num_partitions)` of a topic live in this coordinator.

    `order_offset` is the offset in metadata partition 0 that ordered it; a lower one than the topic's last is void.
    """

    topic_id: bytes
    name: str
    first_partition: int
    num_partitions: int
    order_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDeleted:
    """Every partition of the topic is gone, with its batches and producers. Written even for an unknown topic."""

    topic_id: bytes
    order_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCommitted:
    """The outcome of one CommitFile: which batches of the file were accepted and what the others were told.

    Columns follow the order of the request. Accepted batches are described by runs of consecutive batches of one
    topic partition: `run_topic` (index into `topic_ids`), `run_partition`, `run_length`, `run_base_offset` (offset
    of the run's first record; the run's batches are dense) and `run_log_start` (log start then; empty = all zero).
    Per accepted batch: `byte_gap` (unused bytes before it, after the end of the batch before; empty = all zero),
    `byte_size`, `record_count_minus_one`, `timestamp_age` (append time minus the batch's largest timestamp) and
    `timestamp_type` (empty = all CreateTime). Per accepted idempotent batch: `producer_index` (place among the
    accepted batches, as the distance to the one before), `producer_id`, `producer_epoch`, `base_sequence`.
    Per batch not accepted anew (duplicate or rejected): `other_index` (place in the request, as the distance to the
    one before), `other_code` (0 = duplicate), `other_base_offset`, `other_time` (LogAppendTime of the answer),
    `other_log_start`, `other_message`. The first distance of an index column counts from 0.
    """

    object_key: str
    object_format: int
    file_size: int
    uploader_broker_id: int
    owner_ids: list[int]
    created_ms: int
    append_time_ms: int
    content_hash: bytes
    topic_ids: list[bytes]
    run_topic: list[int]
    run_partition: list[int]
    run_length: list[int]
    run_base_offset: list[int]
    run_log_start: list[int]
    byte_gap: list[int]
    byte_size: list[int]
    record_count_minus_one: list[int]
    timestamp_age: list[int]
    timestamp_type: list[int]
    producer_index: list[int]
    producer_id: list[int]
    producer_epoch: list[int]
    base_sequence: list[int]
    other_index: list[int] = field(default_factory=list)
    other_code: list[int] = field(default_factory=list)
    other_base_offset: list[int] = field(default_factory=list)
    other_time: list[int] = field(default_factory=list)
    other_log_start: list[int] = field(default_factory=list)
    other_message: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsDeleted:
    """The log start of a partition moved forward to exactly this offset."""

    topic_id: bytes
    partition: int
    new_log_start_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesFenced:
    """Keys that may never be committed any more; each leaves a tombstone."""

    object_keys: list[str]
    created_ms: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileHandedOver:
    """Responsibility for a file went to the next owner; leaves a tombstone here."""

    object_key: str
    next_owner_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesRemoved:
    """Objects that storage confirmed as deleted; each leaves a tombstone."""

    object_keys: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TombstonesExpired:
    """Tombstones of keys created before this time are forgotten, and topics deleted before it in log time."""

    before_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducersExpired:
    """Producers without an accepted batch since this time are forgotten."""

    before_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SeededProducerBatch:
    """A batch a producer wrote before the partition became diskless."""

    producer_id: int
    producer_epoch: int
    base_sequence: int
    last_sequence: int
    base_offset: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DisklessLogInitialized:
    """A migrated partition's diskless suffix starts at `base_offset` (B0)."""

    topic_id: bytes
    partition: int
    base_offset: int
    prefix_start_offset: int
    leader_epoch: int
    producers: list[SeededProducerBatch]


@dataclass(frozen=True, slots=True, kw_only=True)
class DisklessLogReset:
    """B0 of a partition without diskless data is unset again."""

    topic_id: bytes
    partition: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotMark:
    """Every replica remembers its state digest at this entry."""

    mark_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotCommitted:
    """A durable, verified snapshot of the state at `end_offset` exists at `location`."""

    mark_offset: int
    end_offset: int
    epoch: int
    size_bytes: int
    sha256: bytes
    digest: bytes
    location: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionBegan:
    """The entries that follow belong together until TransactionEnded (KIP-868).

    `num_chunks` is how many follow before it, so that a reader knows at once what is to come; -1: not said (schema level 1).
    """

    name: str
    num_chunks: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionEnded:
    """The transaction of `num_chunks` entries takes effect as a whole."""

    num_chunks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionAborted:
    """A note for tools: the claim in force already ended the open transaction."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NoOp:
    """A barrier: proves that the leader still led when it was acknowledged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """First record of a topic that was restored from snapshots."""

    old_topic_id: bytes
    old_end_offset: int
    epoch_floor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedRange:
    """Partitions `[first_partition, first_partition + num_partitions)` belong to `coordinator_id`."""

    first_partition: int
    num_partitions: int
    coordinator_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlaced:
    """Partition 0: where a topic's partitions live. Ranges are complete, not a difference; confirmed once all owners have them."""

    topic_id: bytes
    name: str
    ranges: list[PlacedRange]
    confirmed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDeleting:
    """Partition 0: a topic is going; confirmed once all owners have logged TopicDeleted."""

    topic_id: bytes
    confirmed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRegistered:
    """Partition 0: a node of the service and where it listens; `incarnation_id` is drawn at the start of its process."""

    node_id: int
    rack: str
    endpoints: list[Endpoint]
    schema_level_max: int
    incarnation_id: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDirectoriesChanged:
    """Partition 0: the data directories of a node, and which of them are offline."""

    node_id: int
    online: list[bytes]
    offline: list[bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaDirectoryAssigned:
    """Partition 0: the data directory that holds a node's replica of a metadata partition (KIP-858)."""

    node_id: int
    metadata_partition: int
    directory_id: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureLevelSet:
    """Partition 0: the schema level writers use from here on."""

    level: int


Record = (
    LeadershipClaimed
    | PartitionCreated
    | TopicDeleted
    | FileCommitted
    | RecordsDeleted
    | FilesFenced
    | FileHandedOver
    | FilesRemoved
    | TombstonesExpired
    | ProducersExpired
    | DisklessLogInitialized
    | DisklessLogReset
    | SnapshotMark
    | SnapshotCommitted
    | TransactionBegan
    | TransactionEnded
    | TransactionAborted
    | NoOp
    | Restored
    | TopicPlaced
    | TopicDeleting
    | NodeRegistered
    | NodeDirectoriesChanged
    | ReplicaDirectoryAssigned
    | FeatureLevelSet
)
