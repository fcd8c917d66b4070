"""Diskless topics with Kafka's own tools and librdkafka's admin client, through real gateways."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic

from cli.dev.gateway import GatewayProcess
from cli.dev.kafka import BrokerRuntime
from coordinator.client.admin import DisklessAdmin
from coordinator.client.model import TopicListing
from integration_tests.gateway.world import World, tool
from integration_tests.waiting import wait_until

pytestmark = pytest.mark.timeout(300)
TOPICS, CONFIGS, LOG_DIRS = "org.apache.kafka.tools.TopicCommand", "kafka.admin.ConfigCommand", "org.apache.kafka.tools.LogDirsCommand"
SHARE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
WAIT_S = 30


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, broker_runtime: BrokerRuntime) -> Iterator[World]:
    with World(tmp_path_factory.mktemp("tools"), broker_runtime, properties={"auto.create.topics.enable": "true"}) as made:
        made.start(1001, 1002, gateway_create_diskless="auto-.*")
        yield made


@pytest.fixture(scope="module")
def gateways(world: World) -> tuple[GatewayProcess, GatewayProcess]:
    return world.gateways[1001], world.gateways[1002]


def named(kind: str) -> str:
    return f"{kind}-{uuid.uuid4().hex[:8]}"


def listed(world: World) -> dict[str, TopicListing]:
    """The diskless topics as the coordinators list them."""

    async def ask() -> list[TopicListing]:
        async with DisklessAdmin(world.service.addresses) as admin:
            return await admin.list_topics()

    return {one.name: one for one in asyncio.run(ask())}


def in_kafka(world: World, name: str) -> dict[str, str]:
    """The settings that a topic has of its own at a real broker."""
    resource = ConfigResource(ConfigResource.Type.TOPIC, name)
    admin = AdminClient({"bootstrap.servers": world.kafka.bootstrap})
    return {one.name: one.value for one in admin.describe_configs([resource])[resource].result(WAIT_S).values() if one.source == 1}


def at_brokers(world: World) -> set[str]:
    admin = AdminClient({"bootstrap.servers": world.kafka.bootstrap})
    return set(admin.list_topics(timeout=WAIT_S).topics)


def test_javas_tools_create_grow_alter_describe_and_delete(world: World, gateways: tuple[GatewayProcess, GatewayProcess]) -> None:
    name, (one, other) = named("java"), gateways
    at, there = ("--bootstrap-server", one.address), ("--bootstrap-server", other.address)
    # The tool knows no setting of that name, and asks no broker about it: its client id says the same.
    asking = world.folder / "diskless.properties"
    asking.write_text("client.id=diskless_enable=true")
    create = ("--create", "--topic", name, "--partitions", "3", "--config", "retention.ms=86400000", "--command-config", str(asking))
    assert f"Created topic {name}." in tool(TOPICS, *at, *create)
    assert "already exists" in tool(TOPICS, *at, *create, expect=1, with_errors=True)
    assert in_kafka(world, name) == {"max.message.bytes": "0"}
    said = tool(TOPICS, *there, "--describe", "--topic", name)
    assert "PartitionCount: 3" in said
    assert {"diskless.enable=true", "retention.ms=86400000"} <= set(said.splitlines()[0].split("Configs: ")[1].split(","))
    assert name in tool(TOPICS, *there, "--list").split()
    tool(TOPICS, *there, "--alter", "--topic", name, "--partitions", "5")
    assert listed(world)[name].num_partitions == 5

    entity = ("--entity-type", "topics", "--entity-name", name)
    tool(CONFIGS, *at, *entity, "--alter", "--add-config", "retention.ms=5000,max.message.bytes=2000000")
    assert listed(world)[name].settings == {"retention.ms": "5000", "max.message.bytes": "2000000"}
    tool(CONFIGS, *there, *entity, "--alter", "--delete-config", "retention.ms")
    said = tool(CONFIGS, *at, *entity, "--describe", "--all")
    for text in ("diskless.enable=true", "max.message.bytes=2000000", "retention.ms=-1", "message.timestamp.type=CreateTime"):
        assert text in said
    assert "segment.bytes" not in said
    said = tool(CONFIGS, *at, *entity, "--alter", "--add-config", "cleanup.policy=compact", expect=1, with_errors=True)
    assert "nothing compacts" in said
    assert "object store of diskless topics" in tool(LOG_DIRS, *at, "--describe", "--topic-list", name)
    tool(TOPICS, *there, "--delete", "--topic", name)
    assert name not in listed(world)
    wait_until(lambda: name not in at_brokers(world), "the shadow to be gone")


def test_librdkafkas_admin_client_does_all_of_it(world: World, gateways: tuple[GatewayProcess, GatewayProcess]) -> None:
    name, classic, (one, other) = named("rd"), named("rd-classic"), gateways
    admin, there = world.admin(one), world.admin(other)
    wanted = [NewTopic(name, 2, config={"diskless.enable": "true", "retention.bytes": "1000"}), NewTopic(classic, 2)]
    for future in admin.create_topics(wanted).values():
        future.result(WAIT_S)
    assert (listed(world)[name].settings, classic in listed(world)) == ({"retention.bytes": "1000"}, False)
    creating = admin.create_topics([NewTopic("compacted", 1, config={"diskless.enable": "true", "cleanup.policy": "compact"})])
    with pytest.raises(KafkaException) as refused:
        creating["compacted"].result(WAIT_S)
    assert refused.value.args[0].code() == KafkaError.INVALID_CONFIG
    assert "nothing compacts" in refused.value.args[0].str()
    there.create_partitions([NewPartitions(name, 4)])[name].result(WAIT_S)
    change = ConfigResource(
        ConfigResource.Type.TOPIC, name, incremental_configs=[ConfigEntry("retention.ms", "7", incremental_operation=AlterConfigOpType.SET)]
    )
    there.incremental_alter_configs([change])[change].result(WAIT_S)
    asked = ConfigResource(ConfigResource.Type.TOPIC, name)
    told = admin.describe_configs([asked])[asked].result(WAIT_S)
    assert {key: told[key].value for key in ("diskless.enable", "retention.ms", "retention.bytes")} == {
        "diskless.enable": "true",
        "retention.ms": "7",
        "retention.bytes": "1000",
    }
    for future in there.delete_topics([name, classic]).values():
        future.result(WAIT_S)
    assert name not in listed(world)
    wait_until(lambda: not {name, classic} & at_brokers(world), "both topics to be gone")


def test_topics_that_the_rule_covers_are_diskless_unless_they_cannot_be(
    world: World, gateways: tuple[GatewayProcess, GatewayProcess]
) -> None:
    made, compacted, auto, uncovered = named("auto-made"), named("auto-compacted"), named("auto-matic"), named("other")
    admin = world.admin(gateways[0])
    for future in admin.create_topics([NewTopic(made, 1), NewTopic(compacted, 1, config={"cleanup.policy": "compact"})]).values():
        future.result(WAIT_S)
    told: list[Any] = []
    producer = Producer({"bootstrap.servers": gateways[1].address, "allow.auto.create.topics": True})
    for name in (auto, uncovered):
        producer.produce(name, b"value", on_delivery=lambda error, _: told.append(error))
    assert producer.flush(WAIT_S) == 0
    assert told == [None, None]
    topics = listed(world)
    assert [name in topics for name in (made, compacted, auto, uncovered)] == [True, False, True, False]
    assert in_kafka(world, compacted) == {"cleanup.policy": "compact"}
    assert in_kafka(world, auto) == {"max.message.bytes": "0"}
    assert in_kafka(world, uncovered) == {}


def _from_the_beginning(consumer: Consumer, partitions: list[TopicPartition]) -> None:
    consumer.assign([TopicPartition(one.topic, one.partition, 0) for one in partitions])


def test_transactions_and_share_groups_are_refused_and_diskless_sources_work(
    world: World, gateways: tuple[GatewayProcess, GatewayProcess]
) -> None:
    gateway, source, target = gateways[0], named("source"), named("target")
    world.create(gateway, source, 1, is_diskless=True)
    world.create(gateway, target, 1, is_diskless=False)
    producer = Producer({"bootstrap.servers": gateway.address})
    producer.produce(source, b"record")
    assert producer.flush(WAIT_S) == 0

    writer = Producer({"bootstrap.servers": gateway.address, "transactional.id": named("t"), "transaction.timeout.ms": 20_000})
    writer.init_transactions(WAIT_S)
    writer.begin_transaction()
    writer.produce(source, b"in a transaction")
    with pytest.raises(KafkaException, match="Failed to add partition.*Policy violation"):
        writer.commit_transaction(WAIT_S)

    # A diskless source and a classic target: the offsets of the source are part of the transaction.
    consumer = Consumer(
        {"bootstrap.servers": gateway.address, "group.id": named("g"), "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    consumer.subscribe([source], on_assign=_from_the_beginning)
    until_s = time.monotonic() + WAIT_S
    while (message := consumer.poll(1.0)) is None or message.error():
        assert time.monotonic() < until_s, "no record"
    assert message.value() == b"record"
    writer = Producer({"bootstrap.servers": gateway.address, "transactional.id": named("t"), "transaction.timeout.ms": 20_000})
    writer.init_transactions(WAIT_S)
    writer.begin_transaction()
    writer.produce(target, message.value())
    writer.send_offsets_to_transaction(consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), WAIT_S)
    writer.commit_transaction(WAIT_S)
    assert [one.offset for one in consumer.committed(consumer.assignment(), WAIT_S)] == [1]
    consumer.close()

    said = tool(
        SHARE_CONSUMER, "--bootstrap-server", gateway.address, "--topic", source, "--timeout-ms", "10000", expect=None, with_errors=True
    )
    assert "share groups cannot read diskless topics" in said


@contextmanager
def dying_gateway(world: World) -> Iterator[GatewayProcess]:
    """A gateway that reaches Kafka and no coordinator; who uses it kills it."""
    [node] = world.service.nodes.values()
    [dying] = world.start(1004, gateway_create_diskless="auto-.*")
    node.pause()
    try:
        yield dying
    finally:
        node.resume()
        dying.close()
        del world.gateways[1004]
        wait_until(lambda: world.known(world.gateways[1001]) == [1001, 1002], "the dead gateway to be missed")


def killed_within(gateway: GatewayProcess, future: Future[Any], is_half_done: Callable[[], bool]) -> None:
    """Kill a gateway when the first step of what it was asked for is done; who asked gets no answer."""
    wait_until(is_half_done, "the first step")
    gateway.kill()
    with pytest.raises(KafkaException):
        future.result(2 * WAIT_S)


def test_a_gateway_that_is_killed_between_the_steps_leaves_what_repeating_finishes(
    world: World, gateways: tuple[GatewayProcess, GatewayProcess]
) -> None:
    name = named("killed")
    wanted = NewTopic(name, 2, config={"diskless.enable": "true"})
    with dying_gateway(world) as dying:
        admin = world.admin(dying)
        killed_within(dying, admin.create_topics([wanted], request_timeout=WAIT_S)[name], lambda: name in at_brokers(world))
    assert name not in listed(world)
    admin = world.admin(gateways[0])
    # Nobody takes it for a classic topic.
    told = admin.list_topics(name, timeout=WAIT_S).topics[name]
    assert told.error is not None
    assert told.error.code() == KafkaError.LEADER_NOT_AVAILABLE
    admin.create_topics([wanted])[name].result(WAIT_S)
    assert listed(world)[name].num_partitions == 2
    assert len(admin.list_topics(name, timeout=WAIT_S).topics[name].partitions) == 2

    real = AdminClient({"bootstrap.servers": world.kafka.bootstrap})
    with dying_gateway(world) as dying:
        cut = world.admin(dying)
        growing = cut.create_partitions([NewPartitions(name, 3)], request_timeout=WAIT_S)[name]
        killed_within(dying, growing, lambda: len(real.list_topics(name, timeout=WAIT_S).topics[name].partitions) == 3)
    # Until it is finished gateways show the smaller number.
    assert (listed(world)[name].num_partitions, len(admin.list_topics(name, timeout=WAIT_S).topics[name].partitions)) == (2, 2)
    admin.create_partitions([NewPartitions(name, 3)])[name].result(WAIT_S)
    assert (listed(world)[name].num_partitions, len(admin.list_topics(name, timeout=WAIT_S).topics[name].partitions)) == (3, 3)
