"""A scripted cluster with an object store, and what the driver asks of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from coordinator.adapters.objectstore import open_store
from coordinator.client.client import DisklessClient
from coordinator.client.routing.retry import RetryPolicy
from records.record_batch import Record
from tables.source.lookup import Lookup
from tests.client.scripted import ScriptedCluster, scripted
from tests.tables.source.given import OTHER, TOPIC


@dataclass(frozen=True, slots=True)
class SourceService:
    """Topics `orders` of four partitions and `clicks` of one."""

    cluster: ScriptedCluster
    client: DisklessClient
    lookup: Lookup

    async def write(self, counts: Mapping[int, int], *, topic: str = "orders", from_ms: int = 1000, value: bytes = b"v") -> None:
        """Write a file with so many records of each partition, one ms apart."""
        records = {
            (topic, partition): [Record(timestamp_ms=from_ms + number, value=value) for number in range(count)]
            for partition, count in counts.items()
        }
        await self.client.write(records)

    def delete(self, topic_id: bytes) -> None:
        """Delete a topic."""
        del self.cluster.topics[topic_id]
        for key in [key for key in self.cluster.ends if key.startswith(topic_id)]:
            del self.cluster.ends[key], self.cluster.logs[key]


@asynccontextmanager
async def source_service() -> AsyncIterator[SourceService]:
    async with scripted() as cluster:
        cluster.add_topic(TOPIC, "orders", 4)
        cluster.add_topic(OTHER, "clicks", 1)
        store = open_store("memory://")
        retry = RetryPolicy(backoff_ms=1, backoff_ms_max=8)
        async with DisklessClient(cluster.addresses, object_store=store, retry=retry) as client:
            yield SourceService(cluster, client, Lookup(client, store))


def start_at(cluster: ScriptedCluster, partition: int, offset: int, *, topic_id: bytes = TOPIC) -> None:
    """Move the beginning of a diskless log."""
    cluster.starts[topic_id + partition.to_bytes(4, "big")] = offset
