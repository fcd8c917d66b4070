"""Batches as CommitFile names them, for tests and measurements to which few of their fields matter."""

from __future__ import annotations

from coordinator.protocol.messages import CommitBatch
from records.record_batch import SEQUENCES


def commit_batch(
    topic_id: bytes,
    partition: int,
    *,
    records: int = 1,
    at: int = 0,
    size: int = 100,
    request_id: int = 0,
    timestamp_ms: int = 1_000,
    timestamp_type: int = 0,
    producer_id: int = -1,
    producer_epoch: int = 0,
    sequence: int = -1,
) -> CommitBatch:
    """A batch of `size` bytes that begins at byte `at` of its file; epoch and sequence are those of a producer, if it has one."""
    is_idempotent = producer_id >= 0
    return CommitBatch(
        magic=2,
        request_id=request_id,
        topic_id=topic_id,
        partition_index=partition,
        byte_offset=at,
        size=size,
        base_offset=0,
        last_offset=records - 1,
        batch_max_timestamp=timestamp_ms,
        timestamp_type=timestamp_type,
        producer_id=producer_id,
        producer_epoch=producer_epoch if is_idempotent else -1,
        base_sequence=sequence,
        last_sequence=(sequence + records - 1) % SEQUENCES if is_idempotent else -1,
    )
