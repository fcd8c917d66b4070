"""Classic topics of a real Kafka become diskless: while they are written to, killed in between, aborted, and refused with a reason."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, NamedTuple

import kio.schema.add_partitions_to_txn.v3 as add_partitions
import kio.schema.end_txn.v3 as end_txn
import kio.schema.find_coordinator.v3 as find_coordinator
import kio.schema.init_producer_id.v4 as init_producer_id
import pytest
from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition
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
from kio.schema.errors import ErrorCode as KafkaCode
from kio.schema.types import ProducerId, TopicName, TransactionalId
from kio.static.primitive import i8, i16, i32, i32Timedelta

from cli.outcome import Exit
from coordinator.adapters.kafka.broker import connect
from coordinator.adapters.objectstore import open_store
from coordinator.client.client import DisklessClient
from coordinator.client.errors import InvalidRequest, NotFound, OffsetOutOfRange, Unavailable
from coordinator.client.model import CommitOutcome, PartitionId
from coordinator.client.records.ulid import new_ulid
from coordinator.config.values import StoreUrl
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.timestamps import EARLIEST, LATEST, MAX_TIMESTAMP
from coordinator.security.client_security import ClientSecurity
from integration_tests.commands import run
from integration_tests.conftest import KafkaFactory
from integration_tests.secured_kafka import LOGIN, Right, SecuredKafka
from integration_tests.service import Service
from integration_tests.waiting import WAIT_S, wait_until
from migration.classic import MigrationRefused
from migration.driver import MigrationDriver
from migration.finishing import finish
from migration.hybrid import HybridReader
from migration.kafka.leaders import ClassicLeaders
from migration.kafka.log import ClassicLog
from migration.kafka.records import KafkaClassicRecords
from migration.kafka.size_limit import SizeLimit, limit_at_each_broker
from migration.kafka.topic import KafkaClassicTopic
from records.record_batch import SEQUENCES, BatchHeader, ProducerSequence, Record, encode_batch
from simulation.contracts.diskless_logs import CHECKS
from tests.commit_batches import commit_batch
from tests.migration.steps import Killed, Steps

STILL = ("--still", "0.3")
NO_ACL = ("--readers", "super-users")
"""For topics without an ACL, on brokers that let nobody read those but super users."""
WRITERS = 3
QUIET = {"log_level": 0}


class Place(NamedTuple):
    """A service, and the Kafka of its classic topics."""

    service: Service
    kafka: str
    login: tuple[str, ...] = ()
    """Options by which commands log in to Kafka."""

    def run(self, *words: str, status: Exit = Exit.OK) -> Any:
        """Run a command of `diskless migration`; returns what it printed as JSON, or what it said when it failed."""
        line = ("migration", *words, "--kafka-bootstrap-server", self.kafka, *self.login)
        return run(self.service, *line, status=status, output=status in (Exit.OK, Exit.AUDIT))

    def verify(self, name: str, status: Exit = Exit.OK) -> Any:
        return self.run("verify", name, "--object-store-url", f"file://{self.service.folder / 'objects'}", status=status)

    def create(self, name: str, partitions: int = 1, replicas: int = 1, **config: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.kafka})
        new = NewTopic(name, partitions, replicas, config={key.replace("_", "."): value for key, value in config.items()})
        admin.create_topics([new])[name].result(WAIT_S)

    def alter(self, name: str, setting: str, value: str) -> None:
        change = ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[change])
        admin = AdminClient({"bootstrap.servers": self.kafka})  # kept until the answer is there
        admin.incremental_alter_configs([resource])[resource].result(WAIT_S)

    def size_limit(self, name: str) -> SizeLimit:
        [limit] = set(limit_at_each_broker(ClassicLeaders(name, {"bootstrap.servers": self.kafka, "client.id": "test"}, WAIT_S)))
        return limit

    def topic(self, name: str) -> KafkaClassicTopic:
        return KafkaClassicTopic(
            name, bootstrap_servers=self.kafka, client_id="test", kafka_properties={}, is_fence_confirmed=True, request_timeout_s=WAIT_S
        )

    def log(self, name: str, partition: int) -> ClassicLog:
        return self.topic(name).log(partition)

    def write(self, name: str, count: int, partition: int = 0) -> None:
        producer = Producer({"bootstrap.servers": self.kafka, "enable.idempotence": True, **QUIET})
        for number in range(count):
            producer.produce(name, b"%d" % number, partition=partition)
        assert producer.flush(WAIT_S) == 0

    def client(self) -> DisklessClient:
        store = open_store(StoreUrl.parse(f"file://{self.service.folder / 'objects'}"), {})
        return DisklessClient(self.service.addresses, object_store=store)

    def is_known(self, name: str) -> bool:
        async def ask() -> bool:
            async with self.client() as client:
                try:
                    await client.describe_topic(name)
                except NotFound:
                    return False
                return True

        return asyncio.run(ask())


@pytest.fixture
def place(one_node: Service) -> Place:
    return Place(one_node, one_node.bootstrap)


@pytest.fixture
def secured_place(one_node: Service, secured_kafka: SecuredKafka) -> Place:
    """Classic topics on a Kafka with ACLs."""
    return Place(one_node, secured_kafka.cluster.bootstrap)


class Writer(threading.Thread):
    """Writes to all partitions in turn, with an idempotent producer, until it is refused or stopped."""

    def __init__(self, properties: dict[str, str], topic: str, partitions: int, mark: str) -> None:
        super().__init__(daemon=True)
        self._producer = Producer({**properties, "enable.idempotence": True, "linger.ms": 2, **QUIET})
        self._topic = topic
        self._partitions = partitions
        self._mark = mark
        self._stopping = threading.Event()
        self.refused: set[int] = set()
        self.acknowledged: dict[int, dict[int, bytes]] = {partition: {} for partition in range(partitions)}

    def run(self) -> None:
        number = 0
        while not self._stopping.is_set() and not self.refused:
            try:
                value = f"{self._mark}-{number}".encode()
                self._producer.produce(self._topic, value, partition=number % self._partitions, on_delivery=self._delivered)
            except KafkaException as error:  # what the metadata say already
                self.refused.add(error.args[0].code())
            except BufferError:
                pass
            number += 1
            self._producer.poll(0.001)
        self._producer.flush(WAIT_S)

    def stop(self) -> None:
        self._stopping.set()
        self.join(WAIT_S)
        assert not self.is_alive()

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.refused.add(error.code())
            return
        partition, offset, value = message.partition(), message.offset(), message.value()
        assert partition is not None
        assert offset is not None
        assert isinstance(value, bytes)
        self.acknowledged[partition][offset] = value


def may_write(properties: dict[str, str], topic: str) -> bool:
    told: list[bool] = []
    producer = Producer({**properties, **QUIET})
    try:
        # To compare a KafkaError with None would leave an exception behind in the interpreter.
        producer.produce(topic, b"first", partition=0, on_delivery=lambda error, _message: told.append(error is None))
    except KafkaException:
        return False
    assert producer.flush(WAIT_S) == 0
    return told == [True]


def last_batches(log: ClassicLog, end_offset: int) -> dict[int, list[BatchHeader]]:
    """Every idempotent producer's batches of a whole log."""
    found: dict[int, list[BatchHeader]] = {}
    for piece in log.pieces(0, end_offset):
        for header in piece.headers:
            if header.producer_id >= 0:
                found.setdefault(header.producer_id, []).append(header)
    return found


