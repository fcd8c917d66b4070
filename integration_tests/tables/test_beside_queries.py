"""What happens beside running queries: leaders that are killed, topics that are deleted, retention.

A query gives the rows that exist, each once, or one clear error.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from cli.dev.kafka import Kafka
from cli.spark.session import find_engine
from coordinator.adapters.objectstore import open_store
from coordinator.client.client import DisklessClient
from integration_tests.service import Service
from integration_tests.tables.gate import Gate
from integration_tests.tables.sides import Streamed
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


def chosen(frame: DataFrame) -> DataFrame:
    return frame.selectExpr("partition", "offset", "CAST(value AS STRING) AS value")


def rows_of(frame: DataFrame) -> Rows:
    return sorted(tuple(row) for row in frame.collect())


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


# ---- retention


def retain(tables: Tables, topic: str) -> None:
    """Let retention delete the records of a day ago."""

    async def work(client: DisklessClient) -> None:
        await client.admin.alter_topic(topic, {"retention.ms": str(HOUR_MS)})
        await client.admin.enforce_retention()

    tables.does(work)

    def starts() -> set[int]:
        return {one.log_start_offset for one in tables.does(lambda client: client.describe_topic(topic)).partitions}

    wait_until(lambda: starts() == {EACH}, "the head to be gone")


@pytest.mark.parametrize(("kind", "fails"), [("batch", "true"), ("batch", "false"), ("stream", "true")])
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
        return [(row[0], row[1], row[-1]) for row in sink.rows()]

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
