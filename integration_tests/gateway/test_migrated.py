"""Migrated topics through gateways on three brokers: one log for clients that used the classic topic, and change their bootstrap alone."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka import admin as kafka_admin
from confluent_kafka.admin import AdminClient, NewTopic

from cli.dev.gateway import GatewayProcess
from cli.dev.kafka import BrokerRuntime
from integration_tests.gateway.stranger_clients import JAVA, KAFKA_PYTHON, LIBRDKAFKA, Row
from integration_tests.gateway.world import World, records_of, tool
from integration_tests.test_migration import QUIET, STILL, Place, migrate_one
from integration_tests.waiting import WAIT_S, wait_until

OffsetSpec: Any = kafka_admin.OffsetSpec  # comes without types
NameFactory = Callable[[str], str]
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
START = ("--writers-stopped", "--yes", *STILL)
REPLICAS = 3
WRITTEN_EACH = 40


class Kept(NamedTuple):
    """A record as a consumer got it."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: Any


@pytest.fixture(scope="module")
def world(broker_runtime: BrokerRuntime, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    properties = {"log.retention.check.interval.ms": "500", "log.initial.task.delay.ms": "500"}
    with World(tmp_path_factory.mktemp("migrated"), broker_runtime, brokers=REPLICAS, properties=properties) as made:
        made.start(1001)
        yield made


@pytest.fixture(scope="module")
def gateway(world: World) -> GatewayProcess:
    return world.gateways[1001]


@pytest.fixture
def place(world: World) -> Place:
    return Place(world.service, world.kafka.bootstrap)


def named(unique_name: NameFactory) -> str:
    return unique_name("orders")[-60:].lstrip("-")


def write(bootstrap: str, topic: str, count: int, mark: str, partition: int = 0, **settings: Any) -> None:
    """Write records with keys and headers, some of them null, and wait for their acknowledgements."""
    refused: list[Any] = []
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, **QUIET, **dotted(settings)})
    for number in range(count):
        producer.produce(
            topic,
            None if number % 7 == 3 else f"{mark}-{number}".encode(),
            key=None if number % 3 else b"key",
            headers=[("mark", mark.encode()), ("none", None)],
            partition=partition,
            on_delivery=lambda error, _: refused.append(error) if error else None,
        )
    assert producer.flush(WAIT_S) == 0
    assert refused == []


def dotted(settings: dict[str, Any]) -> dict[str, Any]:
    return {key.replace("_", "."): value for key, value in settings.items()}


def transact(bootstrap: str, topic: str, count: int, mark: str, *, commits: bool) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"t-{uuid.uuid4().hex[:8]}", **QUIET})
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    for number in range(count):
        producer.produce(topic, f"{mark}-{number}".encode(), partition=0)
    assert producer.flush(WAIT_S) == 0
    (producer.commit_transaction if commits else producer.abort_transaction)(WAIT_S)


def consumer_of(bootstrap: str, **settings: Any) -> Consumer:
    own = {"bootstrap.servers": bootstrap, "group.id": f"g-{uuid.uuid4().hex[:8]}", "auto.offset.reset": "error", "check.crcs": True}
    return Consumer({**own, "enable.auto.commit": False, **QUIET, **dotted(settings)})


def read(bootstrap: str, topic: str, start: int, end: int, partition: int = 0, **settings: Any) -> list[Kept]:
    """Read a partition from an offset to the end that it has; every error is one."""
    consumer = consumer_of(bootstrap, enable_partition_eof=True, **settings)
    try:
        consumer.assign([TopicPartition(topic, partition, start)])
        found: list[Kept] = []
        while True:
            one = consumer.poll(WAIT_S)
            assert one is not None, f"nothing came after {found[-1:]}"
            error = one.error()
            if error is not None and error.code() == KafkaError._PARTITION_EOF:
                assert one.offset() == end, "the end is told where it is"
                return found
            assert error is None, error
            found.append(kept(one))
    finally:
        consumer.close()


def kept(message: Message) -> Kept:
    key, value, offset = message.key(), message.value(), message.offset()
    assert offset is not None
    return Kept(offset, key, value, message.headers())  # type: ignore[arg-type]


def filled(world: World, place: Place, name: str) -> int:
    """Make a classic topic with records of all compressions, and of transactions; returns where its log ends."""
    place.create(name, 2, REPLICAS)
    bootstrap = world.kafka.bootstrap
    for compression in COMPRESSIONS:
        write(bootstrap, name, WRITTEN_EACH, compression, compression_type=compression)
        transact(bootstrap, name, 5, f"aborted-{compression}", commits=False)
        transact(bootstrap, name, 5, f"committed-{compression}", commits=True)
    return latest(bootstrap, name)