class Sent(NamedTuple):
    """A batch for the diskless log."""

    partition: int
    producer_id: int
    producer_epoch: int
    sequence: int
    records: int


async def commit(client: DisklessClient, place: Place, topic_id: bytes, batches: Sequence[Sent]) -> CommitOutcome:
    """Upload a file of such batches and commit it."""
    store = open_store(StoreUrl.parse(f"file://{place.service.folder / 'objects'}"), {})
    data, rows, now_ms = b"", [], time.time_ns() // 1_000_000
    for one in batches:
        producer = ProducerSequence(producer_id=one.producer_id, producer_epoch=one.producer_epoch, base_sequence=one.sequence)
        values = [b"diskless-%d-%d" % (one.producer_id, (one.sequence + place_) % SEQUENCES) for place_ in range(one.records)]
        encoded = encode_batch([Record(timestamp_ms=now_ms, value=value) for value in values], producer=producer)
        rows.append(
            commit_batch(
                topic_id,
                one.partition,
                records=one.records,
                at=len(data),
                size=len(encoded),
                timestamp_ms=now_ms,
                producer_id=one.producer_id,
                producer_epoch=one.producer_epoch,
                sequence=one.sequence,
            )
        )
        data += encoded
    key = f"wal/{new_ulid(now_ms, os.urandom(10))}"
    await store.put(key, data)
    return await client.commit_file(key, len(data), rows)


