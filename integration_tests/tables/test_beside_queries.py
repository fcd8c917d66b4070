"""Migrated topics as tables, and what happens beside running queries: leaders that are killed, topics that are deleted, retention.

A query gives the rows that exist, each once, or one clear error.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from cli.dev.kafka import Kafka
from cli.spark.session import find_engine
from coordinator.adapters.objectstore import open_store
from coordinator.client.client import DisklessClient
from integration_tests.service import Service
from integration_tests.tables.gate import Gate
from integration_tests.tables.samples import BEGIN_MS, sample
from integration_tests.tables.sides import Streamed, Written
from integration_tests.tables.sides import rows_of as whole_rows
from integration_tests.test_migration import STILL, Place
from integration_tests.waiting import wait_until
from records.record_batch import Record

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from spark_jobs.session import RunningSpark

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

PARTITIONS = 4
EACH = 60
"""Records of a partition, in files of `PER_FILE`."""
PER_FILE = 10
HOUR_MS = 3_600_000
Rows = list[tuple[int, int, str]]


class Tables(NamedTuple):
    """Two nodes, and a Spark that reads their topics."""

    service: Service
    spark: RunningSpark

    def options(self, topic: str, **more: str) -> dict[str, str]:
        return {
            "diskless.bootstrap.servers": ",".join(self.service.addresses),
            "diskless.object.store.url": self.service.properties["object.store.url"],
            "subscribe": topic,
            "splitBy": "partition",
            **more,
        }

    def batch(self, topic: str, **more: str) -> DataFrame:
        return chosen(self.spark.session.read.format("diskless").options(**self.options(topic, **more)).load())

    def stream(self, topic: str, startingOffsets: str = "earliest", **more: str) -> DataFrame:
        options = self.options(topic, startingOffsets=startingOffsets, **more)
        return chosen(self.spark.session.readStream.format("diskless").options(**options).load())

    def does(self, work: Callable[[DisklessClient], Coroutine[Any, Any, Any]]) -> Any:
        """Let a client do something."""

        async def run() -> Any:
            store = open_store(self.service.properties["object.store.url"])
            async with DisklessClient(self.service.addresses, object_store=store, api_timeout_ms=60_000) as client:
                return await work(client)

        return asyncio.run(run())

    def make(self, topic: str, partitions: int = PARTITIONS, settings: Mapping[str, str] | None = None) -> None:
        self.does(lambda client: client.admin.create_topic(topic, partitions, settings=settings))

    def write(self, topic: str, offsets: range, partitions: int = PARTITIONS, **more: int) -> Rows:
        """Write records to each partition, which are expected to have these offsets; returns the rows that they make."""

        async def write(client: DisklessClient) -> None:
            for first in offsets[::PER_FILE]:
                numbers = range(first, min(first + PER_FILE, offsets.stop))
                records = {
                    (topic, index): [Record(value=b"%d-%d" % (index, number), **more) for number in numbers] for index in range(partitions)
                }
                await client.write(records)

        self.does(write)
        return [(index, number, f"{index}-{number}") for index in range(partitions) for number in offsets]

    def says(self, text: str) -> bool:
        """Whether the log of Spark, which has what Python's workers say, holds a text."""
        return text in self.spark.log_file.read_text(encoding="utf-8", errors="replace")


