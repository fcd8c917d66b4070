"""The same records in a classic topic and in a diskless one, and both as DataFrames: by Spark's Kafka source and by ours.

both = sides.make("orders", 2)
both.write([Written(0, b"key", b"value")])
both.assert_equal(startingOffsets='{"TOPIC": {"0": 1, "1": -2}}')
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow.parquet as parquet
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import NewPartitions, NewTopic

from integration_tests.gateway.world import World

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter

QUERY_WAIT_S = 180
Row = tuple[Any, ...]


class Written(NamedTuple):
    """A record that is written to both sides."""

    partition: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int = 0
    headers: Sequence[tuple[str, bytes | None]] = ()


class Sides:
    """See the module's text. One Spark and one world for all topics of a file."""

    def __init__(self, world: World, spark: SparkSession) -> None:
        self.world = world
        self.spark = spark
        [self.gateway, *_] = world.gateways.values()

    @property
    def access(self) -> dict[str, str]:
        """The options by which our source reaches nodes and store."""
        return {
            "diskless.bootstrap.servers": ",".join(self.world.service.addresses),
            "diskless.object.store.url": self.world.service.properties["object.store.url"],
        }

    def make(self, name: str, partitions: int, **config: str) -> BothTopics:
        """Create the two topics, whose records stay however old they are; names of settings have underscores for dots."""
        settings = {"retention.ms": "-1", **{key.replace("_", "."): value for key, value in config.items()}}
        both = BothTopics(self, name)
        for topic, more in ((both.classic, {}), (both.diskless, {"diskless.enable": "true"})):
            admin = self.world.admin(self.gateway)  # kept until the answer is there
            admin.create_topics([NewTopic(topic, partitions, replication_factor=1, config={**settings, **more})])[topic].result(30)
        return both


class BothTopics:
    """A classic topic and a diskless one that have the same records at the same offsets."""

    def __init__(self, sides: Sides, name: str) -> None:
        self.sides = sides
        self.classic, self.diskless = f"{name}-classic", f"{name}-diskless"

    def write(self, records: Sequence[Written], **properties: str) -> None:
        """Write records to both; keyword names are properties of the producer, with underscores for dots."""
        own = {key.replace("_", "."): value for key, value in properties.items()}
        for topic in (self.classic, self.diskless):
            producer = Producer({"bootstrap.servers": self.sides.gateway.address, "enable.idempotence": True, "linger.ms": 20, **own})
            for one in records:
                times = {"timestamp": one.timestamp_ms} if one.timestamp_ms else {}
                producer.produce(topic, one.value, one.key, one.partition, headers=list(one.headers) or None, **times)
            assert producer.flush(60) == 0

    def add_partitions(self, count: int) -> None:
        """Make it `count` partitions in both."""
        admin = self.sides.world.admin(self.sides.gateway)
        for topic, done in admin.create_partitions([NewPartitions(topic, count) for topic in (self.classic, self.diskless)]).items():
            done.result(30)
            assert topic

    def delete_before(self, offsets: Mapping[int, int]) -> None:
        """Delete the heads of partitions in both."""
        admin = self.sides.world.admin(self.sides.gateway)
        points = [TopicPartition(topic, index, offset) for topic in (self.classic, self.diskless) for index, offset in offsets.items()]
        for done in admin.delete_records(points).values():
            done.result(30)

    # ---- the two sources

    def _options(self, topic: str, options: Mapping[str, str]) -> dict[str, str]:
        chosen = {} if options.keys() & {"assign", "subscribePattern"} else {"subscribe": topic}
        return {**chosen, **{name: value.replace("TOPIC", topic) for name, value in options.items()}}

    def kafka(self, **options: str) -> DataFrame:
        """The classic topic by Spark's Kafka source, read from the broker, in a batch query."""
        return self._by_kafka(self.sides.spark.read, options)

    def ours(self, **options: str) -> DataFrame:
        """The diskless topic by our source, read from the object store, in a batch query."""
        return self._by_ours(self.sides.spark.read, options)

    def kafka_stream(self, **options: str) -> DataFrame:
        """The classic topic by Spark's Kafka source as a stream."""
        return self._by_kafka(self.sides.spark.readStream, options)

    def ours_stream(self, **options: str) -> DataFrame:
        """The diskless topic by our source as a stream."""
        return self._by_ours(self.sides.spark.readStream, options)

    def _by_kafka(self, reader: DataFrameReader | DataStreamReader, options: Mapping[str, str]) -> DataFrame:
        made = reader.format("kafka").option("kafka.bootstrap.servers", self.sides.world.kafka.bootstrap)
        return made.options(**self._options(self.classic, options)).load()

    def _by_ours(self, reader: DataFrameReader | DataStreamReader, options: Mapping[str, str]) -> DataFrame:
        return reader.format("diskless").options(**self.sides.access, **self._options(self.diskless, options)).load()

    def assert_equal(self, *, own: Mapping[str, str] | None = None, where: str = "true", has_times: bool = True, **options: str) -> int:
        """Compare what a batch query gives on both sides, schema and rows; `own` are options of our source alone. Returns how many rows."""
        frames = self.kafka(**options), self.ours(**options, **(own or {}))
        assert frames[0].schema == frames[1].schema
        expected, found = (
            rows_of(frame.where(where.replace("TOPIC", topic)), has_times)
            for frame, topic in zip(frames, (self.classic, self.diskless), strict=True)
        )
        assert found == expected
        return len(found)


def rows_of(frame: DataFrame, has_times: bool = True) -> list[Row]:
    """All rows but for the name of the topic, by partition and offset; without times where the two sides have taken their own."""
    left_out = {"topic"} if has_times else {"topic", "timestamp"}
    columns = [name for name in frame.columns if name not in left_out]
    rows = [tuple(row) for row in frame.select("partition", "offset", *columns).collect()]
    return sorted(rows, key=lambda row: row[:2])


# ---- streams


class Streamed(NamedTuple):
    """A stream into Parquet files, which may be run several times over."""

    spark: SparkSession
    folder: Path

    def writer(self, frame: DataFrame) -> DataStreamWriter:
        """Return what starts the query."""
        return (
            frame.writeStream.format("parquet")
            .option("path", str(self.folder / "rows"))
            .option("checkpointLocation", str(self.folder / "checkpoint"))
        )

    def run(self, frame: DataFrame) -> list[dict[str, Any]]:
        """Read all that is there now. Returns the progress of its batches that had rows."""
        query = self.writer(frame).trigger(availableNow=True).start()
        return finished(query)

    def rows(self) -> list[Row]:
        """Everything that was written so far, read without Spark: the files that its sink has committed."""
        logs = sorted((self.folder / "rows/_spark_metadata").glob("[0-9]*"))
        files = {json.loads(line)["path"] for log in logs for line in log.read_text(encoding="utf-8").splitlines()[1:]}
        tables = [parquet.read_table(file.removeprefix("file://")) for file in sorted(files)]
        columns = ["partition", "offset", *(name for name in tables[0].column_names if name != "topic")]
        rows = [tuple(row[name] for name in columns) for one in tables for row in one.to_pylist()]
        return sorted(rows, key=lambda row: row[:2])


def finished(query: StreamingQuery) -> list[dict[str, Any]]:
    """Wait for the end of a query that ends by itself; the progress of its batches that had rows. Raises what has ended it."""
    assert query.awaitTermination(QUERY_WAIT_S), query.status
    return [one for one in map(progress, query.recentProgress) if one["numInputRows"]]


def progress(one: Any) -> dict[str, Any]:
    """The progress of a batch as a value."""
    return dict(json.loads(one.json))
