"""The log that an export reads: the service over sockets and the fake of the tests keep the same contract."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import timedelta

import pyarrow as pa
import pytest

from coordinator.adapters.objectstore import open_store
from coordinator.client.client import DisklessClient
from coordinator.client.routing.retry import RetryPolicy
from records.record_batch import Record
from tables.export.columns import READ, ValueType
from tables.export.source import PartitionBounds, RecordSource, TopicGoneError, TopicSource, exported_topic
from tables.export.target import ExportedTopic
from tables.reading.span import ReadCounts
from tests.client.scripted import ScriptedCluster, scripted
from tests.tables.fake_log import FIRST, SCHEMA, FakeLog

TOPIC = bytes(range(16))


class Log:
    """A log of either kind, as the tests fill and delete it."""

    def __init__(self, source: RecordSource, client: DisklessClient | None = None, cluster: ScriptedCluster | None = None) -> None:
        self.source = source
        self.client = client
        self.cluster = cluster

    async def add(self, partition: int, count: int) -> None:
        if isinstance(self.source, FakeLog):
            self.source.add(partition, count)
            return
        assert self.client is not None
        end = (await self.source.bounds())[partition].end
        times = [round((FIRST + timedelta(seconds=offset)).timestamp() * 1000) for offset in range(end, end + count)]
        records = [Record(timestamp_ms=at, key=b"k", value=str(end + place).encode()) for place, at in enumerate(times)]
        await self.client.write({("orders", partition): records})

    def delete_topic(self) -> None:
        if isinstance(self.source, FakeLog):
            self.source.is_gone = True
        else:
            assert self.cluster is not None
            del self.cluster.topics[TOPIC]


@pytest.fixture(params=["fake", "service"])
async def log(request: pytest.FixtureRequest) -> AsyncIterator[Log]:
    if request.param == "fake":
        yield Log(FakeLog())
        return
    store = open_store("memory://")
    async with scripted() as cluster:
        cluster.add_topic(TOPIC, "orders", 2)
        retry = RetryPolicy(backoff_ms=1, backoff_ms_max=8)
        async with DisklessClient(cluster.addresses, object_store=store, retry=retry) as client:
            topic = await client.describe_topic("orders")
            source = TopicSource(client=client, store=store, topic=topic, options=READ, counts=ReadCounts())
            yield Log(source, client, cluster)


async def read(source: RecordSource, position: dict[int, int]) -> list[pa.RecordBatch]:
    async with aclosing(source.read(position, await source.bounds())) as reading:
        return [batch async for batch in reading]


async def test_bounds_tell_every_partition(log: Log) -> None:
    await log.add(0, 5)
    assert await log.source.bounds() == [PartitionBounds(0, 0, 5), PartitionBounds(1, 0, 0)]


async def test_records_come_from_the_position_to_the_bounds_in_order_with_all_columns(log: Log) -> None:
    await log.add(0, 5)
    await log.add(1, 4)
    await log.add(0, 3)
    batches = await read(log.source, {0: 2, 1: 0})
    assert {batch.schema for batch in batches} == {SCHEMA}
    rows = [row for batch in batches for row in batch.to_pylist()]
    for partition, first, end in ((0, 2, 8), (1, 0, 4)):
        mine = [row for row in rows if row["partition"] == partition]
        assert [row["offset"] for row in mine] == list(range(first, end))
        fake = FakeLog()
        fake.add(partition, end)
        assert mine == [fake.row(partition, offset) for offset in range(first, end)]


async def test_what_comes_after_the_bounds_is_not_read(log: Log) -> None:
    await log.add(0, 5)
    bounds = await log.source.bounds()
    await log.add(0, 5)
    async with aclosing(log.source.read({0: 0, 1: 0}, bounds)) as reading:
        assert sum([len(batch) async for batch in reading]) == 5
    assert await read(log.source, {0: 10, 1: 0}) == []


async def test_a_deleted_topic_is_said(log: Log) -> None:
    log.delete_topic()
    with pytest.raises(TopicGoneError, match="topic orders was deleted"):
        await log.source.bounds()


async def test_a_topic_that_is_made_anew_is_told_by_its_id() -> None:
    async with scripted() as cluster, DisklessClient(cluster.addresses) as client:
        cluster.add_topic(TOPIC, "orders", 2)
        topic = await client.describe_topic("orders")
        source = TopicSource(client=client, store=open_store("memory://"), topic=topic, options=READ, counts=ReadCounts())
        del cluster.topics[TOPIC]
        cluster.add_topic(bytes(16 * [7]), "orders", 2)
        with pytest.raises(TopicGoneError, match=r"made anew: its id was AAECAwQFBgcICQoLDA0ODw and is \w+; export the new"):
            await source.bounds()


async def test_the_topic_is_known_by_its_id_and_its_cluster() -> None:
    async with scripted() as cluster, DisklessClient(cluster.addresses) as client:
        cluster.add_topic(TOPIC, "orders", 2)
        found = await exported_topic(client, await client.describe_topic("orders"), ValueType.UTF8)
    assert found == ExportedTopic(name="orders", topic_id="AAECAwQFBgcICQoLDA0ODw", cluster_id="c", value_type=ValueType.UTF8)
