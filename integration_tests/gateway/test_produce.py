"""Produce through a real gateway, node and broker: librdkafka writes, the coordinator's own client reads what the store has."""

from __future__ import annotations

import time
import uuid
from collections import defaultdict
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, Producer

from cli.dev.gateway import GatewayProcess
from cli.dev.kafka import BrokerRuntime
from integration_tests.gateway.stored import stored_records
from integration_tests.gateway.world import World

WAIT_S = 60.0
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture(scope="module")
def world(broker_runtime: BrokerRuntime, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A world whose gateway nobody disturbs; each test makes topics of its own."""
    with World(tmp_path_factory.mktemp("produce"), broker_runtime) as made:
        made.start(1001)
        yield made


@pytest.fixture
def gateway(world: World) -> GatewayProcess:
    return world.gateways[1001]


def topic_name() -> str:
    return f"produce-{uuid.uuid4().hex[:8]}"


def producer(gateway: GatewayProcess, **properties: str) -> Producer:
    """A producer of librdkafka's; names have underscores for dots."""
    return Producer({"bootstrap.servers": gateway.address, **{key.replace("_", "."): value for key, value in properties.items()}})


class Written:
    """What became of each record that was sent."""

    def __init__(self) -> None:
        self.offsets: dict[bytes, tuple[int, int]] = {}
        """Partition and offset by value."""
        self.errors: list[KafkaError] = []

    def __call__(self, error: KafkaError | None, message: object) -> None:
        if error is not None:
            self.errors.append(error)
            return
        value = message.value()  # type: ignore[attr-defined]
        assert value not in self.offsets
        self.offsets[value] = message.partition(), message.offset()  # type: ignore[attr-defined]


def compare(world: World, topic: str, written: Written) -> None:
    """Every acknowledged record is there once, at the offset of its acknowledgement; offsets are dense; order is that of sending."""
    found = defaultdict(list)
    for record in stored_records(world.service, topic):
        found[record.partition].append(record)
    assert {record.value: (partition, record.offset) for partition, records in found.items() for record in records} == written.offsets
    for records in found.values():
        assert [record.offset for record in records] == list(range(len(records)))
        numbers = [int((record.value or b"").split()[0]) for record in records]
        assert numbers == sorted(numbers)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("idempotent", ["true", "false"])
def test_every_codec_arrives_once_and_in_order(world: World, gateway: GatewayProcess, codec: str, idempotent: str) -> None:
    topic, written = topic_name(), Written()
    world.create(gateway, topic, 3, is_diskless=True)
    client = producer(gateway, enable_idempotence=idempotent, compression_type=codec, linger_ms="5", acks="all")
    for number in range(600):
        headers = [("h", b"1"), ("null", None)] if number % 3 else None
        client.produce(topic, b"%d of the records" % number, partition=number % 3, headers=headers, on_delivery=written)
        client.poll(0)
    assert client.flush(WAIT_S) == 0
    assert not written.errors
    assert len(written.offsets) == 600
    compare(world, topic, written)


def test_acks_0_and_1(world: World, gateway: GatewayProcess) -> None:
    topic = topic_name()
    world.create(gateway, topic, 1, is_diskless=True)
    for acks in ("0", "1"):
        client = producer(gateway, acks=acks)
        for number in range(50):
            client.produce(topic, b"%s %d" % (acks.encode(), number))
        assert client.flush(WAIT_S) == 0
    until = time.monotonic() + WAIT_S
    while len(found := stored_records(world.service, topic)) < 100:
        assert time.monotonic() < until
        time.sleep(0.2)
    assert {record.value for record in found} == {b"%s %d" % (acks, number) for acks in (b"0", b"1") for number in range(50)}


def test_a_batch_that_is_too_large_is_refused(world: World, gateway: GatewayProcess) -> None:
    topic, written = topic_name(), Written()
    world.create(gateway, topic, 1, is_diskless=True)
    client = producer(gateway, message_max_bytes="3000000")
    client.produce(topic, b"1 " + bytes(2_000_000), on_delivery=written)
    client.produce(topic, b"2 fits", on_delivery=written)
    assert client.flush(WAIT_S) == 0
    assert [error.code() for error in written.errors] == [KafkaError.MSG_SIZE_TOO_LARGE]
    assert list(written.offsets) == [b"2 fits"]


def test_the_shadow_of_a_topic_stays_empty(world: World, gateway: GatewayProcess) -> None:
    topic, written = topic_name(), Written()
    world.create(gateway, topic, 1, is_diskless=True)
    client = producer(gateway)
    client.produce(topic, b"1", on_delivery=written)
    assert client.flush(WAIT_S) == 0
    assert written.offsets
    direct = Producer({"bootstrap.servers": world.kafka.bootstrap, "message.timeout.ms": "5000"})
    refused = Written()
    direct.produce(topic, b"2", on_delivery=refused)
    assert direct.flush(WAIT_S) == 0
    assert refused.errors


def test_a_transaction_is_refused_with_its_reason(world: World, gateway: GatewayProcess) -> None:
    topic = topic_name()
    world.create(gateway, topic, 1, is_diskless=True)
    client = producer(gateway, transactional_id=topic)
    client.init_transactions(WAIT_S)
    client.begin_transaction()
    written = Written()
    client.produce(topic, b"1", on_delivery=written)
    client.flush(WAIT_S)
    assert written.errors
    assert not stored_records(world.service, topic)
