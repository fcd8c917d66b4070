"""Diskless topics are read through gateways by consumers that nobody here wrote: librdkafka's and Kafka's own."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Consumer, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from cli.dev.gateway import GatewayProcess
from cli.dev.kafka import BrokerRuntime
from integration_tests import commands
from integration_tests.gateway.world import World, records_of, tool
from integration_tests.waiting import WAIT_S, wait_until

NameFactory = Callable[[str], str]
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture(scope="module")
def world(broker_runtime: BrokerRuntime, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with World(tmp_path_factory.mktemp("fetch"), broker_runtime) as made:
        made.start(1001)
        yield made


@pytest.fixture(scope="module")
def gateway(world: World) -> GatewayProcess:
    return world.gateways[1001]


def write(gateway: GatewayProcess, topic: str, records: Sequence[Mapping[str, Any]], **settings: Any) -> None:
    """Write records, each as the arguments of `Producer.produce`, and wait for their acknowledgements."""
    refused: list[Any] = []
    producer = Producer({"bootstrap.servers": gateway.address, **{key.replace("_", "."): value for key, value in settings.items()}})
    for one in records:
        producer.produce(topic, on_delivery=lambda error, _: refused.append(error) if error else None, **one)
    assert producer.flush(WAIT_S) == 0
    assert refused == []


class Reader:
    """A consumer of librdkafka's of its own group."""

    def __init__(self, gateway: GatewayProcess, **settings: Any) -> None:
        own = {
            "bootstrap.servers": gateway.address,
            "group.id": f"g-{uuid.uuid4().hex[:8]}",
            "auto.offset.reset": "earliest",
            "check.crcs": True,
        }
        self.consumer = Consumer({**own, **{key.replace("_", "."): value for key, value in settings.items()}})

    def __enter__(self) -> Consumer:
        return self.consumer

    def __exit__(self, *_: object) -> None:
        self.consumer.close()


def taken(consumer: Consumer, count: int) -> list[Any]:
    """The next messages of a consumer."""
    found: list[Any] = []
    while len(found) < count:
        some = consumer.consume(count - len(found), timeout=WAIT_S)
        assert some, f"only {len(found)} of {count} messages came"
        for one in some:
            assert one.error() is None, one.error()
        found += some
    return found


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_what_librdkafka_writes_librdkafka_and_java_read(
    world: World, gateway: GatewayProcess, unique_name: NameFactory, compression: str
) -> None:
    topic = unique_name("orders")
    world.create(gateway, topic, 3, is_diskless=True)
    records = [
        {
            "value": None if number % 7 == 0 else b"value %d " % number * (number % 40),
            "key": None if number % 3 == 0 else b"key %d" % number,
            "headers": [("a", b"%d" % number), ("b", None)] if number % 2 else None,
            "partition": number % 3,
            "timestamp": 1_700_000_000_000 + number,
        }
        for number in range(300)
    ]
    write(gateway, topic, records, compression_type=compression, enable_idempotence=True)
    with Reader(gateway) as consumer:
        consumer.subscribe([topic])
        for one in taken(consumer, 300):
            sent = records[3 * one.offset() + one.partition()]
            assert (one.key(), one.value(), one.headers(), one.timestamp()[1], one.leader_epoch()) == (
                sent["key"], sent["value"], sent["headers"], sent["timestamp"], 0,
            )  # fmt: skip
    shown = [part for name in ("offset", "headers", "key") for part in ("--formatter-property", f"print.{name}=true")]
    for protocol, isolation in (("classic", "read_committed"), ("consumer", "read_uncommitted"))[: 1 + (compression == "none")]:
        told = tool(
            CONSOLE_CONSUMER, "--bootstrap-server", gateway.address, "--topic", topic, "--from-beginning", "--max-messages", "300",
            "--timeout-ms", "30000", "--command-property", f"group.protocol={protocol}", "--isolation-level", isolation, *shown,
        )  # fmt: skip
        assert sorted(records_of(told)) == sorted(printed(number, one) for number, one in enumerate(records))


