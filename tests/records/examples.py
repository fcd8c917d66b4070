"""One example of every record type, with every field filled; the golden bytes are theirs."""

from __future__ import annotations

import dataclasses

from records.committed_files.codec import CommittedBatch, FileCommitted
from records.committed_files.lines import BatchVerdict
from records.entry_key import EntryKey
from records.history import schema_of_level
from records.model import (
    DirectoryAssignment,
    DisklessLogInitialized,
    DisklessLogRepaired,
    DisklessLogReset,
    EarlierStretch,
    Endpoint,
    FeatureLevelSet,
    FilesFenced,
    FilesHandedOver,
    FilesRemoved,
    LeadershipClaimed,
    MovesSettled,
    NodeRegistered,
    NoOp,
    PartitionAdopted,
    PartitionCreated,
    PartitionMoved,
    PartitionMoving,
    PartitionReleased,
    PlacedRange,
    PrefixStartReported,
    ProducersAdopted,
    ProducersExpired,
    Record,
    RecordsDeleted,
    ReplicasAssignedToDirs,
    Restored,
    RestoreFinished,
    SeededProducerBatch,
    SnapshotCommitted,
    SnapshotMark,
    TombstonesExpired,
    TopicConfigured,
    TopicDeleted,
    TopicDeleting,
    TopicPlaced,
    TransactionAborted,
    TransactionBegan,
    TransactionEnded,
)

KEY = EntryKey(7, -0x0123456789ABCDEF, 42)

TOPIC_A = bytes(range(16))
TOPIC_B = bytes(range(16, 32))
NOW_MS = 1_760_000_000_000
ENDPOINTS = [Endpoint(listener="CLIENT", host="node-1.example", port=9192), Endpoint(listener="INTERNAL", host="10.0.0.1", port=9193)]

FILE = FileCommitted(
    object_key="wal/01K7AVQ2N3G5H8J9KMPQRSTVWX",
    object_format=1,
    file_size=70_000,
    uploader_broker_id=3,
    owner_ids=[0, 2],
    created_ms=NOW_MS - 400,
    append_time_ms=NOW_MS,
    content_hash=bytes(range(32, 48)),
    batches=[
        CommittedBatch(TOPIC_A, 5, 0, 1_000_000, 1, 0, 1024, NOW_MS - 5, 0, 4711, 0, 0, 10, 0),
        CommittedBatch(TOPIC_A, 5, BatchVerdict.DUPLICATE, 77, 3, 1024, 100, NOW_MS - 9, 1, 4711, 0, 7, 10, NOW_MS - 1000),
        CommittedBatch(TOPIC_A, 5, 0, 1_000_001, 100, 1124, 9000, NOW_MS + 3, 0, -1, -1, -1, 10, 0),
        CommittedBatch(TOPIC_B, 300, BatchVerdict.SEQUENCE_GAP, -1, 2, 10_124, 60, NOW_MS, 0, 8, 1, 40, 0, 12),
        CommittedBatch(TOPIC_B, 300, 0, 2**40, 10_001, 10_300, 40_000, NOW_MS - 70_000, 1, 2**33, 12, 2**31 - 5, 0, 0),
    ],
)

_SEED = SeededProducerBatch(producer_id=9, producer_epoch=1, base_sequence=5, last_sequence=9, base_offset=990, timestamp_ms=NOW_MS)
_STRETCH = EarlierStretch(coordinator_id=0, end_offset=9, move_id=40, time_ms=NOW_MS)

