"""The space that topics take: their live batches, counted from what the coordinators say, and when retention frees them.

An extent is a piece of an object that holds batches of one partition one after the other: a reader asks for each extent by itself.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from cli.options import INT32_MAX
from cli.outcome import Exit, Failed
from cli.progress import Doing
from coordinator.client.model import FetchFrom, PartitionDescription, PartitionId, TopicDescription
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.timestamps import EARLIEST_LOCAL, LATEST

if TYPE_CHECKING:
    from coordinator.client.client import DisklessClient
    from coordinator.protocol.find_batches import BatchLocation

PAGE_BATCHES: Final = 20_000
PAUSE_S: Final = 0.05
GIB: Final = 1 << 30
DAY_MS: Final = 86_400_000


@dataclass(slots=True)
class FileShare:
    """The live batches of a topic in one object."""

    partitions: set[int] = field(default_factory=set)
    batches: int = 0
    size_bytes: int = 0
    extents: int = 0
    oldest_ms: int = -1
    newest_ms: int = -1


@dataclass(slots=True)
class PartitionUsage:
    """What is live of a partition. Times of freeing are those of `retention.ms`, -1 for never."""

    partition: int
    records: int = 0
    batches: int = 0
    size_bytes: int = 0
    extents: int = 0
    freed_in_a_day_bytes: int = 0
    next_freed_ms: int = -1
    last_freed_ms: int = -1


@dataclass(slots=True)
class TopicUsage:
    """What is live of a topic; `due_bytes` are past its retention already, by time or by size, and go at the next look of the leaders."""

    topic: TopicDescription
    partitions: list[PartitionUsage] = field(default_factory=list)
    files: dict[str, FileShare] = field(default_factory=dict)
    due_bytes: int = 0


async def count_usage(client: DisklessClient, topic: TopicDescription, work: Doing, timeout_s: float) -> TopicUsage:
    """Walk all live batches of a topic. Raises `Failed` when nodes do not tell all of them in time, and `ServiceError`."""
    retention_ms = await _retention_ms(client, topic.name)
    usage = TopicUsage(topic)
    for one in topic.partitions:
        counted = _Counter(usage, one.partition, retention_ms)
        async for batches in live_batches(client, topic, one, counted.usage, timeout_s):
            counted.add(batches)
            work.step(len(batches))
        usage.partitions.append(counted.usage)
    enforced = await client.admin.enforce_retention(
        sorted({one.coordinator_id for one in topic.partitions}), topic_ids=[topic.topic_id], is_dry_run=True
    )
    for answer in enforced:
        answer.raise_for_error()
        usage.due_bytes += sum(one.size_bytes for one in answer.expired)
    return usage


class _Counter:
    """Adds up the batches of a partition, which come in the order of their offsets."""

    def __init__(self, usage: TopicUsage, partition: int, retention_ms: int) -> None:
        self.usage = PartitionUsage(partition)
        self._files = usage.files
        self._retention_ms = retention_ms
        self._now_ms = time.time_ns() // 1_000_000
        self._freed_ms = -1
        self._end = ("", -1)

    def add(self, batches: Sequence[BatchLocation]) -> None:
        """Add some more."""
        usage = self.usage
        for batch in batches:
            time_ms = batch.batch_max_timestamp if batch.batch_max_timestamp >= 0 else batch.log_append_timestamp
            share = self._files.setdefault(batch.object_key, FileShare())
            is_new = self._end != (batch.object_key, batch.byte_offset)
            self._end = (batch.object_key, batch.byte_offset + batch.byte_size)
            for counted in (usage, share):
                counted.batches += 1
                counted.size_bytes += batch.byte_size
                counted.extents += is_new
            share.partitions.add(usage.partition)
            share.oldest_ms = time_ms if share.oldest_ms < 0 else min(share.oldest_ms, time_ms)
            share.newest_ms = max(share.newest_ms, time_ms)
            if self._retention_ms >= 0:
                # Batches go from the first one on: one goes no sooner than those before it.
                self._freed_ms = max(self._freed_ms, time_ms + self._retention_ms)
                usage.last_freed_ms = self._freed_ms
                usage.next_freed_ms = self._freed_ms if usage.next_freed_ms < 0 else usage.next_freed_ms
                usage.freed_in_a_day_bytes += batch.byte_size if self._freed_ms <= self._now_ms + DAY_MS else 0


async def _retention_ms(client: DisklessClient, name: str) -> int:
    [found] = await client.admin.describe_topic_configs([name])
    found.raise_for_error()
    return next(int(one.value) for one in found.configs if one.name == "retention.ms")


async def live_batches(
    client: DisklessClient, topic: TopicDescription, partition: PartitionDescription, usage: PartitionUsage, timeout_s: float
) -> AsyncIterator[Sequence[BatchLocation]]:
    """Yield the batches of a partition up to the end that it has now, page by page; `usage` gets the number of records."""
    target = PartitionId(topic.topic_id, partition.partition)
    start, end = await client.list_offsets([(target, EARLIEST_LOCAL), (target, LATEST)])
    for bound in (start, end):
        bound.raise_for_error()
    usage.records = end.offset - start.offset
    next_offset, since_s = start.offset, time.monotonic()
    while next_offset < end.offset:
        [found] = await client.find_batches(
            [FetchFrom(target, next_offset, INT32_MAX)], fetch_bytes_max=INT32_MAX, batches_per_partition_max=PAGE_BATCHES
        )
        if found.error is ErrorCode.OFFSET_OUT_OF_RANGE and found.log_start_offset > next_offset:
            next_offset = found.log_start_offset  # deleted meanwhile
            continue
        found.raise_for_error()
        if found.batches:
            yield [one for one in found.batches if one.base_offset < end.offset]
            next_offset, since_s = found.batches[-1].last_offset + 1, time.monotonic()
        elif time.monotonic() - since_s > timeout_s:
            where = f"{topic.name}-{partition.partition}"
            raise Failed(f"no node tells the batches of {where} from offset {next_offset} on; retry", Exit.UNAVAILABLE)
        else:
            await asyncio.sleep(PAUSE_S)  # the node that was asked is behind the leader
