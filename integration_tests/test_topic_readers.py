"""A principal with READ on one topic, by Kafka's own ACLs: it reads that topic through client and commands, and no other."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

import pytest
from click.testing import CliRunner, Result
from confluent_kafka.admin import AclOperation, ResourceType

from cli.main import root
from coordinator.adapters.kafka.acls import CLUSTER
from coordinator.adapters.objectstore import open_store
from coordinator.client.client import DisklessClient
from coordinator.client.errors import NotAuthorized
from coordinator.client.model import FetchFrom, PartitionId
from coordinator.kafka.timestamps import LATEST
from integration_tests.secured_kafka import LOGIN, Right, SecuredKafka, node_rights, write_properties
from integration_tests.secured_service import SecuredService
from integration_tests.waiting import WAIT_S
from records.record_batch import Record

READER, ORDERS, SECRETS = "viewer", "orders", "secrets"
READ_ORDERS: Final = Right(ResourceType.TOPIC, ORDERS, (AclOperation.READ,))


@pytest.fixture(scope="module")
def service(secured_kafka: SecuredKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredService]:
    """Two nodes that take Kafka's ACLs, and two topics with a record in each partition."""
    secured_kafka.add_users(coordinator="the secret")
    given = {f"kafka.{name}": value for name, value in secured_kafka.login("coordinator", "the secret").items()}
    given |= {"authorizer": "kafka", "authorizer.cache.ms": "1000"}
    with SecuredService(secured_kafka.address(LOGIN), tmp_path_factory.mktemp("nodes"), partitions=2, properties=given) as service:
        del service.properties["acls"]
        look = Right(ResourceType.BROKER, CLUSTER, (AclOperation.DESCRIBE,))
        secured_kafka.allow("coordinator", (*node_rights(service.topic, service.properties["group.id"]), look))
        secured_kafka.allow(READER, [READ_ORDERS])
        service.start(2)
        asyncio.run(fill(service))
        yield service


async def fill(service: SecuredService) -> None:
    async with client(service, "admin") as admin:
        for name in (ORDERS, SECRETS):
            await admin.admin.create_topic(name, 2)
            await admin.write({(name, partition): [Record(value=name.encode())] for partition in (0, 1)})


def client(service: SecuredService, user: str) -> DisklessClient:
    store = open_store(service.properties["object.store.url"])
    return DisklessClient(service.addresses, object_store=store, security=service.client(user))


def command(service: SecuredService, *words: str) -> Result:
    file = write_properties(service.certificates / "reader.properties", service.login(READER))
    where = ("--bootstrap-server", ",".join(service.addresses), "--command-config", str(file), "--timeout", "20")
    return CliRunner().invoke(root, [*words, *where])


async def test_the_client_reads_the_topic_and_is_refused_others(service: SecuredService) -> None:
    async with client(service, "admin") as admin:
        secret_id = (await admin.describe_topic(SECRETS)).topic_id
    async with asyncio.timeout(WAIT_S), client(service, READER) as reader:
        assert [one.value async for one in reader.read(ORDERS)] == [b"orders"] * 2
        assert [one.name for one in await reader.describe_topics()] == [ORDERS]
        assert [one.name for one in await reader.admin.list_topics()] == [ORDERS]
        for topic in (SECRETS, "not-there", secret_id, bytes([7]) * 16):
            with pytest.raises(NotAuthorized, match=r"User:viewer may not do DESCRIBE_TOPICS on topic .*, which needs DESCRIBE on it"):
                await anext(reader.read(topic))
        mine, other = PartitionId((await reader.describe_topic(ORDERS)).topic_id, 0), PartitionId(secret_id, 0)
        ends = await reader.list_offsets([(mine, LATEST), (other, LATEST)])
        assert ends[0].offset == 1
        with pytest.raises(NotAuthorized):
            ends[1].raise_for_error()
        found = await reader.find_batches([FetchFrom(other, 0), FetchFrom(mine, 0)])
        assert len(found[1].batches) == 1
        with pytest.raises(NotAuthorized):
            found[0].raise_for_error()
        with pytest.raises(NotAuthorized):
            await reader.write({(ORDERS, 0): [Record(value=b"mine")]})
        with pytest.raises(NotAuthorized, match="CREATE_PARTITIONS, which needs CLUSTER_ACTION on the cluster"):
            await reader.admin.create_topic("mine", 1)


def test_commands_read_the_topic_and_are_refused_others(service: SecuredService) -> None:
    store = ("--object-store-url", service.properties["object.store.url"])
    fetched = command(service, "batches", "find", ORDERS, "0", "--fetch", *store)
    assert fetched.exit_code == 0, fetched.stderr
    assert '"value": "orders"' in fetched.stdout
    for topic in (SECRETS, "not-there"):
        refused = command(service, "batches", "find", topic, "0", "--fetch", *store)
        assert refused.exit_code != 0
        assert f"User:viewer may not do DESCRIBE_TOPICS on topic {topic}, which needs DESCRIBE on it" in refused.stderr
        assert len(refused.stderr.splitlines()) == 1


async def test_a_reader_that_follows_ends_when_the_right_is_taken_away(service: SecuredService, secured_kafka: SecuredKafka) -> None:
    """The last test of this service: afterwards its reader may do nothing."""
    async with asyncio.timeout(WAIT_S), client(service, READER) as reader, client(service, "admin") as admin:
        records = reader.read(ORDERS, 0, follow=True)
        assert (await anext(records)).value == b"orders"
        coming = asyncio.ensure_future(anext(records))
        await admin.write({(ORDERS, 0): [Record(value=b"more")]})
        assert (await coming).value == b"more"
        coming = asyncio.ensure_future(anext(records))
        await asyncio.to_thread(secured_kafka.forbid, READER, [READ_ORDERS])
        with pytest.raises(NotAuthorized, match="READ on the topic; ask an operator to allow it"):
            await coming