def latest(bootstrap: str, name: str, spec: Any = None, partition: int = 0) -> int:
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})  # kept until the answer is there
    asked = admin.list_offsets({TopicPartition(name, partition): spec or OffsetSpec.latest()})
    return int(next(iter(asked.values())).result(WAIT_S).offset)


def migrate(place: Place, gateway: GatewayProcess, name: str, *words: str) -> list[int]:
    """Migrate a topic, and wait until the gateway leads it; returns where the diskless logs begin."""
    rows = place.run("start", name, *(words or START))
    admin = World.admin(gateway)

    def is_led() -> bool:
        partitions = admin.list_topics(timeout=WAIT_S).topics[name].partitions
        return {one.leader for one in partitions.values()} == {1001}

    wait_until(is_led, "the gateway to lead the topic")
    return [row["start_offset"] for row in rows]


def test_clients_of_the_classic_topic_change_their_bootstrap_and_go_on(
    world: World, place: Place, gateway: GatewayProcess, unique_name: NameFactory
) -> None:
    name, bootstrap = named(unique_name), world.kafka.bootstrap
    end = filled(world, place, name)
    before = {level: read(bootstrap, name, 0, end, isolation_level=level) for level in ("read_committed", "read_uncommitted")}
    assert len(before["read_uncommitted"]) == len(before["read_committed"]) + 5 * len(COMPRESSIONS)
    # A group reads some, with leader epochs that are above those of diskless topics.
    world.kafka.kill(1)
    wait_until(lambda: is_led(bootstrap, name), "the other brokers to lead")
    world.kafka.restart(1)
    group = f"g-{uuid.uuid4().hex[:8]}"
    seen = consume_in_group(bootstrap, name, group, 60)

    [start, _] = migrate(place, gateway, name)
    assert start == end
    write(gateway.address, name, 30, "diskless")
    for level, classic in before.items():
        both = read(gateway.address, name, 0, end + 30, isolation_level=level)
        assert both[: len(classic)] == classic
        assert [one.offset for one in both[len(classic) :]] == [*range(end, end + 30)]
        assert read(gateway.address, name, 45, end + 30, isolation_level=level, fetch_message_max_bytes=300) == [
            one for one in both if one.offset >= 45
        ]
    committed = read(gateway.address, name, 0, end + 30, isolation_level="read_committed")
    seen += consume_in_group(gateway.address, name, group, len(committed) - 60)
    assert [kept(one) for one in seen] == committed
    for isolation in before:
        both = read(gateway.address, name, 0, end + 30, isolation_level=isolation)
        assert [one.encode() for one in console(gateway, name, isolation, len(both))] == [one.value or b"null" for one in both]
    write(gateway.address, name, 3, "later", partition=1)
    assert place.verify(name)[0]["suffix_records"] == 30


def console(gateway: GatewayProcess, name: str, isolation: str, count: int) -> Sequence[str]:
    """What Kafka's own consumer reads from the beginning, in a group of its own."""
    arguments = ("--bootstrap-server", gateway.address, "--topic", name, "--partition", "0", "--offset", "earliest")
    more = ("--isolation-level", isolation, "--max-messages", str(count), "--timeout-ms", "30000")
    return records_of(tool(CONSOLE_CONSUMER, *arguments, *more))


def is_led(bootstrap: str, name: str) -> bool:
    try:
        latest(bootstrap, name)
    except KafkaException:
        return False
    return True


def consume_in_group(bootstrap: str, name: str, group: str, count: int) -> list[Message]:
    """Consume so many records in a group, and commit."""
    consumer = consumer_of(bootstrap, group_id=group, auto_offset_reset="earliest")
    try:
        consumer.subscribe([name])
        found: list[Message] = []
        until_s = time.monotonic() + WAIT_S
        while len(found) < count:
            assert time.monotonic() < until_s, f"only {len(found)} of {count} records came"
            for one in consumer.consume(count - len(found), timeout=1.0):
                assert one.error() is None, one.error()
                found.append(one)
        consumer.commit(asynchronous=False)
        return found
    finally:
        consumer.close()


