"""Spans of topics on real nodes: the rows are the client's records, also while heads, topics and leaders go beside the reader."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any

import pytest

from cli.dev.kafka import Kafka
from coordinator.adapters.objectstore import open_store
from coordinator.client.client import DisklessClient
from coordinator.client.errors import NotFound
from coordinator.client.model import PartitionId
from coordinator.object_store import ObjectMissing
from integration_tests.service import Service
from records.compression import Compression
from records.record_batch import Record
from tables.reading.reader import read_spans
from tables.reading.span import OffsetsDeleted, ReadCounts, ReadOptions, Span

COORDINATORS = 2
FILES = 12
Row = tuple[int, int, int, bytes | None]


@pytest.fixture(scope="module")
def two_nodes(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    options = {"session.timeout.ms": "6000"}
    with Service(kafka.bootstrap, tmp_path_factory.mktemp("tables"), partitions=COORDINATORS, properties=options) as made:
        yield made.start(2)


@pytest.fixture
async def client(two_nodes: Service) -> AsyncIterator[DisklessClient]:
    async with DisklessClient(two_nodes.addresses, object_store=store_of(two_nodes), api_timeout_ms=60_000) as made:
        yield made


def store_of(service: Service) -> Any:
    return open_store(service.properties["object.store.url"])


async def filled(client: DisklessClient, topic: str, settings: Mapping[str, str] | None = None) -> list[Span]:
    """A topic of three partitions, with a batch of each in every file; the spans of all that is there."""
    created = await client.admin.create_topic(topic, 3, settings=settings)
    for number in range(FILES):
        records = [Record(timestamp_ms=1_000 + number, key=b"%d" % place, value=b"%d" % number) for place in range(5)]
        await client.write({(topic, index): records for index in range(3)}, compression=Compression(number % 5))
    return [Span(topic=topic, topic_id=created.topic_id, partition=index, from_offset=0, to_offset=5 * FILES) for index in range(3)]


async def rows(service: Service, client: DisklessClient, *spans: Span, **options: Any) -> list[Row]:
    counts = options.pop("counts", None)
    found: list[Row] = []
    async for one in read_spans(client, store_of(service), spans, ReadOptions(**options), counts=counts):
        found += rows_of(one)
    return found


def rows_of(batch: Any) -> list[Row]:
    return [(row["partition"], row["offset"], round(row["timestamp"].timestamp() * 1000), row["value"]) for row in batch.to_pylist()]


async def records(client: DisklessClient, topic: str) -> list[Row]:
    return sorted([(one.partition, one.offset, one.timestamp_ms, one.value) async for one in client.read(topic)], key=lambda row: row[:2])


@pytest.mark.parametrize("kind", ["CreateTime", "LogAppendTime"])
async def test_rows_are_the_records(two_nodes: Service, client: DisklessClient, unique_name: Callable[[str], str], kind: str) -> None:
    topic = unique_name("topic")
    spans = await filled(client, topic, {"message.timestamp.type": kind})
    expected = await records(client, topic)
    assert len(expected) == 3 * 5 * FILES
    for options in ({}, {"batch_rows": 7, "fetch_bytes": 100}):
        found = await rows(two_nodes, client, *spans, **options)
        assert sorted(found, key=lambda row: row[:2]) == expected
        for index in range(3):
            assert [row for row in found if row[0] == index] == [row for row in expected if row[0] == index]


async def test_a_deleted_head_is_an_error_or_left_out(
    two_nodes: Service, client: DisklessClient, unique_name: Callable[[str], str]
) -> None:
    spans = await filled(client, unique_name("topic"))
    partition = PartitionId(spans[1].topic_id, 1)
    reading = read_spans(client, store_of(two_nodes), spans[1:2], ReadOptions(batch_rows=5, fetch_bytes=1))
    assert [row[1] for row in rows_of(await anext(reading))] == [0, 1, 2, 3, 4]
    [deleted] = await client.admin.delete_records([(partition, 17)])
    deleted.raise_for_error()
    # What was found before is there, since no reader is cut off at once.
    assert [row[1] async for one in reading for row in rows_of(one)] == [*range(5, 5 * FILES)]
    with pytest.raises(OffsetsDeleted, match=r"-1: the records with offsets 0 to 17 \(exclusive\) are not there, the log has 17 to 60"):
        await rows(two_nodes, client, *spans)
    counts = ReadCounts()
    found = await rows(two_nodes, client, *spans, fail_on_data_loss=False, counts=counts)
    assert {index: next(row[1] for row in found if row[0] == index) for index in range(3)} == {0: 0, 1: 17, 2: 0}
    assert counts.deleted_offsets == 17


async def test_a_deleted_topic_is_one_clear_error(two_nodes: Service, client: DisklessClient, unique_name: Callable[[str], str]) -> None:
    topic = unique_name("topic")
    spans = await filled(client, topic)
    await client.admin.delete_topic(topic)
    with pytest.raises((NotFound, ObjectMissing), match=topic):
        await rows(two_nodes, client, *spans)


async def test_a_leader_that_is_killed_beside_the_reader(
    two_nodes: Service, client: DisklessClient, unique_name: Callable[[str], str]
) -> None:
    topic = unique_name("topic")
    spans = await filled(client, topic)
    expected = await records(client, topic)
    reading = read_spans(client, store_of(two_nodes), spans, ReadOptions(batch_rows=5, fetch_bytes=1))
    found = rows_of(await anext(reading))
    two_nodes.nodes[1].kill()
    found += [row async for one in reading for row in rows_of(one)]
    assert sorted(found, key=lambda row: row[:2]) == expected
    # And from its beginning by the node that is left.
    assert sorted(await rows(two_nodes, client, *spans), key=lambda row: row[:2]) == expected