RESTORED = Restored(
    restore_id=TOPIC_A,
    old_cluster_id="MkU3OEVBNTcwNTJENDM2Qg",
    old_topic_id=TOPIC_B,
    metadata_partition=3,
    partition_count=8,
    old_end_offset=12_345,
    epoch_floor=1007,
    file_id_base=12_345 + (1 << 24),
    location="file:///store/12345.checkpoint",
    size_bytes=10_000,
    sha256=bytes(range(32)),
    digest=bytes(range(16)),
)
EXAMPLES: list[Record] = [
    LeadershipClaimed(epoch=7, term=-0x0123456789ABCDEF, node_id=1, rack="a", endpoints=ENDPOINTS),
    PartitionCreated(topic_id=TOPIC_A, name="orders", first_partition=0, num_partitions=12, order_offset=99),
    TopicDeleted(topic_id=TOPIC_A, order_offset=100),
    FILE,
    RecordsDeleted(topic_id=TOPIC_A, partition=3, new_log_start_offset=5_000_000_000),
    FilesFenced(object_keys=["wal/a", "wal/b"], created_ms=[NOW_MS, NOW_MS + 1]),
    FilesHandedOver(object_keys=["wal/a", "wal/b"], next_owner_ids=[2, 3]),
    FilesRemoved(object_keys=["wal/a"]),
    TombstonesExpired(keys_before_ms=NOW_MS, topics_before_ms=NOW_MS - 1),
    ProducersExpired(before_ms=NOW_MS + 1),
    DisklessLogInitialized(
        topic_id=TOPIC_A,
        partition=1,
        base_offset=1000,
        prefix_start_offset=10,
        leader_epoch=4,
        producers=[_SEED],
        time_ms=NOW_MS + 2,
    ),
    DisklessLogReset(topic_id=TOPIC_A, partition=1, leader_epoch=5),
    SnapshotMark(mark_id=-1),
    SnapshotCommitted(
        mark_offset=500, end_offset=501, epoch=7, size_bytes=2**32, sha256=bytes(range(32)), digest=bytes(range(16)), location="snap/0/501"
    ),
    TransactionBegan(name="delete topic", num_chunks=3),
    TransactionEnded(num_chunks=3),
    TransactionAborted(reason="claim of epoch 8"),
    NoOp(),
    RESTORED,
    TopicPlaced(
        topic_id=TOPIC_A,
        name="orders",
        ranges=[
            PlacedRange(first_partition=0, num_partitions=8, coordinator_id=0),
            PlacedRange(first_partition=8, num_partitions=4, coordinator_id=5, classic_pending=True),
        ],
        confirmed=True,
    ),
    TopicDeleting(topic_id=TOPIC_A, confirmed=False),
    NodeRegistered(
        node_id=1, rack="", endpoints=ENDPOINTS, schema_level_max=1, incarnation_id=TOPIC_B, log_dirs=[TOPIC_A], is_any_dir_offline=True
    ),
    ReplicasAssignedToDirs(
        node_id=1,
        incarnation_id=TOPIC_B,
        assignments=[
            DirectoryAssignment(directory_id=TOPIC_A, partitions=[0, 4]),
            DirectoryAssignment(directory_id=bytes(15) + b"\x02", partitions=[7]),
        ],
    ),
    FeatureLevelSet(level=1),
    RestoreFinished(restore_id=TOPIC_A),
    TopicConfigured(topic_id=TOPIC_A, names=["retention.bytes", "retention.ms"], values=["-1", "604800000"]),
    DisklessLogRepaired(topic_id=TOPIC_A, partition=1, base_offset=900, leader_epoch=6),
    PrefixStartReported(topic_id=TOPIC_A, partition=1, prefix_start_offset=20, leader_epoch=6),
    PartitionMoving(topic_id=TOPIC_A, partition=1, from_coordinator=0, to_coordinator=2, move_id=40),
    PartitionMoved(topic_id=TOPIC_A, partition=1, move_id=40, earlier=[_STRETCH]),
    MovesSettled(last_move_id=41),
    PartitionReleased(topic_id=TOPIC_A, partition=1, move_id=40, to_coordinator=2, time_ms=NOW_MS),
    PartitionAdopted(topic_id=TOPIC_A, partition=1, name="orders", move_id=40, start_offset=3, base_offset=9, earlier=[_STRETCH]),
    ProducersAdopted(topic_id=TOPIC_A, partition=1, producers=[_SEED], time_ms=1_700_000_000_000),
]


def examples_of(level: int) -> list[Record]:
    """The examples as a level can say them: fields that it lacks have their defaults, records that it lacks are left out."""
    return (
        EXAMPLES if level > 1 else [_of_level_1(record) for record in EXAMPLES if type(record).__name__ in schema_of_level(1).record_types]
    )


def _of_level_1(record: Record) -> Record:
    match record:
        case TransactionBegan():
            return dataclasses.replace(record, num_chunks=-1)
        case DisklessLogInitialized():
            return dataclasses.replace(record, time_ms=0)
        case TopicPlaced():
            return dataclasses.replace(record, ranges=[dataclasses.replace(one, classic_pending=False) for one in record.ranges])
        case _:
            return record
