"""The metadata records as frozen dataclasses. Made by `python -m codegen` from `records/schemas/metadata-entry-v2.avsc`; do not edit.

One Kafka message of `__diskless_metadata` is one entry: a key (`records.entry_key.EntryKey`) and a list of these records.
Records state outcomes, never requests, and the logical state of a partition is a function of its log prefix alone.
Units: offsets are inclusive unless named `*_end`; times are milliseconds since the epoch; sizes are bytes.
Topic ids are the 16 raw bytes of a Kafka uuid.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where a node listens."""

    listener: str
    """Name of the listener."""
    host: str
    """Host name or address clients connect to."""
    port: int
    """TCP port."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadershipClaimed:
    """A node claims the partition. In force only under the rules of `records.log`."""

    epoch: int
    """Leadership epoch claimed, equal to the key's."""
    term: int
    """Random id of the term, equal to the key's."""
    node_id: int
    """Node that claims."""
    rack: str
    """Rack of the node; empty when unknown."""
    endpoints: list[Endpoint]
    """Where the node listens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCreated:
    """Partitions `[first_partition, first_partition + num_partitions)` of a topic live in this coordinator."""

    topic_id: bytes
    """Topic the record is about."""
    name: str
    """Name of the topic."""
    first_partition: int
    """First partition created."""
    num_partitions: int
    """Number of partitions created."""
    order_offset: int
    """Offset in metadata partition 0 that ordered it; lower than the topic's last is void."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDeleted:
    """Every partition of the topic is gone, with its batches and producers. Written even for an unknown topic."""

    topic_id: bytes
    """Topic the record is about."""
    order_offset: int
    """Offset in metadata partition 0 that ordered it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCommitted:
    """The outcome of one CommitFile: which batches of the file were accepted and what the others were told. Columns follow the
    order of the request; runs are consecutive accepted batches of one topic partition.
    """

    object_key: str
    """Key of the object in object storage."""
    object_format: int
    """Format of the object."""
    file_size: int
    """Size of the object in bytes."""
    uploader_broker_id: int
    """Broker that uploaded the object."""
    owner_ids: list[int]
    """Coordinators that own the file, first one responsible."""
    created_ms: int
    """When the object was created, milliseconds since the epoch."""
    append_time_ms: int
    """LogAppendTime of the file, milliseconds since the epoch."""
    content_hash: bytes
    """Hash of the request's content, recognises a retry."""
    topic_ids: list[bytes]
    """Dictionary of the topics in this record."""
    run_topic: list[int]
    """Per run: index into topic_ids."""
    run_partition: list[int]
    """Per run: partition."""
    run_length: list[int]
    """Per run: number of batches."""
    run_base_offset: list[int]
    """Per run: offset of its first record; batches of a run are dense."""
    run_log_start: list[int]
    """Per run: log start offset then; empty when all are 0."""
    byte_gap: list[int]
    """Per accepted batch: unused bytes between the end of the batch before (the first: of 0) and this batch; empty when all are 0.
    """
    byte_size: list[int]
    """Per accepted batch: size in bytes."""
    record_count_minus_one: list[int]
    """Per accepted batch: number of records minus one."""
    timestamp_age: list[int]
    """Per accepted batch: append_time_ms minus the batch's largest timestamp, in milliseconds."""
    timestamp_type: list[int]
    """Per accepted batch: 0 CreateTime, 1 LogAppendTime; empty when all are 0."""
    producer_index: list[int]
    """Per idempotent accepted batch: place among the accepted batches, as distance to the one before; the first counts from 0."""
    producer_id: list[int]
    """Per idempotent accepted batch: producer id."""
    producer_epoch: list[int]
    """Per idempotent accepted batch: producer epoch."""
    base_sequence: list[int]
    """Per idempotent accepted batch: sequence of its first record."""
    other_index: list[int] = field(default_factory=list)
    """Per batch not accepted anew: place in the request, as distance to the one before; the first counts from 0."""
    other_code: list[int] = field(default_factory=list)
    """Per batch not accepted anew: error code answered; 0 for a duplicate."""
    other_base_offset: list[int] = field(default_factory=list)
    """Per batch not accepted anew: base offset answered."""
    other_time: list[int] = field(default_factory=list)
    """Per batch not accepted anew: LogAppendTime answered, milliseconds since the epoch."""
    other_log_start: list[int] = field(default_factory=list)
    """Per batch not accepted anew: log start offset answered."""
    other_message: list[str] = field(default_factory=list)
    """Per batch not accepted anew: error message answered; empty when none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsDeleted:
    """The log start of a partition moved forward to exactly this offset."""

    topic_id: bytes
    """Topic the record is about."""
    partition: int
    """Partition."""
    new_log_start_offset: int
    """New log start offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesFenced:
    """Keys that may never be committed any more; each leaves a tombstone."""

    object_keys: list[str]
    """Keys fenced."""
    created_ms: list[int]
    """Per key: when the object was created, milliseconds since the epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileHandedOver:
    """Responsibility for a file went to the next owner; leaves a tombstone here."""

    object_key: str
    """Key of the object."""
    next_owner_id: int
    """Coordinator responsible from here on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesRemoved:
    """Objects that storage confirmed as deleted; each leaves a tombstone."""

    object_keys: list[str]
    """Keys removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TombstonesExpired:
    """Tombstones of keys created before this time are forgotten, and topics deleted before it in log time."""

    before_ms: int
    """Time, milliseconds since the epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducersExpired:
    """Producers without an accepted batch since this time are forgotten."""

    before_ms: int
    """Time, milliseconds since the epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeededProducerBatch:
    """A batch a producer wrote before the partition became diskless."""

    producer_id: int
    """Producer id."""
    producer_epoch: int
    """Producer epoch."""
    base_sequence: int
    """Sequence of the batch's first record."""
    last_sequence: int
    """Sequence of the batch's last record."""
    base_offset: int
    """Offset of the batch's first record."""
    timestamp_ms: int
    """Time of the batch, milliseconds since the epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DisklessLogInitialized:
    """A migrated partition's diskless suffix starts at `base_offset` (B0)."""

    topic_id: bytes
    """Topic the record is about."""
    partition: int
    """Partition."""
    base_offset: int
    """B0, first offset of the diskless suffix."""
    prefix_start_offset: int
    """Log start offset of the part before B0."""
    leader_epoch: int
    """Leader epoch of the partition that asked."""
    producers: list[SeededProducerBatch]
    """Latest batches of the producers before B0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DisklessLogReset:
    """B0 of a partition without diskless data is unset again."""

    topic_id: bytes
    """Topic the record is about."""
    partition: int
    """Partition."""
    leader_epoch: int
    """Leader epoch of the partition that asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotMark:
    """Every replica remembers its state digest at this entry."""

    mark_id: int
    """Id of the mark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotCommitted:
    """A durable, verified snapshot of the state at `end_offset` exists at `location`."""

    mark_offset: int
    """Offset of the SnapshotMark it refers to."""
    end_offset: int
    """First offset not in the snapshot."""
    epoch: int
    """Leadership epoch at end_offset."""
    size_bytes: int
    """Size of the snapshot in bytes."""
    sha256: bytes
    """Digest of the snapshot's bytes."""
    digest: bytes
    """The leader's state digest at the mark."""
    location: str
    """Where the snapshot is stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionBegan:
    """The entries that follow belong together until TransactionEnded (KIP-868)."""

    name: str
    """What the transaction does, for tools."""
    num_chunks: int = -1
    """How many entries follow until TransactionEnded; -1 where it is not said (level 1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionEnded:
    """The transaction of `num_chunks` entries takes effect as a whole."""

    num_chunks: int
    """Number of entries between begin and end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionAborted:
    """A note for tools: the claim in force already ended the open transaction."""

    reason: str
    """Why, for tools."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoOp:
    """A barrier: proves that the leader still led when it was acknowledged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """First record of a topic that was restored from snapshots."""

    old_topic_id: bytes
    """Topic id of the metadata topic the snapshots were taken from."""
    old_end_offset: int
    """First offset of the old topic not in the snapshot."""
    epoch_floor: int
    """The first claim's epoch is the successor of this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedRange:
    """Partitions `[first_partition, first_partition + num_partitions)` belong to `coordinator_id`."""

    first_partition: int
    """First partition of the range."""
    num_partitions: int
    """Number of partitions in the range."""
    coordinator_id: int
    """Owning coordinator, a partition of __diskless_metadata."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlaced:
    """Partition 0: where a topic's partitions live. Ranges are complete, not a difference; confirmed once all owners have them."""

    topic_id: bytes
    """Topic the record is about."""
    name: str
    """Name of the topic."""
    ranges: list[PlacedRange]
    """All ranges of the topic."""
    confirmed: bool
    """True once all owners have them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDeleting:
    """Partition 0: a topic is going; confirmed once all owners have logged TopicDeleted."""

    topic_id: bytes
    """Topic the record is about."""
    confirmed: bool
    """True once all owners have logged TopicDeleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRegistered:
    """Partition 0: a node of the service and where it listens; `incarnation_id` is drawn at the start of its process."""

    node_id: int
    """Node."""
    rack: str
    """Rack of the node; empty when unknown."""
    endpoints: list[Endpoint]
    """Where the node listens."""
    schema_level_max: int
    """Highest schema level the node can read."""
    incarnation_id: bytes
    """Random id of the process, drawn at its start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDirectoriesChanged:
    """Partition 0: the data directories of a node, and which of them are offline."""

    node_id: int
    """Node."""
    online: list[bytes]
    """Ids of the directories in use."""
    offline: list[bytes]
    """Ids of the directories that failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaDirectoryAssigned:
    """Partition 0: the data directory that holds a node's replica of a metadata partition (KIP-858)."""

    node_id: int
    """Node."""
    metadata_partition: int
    """Metadata partition."""
    directory_id: bytes
    """Id of the directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureLevelSet:
    """Partition 0: the schema level writers use from here on."""

    level: int
    """Schema level."""


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