def produce(bootstrap: str, topic: str, records: Sequence[Written]) -> None:
    """Write records to a classic topic."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for one in records:
        headers = list(one.headers) or None
        producer.produce(topic, one.value, one.key, one.partition, headers=headers, timestamp=one.timestamp_ms)
    assert producer.flush(60) == 0


def as_record(one: Written) -> Record:
    return Record(key=one.key, value=one.value, timestamp_ms=one.timestamp_ms, headers=tuple(one.headers))


def chosen(frame: DataFrame) -> DataFrame:
    return frame.selectExpr("partition", "offset", "CAST(value AS STRING) AS value")


def rows_of(frame: DataFrame) -> Rows:
    return sorted(tuple(row) for row in frame.collect())


def written(sink: Streamed) -> Rows:
    """What a stream has written so far; rows of a sink begin with partition and offset, which are columns of theirs, too."""
    return [(row[0], row[1], row[-1]) for row in sink.rows()]


@pytest.fixture(scope="module")
def tables(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tables]:
    from spark_jobs.session import open_spark

    folder = tmp_path_factory.mktemp("tables")
    with (
        Service(kafka.bootstrap, folder, partitions=2, properties={"session.timeout.ms": "6000"}) as service,
        open_spark("tables", find_engine(folder)) as spark,
    ):
        yield Tables(service.start(2), spark)


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path / "gate")


# ---- migrated topics


def test_a_migrated_topic_begins_where_its_diskless_log_does(tables: Tables, unique_name: Callable[[str], str], tmp_path: Path) -> None:
    topic = unique_name("orders")[-60:].lstrip("-")
    place = Place(tables.service, tables.service.bootstrap)
    place.create(topic, 2)
    for partition, count in enumerate((7, 5)):
        place.write(topic, count, partition)
    started = place.run("start", topic, "--writers-stopped", "--yes", *STILL)
    assert [row["start_offset"] for row in started] == [7, 5]
    tables.does(lambda client: client.write({(topic, index): [Record(value=b"new")] * 4 for index in range(2)}))
    diskless = [(0, offset, "new") for offset in range(7, 11)] + [(1, offset, "new") for offset in range(5, 9)]
    warning = f"{topic}-0, {topic}-1: earlier records are in Kafka and are not read, since the topic was migrated"

    assert rows_of(tables.batch(topic)) == diskless
    wait_until(lambda: tables.says(warning), "the warning of a batch query")
    sink = Streamed(tables.spark.session, tmp_path / "earliest")
    assert [one["numInputRows"] for one in sink.run(tables.stream(topic))] == [8]
    assert written(sink) == diskless

    below = f'{{"{topic}": {{"0": 3, "1": -2}}}}'
    said = rf"{topic}-0: offsets 3 to 11 \(exclusive\) are asked for; the log has offsets 7 to 11 \(exclusive\), .* from 0 on are in Kafka"
    with pytest.raises(Exception, match=said):
        tables.batch(topic, startingOffsets=below).collect()
    assert rows_of(tables.batch(topic, startingOffsets=below, failOnDataLoss="false")) == diskless
    with pytest.raises(Exception, match=r"offset 3 is in the classic part of a migrated partition, offsets 0 to 7 .*; begin at 7 and read"):
        Streamed(tables.spark.session, tmp_path / "below").run(tables.stream(topic, startingOffsets=below))


def test_a_migrated_topic_is_one_with_kafkas_address(tables: Tables, unique_name: Callable[[str], str], tmp_path: Path) -> None:
    """Rows and micro-batches are those of Spark's Kafka source, which reads a classic topic with the same records."""
    twin, topic = (unique_name(name)[-60:].lstrip("-") for name in ("twin", "orders"))
    place = Place(tables.service, tables.service.bootstrap)
    before, after = sample(60), sample(40, begin=60)
    for name in (twin, topic):
        place.create(name, 2, retention_ms="-1")
    produce(place.kafka, twin, before + after)
    produce(place.kafka, topic, before)
    place.run("start", topic, "--writers-stopped", "--yes", *STILL)
    diskless = {(topic, index): [as_record(one) for one in after if one.partition == index] for index in range(2)}
    tables.does(lambda client: client.write(diskless))

    session = tables.spark.session
    whole = {"diskless.kafka.bootstrap.servers": place.kafka, "includeHeaders": "true"}

    def both(kind: str, **options: str) -> list[DataFrame]:
        here = {name: value.replace("TOPIC", topic) for name, value in options.items()}
        there = {name: value.replace("TOPIC", twin) for name, value in options.items()}
        kafka = getattr(session, kind).format("kafka").option("kafka.bootstrap.servers", place.kafka)
        own = getattr(session, kind).format("diskless").options(**tables.options(topic, **whole, **here))
        return [kafka.options(**there, includeHeaders="true", subscribe=twin).load(), own.load()]

    for options in (
        {},
        {"minPartitions": "7"},
        {"startingOffsets": '{"TOPIC": {"0": 10, "1": 35}}', "endingOffsets": '{"TOPIC": {"0": 45, "1": 40}}'},
        {"startingTimestamp": str(BEGIN_MS + 20_500), "endingTimestamp": str(BEGIN_MS + 80_000)},
        {"startingTimestamp": str(BEGIN_MS + 70_500)},
    ):
        expected, found = map(whole_rows, both("read", **options))
        assert found == expected, options
        assert found
    by_objects = session.read.format("diskless").options(**{**tables.options(topic, **whole), "splitBy": "objects"}).load()
    assert len(whole_rows(by_objects)) == 100

    sinks = [Streamed(session, tmp_path / name) for name in ("kafka", "ours")]
    frames = both("readStream", startingOffsets="earliest", maxOffsetsPerTrigger="30")
    kafka, ours = ([one["numInputRows"] for one in sink.run(frame)] for sink, frame in zip(sinks, frames, strict=True))
    assert ours == kafka == [30, 30, 30, 10]
    assert sinks[1].rows() == sinks[0].rows()

    for name in (twin, topic):
        admin = AdminClient({"bootstrap.servers": place.kafka})
        admin.delete_records([TopicPartition(name, 0, 12)])[TopicPartition(name, 0)].result(30)
    expected, found = map(whole_rows, both("read"))
    assert found == expected
    assert len(found) == 88
    lost = {"startingOffsets": '{"TOPIC": {"0": 5, "1": 35}}'}
    with pytest.raises(Exception, match=r"offsets 5 to 50 \(exclusive\) are asked for; the log has offsets 12 to 50"):
        both("read", **lost)[1].collect()
    expected, found = map(whole_rows, both("read", **lost, failOnDataLoss="false"))
    assert found == expected


