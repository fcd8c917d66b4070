"""Rights on diskless topics are those of the cluster: who may not create, alter, grow or delete a topic changes it in neither place."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AclOperation,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from cli.dev.kafka import BrokerRuntime
from coordinator.client.admin import DisklessAdmin
from coordinator.client.model import TopicListing
from integration_tests.gateway.secured import SecuredGateway
from integration_tests.secured_kafka import Right
from integration_tests.waiting import WAIT_S, wait_until

REFUSED = KafkaError.TOPIC_AUTHORIZATION_FAILED


@pytest.fixture(scope="module")
def world(broker_runtime: BrokerRuntime, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredGateway]:
    with SecuredGateway(tmp_path_factory.mktemp("topic-rights"), broker_runtime) as made:
        yield made


class User:
    """What one user does with a topic, as the code that Kafka or a gateway answers with: 0 is success."""

    def __init__(self, world: SecuredGateway, name: str, topic: str) -> None:
        self._admin = AdminClient(world.client(name))
        self._topic = topic
        self._resource = ConfigResource(ConfigResource.Type.TOPIC, topic)

    def create(self, **config: str) -> int:
        new = NewTopic(self._topic, 2, 1, config={key.replace("_", "."): value for key, value in config.items()})
        return _code(lambda: self._admin.create_topics([new])[self._topic])

    def grow(self, count: int) -> int:
        return _code(lambda: self._admin.create_partitions([NewPartitions(self._topic, count)])[self._topic])

    def delete(self) -> int:
        return _code(lambda: self._admin.delete_topics([self._topic])[self._topic])

    def alter(self) -> int:
        entry = ConfigEntry("retention.ms", "7", incremental_operation=AlterConfigOpType.SET)
        change = ConfigResource(ConfigResource.Type.TOPIC, self._topic, incremental_configs=[entry])
        return _code(lambda: self._admin.incremental_alter_configs([change])[change])

    def describe(self) -> int:
        return _code(lambda: self._admin.describe_configs([self._resource])[self._resource])


def _code(ask: Callable[[], Any]) -> int:
    try:
        ask().result(WAIT_S)
    except KafkaException as error:
        return int(error.args[0].code())
    return 0


def listed(world: SecuredGateway, name: str) -> TopicListing | None:
    async def ask() -> list[TopicListing]:
        async with DisklessAdmin(world.service.addresses, security=world.service.client("broker")) as admin:
            return await admin.list_topics()

    return next((one for one in asyncio.run(ask()) if one.name == name), None)


def shadow_partitions(world: SecuredGateway, name: str) -> int:
    admin = AdminClient({"bootstrap.servers": world.kafka.cluster.bootstrap})
    found = admin.list_topics(timeout=WAIT_S).topics.get(name)
    return 0 if found is None else len(found.partitions)


def allow(world: SecuredGateway, user: str, topic: str, *operations: AclOperation) -> None:
    world.kafka.allow(user, [Right(ResourceType.TOPIC, topic, operations)])


def test_each_right_is_asked_of_the_cluster_before_anything_changes(world: SecuredGateway) -> None:
    topic = f"rights-{uuid.uuid4().hex[:8]}"
    nobody, alice = User(world, "nobody", topic), User(world, "alice", topic)
    assert nobody.create(diskless_enable="true") == REFUSED
    assert (listed(world, topic), shadow_partitions(world, topic)) == (None, 0)
    allow(world, "alice", topic, AclOperation.CREATE)
    wait_until(lambda: alice.create(diskless_enable="true", retention_ms="5") == 0, "alice to create the topic")
    first = listed(world, topic)
    assert first is not None
    assert (first.num_partitions, first.settings) == (2, {"retention.ms": "5"})

    # Who may see a topic, or create it, may not do anything else with it.
    allow(world, "reader", topic, AclOperation.DESCRIBE)
    reader = User(world, "reader", topic)
    wait_until(lambda: topic in AdminClient(world.client("reader")).list_topics(timeout=WAIT_S).topics, "the reader to see the topic")
    for user in (reader, alice, nobody):
        assert [user.grow(4), user.alter(), user.describe(), user.delete()] == [REFUSED] * 4
    assert listed(world, topic) == first
    assert shadow_partitions(world, topic) == 2

    # Each right lets its own request through, and no other one.
    allow(world, "writer", topic, AclOperation.ALTER_CONFIGS)
    writer = User(world, "writer", topic)
    wait_until(lambda: writer.alter() == 0, "the writer to alter settings")
    assert writer.describe() == 0
    assert [writer.grow(4), writer.delete()] == [REFUSED] * 2
    altered = listed(world, topic)
    assert altered is not None
    assert altered.settings == {"retention.ms": "7"}
    allow(world, "denied", topic, AclOperation.ALTER)
    denied = User(world, "denied", topic)
    wait_until(lambda: denied.grow(4) == 0, "the topic to grow")
    assert [denied.alter(), denied.delete()] == [REFUSED] * 2
    allow(world, "leaver", topic, AclOperation.DELETE)
    leaver = User(world, "leaver", topic)
    assert leaver.alter() == REFUSED
    wait_until(lambda: leaver.delete() == 0, "the topic to be deleted")
    assert listed(world, topic) is None
    wait_until(lambda: shadow_partitions(world, topic) == 0, "the shadow to be gone")
