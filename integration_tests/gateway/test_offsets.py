"""Offsets of diskless topics through gateways, listed and deleted by Kafka's own tools and librdkafka; readers that commits wake."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from kio.schema.fetch.v12.request import FetchPartition, FetchRequest, FetchTopic
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32, i32Timedelta, i64

from cli.bench.counters import cpu_seconds
from cli.dev.gateway import GatewayProcess
from cli.dev.kafka import BrokerRuntime
from coordinator.client.routing.connection import ClientConnection
from coordinator.protocol.codec import encode
from coordinator.security.client_security import PLAIN_TEXT
from integration_tests.gateway.world import World, records_of, tool
from integration_tests.waiting import WAIT_S

NameFactory = Callable[[str], str]
GET_OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
DELETE_RECORDS = "org.apache.kafka.tools.DeleteRecordsCommand"
BEGAN_MS = 1_700_000_000_000
ZONES = {1001: "red", 1002: "blue"}


@pytest.fixture(scope="module")
def world(broker_runtime: BrokerRuntime, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with World(tmp_path_factory.mktemp("offsets"), broker_runtime) as made:
        # Two zones, so that each gateway leads all partitions for the clients of its own.
        for node_id, zone in ZONES.items():
            made.start(node_id, gateway_rack=zone)
        yield made


@pytest.fixture(scope="module")
def gateway(world: World) -> GatewayProcess:
    return world.gateways[1001]


def in_zone(gateway: GatewayProcess) -> dict[str, str]:
    """Properties of a client in the zone of a gateway."""
    return {"bootstrap.servers": gateway.address, "client.id": f"test,diskless_az={ZONES[gateway.node_id]}"}


def write(gateway: GatewayProcess, topic: str, partition: int, numbers: range) -> None:
    """Write records whose timestamps are as far apart as their numbers, and wait for the acknowledgements."""
    refused: list[Any] = []
    producer = Producer({"bootstrap.servers": gateway.address, "linger.ms": 50})
    for number in numbers:
        told = {"on_delivery": lambda error, _: refused.append(error) if error else None}
        producer.produce(topic, b"%d" % number, partition=partition, timestamp=BEGAN_MS + number, **told)
    assert producer.flush(WAIT_S) == 0
    assert refused == []


def listed(gateway: GatewayProcess, topic: str, when: str) -> dict[int, str]:
    """What kafka-get-offsets prints, by partition."""
    lines = records_of(tool(GET_OFFSETS, "--bootstrap-server", gateway.address, "--topic", topic, "--time", when))
    return {int(index): offset for _, index, offset in (line.split(":") for line in lines)}


def test_kafkas_tools_list_and_delete(world: World, gateway: GatewayProcess, unique_name: NameFactory, tmp_path: Path) -> None:
    topic = unique_name("orders")
    world.create(gateway, topic, 3, is_diskless=True)
    write(gateway, topic, 0, range(100))
    write(gateway, topic, 1, range(100, 0, -1))
    assert listed(gateway, topic, "latest") == {0: "100", 1: "100", 2: "0"}
    assert set(listed(gateway, topic, "latest-tiered").values()) <= {"", "-1"}
    points = [{"topic": topic, "partition": index, "offset": offset} for index, offset in ((0, 40), (1, -1), (2, 5))]
    (tmp_path / "points.json").write_text(json.dumps({"partitions": points, "version": 1}), encoding="utf-8")
    said = tool(DELETE_RECORDS, "--bootstrap-server", gateway.address, "--offset-json-file", str(tmp_path / "points.json"), expect=None)
    assert f"partition: {topic}-0\tlow_watermark: 40" in said
    assert f"partition: {topic}-1\tlow_watermark: 100" in said
    assert f"partition: {topic}-2\terror" in said
    assert "OffsetOutOfRange" in said
    assert listed(gateway, topic, "earliest-local") == {0: "40", 1: "100", 2: "0"}


def test_librdkafka_lists_and_deletes(world: World, gateway: GatewayProcess, unique_name: NameFactory) -> None:
    topic = unique_name("orders")
    world.create(gateway, topic, 2, is_diskless=True)
    write(gateway, topic, 0, range(50))
    admin = AdminClient({"bootstrap.servers": gateway.address})

    at: Any = OffsetSpec  # comes without types

    def offset(spec: Any, index: int = 0) -> int:
        where = TopicPartition(topic, index)
        return int(admin.list_offsets({where: spec})[where].result(WAIT_S).offset)

    assert [offset(spec) for spec in (at.earliest(), at.latest(), at.max_timestamp())] == [0, 50, 49]
    assert offset(at.for_timestamp(BEGAN_MS + 7)) == 7
    assert offset(at.for_timestamp(BEGAN_MS + 50)) == -1
    where = TopicPartition(topic, 0, 20)
    assert admin.delete_records([where])[where].result(WAIT_S).low_watermark == 20
    consumer = Consumer({"bootstrap.servers": gateway.address, "group.id": topic})
    try:
        assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=WAIT_S) == (20, 50)
        [found] = consumer.offsets_for_times([TopicPartition(topic, 0, BEGAN_MS + 33)], timeout=WAIT_S)
        assert found.offset == 33
    finally:
        consumer.close()


def test_a_reader_at_another_gateway_sees_a_commit_soon(world: World, gateway: GatewayProcess, unique_name: NameFactory) -> None:
    topic = unique_name("orders")
    world.create(gateway, topic, 4, is_diskless=True)
    readers = []
    for one in world.gateways.values():
        consumer = Consumer({**in_zone(one), "group.id": f"{topic}-{one.node_id}", "fetch.wait.max.ms": 5_000})
        consumer.assign([TopicPartition(topic, index, 0) for index in range(4)])
        readers.append(consumer)
    producer = Producer({**in_zone(gateway), "linger.ms": 0})
    acknowledged_s: list[float] = []
    delays_s: list[list[float]] = [[] for _ in readers]
    for number in range(12):
        producer.produce(topic, b"%d" % number, partition=number % 4, on_delivery=lambda _error, _: acknowledged_s.append(time.monotonic()))
        producer.flush(WAIT_S)
        # The reader of the other gateway first.
        for reader, delays in [*zip(readers, delays_s, strict=True)][::-1]:
            message = reader.poll(WAIT_S)
            assert isinstance(message, Message)
            assert (message.error(), message.value()) == (None, b"%d" % number)
            delays.append(time.monotonic() - acknowledged_s[-1])
    for reader in readers:
        reader.close()
    for delays in delays_s:
        print(f"read after the acknowledgement, ms: {[round(one * 1000, 1) for one in delays]}")
        # The first reads of consumers find their leaders.
        assert median(delays[4:]) < 0.25


@pytest.mark.measured
async def test_idle_consumers_cost_little(world: World, gateway: GatewayProcess, unique_name: NameFactory) -> None:
    topic, count, for_s = unique_name("orders"), 200, 5.0
    world.create(gateway, topic, 20, is_diskless=True)
    host, _, port = gateway.address.rpartition(":")
    pid = gateway.pid

    async def cost_s() -> float:
        before_s = cpu_seconds(pid)
        await asyncio.sleep(for_s)
        return cpu_seconds(pid) - before_s

    async def consume(connection: ClientConnection, number: int) -> None:
        """Fetch at the end of a partition again and again, as a consumer with its defaults does."""
        asked = FetchPartition(partition=i32(number % 20), fetch_offset=i64(0), log_start_offset=i64(-1), partition_max_bytes=i32(1 << 20))
        request = FetchRequest(
            replica_id=BrokerId(-1),
            max_wait=i32Timedelta.parse(timedelta(milliseconds=500)),
            min_bytes=i32(1),
            max_bytes=i32(50 << 20),
            isolation_level=i8(0),
            session_id=i32(0),
            session_epoch=i32(-1),
            topics=(FetchTopic(topic=TopicName(topic), partitions=(asked,)),),
            forgotten_topics_data=(),
            rack_id="",
        )
        body = encode(request)
        while True:
            await connection.request(1, 12, body, WAIT_S)

    idle_s = await cost_s()
    async with AsyncExitStack() as stack:
        tasks = []
        for number in range(count):
            connection = await ClientConnection.connect(host, int(port), client_id="idle", timeout_s=WAIT_S, security=PLAIN_TEXT)
            stack.push_async_callback(connection.close)
            tasks.append(asyncio.create_task(consume(connection, number)))
        await cost_s()
        cost = await cost_s()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    each_us = (cost - idle_s) / (count * for_s / 0.5) * 1e6
    print(f"cpu of a core: {idle_s / for_s:.2%} without consumers, {cost / for_s:.2%} with {count}: {each_us:.0f} us a fetch")
    assert cost < 0.5 * for_s