# ---- leaders


def leader_of(tables: Tables, topic: str) -> int:
    """The node that leads the first partition of a topic."""
    return int(tables.does(lambda client: client.describe_topic(topic)).partitions[0].leader_id)


def test_a_killed_leader_loses_and_doubles_no_row_of_a_batch_query(tables: Tables, unique_name: Callable[[str], str], gate: Gate) -> None:
    topic = unique_name("killed")
    tables.make(topic)
    rows = tables.write(topic, range(EACH))
    leader = tables.service.nodes[leader_of(tables, topic)]
    frame = tables.batch(topic, maxRecordsPerPartition=str(PER_FILE))
    with gate.beside(lambda: rows_of(gate.held(frame))) as result:
        leader.kill()
    assert result() == rows
    assert rows_of(frame) == rows, "also by the node that is left"
    leader.start()
    tables.service.wait_shared()


def test_a_killed_leader_loses_and_doubles_no_row_of_a_stream(
    tables: Tables, unique_name: Callable[[str], str], gate: Gate, tmp_path: Path
) -> None:
    topic = unique_name("killed")
    tables.make(topic)
    rows = tables.write(topic, range(EACH))
    leader = tables.service.nodes[leader_of(tables, topic)]
    sink = Streamed(tables.spark.session, tmp_path)
    query = sink.writer(gate.held(tables.stream(topic, maxOffsetsPerTrigger=str(PARTITIONS * 2 * PER_FILE)))).start()

    def rows_come() -> None:
        expected = 2 * PARTITIONS * EACH
        wait_until(lambda: not query.isActive or len(written(sink)) >= expected, "all rows", 120, excused=(IndexError, OSError))

    try:
        with gate.beside(rows_come) as result:
            leader.kill()
            rows += tables.write(topic, range(EACH, 2 * EACH))
        result()
        assert query.exception() is None
        assert written(sink) == sorted(rows)
    finally:
        query.stop()
    leader.start()
    tables.service.wait_shared()


# ---- topics


