"""The log range of one partition, asked of its leader through an admin client.

`Consumer.get_watermark_offsets` waits up to half a second behind the long-poll fetch of its consumer; the admin
client answers in less than a millisecond.
"""

from __future__ import annotations

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]  # public, missing in its __all__


def read_log_range(admin: AdminClient, topic: str, partition: int, timeout_s: float) -> tuple[int, int]:
    """Return (log start offset, log end offset). Raises `KafkaException`."""
    try:
        return _ask(admin, topic, partition, timeout_s)
    except KafkaException:
        # After a change of leader the client goes on asking with the old leader epoch (FENCED_LEADER_EPOCH) until its
        # metadata is refreshed, seconds later: refresh it now, so that the caller's retry succeeds.
        admin.list_topics(topic, timeout=timeout_s)
        raise


def _ask(admin: AdminClient, topic: str, partition: int, timeout_s: float) -> tuple[int, int]:
    target = TopicPartition(topic, partition)
    offsets = []
    specs = (OffsetSpec.earliest(), OffsetSpec.latest())  # type: ignore[no-untyped-call]
    for spec in specs:
        futures = admin.list_offsets({target: spec}, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=timeout_s)
        offsets.append(int(futures[target].result(timeout_s + 1.0).offset))
    return offsets[0], offsets[1]
