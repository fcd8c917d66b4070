"""The user partitions a benchmark commits to, and the connections that reach their coordinators."""

from __future__ import annotations

from collections.abc import Mapping

from cli.bench.connecting import PLAIN
from cli.bench.generator import Target
from coordinator.client.client import DisklessClient
from coordinator.kafka.batches import partition_key
from coordinator.security.client_security import ClientSecurity

CLIENT_ID = "diskless-bench"


async def create_targets(
    servers: str, topic: str, partitions: int, connections: int, properties: Mapping[str, str] = PLAIN
) -> list[Target]:
    """Create a topic and spread at least `connections` connections over the coordinators that own it, which `properties` secure."""
    async with DisklessClient(servers, client_id=CLIENT_ID, security=ClientSecurity(properties)) as client:
        await client.admin.create_topic(topic, partitions)
    return await find_targets(servers, topic, connections, properties)


async def find_targets(servers: str, topic: str, connections: int, properties: Mapping[str, str] = PLAIN) -> list[Target]:
    """Spread connections over the coordinators that own a topic, as `create_targets` does. Raises NotFound."""
    async with DisklessClient(servers, client_id=CLIENT_ID, security=ClientSecurity(properties)) as client:
        described = await client.describe_topic(topic)
        cluster = await client.admin.describe_coordinators()
    addresses = {c.coordinator_id: (c.host, c.port) for c in cluster.coordinators}
    owned: dict[int, list[bytes]] = {}
    for partition in described.partitions:
        owned.setdefault(partition.coordinator_id, []).append(partition_key(described.topic_id, partition.partition))
    owners = sorted(owned)
    return [
        Target(
            host=addresses[owner][0],
            port=addresses[owner][1],
            coordinator_id=owner,
            partition_keys=owned[owner],
            properties=dict(properties),
        )
        for owner in (owners[number % len(owners)] for number in range(max(connections, len(owners))))
    ]


async def delete_topic(servers: str, topic: str, properties: Mapping[str, str] = PLAIN, timeout_ms: int | None = None) -> None:
    """Delete the topic of a benchmark. Raises ServiceError."""
    async with DisklessClient(servers, client_id=CLIENT_ID, security=ClientSecurity(properties)) as client:
        await client.admin.delete_topic(topic, timeout_ms=timeout_ms)
