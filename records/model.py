"""The metadata records as frozen dataclasses. Made by `python -m codegen` from `records/schemas/metadata-entry-v2.avsc`; do not edit.

One Kafka message of `__diskless_metadata` is one entry: a key (`records.entry_key.EntryKey`) and a list of these records.
Records state outcomes, never requests, and the logical state of a partition is a function of its log prefix alone.
Units: offsets are inclusive unless named `*_end`; times are milliseconds since the epoch; sizes are bytes.
Topic ids are the 16 raw bytes of a Kafka uuid.
"""

from __future__ import annotations

from dataclasses import dataclass

from records.committed_files.codec import FileCommitted


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
    classic_pending: bool = False
    """Whether they are classic partitions that are to be migrated: without B0, they take no batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDeleted:
    """Every partition of the topic is gone, with its batches and producers. Written even for an unknown topic."""

    topic_id: bytes
    """Topic the record is about."""
    order_offset: int
    """Offset in metadata partition 0 that ordered it."""


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
class FilesHandedOver:
    """This coordinator is done with some files that another owner still has; each leaves a tombstone here."""

    object_keys: list[str]
    """Keys handed over."""
    next_owner_ids: list[int]
    """Per key: the coordinator that had the file when it was asked, for tools."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesRemoved:
    """Objects that storage confirmed as deleted; each leaves a tombstone."""

    object_keys: list[str]
    """Keys removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TombstonesExpired:
    """Tombstones of files created, and ids of topics deleted, before some time are forgotten."""

    keys_before_ms: int
    """Files created before this go, milliseconds since the epoch; those without a time stay."""
    topics_before_ms: int
    """Topics deleted before this in log time go."""


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
    time_ms: int = 0
    """Clock of the leader, milliseconds since the epoch: the producers are remembered from then on."""


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
    """The first entry of a partition that was restored: the log goes on from the state of a snapshot of another log. Void anywhere
    else.
    """

    restore_id: bytes
    """Random id of the restore, the same in all its partitions."""
    old_cluster_id: str
    """Id of the Kafka cluster of the old log."""
    old_topic_id: bytes
    """Topic id of the metadata topic of the old log."""
    metadata_partition: int
    """Partition of both metadata topics."""
    partition_count: int
    """How many partitions the restore has."""
    old_end_offset: int
    """First offset of the old log that is not in the snapshot."""
    epoch_floor: int
    """The first claim's epoch is the successor of this one."""
    file_id_base: int
    """Id of a file less the offset of its entry, from here on."""
    location: str
    """Where the snapshot is stored; empty for a partition whose loss was accepted, which begins empty."""
    size_bytes: int
    """Size of the snapshot in bytes."""
    sha256: bytes
    """Digest of the snapshot's bytes."""
    digest: bytes
    """State digest at the end of the snapshot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedRange:
    """Partitions `[first_partition, first_partition + num_partitions)` belong to `coordinator_id`."""

    first_partition: int
    """First partition of the range."""
    num_partitions: int
    """Number of partitions in the range."""
    coordinator_id: int
    """Owning coordinator, a partition of __diskless_metadata."""
    classic_pending: bool = False
    """Whether they are created as classic partitions that are to be migrated."""


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
    log_dirs: list[bytes]
    """Ids of the data directories that are online, ascending (KIP-858)."""
    is_any_dir_offline: bool
    """Whether a configured data directory is offline."""
    drain: int = 0
    """Whether the node gives up what it leads: 0 it does not, 1 until its process ends, 2 until an operator ends it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryAssignment:
    """Replicas that one directory holds."""

    directory_id: bytes
    """Id of the directory; LOST when it is not known which one had them."""
    partitions: list[int]
    """Metadata partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicasAssignedToDirs:
    """Partition 0: the data directories that hold a node's replicas of metadata partitions (KIP-858)."""

    node_id: int
    """Node."""
    incarnation_id: bytes
    """Random id of the process that said so."""
    assignments: list[DirectoryAssignment]
    """Differences: replicas that are not named stay where they were."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureLevelSet:
    """Partition 0: the schema level writers use from here on."""

    level: int
    """Schema level."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreFinished:
    """Partition 0: an operator has called the restore finished; objects that no state knows are orphans again from here on."""

    restore_id: bytes
    """Id of the restore."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfigured:
    """Partition 0: the settings of a topic from here on; complete, not a difference."""

    topic_id: bytes
    """Topic the record is about."""
    names: list[str]
    """Settings the topic has of its own, ascending; for all others it has the service's."""
    values: list[str]
    """Value of each of these settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DisklessLogRepaired:
    """B0 of a partition is lower from here on: the classic log lost the records from it up to the B0 before."""

    topic_id: bytes
    """Topic the record is about."""
    partition: int
    """Partition."""
    base_offset: int
    """The lower B0."""
    leader_epoch: int
    """Leader epoch of the partition that asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixStartReported:
    """The part of a partition before B0 begins at a later offset from here on."""

    topic_id: bytes
    """Topic the record is about."""
    partition: int
    """Partition."""
    prefix_start_offset: int
    """Log start offset of the part before B0."""
    leader_epoch: int
    """Leader epoch of the partition that said so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMoving:
    """Partition 0: a user partition is to go on in another coordinator."""

    topic_id: bytes
    """Topic the record is about."""
    partition: int
    """Partition."""
    from_coordinator: int
    """Coordinator that has it."""
    to_coordinator: int
    """Coordinator that is to have it."""
    move_id: int
    """Id of the move: greater than those of all moves that were ordered before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierStretch:
    """A stretch of a partition that ended in a move."""

    coordinator_id: int
    """Coordinator that has its batches."""
    end_offset: int
    """The offset after its last one."""
    move_id: int
    """Id of the move in which it ended."""
    time_ms: int
    """Time of that coordinator's log when it ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMoved:
    """Partition 0: the move is done. The coordinator that it names owns the partition from here on."""

    topic_id: bytes
    """Topic the record is about."""
    partition: int
    """Partition."""
    move_id: int
    """Id of the move."""
    earlier: list[EarlierStretch]
    """The stretches of the partition that ended in moves, the oldest first; the last one in this move."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MovesSettled:
    """Partition 0: after a restore, the directory knows of all partitions that moved where they have to go on."""

    last_move_id: int
    """No move that any coordinator knows has a greater id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReleased:
    """A coordinator takes no batches of a partition any more: the stretch that it has of it has ended, for good."""

    topic_id: bytes
    """Topic the record is about."""
    partition: int
    """Partition."""
    move_id: int
    """Id of the move."""
    to_coordinator: int
    """Coordinator in which the partition goes on."""
    time_ms: int
    """Clock of the leader, milliseconds since the epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionAdopted:
    """A partition goes on in this coordinator, from where the stretch of another one has ended."""

    topic_id: bytes
    """Topic the record is about."""
    partition: int
    """Partition."""
    name: str
    """Topic name."""
    move_id: int
    """Id of the move."""
    start_offset: int
    """Log start offset of the partition, in whichever stretch."""
    base_offset: int
    """Where this stretch begins."""
    earlier: list[EarlierStretch]
    """The stretches before this one, the oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducersAdopted:
    """What is remembered of producers of a partition that was adopted by an earlier record of the same operation."""

    topic_id: bytes
    """Topic the record is about."""
    partition: int
    """Partition."""
    producers: list[SeededProducerBatch]
    """The remembered batches; those of a producer are adjacent, in the order of their offsets."""
    time_ms: int
    """Time of the log that had them: they are remembered from then on."""


Record = (
    LeadershipClaimed
    | PartitionCreated
    | TopicDeleted
    | FileCommitted
    | RecordsDeleted
    | FilesFenced
    | FilesHandedOver
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
    | ReplicasAssignedToDirs
    | FeatureLevelSet
    | RestoreFinished
    | TopicConfigured
    | DisklessLogRepaired
    | PrefixStartReported
    | PartitionMoving
    | PartitionMoved
    | MovesSettled
    | PartitionReleased
    | PartitionAdopted
    | ProducersAdopted
)
