"""Clients that nobody here wrote use classic and diskless topics through one gateway and through two: librdkafka, and Kafka's own tools."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from cli.dev.gateway import GatewayProcess
from cli.dev.kafka import BrokerRuntime
from integration_tests.gateway.world import World, records_of, tool
from integration_tests.waiting import wait_until

KINDS = pytest.mark.parametrize("is_diskless", [False, True], ids=["classic", "diskless"])
GATEWAYS = pytest.mark.parametrize("count", [1, 2], ids=["one", "two"])
RECORDS = 500
BY_NAME = "by-name-"
"""Topics whose names begin so are diskless: Kafka's own tool refuses settings that it does not know, before it asks any broker."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, broker_runtime: BrokerRuntime) -> Iterator[World]:
    with World(tmp_path_factory.mktemp("clients"), broker_runtime, brokers=3) as made:
        made.start(1001, 1002, gateway_create_diskless=f"{BY_NAME}.*")
        yield made


def asked(world: World, count: int) -> Sequence[GatewayProcess]:
    """Return the gateways that write and that read."""
    first, second = world.gateways[1001], world.gateways[1002]
    return (first, first) if count == 1 else (first, second)


def produce(gateway: GatewayProcess, topic: str, values: Sequence[bytes], **properties: object) -> None:
    """Write records by librdkafka; every one must be acknowledged."""
    errors: list[KafkaError] = []
    settings = {key.replace("_", "."): value for key, value in properties.items()}
    producer = Producer({"bootstrap.servers": gateway.address, "enable.idempotence": True, **settings})
    for value in values:
        producer.produce(topic, value, key=value, on_delivery=lambda error, _: errors.append(error) if error is not None else None)
    assert producer.flush(60) == 0
    assert errors == []


def consume(gateway: GatewayProcess, topic: str, count: int, group: str, **properties: object) -> list[bytes]:
    """Read records by a group of librdkafka's, and commit."""
    settings = {key.replace("_", "."): value for key, value in properties.items()}
    consumer = Consumer({"bootstrap.servers": gateway.address, "group.id": group, "auto.offset.reset": "earliest", **settings})
    consumer.subscribe([topic])
    values: list[bytes] = []

    def has_all() -> bool:
        message = consumer.poll(0.2)
        while message is not None:
            assert message.error() is None, message.error()
            values.append(message.value() or b"")
            message = consumer.poll(0)
        return len(values) >= count

    wait_until(has_all, f"{count} records of {topic}")
    committed = consumer.commit(asynchronous=False)
    assert sum(max(one.offset, 0) for one in committed or ()) >= count
    consumer.close()
    return values


@GATEWAYS
@KINDS
def test_librdkafka_writes_and_reads_with_a_group(world: World, unique_name: Callable[[str], str], is_diskless: bool, count: int) -> None:
    writes, reads = asked(world, count)
    topic, group = unique_name("topic"), unique_name("group")
    world.create(writes, topic, 6, is_diskless=is_diskless)
    values = [b"%d" % number for number in range(RECORDS)]
    produce(writes, topic, values)
    assert sorted(consume(reads, topic, RECORDS, group)) == sorted(values)
    # The group goes on where it was, at any gateway.
    produce(reads, topic, [b"more"])
    assert consume(writes, topic, 1, group) == [b"more"]
    found = world.admin(reads).list_topics(topic, timeout=30).topics[topic].partitions
    assert {one.leader for one in found.values()} <= ({1001, 1002} if is_diskless else {1, 2, 3})


@KINDS
def test_a_consumer_of_the_new_protocol_reads_and_seeks(world: World, unique_name: Callable[[str], str], is_diskless: bool) -> None:
    writes, reads = asked(world, 2)
    topic, group = unique_name("topic"), unique_name("group")
    world.create(writes, topic, 2, is_diskless=is_diskless)
    values = [b"%d" % number for number in range(50)]
    produce(writes, topic, values)
    assert sorted(consume(reads, topic, 50, group, group_protocol="consumer")) == sorted(values)
    consumer = Consumer({"bootstrap.servers": reads.address, "group.id": unique_name("other")})
    low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
    assert low == 0
    assert high + consumer.get_watermark_offsets(TopicPartition(topic, 1), timeout=30)[1] == 50
    consumer.close()


def test_without_acknowledgement_records_come_all_the_same(world: World, unique_name: Callable[[str], str]) -> None:
    """acks=0 gets no answer, from the gateway's node or through a relay: what follows on the connection is not mixed up."""
    for is_diskless in (False, True):
        topic = unique_name("topic")
        world.create(world.gateways[1001], topic, 1, is_diskless=is_diskless)
        # A broker drops what nobody waits for while it has not heard yet that it leads the partition.
        produce(world.gateways[1001], topic, [b"first"])
        produce(world.gateways[1001], topic, [b"%d" % number for number in range(50)], enable_idempotence=False, acks=0)
        assert len(consume(world.gateways[1002], topic, 51, unique_name("group"))) == 51


@pytest.mark.parametrize(("is_diskless", "count"), [pytest.param(False, 1, id="classic-one"), pytest.param(True, 2, id="diskless-two")])
def test_kafkas_own_tools_create_write_read_and_tell_the_lag(
    world: World, unique_name: Callable[[str], str], is_diskless: bool, count: int
) -> None:
    writes, reads = asked(world, count)
    topic, group = (BY_NAME if is_diskless else "") + unique_name("topic"), unique_name("group")
    of_writer, of_reader = ("--bootstrap-server", writes.address), ("--bootstrap-server", reads.address)
    made = ["--create", "--topic", topic, "--partitions", "3", "--replication-factor", "3"]
    tool("org.apache.kafka.tools.TopicCommand", *of_writer, *made)
    assert topic in tool("org.apache.kafka.tools.TopicCommand", *of_reader, "--list").splitlines()
    described = tool("org.apache.kafka.tools.TopicCommand", *of_reader, "--describe", "--topic", topic)
    leaders = {int(one) for one in re.findall(r"Leader: (\d+)", described)}
    assert leaders
    assert leaders <= ({1001, 1002} if is_diskless else {1, 2, 3})
    lines = [f"line {number}" for number in range(200)]
    tool("org.apache.kafka.tools.ConsoleProducer", *of_writer, "--topic", topic, told="\n".join(lines).encode())
    reading = ["--topic", topic, "--from-beginning", "--max-messages", "200", "--timeout-ms", "60000", "--group", group]
    assert sorted(records_of(tool("org.apache.kafka.tools.consumer.ConsoleConsumer", *of_reader, *reading))) == sorted(lines)
    lag = tool("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", *of_writer, "--describe", "--group", group)
    rows = [line.split() for line in lag.splitlines() if topic in line]
    assert {int(row[5]) for row in rows} == {0}
    assert sum(int(row[4]) for row in rows) == 200
    tool("org.apache.kafka.tools.TopicCommand", *of_reader, "--delete", "--topic", topic)
    assert topic not in tool("org.apache.kafka.tools.TopicCommand", *of_writer, "--list").splitlines()