# ---- whole migrations


@pytest.mark.parametrize("partitions", [6, pytest.param(24, marks=pytest.mark.long)])
def test_a_topic_that_is_written_to_until_its_writers_are_stopped_loses_and_doubles_nothing(
    secured_kafka: SecuredKafka, secured_place: Place, unique_name: Callable[[str], str], partitions: int
) -> None:
    place, name = secured_place, unique_name("orders")[-60:]
    place.create(name, partitions)
    secured_kafka.add_users(writer="writer-secret")
    secured_kafka.allow("writer", [Right(ResourceType.TOPIC, name, (AclOperation.WRITE, AclOperation.DESCRIBE))])
    login = {"bootstrap.servers": secured_kafka.address(LOGIN), **secured_kafka.login("writer", "writer-secret")}
    wait_until(lambda: may_write(login, name), "the broker to know the writer's rights")
    writers = [Writer(login, name, partitions, f"writer-{number}") for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    wait_until(lambda: all(len(one) >= 50 for writer in writers for one in writer.acknowledged.values()), "writes to every partition")

    report = place.run("start", name, "--yes", *STILL)

    for writer in writers:
        writer.join(WAIT_S)
        assert writer.refused == {KafkaError.TOPIC_AUTHORIZATION_FAILED}
    assert [row["result"] for row in report] == ["diskless"] * partitions
    starts = [row["start_offset"] for row in report]
    asyncio.run(_prove_continuity(place, name, writers, starts))
    proofs = place.verify(name)
    assert [(row["first_offset"], row["start_offset"], row["prefix_records"]) for row in proofs] == [(0, end, end) for end in starts]
    assert [row["suffix_records"] for row in proofs] == [4 * WRITERS] * partitions

    asyncio.run(_read_the_diskless_part(place, name, starts))
    assert "is migrated already" in place.run("start", name, "--yes", *STILL, status=Exit.FAILURE)
    assert "diskless records from offset" in place.run("abort", name, "--yes", status=Exit.FAILURE)
    # Nobody writes to the classic topic any more, whom ACLs allow it or not; if somebody lets it take records, they are told.
    assert {may_write(properties, name) for properties in (login, {"bootstrap.servers": place.kafka})} == {False}
    place.alter(name, "max.message.bytes", "1000000")
    place.write(name, 2)
    [row, *others] = place.verify(name, Exit.AUDIT)
    assert f"offsets {starts[0]} to {starts[0] + 1} of the classic log are read by nobody" in row["finding"]
    assert [other["finding"] for other in others] == [None] * (partitions - 1)


async def _prove_continuity(place: Place, name: str, writers: Sequence[Writer], starts: Sequence[int]) -> None:
    """Retries across the boundary are duplicates, sequences go on, and readers go through it."""
    topic_id = (await place.topic(name).describe()).topic_id
    classic = KafkaClassicRecords(name, bootstrap_servers=place.kafka, client_id="test", kafka_properties={})
    async with place.client() as client:
        reader = HybridReader(client, topic_id, classic)
        for partition, start in enumerate(starts):
            batches = await asyncio.to_thread(last_batches, place.log(name, partition), start)
            assert len(batches) == WRITERS
            retried = [header for headers in batches.values() for header in headers[-5:]]
            outcome = await commit(
                client,
                place,
                topic_id,
                [Sent(partition, one.producer_id, one.producer_epoch, one.base_sequence, one.record_count) for one in retried],
            )
            assert outcome.is_ok, outcome.messages
            assert [(one.is_duplicate, one.base_offset) for one in outcome.batches] == [(True, one.base_offset) for one in retried]

            last = [headers[-1] for headers in batches.values()]
            gaps = [Sent(partition, one.producer_id, one.producer_epoch, one.last_sequence + 2, 1) for one in last]
            outcome = await commit(client, place, topic_id, gaps)
            assert outcome.error_codes.tolist() == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER] * WRITERS
            following = [Sent(partition, one.producer_id, one.producer_epoch, one.last_sequence + 1, 4) for one in last]
            outcome = await commit(client, place, topic_id, following)
            assert outcome.base_offsets.tolist() == [start + 4 * number for number in range(WRITERS)]

            read = [record async for record in reader.read(partition)]
            assert [record.offset for record in read] == [*range(start + 4 * WRITERS)]
            for writer in writers:
                acknowledged = writer.acknowledged[partition]
                assert {offset: read[offset].value for offset in acknowledged} == acknowledged
            values = [record.value for record in read[:start]]
            assert len(set(values)) == len(values)
            assert [one.value for one in read[start:]] == [
                b"diskless-%d-%d" % (one.producer_id, one.sequence + step) for one in following for step in range(4)
            ]
        through = [record.offset async for record in reader.read(0, offset=starts[0] - 3)]
        assert through == [*range(starts[0] - 3, starts[0] + 4 * WRITERS)]
        assert [record.offset async for record in reader.read(0, offset=starts[0] + 1)] == [*range(starts[0] + 1, starts[0] + 4 * WRITERS)]
        with pytest.raises(OffsetOutOfRange):
            await anext(reader.read(0, offset=starts[0] + 100))
        await _look_up_times(reader, starts[0], [record async for record in reader.read(0)])