def delete(tables: Tables, topic: str) -> None:
    """Delete a topic, and wait until no node lists it."""
    tables.does(lambda client: client.admin.delete_topic(topic))
    wait_until(lambda: topic not in {one.name for one in tables.does(lambda client: client.admin.list_topics())}, "the topic to be gone")


@pytest.mark.parametrize("kind", ["batch", "stream"])
def test_a_topic_that_is_deleted_ends_a_query_with_one_clear_error(
    tables: Tables, unique_name: Callable[[str], str], gate: Gate, tmp_path: Path, kind: str
) -> None:
    topic = unique_name("deleted")
    tables.make(topic)
    tables.write(topic, range(EACH))
    if kind == "batch":
        held = gate.held(tables.batch(topic, maxRecordsPerPartition=str(PER_FILE)))
        run: Callable[[], Any] = held.collect
    else:
        held = gate.held(tables.stream(topic, maxOffsetsPerTrigger=str(PARTITIONS * PER_FILE)))
        run = partial(Streamed(tables.spark.session, tmp_path).run, held)
    with gate.beside(run) as result:
        delete(tables, topic)
    with pytest.raises(Exception, match=rf"{topic}-\d offsets \[\d+, \d+\): its topic was deleted before these records were read"):
        result()


def test_a_running_stream_ends_when_its_topic_is_deleted(tables: Tables, unique_name: Callable[[str], str], tmp_path: Path) -> None:
    topic = unique_name("deleted")
    tables.make(topic)
    rows = tables.write(topic, range(PER_FILE))
    sink = Streamed(tables.spark.session, tmp_path)
    query = sink.writer(tables.stream(topic)).start()
    try:
        wait_until(lambda: not query.isActive or len(written(sink)) == len(rows), "all rows", excused=(IndexError, OSError))
        assert query.exception() is None
        delete(tables, topic)
        wait_until(lambda: not query.isActive, "the query to end")
        assert topic in str(query.exception())
        assert written(sink) == rows
    finally:
        query.stop()


# ---- retention


def retain(tables: Tables, topic: str) -> None:
    """Let retention delete the records of a day ago, as soon as every coordinator knows the setting."""
    tables.does(lambda client: client.admin.alter_topic(topic, {"retention.ms": str(HOUR_MS)}))

    async def starts(client: DisklessClient) -> set[int]:
        await client.admin.enforce_retention()
        return {one.log_start_offset for one in (await client.describe_topic(topic)).partitions}

    wait_until(lambda: tables.does(starts) == {EACH}, "the head to be gone")


@pytest.mark.parametrize("fails", ["true", "false"])
@pytest.mark.parametrize("kind", ["batch", "stream"])
def test_retention_ends_a_query_or_leaves_out_what_is_gone(
    tables: Tables, unique_name: Callable[[str], str], gate: Gate, tmp_path: Path, kind: str, fails: str
) -> None:
    topic = unique_name("retained")
    tables.make(topic, settings={"retention.ms": "-1"})
    old = tables.write(topic, range(EACH), timestamp_ms=time.time_ns() // 1_000_000 - 24 * HOUR_MS)
    kept = tables.write(topic, range(EACH, 2 * EACH))
    sink = Streamed(tables.spark.session, tmp_path)

    def run() -> Rows:
        if kind == "batch":
            return rows_of(gate.held(tables.batch(topic, maxRecordsPerPartition=str(PER_FILE), failOnDataLoss=fails)))
        sink.run(gate.held(tables.stream(topic, maxOffsetsPerTrigger=str(PARTITIONS * PER_FILE), failOnDataLoss=fails)))
        return written(sink)

    with gate.beside(run) as result:
        retain(tables, topic)
    if fails == "true":
        with pytest.raises(Exception, match=r"are not there, the log has .*") as caught:
            result()
        assert 'set the source option "failOnDataLoss" to "false"' in str(caught.value)
    else:
        found = result()
        assert [row for row in found if row[1] >= EACH] == kept
        read_before = [row for row in found if row[1] < EACH]
        assert 0 < len(read_before) < len(old), "what was read before, and no more"
        assert len(set(read_before)) == len(read_before)
        assert set(read_before) <= set(old)
