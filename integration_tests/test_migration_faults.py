"""Migrations on three brokers with three replicas, while a broker dies, databases are damaged and the object store is cut off; and what
happens afterwards: Kafka's retention moves the classic part, objects are lost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from cli.dev.kafka import BrokerRuntime, KafkaCluster
from cli.outcome import Exit
from coordinator.client.errors import OffsetOutOfRange
from coordinator.client.model import FetchFrom, PartitionId
from coordinator.kafka.timestamps import EARLIEST, EARLIEST_LOCAL
from integration_tests.commands import run
from integration_tests.faults.damage import damage_some
from integration_tests.service import Service
from integration_tests.test_broker_faults import is_led_by_others, leaders
from integration_tests.test_migration import QUIET, STILL, Place, Writer
from integration_tests.waiting import WAIT_S, wait_until, wait_until_done
from migration.driver import MigrationDriver
from migration.hybrid import HybridReader
from migration.kafka.records import KafkaClassicRecords
from records.record_batch import Record

pytestmark = pytest.mark.long  # drivers that are killed, in test_migration.py, are in every run
REPLICAS, NODES, PARTITIONS = 3, 2, 6
PATIENCE_S = WAIT_S / 3
"""Longer than a busy machine takes for one request, and short enough to be asked again by a client that found an old leader."""
START = ("--writers-stopped", "--yes", *STILL)


@pytest.fixture(scope="module")
def replicated(broker_runtime: BrokerRuntime, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Place, KafkaCluster]]:
    """Two nodes on three brokers, which keep everything three times; nodes look often where classic parts begin."""
    folder = tmp_path_factory.mktemp("replicated")
    properties = {
        "diskless.metadata.topic.replication.factor": str(REPLICAS),
        "diskless.metadata.topic.min.insync.replicas": "2",
        "log.retention.check.interval.ms": "300",
    }
    with (
        KafkaCluster(REPLICAS, folder / "kafka", runtime=broker_runtime) as cluster,
        Service(cluster.bootstrap, folder / "service", partitions=3, properties=properties) as service,
    ):
        yield Place(service.start(NODES), cluster.bootstrap), cluster


def named(unique_name: Callable[[str], str]) -> str:
    return unique_name("orders")[-60:].lstrip("-")


def record() -> Record:
    """A record that is younger than any retention."""
    return Record(timestamp_ms=time.time_ns() // 1_000_000, value=b"diskless")


def reader_of(place: Place, client: object, name: str, topic_id: bytes) -> HybridReader:
    classic = KafkaClassicRecords(name, bootstrap_servers=place.kafka, client_id="test", kafka_properties={})
    return HybridReader(client, topic_id, classic)


def test_a_broker_dies_while_a_replicated_topic_is_migrated(
    replicated: tuple[Place, KafkaCluster], unique_name: Callable[[str], str]
) -> None:
    place, cluster = replicated
    name = named(unique_name)
    place.create(name, PARTITIONS, REPLICAS, min_insync_replicas="2")
    writers = [Writer({"bootstrap.servers": place.kafka, "acks": "all"}, name, PARTITIONS, f"writer-{number}") for number in range(2)]
    for writer in writers:
        writer.start()
    wait_until(lambda: all(len(one) >= 20 for writer in writers for one in writer.acknowledged.values()), "writes to every partition")
    for writer in writers:
        writer.stop()
        assert not writer.refused
    with ThreadPoolExecutor(1) as pool:
        started = pool.submit(place.run, "start", name, "--writers-stopped", "--yes", "--still", "3")
        wait_until(lambda: place.is_known(name), "the migration to begin")
        cluster.kill(1)
        rows = started.result(WAIT_S)
    cluster.restart(1)
    cluster.wait_until_whole()
    assert {row["result"] for row in rows} == {"diskless"}, "the brokers that are left have everything"
    place.service.wait_shared()

    async def prove() -> None:
        async with place.client() as client:
            topic = await client.describe_topic(name)
            await client.write({(name, partition): [record()] * 2 for partition in range(PARTITIONS)})
            reader = reader_of(place, client, name, topic.topic_id)
            for partition, row in enumerate(rows):
                read = {record.offset: record.value async for record in reader.read(partition)}
                assert sorted(read) == [*range(row["start_offset"] + 2)]
                for writer in writers:
                    assert writer.acknowledged[partition].items() <= read.items()

    asyncio.run(prove())
    assert [row["suffix_records"] for row in place.verify(name)] == [2] * PARTITIONS


def test_databases_are_damaged_and_the_store_is_cut_off_in_the_middle(
    replicated: tuple[Place, KafkaCluster], unique_name: Callable[[str], str]
) -> None:
    place, _ = replicated
    name = named(unique_name)
    place.create(name, 3, REPLICAS, min_insync_replicas="2")
    for partition in range(3):
        place.write(name, 4 + partition, partition)
    topic = place.topic(name)

    async def migrate_one() -> None:
        facts = await topic.describe()
        async with place.client() as client:
            await client.admin.create_topic(name, 3, topic_id=facts.topic_id, classic_pending=True)
            await MigrationDriver(client.admin, still_s=0.0).migrate(topic.partition(facts.topic_id, 0))

    asyncio.run(migrate_one())
    for number, node in place.service.nodes.items():
        node.kill()
        assert damage_some(node.data_folder, Random(number), is_running=False)
        node.start()
    place.service.wait_shared()
    objects, aside = place.service.folder / "objects", place.service.folder / "aside"
    objects.rename(aside)
    objects.write_bytes(b"no folder: nothing can be stored or read")
    rows = place.run("start", name, *START)
    assert [(row["result"], row["start_offset"]) for row in rows] == [("diskless before", 4), ("diskless", 5), ("diskless", 6)]
    objects.unlink()
    aside.rename(objects)
    asyncio.run(_write_each(place, name, 3))
    assert [(row["prefix_records"], row["suffix_records"]) for row in place.verify(name)] == [(4, 1), (5, 1), (6, 1)]

    _lose_objects(place, name)
    findings = [row["finding"] for row in place.verify(name, Exit.AUDIT)]
    assert "is this the store that the file was uploaded to?" in findings[0]
    assert findings[1] is not None
    assert findings[2] is None


async def _write_each(place: Place, name: str, partitions: int) -> None:
    """One object for each partition."""
    async with place.client() as client:
        for partition in range(partitions):
            await client.write({(name, partition): [record()]})


def _lose_objects(place: Place, name: str) -> None:
    """Delete the object of partition 0, and cut that of partition 1."""

    async def keys() -> list[str]:
        async with place.client() as client:
            topic_id = (await client.describe_topic(name)).topic_id
            logs = [await client.admin.describe_diskless_log(topic_id, partition) for partition in (0, 1)]
            asked = [FetchFrom(PartitionId(topic_id, partition), log.start_offset) for partition, log in enumerate(logs)]
            return [one.batches[0].object_key for one in await client.find_batches(asked)]

    missing, cut = (place.service.folder / "objects" / key for key in asyncio.run(keys()))
    missing.unlink()
    cut.write_bytes(cut.read_bytes()[:-3])


def test_the_service_follows_the_start_of_the_classic_part(
    replicated: tuple[Place, KafkaCluster], unique_name: Callable[[str], str]
) -> None:
    place, cluster = replicated
    name = named(unique_name)
    place.create(name, 2, REPLICAS, min_insync_replicas="2")
    for partition in range(2):
        place.write(name, 9, partition)
    assert [row["prefix_start"] for row in place.run("start", name, *START)] == [0, 0]

    def earliest(timestamp: int = EARLIEST) -> list[int]:
        async def ask() -> list[int]:
            async with place.client() as client:
                topic_id = (await client.describe_topic(name)).topic_id
                found = await client.list_offsets([(PartitionId(topic_id, partition), timestamp) for partition in range(2)])
                return [one.offset for one in found]

        return asyncio.run(ask())

    def delete(*offsets: int) -> None:
        admin = AdminClient({"bootstrap.servers": place.kafka, **QUIET})  # a new one knows who leads now
        places = [TopicPartition(name, partition, offset) for partition, offset in enumerate(offsets)]
        for deleted in admin.delete_records(places, request_timeout=PATIENCE_S, operation_timeout=PATIENCE_S).values():
            deleted.result(WAIT_S)

    async def refused(offset: int) -> None:
        async with place.client() as client:
            topic_id = (await client.describe_topic(name)).topic_id
            [answer] = await client.admin.delete_records([(PartitionId(topic_id, 0), offset)])
            with pytest.raises(OffsetOutOfRange, match="to 8 are in the classic topic, where Kafka deletes them"):
                answer.raise_for_error()

    def told(*words: str, status: Exit) -> str:
        line = ("records", "delete", name, "0", "--before-offset", "5", *words)
        return str(run(place.service, *line, status=status, output=False))

    assert earliest() == [0, 0]
    asyncio.run(refused(5))
    text = "offsets 0 to 8 are before its diskless part: only Kafka can delete those of the classic topic"
    assert text in told("--dry-run", status=Exit.OK)
    assert "are in the classic topic, where Kafka deletes them" in told("--yes", status=Exit.NOT_FOUND)
    delete(4, 0)
    wait_until(lambda: earliest() == [4, 0], "the service to follow")
    asyncio.run(refused(9))
    cluster.wait_until_whole()  # only a replica in sync can lead on
    cluster.kill(1)
    seen_by = AdminClient({"bootstrap.servers": place.kafka, **QUIET})
    wait_until(lambda: is_led_by_others(leaders(seen_by, name), 1), "the other brokers to lead all partitions")
    # A broker that leads anew knows the end of a partition only when its follower has asked it.
    wait_until_done(lambda: delete(9, 7), "the other brokers to delete records", KafkaException)
    wait_until(lambda: earliest() == [9, 7], "the service to follow without that broker")
    cluster.restart(1)
    assert earliest(EARLIEST_LOCAL) == [9, 9]
    for node in place.service.nodes.values():
        node.kill()
        node.start()
    place.service.wait_shared()
    assert earliest() == [9, 7]
    assert [(row["first_offset"], row["prefix_records"]) for row in place.verify(name)] == [(9, 0), (7, 2)]