def test_offsets_are_those_of_one_log(world: World, place: Place, gateway: GatewayProcess, unique_name: NameFactory) -> None:
    name, bootstrap = named(unique_name), world.kafka.bootstrap
    place.create(name, 1, REPLICAS)
    producer = Producer({"bootstrap.servers": bootstrap, **QUIET})
    now_ms = time.time_ns() // 1_000_000
    times = [now_ms - 60_000 + 1_000 * number for number in range(10)]
    for at_ms in times:
        producer.produce(name, b"classic", timestamp=at_ms)
        assert producer.flush(WAIT_S) == 0
    assert migrate(place, gateway, name) == [10]
    through = Producer({"bootstrap.servers": gateway.address, **QUIET})
    through.produce(name, b"diskless", timestamp=now_ms - 30_000)
    assert through.flush(WAIT_S) == 0

    def at(spec: Any) -> int:
        return latest(gateway.address, name, spec)

    assert [at(OffsetSpec.for_timestamp(one)) for one in (0, times[4], times[9], times[9] + 1, now_ms)] == [0, 4, 9, 10, -1]
    assert (at(OffsetSpec.earliest()), at(OffsetSpec.latest()), at(OffsetSpec.max_timestamp())) == (0, 11, 10)
    # Deleted at a broker, as by retention: gateways see it at once.
    delete(bootstrap, name, 3)
    assert at(OffsetSpec.earliest()) == 3
    with pytest.raises(KafkaException, match="OFFSET_OUT_OF_RANGE"):
        delete(gateway.address, name, 12)
    assert [one.offset for one in read(gateway.address, name, 3, 11)] == [*range(3, 11)]
    assert delete(gateway.address, name, 5) == 5
    assert (at(OffsetSpec.earliest()), latest(bootstrap, name, OffsetSpec.earliest())) == (5, 5)
    through.produce(name, b"diskless", timestamp=now_ms - 20_000)
    assert through.flush(WAIT_S) == 0
    assert delete(gateway.address, name, 11) == 11
    assert (at(OffsetSpec.earliest()), latest(bootstrap, name, OffsetSpec.earliest())) == (11, 10)
    assert [one.offset for one in read(gateway.address, name, 11, 12)] == [11]


def delete(bootstrap: str, name: str, offset: int) -> int:
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    [deleted] = admin.delete_records([TopicPartition(name, 0, offset)]).values()
    return int(deleted.result(WAIT_S).low_watermark)


def test_retention_moves_the_classic_part_while_it_is_read(
    world: World, place: Place, gateway: GatewayProcess, unique_name: NameFactory
) -> None:
    name, bootstrap = named(unique_name), world.kafka.bootstrap
    place.create(name, 1, REPLICAS, segment_bytes="1048576", retention_bytes="400000", file_delete_delay_ms="0")
    write(bootstrap, name, 40, "x" * 20_000, batch_num_messages=1)
    start = latest(bootstrap, name)
    wait_until(lambda: latest(bootstrap, name, OffsetSpec.earliest()) > 0, "retention to delete the first segment")
    assert migrate(place, gateway, name) == [start]
    write(gateway.address, name, 5, "diskless")
    first = latest(gateway.address, name, OffsetSpec.earliest())
    assert 0 < first == latest(bootstrap, name, OffsetSpec.earliest()) < start
    consumer = consumer_of(gateway.address, auto_offset_reset="earliest")
    try:
        # An offset that is gone leads to the beginning of what is left, as at a broker.
        consumer.assign([TopicPartition(name, 0, 0)])
        found: list[int] = []
        while not found or found[-1] < start + 4:
            message = consumer.poll(WAIT_S)
            assert message is not None
            assert message.error() is None, message.error()
            found.append(kept(message).offset)
    finally:
        consumer.close()
    assert found == [*range(first, start + 5)]


@pytest.mark.long
def test_a_broker_dies_while_the_classic_part_is_read(
    world: World, place: Place, gateway: GatewayProcess, unique_name: NameFactory
) -> None:
    name, partitions, each = named(unique_name), 6, 400
    place.create(name, partitions, REPLICAS)
    producer = Producer({"bootstrap.servers": world.kafka.bootstrap, "enable.idempotence": True, "batch.num.messages": 10, **QUIET})
    for number in range(partitions * each):
        producer.produce(name, b"%d" % number + b"x" * 2_000, partition=number % partitions)
        producer.poll(0)
    assert producer.flush(WAIT_S) == 0
    assert migrate(place, gateway, name) == [each] * partitions
    for partition in range(partitions):
        write(gateway.address, name, 10, "diskless", partition)
    consumer = consumer_of(gateway.address, fetch_message_max_bytes=20_000, queued_min_messages=1, max_poll_interval_ms=600_000)
    found: dict[int, list[int]] = {partition: [] for partition in range(partitions)}
    is_killed = False
    try:
        consumer.assign([TopicPartition(name, partition, 0) for partition in range(partitions)])
        while sum(map(len, found.values())) < partitions * (each + 10):
            message = consumer.poll(WAIT_S)
            assert message is not None, {partition: offsets[-1:] for partition, offsets in found.items()}
            assert message.error() is None, message.error()
            source, offset = message.partition(), message.offset()
            assert source is not None
            assert offset is not None
            found[source].append(offset)
            if not is_killed and sum(map(len, found.values())) > partitions * each // 4:
                is_killed = True
                world.kafka.kill(2)
    finally:
        consumer.close()
        world.kafka.restart(2)
    assert found == {partition: [*range(each + 10)] for partition in range(partitions)}