def printed(number: int, record: Mapping[str, Any]) -> str:
    """A record as the console consumer prints it."""
    headers = f"a:{number},b:null" if record["headers"] else "NO_HEADERS"
    key, value = ("null" if record[name] is None else record[name].decode() for name in ("key", "value"))
    return f"Offset:{number // 3}\t{headers}\t{key}\t{value}"


def test_producers_and_consumers_go_on_while_partitions_move(world: World, gateway: GatewayProcess, unique_name: NameFactory) -> None:
    """Idempotent producers begin and go on at any time of a move; nothing is refused, lost, doubled or out of order."""
    topic, is_over, sent = unique_name("moved"), threading.Event(), [0, 0]
    world.create(gateway, topic, 2, is_diskless=True)

    def produce(partition: int) -> None:
        while not is_over.is_set():
            numbers = range(sent[partition], sent[partition] + 20)
            records = [{"value": b"%d" % number, "partition": partition} for number in numbers]
            write(gateway, topic, records, enable_idempotence=True, linger_ms=0, batch_num_messages=1)
            sent[partition] = numbers.stop

    with Reader(gateway) as consumer, ThreadPoolExecutor(2) as pool:
        consumer.subscribe([topic])
        work = [pool.submit(produce, partition) for partition in range(2)]
        try:
            found = taken(consumer, 60)
            for row in commands.run(world.service, "topics", "describe", topic):
                where = (f"{topic}:{row['partition']}", "--to", str(1 - row["coordinator"]))
                commands.run(world.service, "partitions", "move", *where, output=False)
                found += taken(consumer, sum(sent) + 60 - len(found))
        finally:
            is_over.set()
        for one in work:
            one.result(WAIT_S)
        found += taken(consumer, sum(sent) - len(found))
    for partition in range(2):
        assert [int(one.value()) for one in found if one.partition() == partition] == list(range(sent[partition]))


def test_append_times_are_those_of_the_coordinator(world: World, gateway: GatewayProcess, unique_name: NameFactory) -> None:
    topic = unique_name("orders")
    config = {"diskless.enable": "true", "message.timestamp.type": "LogAppendTime"}
    admin = world.admin(gateway)
    admin.create_topics([NewTopic(topic, 1, replication_factor=1, config=config)])[topic].result(30)
    write(gateway, topic, [{"value": b"%d" % number, "timestamp": 1_000 + number} for number in range(20)], compression_type="zstd")
    with Reader(gateway) as consumer:
        consumer.subscribe([topic])
        kinds, times = zip(*(one.timestamp() for one in taken(consumer, 20)), strict=True)
    assert set(kinds) == {TIMESTAMP_LOG_APPEND_TIME}
    assert abs(min(times) - time.time() * 1000) < 60_000
    told = tool(
        CONSOLE_CONSUMER, "--bootstrap-server", gateway.address, "--topic", topic, "--from-beginning", "--max-messages", "20",
        "--timeout-ms", "30000", "--formatter-property", "print.timestamp=true",
    )  # fmt: skip
    assert {line.partition("\t")[0] for line in records_of(told)} == {f"LogAppendTime:{at}" for at in times}


def test_a_consumer_seeks_and_begins_anywhere(world: World, gateway: GatewayProcess, unique_name: NameFactory) -> None:
    topic = unique_name("orders")
    world.create(gateway, topic, 1, is_diskless=True)
    for start in range(0, 500, 100):  # several batches, and an offset within one
        write(gateway, topic, [{"value": b"%d" % number} for number in range(start, start + 100)], linger_ms=50)
    with Reader(gateway) as consumer:
        for offset in (0, 137, 499, 250):
            consumer.assign([TopicPartition(topic, 0, offset)])
            assert [(one.offset(), one.value()) for one in taken(consumer, 1)] == [(offset, b"%d" % offset)]
    lines = records_of(
        tool(
            CONSOLE_CONSUMER,
            "--bootstrap-server",
            gateway.address,
            "--topic",
            topic,
            "--partition",
            "0",
            "--offset",
            "321",
            "--max-messages",
            "5",
            "--timeout-ms",
            "30000",
        )
    )
    assert lines == ["321", "322", "323", "324", "325"]