async def _read_the_diskless_part(place: Place, name: str, starts: Sequence[int]) -> None:
    """A reader of diskless logs alone begins where they begin."""
    async with place.client() as client:
        for partition, start in enumerate(starts):
            assert [one.offset async for one in client.read(name, partition, offset=start)] == [*range(start, start + 4 * WRITERS)]
        with pytest.raises(OffsetOutOfRange, match="it was migrated"):
            await anext(client.read(name, 0, offset=starts[0] - 1))
        with pytest.raises(
            InvalidRequest, match=f"begins at offset {starts[0]}; it was migrated: .*HybridReader.* reads offsets from 0 on"
        ):
            await anext(client.read(name))


async def _look_up_times(reader: HybridReader, start: int, read: Sequence[Any]) -> None:
    """Offsets for times look into both parts."""
    earliest, latest = await reader.offset_for(0, EARLIEST), await reader.offset_for(0, LATEST)
    assert earliest is not None
    assert latest is not None
    assert (earliest.offset, latest.offset) == (0, len(read))
    first, last = read[0].timestamp_ms, read[-1].timestamp_ms
    for timestamp in (0, first, read[start - 1].timestamp_ms, read[start].timestamp_ms, last):
        wanted = next((one.offset, one.timestamp_ms) for one in read if one.timestamp_ms >= timestamp)
        assert await reader.offset_for(0, timestamp) == wanted
    assert await reader.offset_for(0, last + 1) is None
    with pytest.raises(ValueError, match=r"time -3: milliseconds from 0 on, EARLIEST \(-2\) and LATEST \(-1\)"):
        await reader.offset_for(0, MAX_TIMESTAMP)