def test_a_migration_that_was_cut_off_is_finished_or_taken_back(
    world: World, place: Place, gateway: GatewayProcess, unique_name: NameFactory
) -> None:
    name, bootstrap = named(unique_name), world.kafka.bootstrap
    place.create(name, 1, REPLICAS)
    write(bootstrap, name, 5, "classic")
    asyncio.run(migrate_one(place, name, 1))  # and no more: the classic topic takes records still
    assert place.size_limit(name).own is None
    assert [row["to_do"] for row in place.run("start", name, "--writers-stopped", "--dry-run", *STILL)] == ["finish"]
    assert [(row["result"], row["start_offset"]) for row in place.run("start", name, *START)] == [("diskless before", 5)]
    assert place.size_limit(name).own == "0"
    refused: list[Any] = []
    producer = Producer({"bootstrap.servers": bootstrap, **QUIET})
    producer.produce(name, b"past the gateways", on_delivery=lambda error, _: refused.append(error.code()))
    assert producer.flush(WAIT_S) == 0
    assert refused == [KafkaError.MSG_SIZE_TOO_LARGE]

    admin = World.admin(gateway)

    def leaders() -> set[int]:
        return {one.leader for one in admin.list_topics(timeout=WAIT_S).topics[name].partitions.values()}

    wait_until(lambda: leaders() == {1001}, "the gateway to lead the topic")
    assert [row["result"] for row in place.run("abort", name, "--writers-stopped", "--yes")] == ["reset"]
    assert place.size_limit(name).own is None
    wait_until(lambda: leaders() <= {1, 2, 3}, "the topic to be classic again")
    write(gateway.address, name, 4, "classic again")
    assert latest(bootstrap, name) == 9
    assert migrate(place, gateway, name) == [9]
    write(gateway.address, name, 3, "diskless")
    assert [one.offset for one in read(gateway.address, name, 2, 12)] == [*range(2, 12)]


@pytest.mark.long
def test_groups_and_producers_of_three_libraries_go_on(
    world: World, place: Place, gateway: GatewayProcess, unique_name: NameFactory
) -> None:
    bootstrap, admin = world.kafka.bootstrap, AdminClient({"bootstrap.servers": world.kafka.bootstrap, **QUIET})
    now_ms = time.time_ns() // 1_000_000
    topics = {one: named(unique_name) for one in (LIBRDKAFKA, JAVA, KAFKA_PYTHON)}
    for name in topics.values():
        admin.create_topics([NewTopic(name, 1, replica_assignment=[[1, 2, 3]])])[name].result(WAIT_S)
    for one, name in topics.items():
        one.run("produce", bootstrap, name, 1, 20, "gzip", "true", now_ms)
        assert offsets_of(one.run("consume", bootstrap, name, 20, f"g-{name}")) == [*range(20)]
    # From here on committed offsets have a leader epoch above 0.
    world.kafka.kill(1)
    wait_until(lambda: all(is_led(bootstrap, one) for one in topics.values()), "the other brokers to lead")
    world.kafka.restart(1)
    for one, name in topics.items():
        one.run("produce", bootstrap, name, 1, 20, "gzip", "true", now_ms)
        assert offsets_of(one.run("consume", bootstrap, name, 20, f"g-{name}")) == [*range(20, 40)]
        one.run("produce", bootstrap, name, 1, 20, "gzip", "true", now_ms)
    for one, name in topics.items():
        assert migrate(place, gateway, name) == [60]
        one.run("produce", gateway.address, name, 1, 20, "gzip", "true", now_ms)
        assert offsets_of(one.run("consume", gateway.address, name, 40, f"g-{name}")) == [*range(40, 80)]
        one.run("produce", gateway.address, name, 1, 5, "gzip", "true", now_ms)
        assert offsets_of(one.run("consume", gateway.address, name, 5, f"g-{name}")) == [*range(80, 85)]


def offsets_of(rows: Sequence[Row]) -> list[int]:
    return [row["offset"] for row in rows]
