"""The batches of a WAL file as CommitFile names them: by topic id, with the place in the file and what their headers say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from coordinator.client.errors import InvalidRequest, NotFound
from coordinator.client.model import TopicDescription
from coordinator.client.records.wal_file import WalBatch
from coordinator.kafka.coordinators import OWNERS_MAX
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.timestamps import too_far_ahead
from coordinator.kafka.topic_configs import timestamp_after_max_ms
from coordinator.protocol.messages import CommitBatch
from records.record_batch import TimestampType


def commit_batches(
    name: str, batches: Sequence[WalBatch], topics: Mapping[str, TopicDescription], now_ms: int
) -> tuple[list[CommitBatch], list[int]]:
    """Return the batches of the file `name` as they are committed, and the coordinator of each.

    `topics` has each topic by its name in the file. Raises NotFound for a partition that its topic does not have, InvalidRequest when
    the partitions have too many coordinators, or a timestamp is further ahead of `now_ms` than its topic allows.
    """
    for one in batches:
        _check_time(one, topics[one.topic], now_ms)
    owners = {partition: _owner(topics[partition[0]], partition[1]) for partition in {(one.topic, one.partition) for one in batches}}
    coordinators = len(set(owners.values()))
    if coordinators > OWNERS_MAX:
        text = f"{name} has batches of {coordinators} coordinators, a file may have {OWNERS_MAX}; make several files of it"
        raise InvalidRequest(ErrorCode.INVALID_REQUEST, text)
    committed = [commit_batch(one, topics[one.topic].topic_id) for one in batches]
    return committed, [owners[one.topic, one.partition] for one in batches]


def _check_time(batch: WalBatch, topic: TopicDescription, now_ms: int) -> None:
    """Refuse timestamps of producers as Kafka's brokers do; the coordinator trusts those who commit."""
    if batch.header.timestamp_type is TimestampType.CREATE_TIME:
        complaint = too_far_ahead(batch.header.max_timestamp_ms, now_ms, timestamp_after_max_ms(topic.settings))
        if complaint is not None:
            raise InvalidRequest(ErrorCode.INVALID_TIMESTAMP, f"{topic.name}-{batch.partition}: {complaint}")


def commit_batch(batch: WalBatch, topic_id: bytes) -> CommitBatch:
    """Return one batch as it is committed to the topic."""
    header = batch.header
    return CommitBatch(
        magic=header.magic,
        request_id=0,
        topic_id=topic_id,
        partition_index=batch.partition,
        byte_offset=header.byte_offset,
        size=header.size_bytes,
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        batch_max_timestamp=header.max_timestamp_ms,
        timestamp_type=int(header.timestamp_type),
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        last_sequence=header.last_sequence,
    )


def _owner(topic: TopicDescription, partition: int) -> int:
    for one in topic.partitions:
        if one.partition == partition:
            return one.coordinator_id
    text = f"topic {topic.name} has no partition {partition}; it has {len(topic.partitions)}"
    raise NotFound(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
