"""How errors name partitions: by the topic's name where it is known, as Kafka's tools write it, else by the topic's id."""

from __future__ import annotations

from coordinator.core.tables.in_memory import HotState
from coordinator.kafka.batches import split_partition_key
from coordinator.kafka.names import topic_id_text


def partition_text(hot: HotState, topic_id: bytes, partition: int) -> str:
    """A partition as `orders-3`; as `<topic id>:3` when no topic of the id is here."""
    topic = hot.topics.get(topic_id)
    return f"{topic_id_text(topic_id)}:{partition}" if topic is None else f"{topic.name}-{partition}"


def row_text(hot: HotState, row: int) -> str:
    """The partition in a row of the table of partitions."""
    return partition_text(hot, *split_partition_key(hot.partitions.keys[row]))
