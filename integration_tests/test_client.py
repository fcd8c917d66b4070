"""The client against real nodes: topics over several coordinators, commits, reads, a leader that dies under load."""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from collections.abc import Callable, Iterator

import pytest

from cli.dev.kafka import Kafka
from coordinator.client.client import DisklessClient
from coordinator.client.errors import AlreadyExists, InvalidRequest, NotFound
from coordinator.client.model import CommitOutcome, FetchFrom, PartitionId
from coordinator.client.records.committer import Committer
from coordinator.client.records.ulid import new_ulid
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.timestamps import EARLIEST, LATEST
from coordinator.protocol.messages import CommitBatch
from integration_tests.service import UNDISTURBED, Service
from integration_tests.waiting import wait_until
from tests.commit_batches import commit_batch

NameFactory = Callable[[str], str]
PARTITIONS = 4


@pytest.fixture(scope="module")
def two_nodes(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(kafka.bootstrap, tmp_path_factory.mktemp("two-nodes"), partitions=PARTITIONS, properties=UNDISTURBED) as made:
        made.start(2)
        # A node is ready before its registration has reached the directory of the other.
        wait_until(lambda: all(asyncio.run(_told_nodes(address)) == {1, 2} for address in made.addresses), "both registrations")
        yield made


async def _told_nodes(address: str) -> set[int]:
    """The nodes that one node tells of."""
    async with DisklessClient([address], client_id="test") as client:
        return {node.node_id for node in await client.admin.nodes()}


def _client(service: Service, **arguments: int) -> DisklessClient:
    return DisklessClient(service.addresses, client_id="test", api_timeout_ms=arguments.get("api_timeout_ms", 30_000))


def _key() -> str:
    return f"wal/{new_ulid(time.time_ns() // 1_000_000, os.urandom(10))}"


def _batches(partitions: list[PartitionId], records: int = 1) -> list[CommitBatch]:
    """One batch for each partition, side by side in the file."""
    return [
        commit_batch(partition.topic_id, partition.partition, records=records, at=100 * place, request_id=place)
        for place, partition in enumerate(partitions)
    ]


async def _commit(client: DisklessClient, key: str, batches: list[CommitBatch]) -> CommitOutcome:
    return await client.commit_file(key, 100 * len(batches), batches)


async def test_topics_are_created_grown_listed_and_deleted(two_nodes: Service, unique_name: NameFactory) -> None:
    async with _client(two_nodes) as client:
        assert {node.node_id for node in await client.admin.nodes()} == {1, 2}
        name = unique_name("topic")
        topic = await client.admin.create_topic(name, 3)
        assert await client.admin.create_topic(name, 5, topic_id=topic.topic_id) is not None
        described = await client.describe_topic(name)
        assert described.topic_id == topic.topic_id
        assert [one.partition for one in described.partitions] == list(range(5))
        assert {one.coordinator_id for one in described.partitions} == set(range(PARTITIONS))
        assert (name, 5) in [(one.name, one.num_partitions) for one in await client.admin.list_topics()]
        with pytest.raises(AlreadyExists, match=name):
            await client.admin.create_topic(name, 3)
        with pytest.raises(InvalidRequest):
            await client.admin.create_topic("no/slashes", 1)
        await client.admin.delete_topic(name)
        with pytest.raises(NotFound, match=name):
            await client.describe_topic(name)
        with pytest.raises(NotFound):
            await client.admin.delete_topic(uuid.uuid4().bytes)


async def test_a_file_of_all_coordinators_is_committed_and_read_back_in_order(two_nodes: Service, unique_name: NameFactory) -> None:
    async with _client(two_nodes) as client:
        topic = await client.admin.create_topic(unique_name("topic"), 8)
        partitions = [PartitionId(topic.topic_id, index) for index in (7, 0, 3, 0, 5, 1, 2, 4, 6)]
        key, batches = _key(), _batches(partitions, records=10)
        outcome = await _commit(client, key, batches)
        assert outcome.is_ok
        assert sorted(outcome.owner_ids) == list(range(PARTITIONS))
        assert outcome.base_offsets.tolist() == [0, 0, 0, 10, 0, 0, 0, 0, 0]
        again = await _commit(client, key, batches)
        assert again.batches == outcome.batches
        other = await _commit(client, key, _batches(partitions, records=11))
        assert set(other.error_codes.tolist()) == {ErrorCode.DUPLICATE_RESOURCE}

        ends = await client.list_offsets([(partition, LATEST) for partition in partitions])
        assert [end.offset for end in ends] == [10, 20, 10, 20, 10, 10, 10, 10, 10]
        found = await client.find_batches([FetchFrom(partition, 0) for partition in partitions])
        assert [[(b.object_key, b.byte_offset) for b in one.batches] for one in found[:2]] == [[(key, 0)], [(key, 100), (key, 300)]]
        deleted = await client.admin.delete_records([(partition, 5) for partition in partitions])
        assert [one.low_watermark for one in deleted] == [5] * 9
        starts = await client.list_offsets([(partition, EARLIEST) for partition in partitions])
        assert [start.offset for start in starts] == [5] * 9

        described = await client.admin.describe_files([key, "wal/none"])
        assert described[0].has_live_batches
        assert described[1].error is ErrorCode.RESOURCE_NOT_FOUND
        listed = [(file.object_key, file.coordinator_id) async for file in client.admin.list_files(page_size=1)]
        assert [place for place in listed if place[0] == key] == [(key, coordinator) for coordinator in range(PARTITIONS)]
        assert listed == sorted(listed)


async def test_unknown_partitions_are_told_apart(two_nodes: Service, unique_name: NameFactory) -> None:
    async with _client(two_nodes) as client:
        topic = await client.admin.create_topic(unique_name("topic"), 1)
        known, beyond, nowhere = PartitionId(topic.topic_id, 0), PartitionId(topic.topic_id, 1), PartitionId(uuid.uuid4().bytes, 0)
        answers = await client.list_offsets([(beyond, LATEST), (known, LATEST), (nowhere, LATEST)])
        expected = [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_ID]
        assert [answer.error for answer in answers] == expected
        with pytest.raises(NotFound, match="has no partition 1"):
            answers[0].raise_for_error()
        key = _key()
        outcome = await _commit(client, key, _batches([known, beyond]))
        assert outcome.error_codes.tolist() == [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        waiting = asyncio.ensure_future(client.commit_file(key, 200, _batches([known, beyond]), wait_for_creation=True))
        await client.admin.create_topic(topic.name, 2, topic_id=topic.topic_id)
        assert (await waiting).is_ok


async def test_a_leader_that_is_killed_loses_and_repeats_nothing(kafka: Kafka, service: Service, unique_name: NameFactory) -> None:
    service.properties["diskless.metadata.topic.num.partitions"] = "3"
    service.start(2)
    async with _client(service, api_timeout_ms=60_000) as client, Committer(client) as committer:
        topic = await client.admin.create_topic(unique_name("topic"), 6)
        partitions = [PartitionId(topic.topic_id, index) for index in range(6)]
        done = [committer.submit(_key(), 600, _batches(partitions)) for _ in range(20)]
        await asyncio.wait(done[:5])
        service.nodes[1].kill()
        done += [committer.submit(_key(), 600, _batches(partitions)) for _ in range(20)]
        outcomes = await asyncio.gather(*done)
        assert all(outcome.is_ok for outcome in outcomes), [o.messages for o in outcomes if not o.is_ok][:2]
        assert [set(outcome.base_offsets.tolist()) for outcome in outcomes] == [{number} for number in range(40)]
        ends = await client.list_offsets([(partition, LATEST) for partition in partitions])
        assert [end.offset for end in ends] == [40] * 6


async def test_kafka_itself_is_told_from_a_node_in_every_operation(kafka: Kafka) -> None:
    """It answers what a client asks at first, and knows no coordinators."""
    async with DisklessClient(kafka.bootstrap, api_timeout_ms=600_000) as client:
        with pytest.raises(InvalidRequest, match="is a Kafka broker, not a Diskless Coordinator node"):
            await client.admin.create_topic("orders", 3)
        with pytest.raises(InvalidRequest, match="is a Kafka broker, not a Diskless Coordinator node"):
            await client.describe_topic("orders")
