"""One example of every record type, with every field filled; the golden bytes are theirs."""

from __future__ import annotations

import dataclasses

from records.entry_key import EntryKey
from records.model import (
    DisklessLogInitialized,
    DisklessLogReset,
    Endpoint,
    FeatureLevelSet,
    FileCommitted,
    FileHandedOver,
    FilesFenced,
    FilesRemoved,
    LeadershipClaimed,
    NodeDirectoriesChanged,
    NodeRegistered,
    NoOp,
    PartitionCreated,
    PlacedRange,
    ProducersExpired,
    Record,
    RecordsDeleted,
    ReplicaDirectoryAssigned,
    Restored,
    SeededProducerBatch,
    SnapshotCommitted,
    SnapshotMark,
    TombstonesExpired,
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
    topic_ids=[TOPIC_A, TOPIC_B],
    run_topic=[0, 1],
    run_partition=[5, 300],
    run_length=[2, 1],
    run_base_offset=[1_000_000, 2**40],
    run_log_start=[10, 0],
    byte_gap=[0, 100, 0],
    byte_size=[1024, 9000, 40_000],
    record_count_minus_one=[0, 99, 10_000],
    timestamp_age=[5, -3, 70_000],
    timestamp_type=[0, 0, 1],
    producer_index=[0, 2],
    producer_id=[4711, 2**33],
    producer_epoch=[0, 12],
    base_sequence=[0, 2**31 - 5],
    other_index=[1, 2],
    other_code=[0, 45],
    other_base_offset=[77, -1],
    other_time=[NOW_MS - 1000, -1],
    other_log_start=[10, -1],
    other_message=["", "séquence"],
)

EXAMPLES: list[Record] = [
    LeadershipClaimed(epoch=7, term=-0x0123456789ABCDEF, node_id=1, rack="a", endpoints=ENDPOINTS),
    PartitionCreated(topic_id=TOPIC_A, name="orders", first_partition=0, num_partitions=12, order_offset=99),
    TopicDeleted(topic_id=TOPIC_A, order_offset=100),
    FILE,
    RecordsDeleted(topic_id=TOPIC_A, partition=3, new_log_start_offset=5_000_000_000),
    FilesFenced(object_keys=["wal/a", "wal/b"], created_ms=[NOW_MS, NOW_MS + 1]),
    FileHandedOver(object_key="wal/a", next_owner_id=2),
    FilesRemoved(object_keys=["wal/a"]),
    TombstonesExpired(before_ms=NOW_MS),
    ProducersExpired(before_ms=NOW_MS + 1),
    DisklessLogInitialized(
        topic_id=TOPIC_A,
        partition=1,
        base_offset=1000,
        prefix_start_offset=10,
        leader_epoch=4,
        producers=[
            SeededProducerBatch(producer_id=9, producer_epoch=1, base_sequence=5, last_sequence=9, base_offset=990, timestamp_ms=NOW_MS)
        ],
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
    Restored(old_topic_id=TOPIC_B, old_end_offset=12_345, epoch_floor=7),
    TopicPlaced(
        topic_id=TOPIC_A,
        name="orders",
        ranges=[
            PlacedRange(first_partition=0, num_partitions=8, coordinator_id=0),
            PlacedRange(first_partition=8, num_partitions=4, coordinator_id=5),
        ],
        confirmed=True,
    ),
    TopicDeleting(topic_id=TOPIC_A, confirmed=False),
    NodeRegistered(node_id=1, rack="", endpoints=ENDPOINTS, schema_level_max=1, incarnation_id=TOPIC_B),
    NodeDirectoriesChanged(node_id=1, online=[TOPIC_A], offline=[TOPIC_B]),
    ReplicaDirectoryAssigned(node_id=1, metadata_partition=4, directory_id=TOPIC_B),
    FeatureLevelSet(level=1),
]


def examples_of(level: int) -> list[Record]:
    """The examples as a level can say them: fields that it lacks have their defaults."""
    if level > 1:
        return EXAMPLES
    return [dataclasses.replace(record, num_chunks=-1) if isinstance(record, TransactionBegan) else record for record in EXAMPLES]