def test_a_small_limit_of_a_partition_holds_up_no_large_batch(world: World, gateway: GatewayProcess, unique_name: NameFactory) -> None:
    topic = unique_name("orders")
    world.create(gateway, topic, 2, is_diskless=True)
    values = [{"value": b"%02d" % number * 25_000, "partition": number % 2} for number in range(40)]
    write(gateway, topic, values, linger_ms=100, batch_size=900_000)
    with Reader(gateway, fetch_message_max_bytes=1_000, fetch_max_bytes=1_000, message_max_bytes=1_000) as consumer:
        consumer.subscribe([topic])
        assert sorted(int(one.value()[:2]) for one in taken(consumer, 40)) == list(range(40))
    lines = records_of(
        tool(
            CONSOLE_CONSUMER,
            "--bootstrap-server",
            gateway.address,
            "--topic",
            topic,
            "--from-beginning",
            "--max-messages",
            "40",
            "--timeout-ms",
            "30000",
            "--command-property",
            "max.partition.fetch.bytes=1000",
            "--command-property",
            "fetch.max.bytes=1000",
        )
    )
    assert sorted(int(line[:2]) for line in lines) == list(range(40))


def test_a_consumer_that_waits_gets_what_is_written_meanwhile(world: World, gateway: GatewayProcess, unique_name: NameFactory) -> None:
    topic = unique_name("orders")
    world.create(gateway, topic, 1, is_diskless=True)
    write(gateway, topic, [{"value": b"first"}])
    with Reader(gateway, fetch_min_bytes=100_000, fetch_wait_max_ms=300) as consumer:
        consumer.subscribe([topic])
        assert [one.value() for one in taken(consumer, 1)] == [b"first"], "too few bytes come when the time is over"
        for number in range(5):
            write(gateway, topic, [{"value": b"%d" % number}])
            assert [one.value() for one in taken(consumer, 1)] == [b"%d" % number]


def test_a_group_goes_on_where_it_was_and_at_another_gateway(world: World, gateway: GatewayProcess, unique_name: NameFactory) -> None:
    topic, group = unique_name("orders"), unique_name("group")
    world.create(gateway, topic, 4, is_diskless=True)
    write(gateway, topic, [{"value": b"%d" % number, "partition": number % 4} for number in range(200)])
    with Reader(gateway, group_id=group, enable_auto_commit=False) as consumer:
        consumer.subscribe([topic])
        first = taken(consumer, 80)
        consumer.commit(asynchronous=False)
    [other] = world.start(1002)
    try:
        with Reader(other, group_id=group) as consumer:
            consumer.subscribe([topic])
            rest = taken(consumer, 120)
    finally:
        other.terminate()
    assert sorted(int(one.value()) for one in [*first, *rest]) == list(range(200))


def test_a_damaged_object_ends_its_partition_and_no_other(world: World, gateway: GatewayProcess, unique_name: NameFactory) -> None:
    topic = unique_name("orders")
    world.create(gateway, topic, 2, is_diskless=True)
    folder = Path(world.service.properties["object.store.url"].removeprefix("file://"))
    write(gateway, topic, [{"value": b"sound" * 30, "partition": 0}])
    known = set(folder.rglob("*"))
    write(gateway, topic, [{"value": b"damaged" * 30, "partition": 0}])
    [damaged] = [file for file in set(folder.rglob("*")) - known if file.is_file()]
    write(gateway, topic, [{"value": b"other" * 30, "partition": 1}])
    gateway.terminate()  # it has its own files in memory
    data = bytearray(damaged.read_bytes())
    data[-1] ^= 1
    damaged.write_bytes(bytes(data))
    gateway.start()
    gateway.wait_ready()
    with Reader(gateway) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0), TopicPartition(topic, 1, 0)])
        assert sorted(one.value() for one in taken(consumer, 2)) == [b"other" * 30, b"sound" * 30]
        wait_until(
            lambda: f"batch damaged topic={topic} partition=0 offsets=1..1 object=" in gateway.log_text(), "the damaged batch to be told"
        )
