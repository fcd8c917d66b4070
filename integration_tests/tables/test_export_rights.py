"""A principal with READ on one topic exports that topic and no other, by Kafka's own ACLs."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka.admin import AclOperation, ResourceType
from deltalake import DeltaTable

from cli.outcome import Exit
from coordinator.adapters.kafka.acls import CLUSTER
from coordinator.adapters.objectstore import open_store
from coordinator.client.client import DisklessClient
from integration_tests.secured_kafka import LOGIN, Right, SecuredKafka, node_rights, write_properties
from integration_tests.secured_service import SecuredService
from records.record_batch import Record

HERE = Path(__file__).parents[2]
READER, ORDERS, SECRETS = "viewer", "orders", "secrets"
READ_ORDERS: Final = Right(ResourceType.TOPIC, ORDERS, (AclOperation.READ,))


@pytest.fixture(scope="module")
def service(secured_kafka: SecuredKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredService]:
    """A node that takes Kafka's ACLs, and two topics with a record in each partition."""
    secured_kafka.add_users(coordinator="the secret")
    given = {f"kafka.{name}": value for name, value in secured_kafka.login("coordinator", "the secret").items()}
    given |= {"authorizer": "kafka", "authorizer.cache.ms": "1000"}
    with SecuredService(secured_kafka.address(LOGIN), tmp_path_factory.mktemp("nodes"), partitions=1, properties=given) as service:
        del service.properties["acls"]
        look = Right(ResourceType.BROKER, CLUSTER, (AclOperation.DESCRIBE,))
        secured_kafka.allow("coordinator", (*node_rights(service.topic, service.properties["group.id"]), look))
        secured_kafka.allow(READER, [READ_ORDERS])
        service.start(1)
        asyncio.run(fill(service))
        yield service


async def fill(service: SecuredService) -> None:
    store = open_store(service.properties["object.store.url"])
    async with DisklessClient(service.addresses, object_store=store, security=service.client("admin")) as admin:
        for name in (ORDERS, SECRETS):
            await admin.admin.create_topic(name, 2)
            await admin.write({(name, partition): [Record(value=name.encode())] for partition in (0, 1)})


def tables(service: SecuredService, verb: str, topic: str, table: Path, *more: str) -> subprocess.CompletedProcess[str]:
    login = write_properties(service.certificates / "reader.properties", service.login(READER))
    place = ["--to", f"delta:{table}", "--bootstrap-server", ",".join(service.addresses), "--command-config", str(login)]
    command = [sys.executable, "-m", "cli.program", "tables", verb, topic, *place, *more]
    return subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=120, check=False)


def test_the_topic_is_exported_and_others_are_refused(service: SecuredService, tmp_path: Path) -> None:
    store = ("--once", "--object-store-url", service.properties["object.store.url"])
    done = tables(service, "export", ORDERS, tmp_path / "orders", *store)
    assert done.returncode == Exit.OK, done.stderr
    assert DeltaTable(tmp_path / "orders").to_pyarrow_table().column("value").to_pylist() == [b"orders"] * 2
    status = tables(service, "status", ORDERS, tmp_path / "orders")
    assert status.returncode == Exit.OK, status.stderr
    refused = tables(service, "export", SECRETS, tmp_path / "secrets", *store)
    assert refused.returncode == Exit.FAILURE
    assert f"User:{READER} may not do DESCRIBE_TOPICS on topic {SECRETS}" in refused.stderr
    assert not (tmp_path / "secrets").exists()