def test_a_migration_is_taken_back_and_begun_again(secured_place: Place, unique_name: Callable[[str], str]) -> None:
    place, name = secured_place, unique_name("orders")[-60:]
    place.create(name, 2, retention_ms="86400000", max_message_bytes="2000000")
    place.write(name, 5)
    assert "would lock its readers out" in place.run("start", name, "--dry-run", *STILL, status=Exit.USAGE)
    plan = place.run("start", name, "--dry-run", *NO_ACL, *STILL)
    assert [(row["state"], row["log_end_offset"], row["to_do"]) for row in plan] == [("classic", 5, "migrate"), ("classic", 0, "migrate")]
    assert not place.is_known(name)
    assert "no migration of topic" in place.run("abort", name, "--yes", status=Exit.NOT_FOUND)
    assert "is not migrated" in place.verify(name, Exit.NOT_FOUND)

    assert [row["start_offset"] for row in place.run("start", name, "--yes", *NO_ACL, *STILL)] == [5, 0]
    fence = KafkaClassicTopic(name, bootstrap_servers=place.kafka, client_id="test", kafka_properties={}, is_fence_confirmed=False).fence
    assert asyncio.run(fence.acls()) == (False, False, 0)
    assert place.size_limit(name) == ("0", "1048588")
    assert [row["result"] for row in place.run("abort", name, "--dry-run")] == ["would be reset"] * 2
    assert [row["result"] for row in place.run("abort", name, "--yes")] == ["reset"] * 2
    assert asyncio.run(fence.acls()) == (False, False, 0)
    assert place.size_limit(name) == ("2000000", "1048588")

    async def read() -> None:
        async with place.client() as client:
            described = await client.describe_topic(name)
            assert described.settings == {"max.message.bytes": "2000000", "retention.bytes": "-1", "retention.ms": "86400000"}
            classic = KafkaClassicRecords(name, bootstrap_servers=place.kafka, client_id="test", kafka_properties={})
            with pytest.raises(Unavailable, match="is not migrated yet"):
                await anext(HybridReader(client, described.topic_id, classic).read(0))

    asyncio.run(read())
    asyncio.run(_abort_while_one_is_migrated(place, name))
    place.write(name, 3)
    admin = AdminClient({"bootstrap.servers": place.kafka})
    admin.create_partitions([NewPartitions(name, 3)])[name].result(WAIT_S)
    wait_until(lambda: asyncio.run(place.topic(name).describe()).partitions == 3, "the third partition")
    place.write(name, 4, partition=2)
    assert [row["start_offset"] for row in place.run("start", name, "--yes", *NO_ACL, *STILL)] == [8, 0, 4]
    assert [(row["first_offset"], row["prefix_records"]) for row in place.verify(name)] == [(0, 8), (0, 0), (0, 4)]

    # The classic part goes by the retention of Kafka.
    for deleted in admin.delete_records([TopicPartition(name, 0, 3), TopicPartition(name, 2, 4)]).values():
        deleted.result(WAIT_S)
    assert [(row["first_offset"], row["prefix_records"]) for row in place.verify(name)] == [(3, 5), (0, 0), (4, 0)]


async def _abort_while_one_is_migrated(place: Place, name: str) -> None:
    """A forgotten driver is about to set the start of a pending partition when the migration is taken back."""
    topic = place.topic(name)
    topic_id = (await topic.describe()).topic_id
    classic = topic.partition(topic_id, 0)

    def abort() -> None:
        with ThreadPoolExecutor(1) as pool:
            report = pool.submit(place.run, "abort", name, "--yes").result(WAIT_S)
        assert [row["result"] for row in report] == ["left pending"] * 2

    async with place.client() as client:
        planned = await client.admin.describe_diskless_log(topic_id, 0)
        assert planned.leader_epoch > (await classic.look()).leader_epoch
        steps = Steps(6, action=abort)  # before the call that sets the start
        with pytest.raises(MigrationRefused, match=f"{name}-0 was reset since"):
            await MigrationDriver(steps.over(client.admin), still_s=0.0).migrate(steps.over(classic), planned_epoch=planned.leader_epoch)
        assert steps.names.index("init_diskless_log") == 6
        assert (await client.admin.describe_diskless_log(topic_id, 0)).state == "pending"


async def migrate_one(place: Place, name: str, partitions: int) -> None:
    """Leave a topic as a command leaves it that was killed when the first partition was migrated."""
    topic = place.topic(name)
    facts = await topic.describe()
    async with place.client() as client:
        await client.admin.create_topic(name, partitions, topic_id=facts.topic_id, classic_pending=True)
        await MigrationDriver(client.admin, still_s=0.0).migrate(topic.partition(facts.topic_id, 0))


def test_records_past_a_start_are_told_while_others_are_migrated(place: Place, unique_name: Callable[[str], str]) -> None:
    name = unique_name("orders")[-60:]
    place.create(name, 2)
    place.write(name, 2)
    place.write(name, 3, partition=1)
    asyncio.run(migrate_one(place, name, 2))
    place.write(name, 4)
    text = place.run("start", name, "--writers-stopped", "--yes", *STILL, status=Exit.FAILURE)
    assert f"{name}-1: diskless from offset 3 on" in text
    assert f"topic {name}: 1 partition written to past the start of the diskless log: {name}-0: the classic log ends at 6" in text
    findings = [row["finding"] for row in place.verify(name, Exit.AUDIT)]
    assert "offsets 2 to 5 of the classic log are read by nobody" in findings[0]
    assert findings[1] is None


