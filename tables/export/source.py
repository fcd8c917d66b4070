"""What an export reads: the bounds of a topic's partitions, their records, and how long retention leaves them."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import pyarrow as pa

from coordinator.client.client import DisklessClient
from coordinator.client.errors import NotAuthorized, NotFound, Unavailable
from coordinator.client.model import FetchFrom, PartitionId, TopicDescription
from coordinator.client.records.wal_objects import retained_ms_of
from coordinator.errors import DisklessError
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.names import topic_id_text
from coordinator.kafka.timestamps import EARLIEST_LOCAL, LATEST
from coordinator.kafka.topic_configs import RETENTION_MS, UNLIMITED
from coordinator.object_store import ObjectStore
from tables.export.columns import ValueType
from tables.export.target import ExportedTopic, Position
from tables.reading.coordinators import listed_offsets
from tables.reading.reader import read_spans
from tables.reading.span import ReadCounts, ReadOptions, Span


class TopicGoneError(DisklessError):
    """The topic was deleted while it was exported, and perhaps made anew."""


class PartitionBounds(NamedTuple):
    """The offsets that a partition has, from `start` to before `end`; those of a migrated one that its diskless part has."""

    partition: int
    start: int
    end: int


class RecordSource(Protocol):
    """The log of one topic."""

    counts: ReadCounts
    """What reads left out, by their options."""

    async def bounds(self) -> Sequence[PartitionBounds]:
        """Return the partitions that there are. Raises `TopicGoneError`, `ServiceError`."""

    def read(self, position: Position, bounds: Sequence[PartitionBounds]) -> AsyncGenerator[pa.RecordBatch]:
        """Yield all columns of the records from the position to the ends; those of one partition in the order of their offsets.

        Raises `OffsetsDeleted` and `StoreError` for what may not be left out, `ServiceError`.
        """

    async def seconds_left(self, position: Position, bounds: Sequence[PartitionBounds]) -> Mapping[int, float]:
        """Return, by partition that has records to export, when retention takes the first of them; without those that it leaves."""


@dataclass(slots=True, kw_only=True)
class TopicSource:
    """`RecordSource` over the service and its object store."""

    client: DisklessClient
    store: ObjectStore
    topic: TopicDescription
    options: ReadOptions
    counts: ReadCounts

    async def bounds(self) -> Sequence[PartitionBounds]:
        """See `RecordSource`."""
        try:
            found = await self.client.describe_topic(self.topic.name)
        except NotFound as error:
            raise TopicGoneError(f"topic {self.topic.name} was deleted") from error
        if found.topic_id != self.topic.topic_id:
            raise TopicGoneError(
                f"topic {self.topic.name} was deleted and made anew: its id was {topic_id_text(self.topic.topic_id)} and is "
                f"{topic_id_text(found.topic_id)}; export the new one into another table"
            )
        return await partition_bounds(self.client, found)

    def read(self, position: Position, bounds: Sequence[PartitionBounds]) -> AsyncGenerator[pa.RecordBatch]:
        """See `RecordSource`."""
        spans = [
            Span(
                topic=self.topic.name,
                topic_id=self.topic.topic_id,
                partition=one.partition,
                from_offset=position[one.partition],
                to_offset=one.end,
            )
            for one in bounds
            if position[one.partition] < one.end
        ]
        return read_spans(self.client, self.store, spans, self.options, counts=self.counts)

    async def seconds_left(self, position: Position, bounds: Sequence[PartitionBounds]) -> Mapping[int, float]:
        """See `RecordSource`."""
        return await seconds_left(self.client, self.topic, position, bounds)


async def exported_topic(client: DisklessClient, topic: TopicDescription, value_type: ValueType) -> ExportedTopic:
    """Return the topic as tables know it. Raises Unavailable while no node knows the cluster, `ServiceError`."""
    cluster_id = await client.admin.cluster_id()
    if cluster_id is None:
        raise Unavailable(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the node does not know the id of its Kafka cluster yet; retry")
    return ExportedTopic(name=topic.name, topic_id=topic_id_text(topic.topic_id), cluster_id=cluster_id, value_type=value_type)


async def partition_bounds(client: DisklessClient, topic: TopicDescription) -> list[PartitionBounds]:
    """Return the partitions of a topic, with bounds that see every acknowledged write. Raises `ServiceError`."""
    targets = [PartitionId(topic.topic_id, one.partition) for one in topic.partitions]
    offsets = iter(await listed_offsets(client, [(target, when) for target in targets for when in (EARLIEST_LOCAL, LATEST)]))
    return [PartitionBounds(target.partition, start, end) for target, start, end in zip(targets, offsets, offsets, strict=True)]


async def seconds_left(
    client: DisklessClient, topic: TopicDescription, position: Position, bounds: Sequence[PartitionBounds]
) -> dict[int, float]:
    """See `RecordSource`. Nothing is known where the setting is not told; `retention.bytes` may delete earlier. Raises `ServiceError`."""
    behind = {one.partition: max(position[one.partition], one.start) for one in bounds if position[one.partition] < one.end}
    retention_ms = await _retention_ms(client, topic)
    if not behind or retention_ms in (None, UNLIMITED):
        return {}
    fetches = [FetchFrom(PartitionId(topic.topic_id, partition), offset, 1) for partition, offset in behind.items()]
    found = await client.find_batches(fetches, batches_per_partition_max=1)
    left = {}
    for partition, one in zip(behind, found, strict=True):
        if not one.batches:
            continue  # deleted, or not known yet, since the bounds were asked for
        left[partition] = (retained_ms_of(one.batches[0]) + retention_ms) / 1000 - time.time()
    return left


async def _retention_ms(client: DisklessClient, topic: TopicDescription) -> int | None:
    """Return the topic's retention; None where it is the service's default, and this client may not read settings."""
    try:
        [described] = await client.admin.describe_topic_configs([topic.name])
        described.raise_for_error()
        values = {one.name: one.value for one in described.configs}
    except (NotAuthorized, NotFound):
        values = dict(topic.settings)
    value = values.get(RETENTION_MS)
    return None if value is None else int(value)
