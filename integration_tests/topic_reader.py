"""A service with a principal who has READ on one topic, by Kafka's own ACLs, and two topics with records."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AclOperation, ResourceType

from coordinator.adapters.kafka.acls import CLUSTER
from coordinator.adapters.objectstore import open_store
from coordinator.client.client import DisklessClient
from coordinator.object_store import ObjectStore
from integration_tests.secured_kafka import LOGIN, Right, SecuredKafka, node_rights
from integration_tests.secured_service import SecuredService
from records.record_batch import Record

READER, ORDERS, SECRETS = "viewer", "orders", "secrets"
READ_ORDERS: Final = Right(ResourceType.TOPIC, ORDERS, (AclOperation.READ,))


@contextmanager
def service_with_reader(
    kafka: SecuredKafka, folder: Path, *, nodes: int = 1, store: ObjectStore | None = None, properties: Mapping[str, str] | None = None
) -> Iterator[SecuredService]:
    """Start nodes that take Kafka's ACLs, one coordinator each, and write a record to each of two partitions of both topics.

    `store` is what `properties` name, if these name another one than a folder.
    """
    kafka.add_users(coordinator="the secret")
    given = {f"kafka.{name}": value for name, value in kafka.login("coordinator", "the secret").items()}
    given |= {"authorizer": "kafka", "authorizer.cache.ms": "1000", **(properties or {})}
    with SecuredService(kafka.address(LOGIN), folder, partitions=nodes, properties=given) as service:
        del service.properties["acls"]
        look = Right(ResourceType.BROKER, CLUSTER, (AclOperation.DESCRIBE,))
        kafka.allow("coordinator", (*node_rights(service.topic, service.properties["group.id"]), look))
        kafka.allow(READER, [READ_ORDERS])
        service.start(nodes)
        asyncio.run(_fill(service, store or open_store(service.properties["object.store.url"])))
        yield service


async def _fill(service: SecuredService, store: ObjectStore) -> None:
    async with DisklessClient(service.addresses, object_store=store, security=service.client("admin")) as admin:
        for name in (ORDERS, SECRETS):
            await admin.admin.create_topic(name, 2)
            await admin.write({(name, partition): [Record(value=name.encode())] for partition in (0, 1)})
