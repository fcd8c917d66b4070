"""The log range of one partition, asked of its leader through an admin client.

`Consumer.get_watermark_offsets` waits up to half a second for the long-poll fetch of its consumer; the admin
client answers in less than a millisecond. Each partition is asked for by itself: in a request for many, those whose
broker answers would wait for the one whose broker does not.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Future

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ListOffsetsResultInfo, OffsetSpec

ANSWER_MARGIN_S = 1.0
"""The client ends a request at its timeout; the answer comes a little later."""


def read_log_range(admin: AdminClient, topic: str, partition: int, timeout_s: float) -> tuple[int, int]:
    """Return (log start offset, log end offset). Blocks. Raises `KafkaException`, `TimeoutError`."""
    try:
        start, end = [answer.result(timeout_s + ANSWER_MARGIN_S) for answer in _ask(admin, topic, partition, timeout_s)]
        return _known(start, topic, partition), _known(end, topic, partition)
    except KafkaException:
        refresh_leaders(admin, topic, timeout_s)
        raise


async def ask_log_range(admin: AdminClient, topic: str, partition: int, timeout_s: float) -> tuple[int, int]:
    """Return (log start offset, log end offset) without a thread. Raises as `read_log_range`, but refreshes nothing."""
    async with asyncio.timeout(timeout_s + ANSWER_MARGIN_S):
        start, end = await asyncio.gather(*map(asyncio.wrap_future, _ask(admin, topic, partition, timeout_s)))
    return _known(start, topic, partition), _known(end, topic, partition)


def refresh_leaders(admin: AdminClient, topic: str, timeout_s: float) -> None:
    """Learn who leads the partitions now. Blocks. Raises `KafkaException`.

    After a change of leader the client goes on asking with the old leader epoch (FENCED_LEADER_EPOCH) until its metadata is
    refreshed, seconds later. With this before it, a second attempt succeeds.
    """
    admin.list_topics(topic, timeout=timeout_s)


def _ask(admin: AdminClient, topic: str, partition: int, timeout_s: float) -> list[Future[ListOffsetsResultInfo]]:
    target = TopicPartition(topic, partition)
    specs = (OffsetSpec.earliest(), OffsetSpec.latest())  # type: ignore[no-untyped-call]
    return [
        admin.list_offsets({target: spec}, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=timeout_s)[target]
        for spec in specs
    ]


def _known(told: ListOffsetsResultInfo, topic: str, partition: int) -> int:
    # The client says so, without an error, of a partition whose broker it lost meanwhile: that is no end of a log.
    if told.offset < 0:
        raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE, f"no offset of {topic}-{partition}: {told.offset}"))
    return int(told.offset)
