"""Classic topics of a real Kafka behind the ports of a migration: logs, producers, records, and the stop of writers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AclOperation, AdminClient, NewTopic, ResourceType

from coordinator.adapters.kafka.classic_starts import KafkaClassicLogs
from coordinator.client.errors import OffsetOutOfRange
from coordinator.runtime.ports import ClassicPlace, KafkaUnavailable
from integration_tests.conftest import KafkaFactory
from integration_tests.secured_kafka import LOGIN, Right, SecuredKafka
from integration_tests.test_record_batch import produce_when_led
from integration_tests.waiting import WAIT_S
from migration.classic import ClassicState, ClassicTopicMissing, MigrationRefused
from migration.kafka.records import KafkaClassicRecords
from migration.kafka.topic import KafkaClassicPartition, KafkaClassicTopic
from migration.kafka.witness import KafkaClassicWitness
from records.record_batch import Record, StoredRecord, encode_batch, header_name
from simulation.contracts.classic import CHECKS

LOUD_OFF = {"log_level": 0}


def classic_topic(name: str, bootstrap: str, *, is_fence_confirmed: bool = True, **properties: str) -> KafkaClassicTopic:
    return KafkaClassicTopic(
        name,
        bootstrap_servers=bootstrap,
        client_id="test-classic",
        kafka_properties=properties,
        is_fence_confirmed=is_fence_confirmed,
        request_timeout_s=WAIT_S,
    )


async def create(bootstrap: str, name: str, partitions: int = 1, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = NewTopic(name, partitions, 1, config={key.replace("_", "."): value for key, value in config.items()})
    admin.create_topics([new])[name].result(WAIT_S)


async def until_ended(partition: KafkaClassicPartition) -> ClassicState:
    """Wait for the markers of transactions, which come after their end was acknowledged; returns the state of the log then."""
    async with asyncio.timeout(WAIT_S):
        while (state := await partition.look()).open_transactions:
            pass
    return state


class RealClassicWorld:
    """A new topic of one partition on a running Kafka."""

    def __init__(self, bootstrap: str, name: str, partition: KafkaClassicPartition) -> None:
        self.partition = partition
        self._bootstrap = bootstrap
        self._name = name
        self._writers: dict[int, Producer] = {}
        self._transactional = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, **LOUD_OFF})

    async def write(self, writer: int, count: int) -> int:
        if writer not in self._writers:
            # Producer ids are given in the order in which they are asked for: the contract knows writers by them.
            self._writers[writer] = Producer(
                {"bootstrap.servers": self._bootstrap, "enable.idempotence": True, "linger.ms": 10_000, **LOUD_OFF}
            )
        producer = self._writers[writer]
        for _ in range(count):
            producer.produce(self._name, b"value", partition=0)
        assert await asyncio.to_thread(producer.flush, WAIT_S) == 0
        return (await self.partition.look()).log_end_offset

    async def begin(self) -> None:
        await asyncio.to_thread(self._transactional.init_transactions, WAIT_S)
        self._transactional.begin_transaction()
        self._transactional.produce(self._name, b"value", partition=0)
        assert await asyncio.to_thread(self._transactional.flush, WAIT_S) == 0

    async def end(self) -> None:
        await asyncio.to_thread(self._transactional.commit_transaction, WAIT_S)
        await until_ended(self.partition)


@pytest.mark.parametrize("check", CHECKS)
async def test_a_real_partition_passes_the_contract(bootstrap: str, unique_name: Callable[[str], str], check: str) -> None:
    name = unique_name("classic")
    await create(bootstrap, name)
    topic = classic_topic(name, bootstrap)
    facts = await topic.describe()
    assert (facts.partitions, facts.is_compacted) == (1, False)
    await CHECKS[check](RealClassicWorld(bootstrap, name, topic.partition(facts.topic_id, 0)))


async def test_topics_that_are_not_there_or_compacted_are_told(bootstrap: str, unique_name: Callable[[str], str]) -> None:
    name = unique_name("classic")
    with pytest.raises(ClassicTopicMissing, match=f"Kafka has no topic {name}"):
        await classic_topic(name, bootstrap).describe()
    await create(bootstrap, name, 2, cleanup_policy="delete,compact", retention_ms="86400000")
    facts = await classic_topic(name, bootstrap).describe()
    assert (facts.partitions, facts.is_compacted) == (2, True)
    assert facts.own == {"retention.ms", "cleanup.policy"}
    assert {("retention.ms", "86400000"), ("retention.bytes", "-1"), ("max.message.bytes", facts.size_default)} <= facts.settings.items()


# ---- records


async def all_of(records: AsyncGenerator[StoredRecord]) -> list[StoredRecord]:
    return [record async for record in records]


async def test_the_consumer_and_the_witness_read_the_same_records(bootstrap: str, unique_name: Callable[[str], str]) -> None:
    name = unique_name("classic")
    await create(bootstrap, name, 2, retention_ms="-1")
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "linger.ms": 5, **LOUD_OFF})
    await asyncio.to_thread(producer.init_transactions, WAIT_S)
    values: list[bytes] = []

    def write(writer: Producer, turn: int, partition: int = 0) -> list[bytes]:
        written = [b"%d-%d" % (turn, number) for number in range(50)]
        for number, value in enumerate(written):
            key, headers = None if number % 2 else b"key", {"h": b"v", "n": None}
            writer.produce(name, value, key=key, partition=partition, timestamp=1_000 * (turn + 1) + number, headers=headers)  # type: ignore[arg-type]
        assert writer.flush(WAIT_S) == 0
        return written

    for turn, is_aborted in enumerate((False, True, False, True)):
        producer.begin_transaction()
        written = await asyncio.to_thread(write, producer, turn)
        values += [] if is_aborted else written
        await asyncio.to_thread(producer.abort_transaction if is_aborted else producer.commit_transaction, WAIT_S)
    for turn, compression in enumerate(("gzip", "snappy", "lz4", "zstd"), 4):
        other = Producer({"bootstrap.servers": bootstrap, "compression.type": compression, **LOUD_OFF})
        values += await asyncio.to_thread(write, other, turn)
    topic = classic_topic(name, bootstrap)
    facts = await topic.describe()
    log_end = (await until_ended(topic.partition(facts.topic_id, 0))).log_end_offset
    assert log_end == 404
    records = KafkaClassicRecords(name, bootstrap_servers=bootstrap, client_id="test", kafka_properties={})
    read = await all_of(records.read(0, 0, log_end))
    assert [one.value for one in read] == values
    assert read == await all_of(KafkaClassicWitness(topic).records(0, 0, log_end))
    assert read[0].headers == (("h", b"v"), ("n", None))
    assert [one.offset for one in await all_of(records.read(0, 49, 104))] == [49, 102, 103]
    assert [one.offset for one in await all_of(KafkaClassicWitness(topic).records(0, 49, 104))] == [49, 102, 103]

    assert await records.log_start(0) == 0
    # Markers of transactions have the time of their writing; Kafka counts them in.
    assert await records.offset_for_time(0, 3_010) == (50, 3_010)
    await asyncio.to_thread(write, other, 0, 1)
    await asyncio.to_thread(write, other, 2, 1)
    assert await records.offset_for_time(1, 1_010) == (10, 1_010)
    assert await records.offset_for_time(1, 2_000) == (50, 3_000)
    assert await records.offset_for_time(1, 3_050) is None
    assert await all_of(records.read(0, log_end, log_end)) == []
    with pytest.raises(OffsetOutOfRange, match=f"ends at {log_end}, before {log_end + 1}"):
        await all_of(records.read(0, 400, log_end + 1))

    admin = AdminClient({"bootstrap.servers": bootstrap})
    for deleted in admin.delete_records([TopicPartition(name, 0, 110)]).values():
        deleted.result(WAIT_S)
    assert await records.log_start(0) == 110
    with pytest.raises(OffsetOutOfRange, match=r"has not all of offsets 109 to 403 \(any more\)"):
        await all_of(records.read(0, 109, log_end))
    with pytest.raises(OffsetOutOfRange, match=r"does not have offset 109 \(any more\)"):
        await all_of(KafkaClassicWitness(topic).records(0, 109, log_end))
    assert [one.value for one in await all_of(records.read(0, 110, log_end))] == values[58:]


async def test_names_of_headers_that_are_no_text_are_read(bootstrap: str, unique_name: Callable[[str], str]) -> None:
    name = unique_name("classic")
    await create(bootstrap, name)
    odd = ((header_name(b"\xff\xfe"), b"1"), ("h", b"\xff"), ("h", None), (header_name(b"\xc3("), b""))
    # CPython specialises a call that it has made often, so the odd names come late.
    written = [
        Record(timestamp_ms=1_000 if n else -1, value=b"%d" % n, headers=odd if n > 50 and n % 3 else (("h", b"x"),)) for n in range(60)
    ]
    for start in range(0, 60, 6):
        assert await produce_when_led(bootstrap, name, encode_batch(written[start : start + 6])) == (0, start)
    records = KafkaClassicRecords(name, bootstrap_servers=bootstrap, client_id="test", kafka_properties={})
    read = await all_of(records.read(0, 0, 60))
    assert [(one.offset, one.timestamp_ms, one.value, one.headers) for one in read] == [
        (n, one.timestamp_ms, one.value, one.headers) for n, one in enumerate(written)
    ]
    assert read == await all_of(KafkaClassicWitness(classic_topic(name, bootstrap)).records(0, 0, 60))
    assert [one.offset for one in await all_of(records.read(0, 51, 54))] == [51, 52, 53]
    assert await records.offset_for_time(0, 1_000) == (1, 1_000)


# ---- where logs begin


async def test_where_many_logs_begin_is_told_by_topic_id(kafka_cluster: KafkaFactory, unique_name: Callable[[str], str]) -> None:
    cluster = await asyncio.to_thread(kafka_cluster, 3)
    names = [unique_name("classic")[-60:] for _ in range(2)]
    producer = Producer({"bootstrap.servers": cluster.bootstrap, **LOUD_OFF})
    for name in names:
        await create(cluster.bootstrap, name, 6)
        for partition in range(6):
            for _ in range(8):
                producer.produce(name, b"value", partition=partition)
    assert await asyncio.to_thread(producer.flush, WAIT_S) == 0
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    wanted = {(name, partition): (place + partition) % 9 for place, name in enumerate(names) for partition in range(6)}
    for deleted in admin.delete_records([TopicPartition(*where, offset) for where, offset in wanted.items()]).values():
        deleted.result(WAIT_S)
    ids = {name: (await classic_topic(name, cluster.bootstrap).describe()).topic_id for name in names}
    logs = KafkaClassicLogs(bootstrap_servers=cluster.bootstrap, client_id="test", kafka_properties={})
    places = {ClassicPlace(ids[name], partition): offset for (name, partition), offset in wanted.items()}
    assert await logs.log_starts(places) == places

    unknown, beyond = ClassicPlace(bytes(15) + b"?", 0), ClassicPlace(ids[names[0]], 6)
    found = dict(await logs.log_starts([*places, unknown, beyond]))
    assert {place: found.pop(place) for place in (unknown, beyond)} == {
        unknown: "Kafka has no topic of this id; was it deleted, or is it on another cluster?",
        beyond: "it has no leader; look at its brokers",
    }
    assert found == places

    cluster.kill(3)
    found = dict(await logs.log_starts(places))
    reached = {place: start for place, start in found.items() if not isinstance(start, str)}
    assert set(found) == set(places)
    assert 0 < len(reached) < len(places), "the partitions of two brokers are told, those of the third are unknown"
    assert reached.items() <= places.items()


async def test_where_logs_begin_needs_the_right_to_describe_them(secured_kafka: SecuredKafka, unique_name: Callable[[str], str]) -> None:
    name, bootstrap = unique_name("classic")[-60:], secured_kafka.cluster.bootstrap
    await create(bootstrap, name)
    place = ClassicPlace((await classic_topic(name, bootstrap).describe()).topic_id, 0)
    secured_kafka.add_users(follower="follower-secret")
    login = secured_kafka.login("follower", "follower-secret")
    logs = KafkaClassicLogs(bootstrap_servers=secured_kafka.address(LOGIN), client_id="test", kafka_properties=login)
    assert "may not Describe the topic; allow it" in str((await logs.log_starts([place]))[place])
    secured_kafka.allow("follower", [Right(ResourceType.TOPIC, name, (AclOperation.DESCRIBE,))])
    async with asyncio.timeout(WAIT_S):
        while await logs.log_starts([place]) != {place: 0}:
            pass
    nobody = KafkaClassicLogs(bootstrap_servers="127.0.0.1:1", client_id="test", kafka_properties={})
    with pytest.raises(KafkaUnavailable):
        await nobody.log_starts([place])


# ---- the stop of writers


async def test_an_acl_stops_writers_until_it_is_taken_away(secured_kafka: SecuredKafka, unique_name: Callable[[str], str]) -> None:
    name, bootstrap = unique_name("classic"), secured_kafka.cluster.bootstrap
    await create(bootstrap, name)
    # All that docs/migration.md asks for whoever runs a migration. The broker has learned of it when it knows the writer, who comes later.
    secured_kafka.add_users(migrator="migrator-secret")
    of_the_topic = (AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS, AclOperation.READ)
    of_the_cluster = Right(ResourceType.BROKER, "kafka-cluster", (AclOperation.ALTER,))
    secured_kafka.allow("migrator", [Right(ResourceType.TOPIC, name, of_the_topic), of_the_cluster])
    rights = secured_kafka.login("migrator", "migrator-secret")
    secured_kafka.add_users(writer="writer-secret")
    secured_kafka.allow("writer", [Right(ResourceType.TOPIC, name, (AclOperation.WRITE, AclOperation.DESCRIBE))])
    login = secured_kafka.login("writer", "writer-secret")
    producer = Producer(
        {
            "bootstrap.servers": secured_kafka.address(LOGIN),
            "enable.idempotence": True,
            **login,
            "message.timeout.ms": int(WAIT_S * 1000),
            **LOUD_OFF,
        }
    )

    async def outcome() -> int:
        told: list[int] = []
        try:
            producer.produce(name, b"value", partition=0, on_delivery=lambda error, _message: told.append(error.code() if error else 0))
        except KafkaException as error:  # what the metadata have said already
            return int(error.args[0].code())
        assert await asyncio.to_thread(producer.flush, WAIT_S) == 0
        return told[0]

    async def until(wanted: int) -> None:
        """The producer may have metadata from before: it is told otherwise at its next requests."""
        async with asyncio.timeout(WAIT_S):
            while await outcome() != wanted:
                pass

    await until(0)
    topic = classic_topic(name, secured_kafka.address(LOGIN), is_fence_confirmed=False, **rights)
    partition = topic.partition((await topic.describe()).topic_id, 0)
    state = await partition.look()
    assert len((await partition.last_batches(state)).producers) == 1
    records = KafkaClassicRecords(name, bootstrap_servers=secured_kafka.address(LOGIN), client_id="test", kafka_properties=rights)
    assert await all_of(records.read(0, 0, 1)) == await all_of(KafkaClassicWitness(topic).records(0, 0, 1))
    assert await records.log_start(0) == 0
    assert not (await topic.fence.acls()).is_closed
    await topic.refuse_writes()
    assert await outcome() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert (await topic.fence.acls()).is_closed
    await topic.fence.close()
    await topic.fence.open()
    await topic.fence.open()
    assert not (await topic.fence.acls()).is_closed
    await until(0)


async def test_writers_cannot_be_stopped_by_an_acl_without_the_right_or_an_authorizer(
    bootstrap: str, secured_kafka: SecuredKafka, unique_name: Callable[[str], str]
) -> None:
    name = unique_name("classic")
    await create(bootstrap, name)
    with pytest.raises(MigrationRefused, match=r"Kafka has no authorizer.*--writers-stopped"):
        await classic_topic(name, bootstrap, is_fence_confirmed=False).refuse_writes()
    secured_kafka.add_users(nobody="nobody-secret")
    login = secured_kafka.login("nobody", "nobody-secret")
    powerless = classic_topic(name, secured_kafka.address(LOGIN), is_fence_confirmed=False, **login)
    with pytest.raises(MigrationRefused, match="allow the principal ALTER on the cluster"):
        await powerless.refuse_writes()


async def test_a_kafka_that_does_not_answer_is_told() -> None:
    topic = KafkaClassicTopic(
        "orders",
        bootstrap_servers="127.0.0.1:1",
        client_id="test",
        kafka_properties={},
        is_fence_confirmed=True,
        request_timeout_s=0.2,
    )
    with pytest.raises(KafkaException, match=r"127\.0\.0\.1:1"):
        await topic.describe()
