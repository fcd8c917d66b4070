"""The batches of a WAL file as CommitFile names them: by topic id, with the place in the file and what their headers say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from coordinator.client.errors import InvalidRequest, NotFound
from coordinator.client.model import TopicDescription
from coordinator.client.records.wal_file import WalBatch
from coordinator.kafka.coordinators import OWNERS_MAX
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.timestamps import too_far_ahead, too_far_behind
from coordinator.kafka.topic_configs import MessageRules, message_rules
from coordinator.protocol.messages import CommitBatch
from records.record_batch import TimestampType


def commit_batches(name: str, batches: Sequence[WalBatch], topics: Mapping[str, TopicDescription], now_ms: int) -> list[CommitBatch]:
    """Return the batches of the file `name` as they are committed.

    `topics` has each topic by its name in the file. Raises NotFound for a partition that its topic does not have, InvalidRequest when
    the partitions have too many coordinators, or a batch is larger, or has a timestamp further from `now_ms`, than its topic allows.
    """
    rules = {topic: message_rules(topics[topic].settings) for topic in {one.topic for one in batches}}
    for one in batches:
        _check(one, topics[one.topic].name, rules[one.topic], now_ms)
    coordinators = len({_owner(topics[topic], partition) for topic, partition in {(one.topic, one.partition) for one in batches}})
    if coordinators > OWNERS_MAX:
        text = f"{name} has batches of {coordinators} coordinators, a file may have {OWNERS_MAX}; make several files of it"
        raise InvalidRequest(ErrorCode.INVALID_REQUEST, text)
    return [commit_batch(one, topics[one.topic].topic_id, rules[one.topic]) for one in batches]


def _check(batch: WalBatch, topic: str, rules: MessageRules, now_ms: int) -> None:
    """Refuse batches as Kafka's brokers do; the coordinator trusts those who commit. Times are those of the first and the newest record."""
    header = batch.header
    if header.size_bytes > rules.bytes_max:
        text = f"{topic}-{batch.partition}: a batch of {header.size_bytes} bytes; max.message.bytes is {rules.bytes_max}"
        raise InvalidRequest(ErrorCode.MESSAGE_TOO_LARGE, f"{text}: write smaller batches or records, or raise the setting")
    if rules.is_log_append_time or header.timestamp_type is not TimestampType.CREATE_TIME:
        return
    complaint = too_far_ahead(header.max_timestamp_ms, now_ms, rules.after_max_ms) or too_far_behind(
        min(header.base_timestamp_ms, header.max_timestamp_ms), now_ms, rules.before_max_ms
    )
    if complaint is not None:
        raise InvalidRequest(ErrorCode.INVALID_TIMESTAMP, f"{topic}-{batch.partition}: {complaint}")


def commit_batch(batch: WalBatch, topic_id: bytes, rules: MessageRules) -> CommitBatch:
    """Return one batch as it is committed to the topic."""
    header = batch.header
    timestamp_type = TimestampType.LOG_APPEND_TIME if rules.is_log_append_time else header.timestamp_type
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
        timestamp_type=int(timestamp_type),
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
