"""The last steps of a migration, once all partitions are diskless: the classic topic becomes the shadow, and writers are let go on.

    no transaction may write a marker -> max.message.bytes=0 at every broker -> gateways lead the topic -> writers as they were -> look back

From then on the classic topic takes no record from anybody, so the ACL that stopped the writers goes: whoever may write does so through a
gateway. Brokers take both changes in this order, so none of them ever lets a write pass. Every step may be repeated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from migration.classic import MigrationRefused
from migration.driver import check_end
from migration.kafka.topic import KafkaClassicTopic

GATEWAYS_FOLLOW_S: Final = 2.0
"""Gateways list topics every second: a writer that is let go on sooner may be sent to the brokers, and drop what they refuse."""
LOOK_EVERY_S: Final = 0.2


async def finish(topic: KafkaClassicTopic, topic_id: bytes, starts: Sequence[int], *, drain_timeout_s: float) -> list[Exception | None]:
    """Make a topic whose partitions have these starts the shadow of the diskless one, and let its writers write.

    Returns for each partition what stands in its classic log and should not. Raises `MigrationRefused`, `KafkaException`.
    """
    await _drain_transactions(topic, drain_timeout_s)
    await topic.take_no_records()
    if (await topic.fence.acls()).is_closed:
        await asyncio.sleep(GATEWAYS_FOLLOW_S)
        await topic.fence.open()
    return [await _looked_at(topic, topic_id, index, start) for index, start in enumerate(starts)]


async def _drain_transactions(topic: KafkaClassicTopic, timeout_s: float) -> None:
    """Wait until no transaction has the topic announced: its marker would be refused, and its producer could never go on."""
    now_s = asyncio.get_running_loop().time
    end_s = now_s() + timeout_s
    while unended := await topic.unended_transactions():
        if now_s() >= end_s:
            raise MigrationRefused(
                f"transaction {unended[0]}{f' and {len(unended) - 1} more' if unended[1:] else ''} has topic {topic.name} announced and "
                f"has not ended within {timeout_s:g} s; let its application end it, or wait for its transaction.timeout.ms"
            )
        await asyncio.sleep(LOOK_EVERY_S)


async def _looked_at(topic: KafkaClassicTopic, topic_id: bytes, index: int, start: int) -> Exception | None:
    try:
        await check_end(topic.partition(topic_id, index), start)
    except MigrationRefused as error:
        return error
    return None