async def test_readers_pass_over_what_was_deleted_behind_the_boundary(place: Place, unique_name: Callable[[str], str]) -> None:
    name = unique_name("orders")[-60:]
    await asyncio.to_thread(place.create, name)
    await asyncio.to_thread(place.write, name, 8)
    await migrate_one(place, name, 1)
    async with place.client() as client:
        topic = await client.describe_topic(name)
        await client.write({(name, 0): [Record(timestamp_ms=1, value=b"diskless")] * 4})
        classic = KafkaClassicRecords(name, bootstrap_servers=place.kafka, client_id="test", kafka_properties={})
        reader = HybridReader(client, topic.topic_id, classic)

        async def offsets(first: int | None = None) -> list[int]:
            return [record.offset async for record in reader.read(0, offset=first)]

        assert await offsets() == [*range(12)]
        [deleted] = await client.admin.delete_records([(PartitionId(topic.topic_id, 0), 10)])
        deleted.raise_for_error()
        assert await offsets() == [*range(8), 10, 11]
        assert await offsets(10) == [10, 11]
        with pytest.raises(OffsetOutOfRange):
            await offsets(9)
        await client.admin.repair_diskless_log(topic.topic_id, 0, start_offset=6, leader_epoch=1, dry_run=False)
        assert await offsets(3) == [3, 4, 5, 10, 11]
        with pytest.raises(OffsetOutOfRange):
            await offsets(6)


class RealDisklessLog:
    """A pending partition of a real service."""

    def __init__(self, client: DisklessClient, topic_id: bytes) -> None:
        self.calls = client.admin
        self.topic_id = topic_id

    async def reset(self, leader_epoch: int) -> None:
        await self.calls.reset_diskless_log(self.topic_id, 0, leader_epoch=leader_epoch)


async def test_a_real_service_passes_the_contract_of_diskless_logs(place: Place, unique_name: Callable[[str], str]) -> None:
    async with place.client() as client:
        for check in CHECKS.values():
            created = await client.admin.create_topic(unique_name("orders")[-60:], 1, classic_pending=True)
            await check(RealDisklessLog(client, created.topic_id))


async def test_drivers_that_are_killed_are_repeated(place: Place, unique_name: Callable[[str], str]) -> None:
    name, kills = unique_name("orders")[-60:], (2, 4, 6, 7)
    place.create(name, len(kills))
    topic = place.topic(name)
    facts = await topic.describe()
    async with place.client() as client:
        await client.admin.create_topic(name, len(kills), topic_id=facts.topic_id, classic_pending=True)

        async def killed_and_repeated(partition: int, number: int) -> None:
            await asyncio.to_thread(place.write, name, 7, partition)
            steps = Steps(number, is_after=True)
            classic = topic.partition(facts.topic_id, partition)
            with pytest.raises(Killed):
                await MigrationDriver(steps.over(client.admin), still_s=0.0).migrate(steps.over(classic))
            rivals = (MigrationDriver(client.admin, still_s=0.0).migrate(classic) for _ in range(3))
            for migrated in await asyncio.gather(*rivals):
                assert migrated.start_offset == 7
                assert migrated.was_initialised or number < 6

        for partition, number in enumerate(kills):
            await killed_and_repeated(partition, number)


@pytest.mark.long
def test_commands_that_are_killed_are_run_again(place: Place, unique_name: Callable[[str], str]) -> None:
    name, partitions = unique_name("orders")[-60:], 12
    place.create(name, partitions)
    for partition in range(partitions):
        place.write(name, 3 + partition, partition)
    words = ["start", name, "--writers-stopped", "--yes", "--still", "1.0", "--bootstrap-server", ",".join(place.service.addresses)]
    command = [sys.executable, "-m", "cli.program", "migration", *words, "--kafka-bootstrap-server", place.kafka]

    def killed_when(condition: Callable[[], bool], what: str) -> None:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_until(lambda: condition() or process.poll() is not None, what)
        finally:
            process.kill()
            process.wait(WAIT_S)

    def begun() -> int:
        async def ask() -> int:
            async with place.client() as client:
                topic_id = (await client.describe_topic(name)).topic_id
                states = await client.admin.describe_diskless_logs([PartitionId(topic_id, one) for one in range(partitions)])
                return sum(one.state == "initialised" for one in states)

        return asyncio.run(ask())

    killed_when(lambda: place.is_known(name), "the topic to be created")
    killed_when(lambda: begun() > 0, "a diskless log to begin")
    if begun() < partitions:
        report = place.run("start", name, "--writers-stopped", "--yes", *STILL)
        assert {row["result"] for row in report} <= {"diskless", "diskless before"}
    assert [row["prefix_records"] for row in place.verify(name)] == [3 + partition for partition in range(partitions)]


@pytest.mark.long
async def test_a_leader_that_is_killed_in_between_changes_nothing(
    one_node: Service, kafka_cluster: KafkaFactory, unique_name: Callable[[str], str]
) -> None:
    cluster = await asyncio.to_thread(kafka_cluster, 1)
    place, name = Place(one_node, cluster.bootstrap), unique_name("orders")[-60:]
    await asyncio.to_thread(place.create, name)
    await asyncio.to_thread(place.write, name, 7)
    topic = place.topic(name)
    facts = await topic.describe()

    def kill_and_restart() -> None:
        cluster.kill(1)
        cluster.restart(1)

    async with place.client() as client:
        await client.admin.create_topic(name, 1, topic_id=facts.topic_id, classic_pending=True)
        steps = Steps(5, action=kill_and_restart)  # the batches are read, and the log is not settled yet
        migrated = await MigrationDriver(steps.over(client.admin), still_s=0.0).migrate(steps.over(topic.partition(facts.topic_id, 0)))
        assert (migrated.start_offset, migrated.batches) == (7, 1)
        assert migrated.leader_epoch > 0
        assert steps.names.count("last_batches") == 2


@pytest.mark.long
async def test_records_that_are_not_replicated_are_waited_for(
    one_node: Service, kafka_cluster: KafkaFactory, unique_name: Callable[[str], str]
) -> None:
    cluster = await asyncio.to_thread(kafka_cluster, 3, session_timeout_ms=60_000, properties={"replica.lag.time.max.ms": "600000"})
    place, name = Place(one_node, cluster.bootstrap), unique_name("orders")[-60:]
    admin = AdminClient({"bootstrap.servers": place.kafka})
    admin.create_topics([NewTopic(name, 1, 2)])[name].result(WAIT_S)
    await asyncio.to_thread(place.write, name, 7)
    found = admin.list_topics(name, timeout=WAIT_S).topics[name].partitions[0]
    [follower] = [replica for replica in found.replicas if replica != found.leader]
    classic = place.topic(name).partition((await place.topic(name).describe()).topic_id, 0)
    async with place.client() as client:
        await client.admin.create_topic(name, 1, topic_id=classic.topic_id, classic_pending=True)
        cluster.pause(follower)
        producer = Producer({"bootstrap.servers": place.kafka, "acks": "1", **QUIET})
        for _ in range(3):
            producer.produce(name, b"acknowledged by the leader alone", partition=0)
        assert await asyncio.to_thread(producer.flush, WAIT_S) == 0
        with pytest.raises(MigrationRefused, match="records 7 to 9 are not replicated yet; look at the replicas"):
            await MigrationDriver(client.admin, still_s=0.0, drain_timeout_s=0.2).migrate(classic)
        cluster.resume(follower)
        assert (await MigrationDriver(client.admin, still_s=0.0).migrate(classic)).start_offset == 10


# ---- refusals


@contextmanager
def open_transaction(place: Place, name: str) -> Iterator[None]:
    producer = Producer({"bootstrap.servers": place.kafka, "transactional.id": name, **QUIET})
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    producer.produce(name, b"value", partition=0)
    assert producer.flush(WAIT_S) == 0
    try:
        yield
    finally:
        producer.abort_transaction(WAIT_S)


@contextmanager
def still_writing(place: Place, name: str) -> Iterator[None]:
    writer = Writer({"bootstrap.servers": place.kafka}, name, 1, "writer")
    writer.start()
    try:
        wait_until(lambda: bool(writer.acknowledged[0]), "a first write")
        yield
    finally:
        writer.stop()


def test_whatever_is_in_the_way_is_refused_before_anything_is_changed(place: Place, unique_name: Callable[[str], str]) -> None:
    name = unique_name("orders")[-60:]

    def refused(topic: str, *words: str, status: Exit = Exit.FAILURE) -> str:
        text: str = place.run("start", topic, "--yes", *STILL, *words, status=status)
        assert not place.is_known(topic)
        return text

    assert f"Kafka has no topic {name}" in refused(name, "--writers-stopped", status=Exit.NOT_FOUND)
    assert "the metadata topic of the service itself" in refused("__diskless_metadata", "--writers-stopped")
    assert "an internal topic of Kafka, which stays classic" in refused("__consumer_offsets", "--writers-stopped")
    place.create(f"{name}-compacted", cleanup_policy="compact")
    assert "is compacted" in refused(f"{name}-compacted", "--writers-stopped")
    place.create(name)
    assert "Kafka has no authorizer" in refused(name)
    assert place.run("start", name, "--writers-stopped", "--dry-run", *STILL)[0]["to_do"] == "migrate"
    with still_writing(place, name):
        assert "is still being written: its end moved from" in refused(name, "--writers-stopped", "--still", "3")
    with open_transaction(place, name):
        assert "the transaction of producer" in refused(name, "--writers-stopped")
    place.create(f"{name}-born")

    async def bear() -> None:
        async with place.client() as client:
            await client.admin.create_topic(name, 1)
            facts = await place.topic(f"{name}-born").describe()
            await client.admin.create_topic(f"{name}-born", 1, topic_id=facts.topic_id)

    asyncio.run(bear())
    text = place.run("start", name, "--writers-stopped", "--yes", *STILL, status=Exit.FAILURE)
    assert "they are different topics, and two cannot have one name" in text
    text = place.run("start", f"{name}-born", "--writers-stopped", "--yes", *STILL, status=Exit.FAILURE)
    assert "was created as a diskless topic: there is nothing to migrate" in text


async def test_a_transaction_that_has_not_written_yet_is_waited_for(place: Place, unique_name: Callable[[str], str]) -> None:
    name = unique_name("orders")[-60:]
    await asyncio.to_thread(place.create, name)
    await asyncio.to_thread(place.write, name, 3)
    topic = place.topic(name)
    facts = await topic.describe()
    host, _, port = place.kafka.partition(":")
    with connect(host, int(port), security=ClientSecurity({}), client_id="test", timeout_s=WAIT_S) as broker:

        def began() -> Any:
            # This question makes the topic of transactions, if there is none.
            broker.ask(find_coordinator.FindCoordinatorRequest(key=name, key_type=i8(1)), find_coordinator.FindCoordinatorResponse)
            request = init_producer_id.InitProducerIdRequest(
                transactional_id=TransactionalId(name),
                transaction_timeout=i32Timedelta.parse(timedelta(seconds=60)),
                producer_id=ProducerId(-1),
                producer_epoch=i16(-1),
            )
            answer = broker.ask(request, init_producer_id.InitProducerIdResponse)
            return answer if answer.error_code is KafkaCode.none else None

        known: list[Any] = []
        wait_until(lambda: bool(known.append(began()) or known[-1]), "the coordinator of transactions")
        producer = known[-1]
        announced = add_partitions.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=TransactionalId(name),
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.producer_epoch,
            v3_and_below_topics=(add_partitions.request.AddPartitionsToTxnTopic(name=TopicName(name), partitions=(i32(0),)),),
        )
        broker.ask(announced, add_partitions.AddPartitionsToTxnResponse)
        assert await topic.unended_transactions() == [name]
        assert not (await topic.partition(facts.topic_id, 0).look()).open_transactions, "its partition knows nothing of it"
        await migrate_one(place, name, 1)
        with pytest.raises(MigrationRefused, match=f"transaction {name} has topic {name} announced and has not ended within 0.3 s"):
            await finish(topic, facts.topic_id, [3], drain_timeout_s=0.3)
        assert place.size_limit(name).own is None
        end = end_txn.EndTxnRequest(
            transactional_id=TransactionalId(name),
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            committed=False,
        )
        assert broker.ask(end, end_txn.EndTxnResponse).error_code is KafkaCode.none
    # Its marker stands past the start, and is no record.
    assert await finish(topic, facts.topic_id, [3], drain_timeout_s=WAIT_S) == [None]
    assert place.size_limit(name).own == "0"
    assert (await topic.partition(facts.topic_id, 0).look()).log_end_offset == 4
