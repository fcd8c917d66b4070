"""A diskless topic read by Spark from the object store, and a classic one by Spark's Kafka source, with the same records and queries.

    python -m benchmarks.tables [--megabytes N] [--runs N] [--only NAME ...] [--query NAME] [--json FILE]

One broker, one node, a local store, two tasks at a time. Records are written once for each shape: value size, compression, and the bytes of
a file, of which a batch of the classic topic has a partition's share. Queries: `values` adds up the lengths of values, `offsets` reads no
value, by `columns=offset` on our side. Both sides run in turn; the first pair warms up and is left out. Medians over the runs: records/s,
MB/s of keys and values, the ratio of ours to Kafka's, CPU seconds of Spark (JVM and Python) and of the broker meanwhile, and the ratio of
those of Spark, which other work on the machine changes less.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.bed import Row, broker, say, service, table, write_json
from cli.bench.counters import cpu_seconds
from cli.dev.kafka import KafkaCluster
from cli.spark.session import find_engine
from coordinator.adapters.objectstore import open_store
from coordinator.client.client import DisklessClient
from integration_tests.service import Service
from records.compression import Compression
from records.record_batch import Record
from spark_jobs.session import RunningSpark, open_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITIONS: Final = 4
MB: Final = 1 << 20
KEY_BYTES: Final = 8
RECORDS_AT_ONCE: Final = 20_000
QUERIES: Final[Mapping[str, str]] = {"values": "sum(length(value))", "offsets": "max(offset)"}
COLUMNS: Final = (
    "shape", "query", "kafka_rec/s", "ours_rec/s", "kafka_MB/s", "ours_MB/s", "ratio", "kafka_spark_s", "ours_spark_s", "spark_ratio",
    "kafka_broker_s", "ours_broker_s",
)  # fmt: skip
AS_USERS: Final = ("-Xmx1g", "-XX:TieredStopAtLevel=4")
"""Queries run with Java's second compiler, as users start Spark, and not as jobs of the monitor do, which must start quickly."""
TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


class Shape(NamedTuple):
    """Records of one size, in files of one size."""

    name: str
    value_bytes: int
    compression: Compression | None
    file_bytes: int


SHAPES: Final = (
    Shape("1 KiB", 1024, None, 8 * MB),
    Shape("1 KiB zstd", 1024, Compression.ZSTD, 8 * MB),
    Shape("1 KiB small files", 1024, None, MB // 2),
    Shape("100 B", 100, None, 8 * MB),
    Shape("100 B zstd", 100, Compression.ZSTD, 8 * MB),
    Shape("100 B small files", 100, None, MB // 2),
)


class Sided(NamedTuple):
    """The two topics of a shape, and what they hold."""

    classic: str
    diskless: str
    records: int
    content_bytes: int


def values_of(shape: Shape, megabytes: int) -> Iterator[tuple[int, bytes, bytes]]:
    """Partition, key and value of each record: half of a value is chance, so that it compresses by about a half."""
    chance = random.Random(7)
    count = megabytes * MB // (shape.value_bytes + KEY_BYTES)
    half = shape.value_bytes // 2
    for number in range(count):
        yield number % PARTITIONS, number.to_bytes(KEY_BYTES, "big"), chance.randbytes(half) + bytes(shape.value_bytes - half)


def write_classic(kafka: KafkaCluster, topic: str, shape: Shape, megabytes: int) -> None:
    """Write the records to a classic topic, in batches of about a partition's share of a file."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1, config={"max.message.bytes": str(16 * MB)})])[topic].result(60)
    producer = Producer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "enable.idempotence": True,
            "linger.ms": 50,
            "batch.size": min(shape.file_bytes // PARTITIONS, MB),
            "message.max.bytes": 16 * MB,
            "compression.type": shape.compression.name.lower() if shape.compression else "none",
            "queue.buffering.max.kbytes": 256 * 1024,
        }
    )
    for number, (partition, key, value) in enumerate(values_of(shape, megabytes)):
        producer.produce(topic, value, key, partition)
        if number % 1000 == 0:
            producer.poll(0)
            while len(producer) > RECORDS_AT_ONCE:
                producer.poll(0.05)
    assert producer.flush(120) == 0


async def write_diskless(running: Service, topic: str, shape: Shape, megabytes: int) -> None:
    """Write the records to a diskless topic, in files of the shape's size."""
    async with DisklessClient(running.addresses, object_store=open_store(running.properties["object.store.url"])) as client:
        await client.admin.create_topic(topic, PARTITIONS)
        file: dict[tuple[str, int], list[Record]] = {}
        size = 0
        for partition, key, value in values_of(shape, megabytes):
            file.setdefault((topic, partition), []).append(Record(key=key, value=value))
            size += len(key) + len(value)
            if size >= shape.file_bytes:
                await client.write(file, compression=shape.compression)
                file, size = {}, 0
        if file:
            await client.write(file, compression=shape.compression)


def written(kafka: KafkaCluster, running: Service, shape: Shape, megabytes: int) -> Sided:
    """Write both topics of a shape."""
    mark = uuid.uuid4().hex[:8]
    sided = Sided(f"classic-{mark}", f"diskless-{mark}", megabytes * MB // (shape.value_bytes + KEY_BYTES), megabytes * MB)
    write_classic(kafka, sided.classic, shape, megabytes)
    asyncio.run(write_diskless(running, sided.diskless, shape, megabytes))
    return sided


def by_kafka(spark: SparkSession, kafka: KafkaCluster, sided: Sided) -> DataFrame:
    """The classic topic by Spark's Kafka source."""
    return spark.read.format("kafka").option("kafka.bootstrap.servers", kafka.bootstrap).option("subscribe", sided.classic).load()


def by_ours(spark: SparkSession, running: Service, sided: Sided, query: str) -> DataFrame:
    """The diskless topic by our source."""
    made = spark.read.format("diskless").option("diskless.bootstrap.servers", ",".join(running.addresses))
    made = made.option("diskless.object.store.url", running.properties["object.store.url"]).option("subscribe", sided.diskless)
    return (made.option("columns", "offset") if query == "offsets" else made).load()


class Timed(NamedTuple):
    """One run of a query."""

    seconds: float
    spark_s: float
    broker_s: float
    answer: object


def spark_seconds(jvm_pid: int) -> float:
    """CPU seconds of a JVM and of the Python processes in its session, ended ones too."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):  # ended meanwhile: its parent has its seconds
            fields = stat.read_text(encoding="utf-8").rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15])) if int(fields[3]) == jvm_pid else 0
    return ticks / TICKS_PER_S


def timed(make: Callable[[], DataFrame], query: str, jvm_pid: int, broker_pid: int) -> Timed:
    """Run a query."""
    before, started_s = (spark_seconds(jvm_pid), cpu_seconds(broker_pid)), time.perf_counter()
    [row] = make().selectExpr(QUERIES[query], "count(*)").collect()
    seconds = time.perf_counter() - started_s
    return Timed(seconds, spark_seconds(jvm_pid) - before[0], cpu_seconds(broker_pid) - before[1], tuple(row))


def compare(spark: RunningSpark, kafka: KafkaCluster, running: Service, shape: Shape, sided: Sided, query: str, runs: int) -> Row:
    """Run a query on both sides in turn; the figures of a row."""
    pids = spark.jvm.pid, kafka.node(1).pid
    pairs = [
        (
            timed(lambda: by_kafka(spark.session, kafka, sided), query, *pids),
            timed(lambda: by_ours(spark.session, running, sided, query), query, *pids),
        )
        for _ in range(runs + 1)
    ][1:]
    for theirs, own in pairs:
        assert theirs.answer == own.answer, f"{shape.name}: {theirs.answer} by Kafka's source, {own.answer} by ours"
    kafka_s, ours_s = (statistics.median(pair[side].seconds for pair in pairs) for side in (0, 1))
    spark_s = [statistics.median(pair[side].spark_s for pair in pairs) for side in (0, 1)]
    broker_s = [statistics.median(pair[side].broker_s for pair in pairs) for side in (0, 1)]
    return {
        "shape": shape.name,
        "query": query,
        "kafka_rec/s": int(sided.records / kafka_s),
        "ours_rec/s": int(sided.records / ours_s),
        "kafka_MB/s": sided.content_bytes / MB / kafka_s,
        "ours_MB/s": sided.content_bytes / MB / ours_s,
        "ratio": kafka_s / ours_s,
        "kafka_spark_s": spark_s[0],
        "ours_spark_s": spark_s[1],
        "spark_ratio": spark_s[0] / spark_s[1],
        "kafka_broker_s": broker_s[0],
        "ours_broker_s": broker_s[1],
    }


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=512, help="of keys and values in each topic")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=[shape.name for shape in SHAPES], help="some shapes")
    parser.add_argument("--query", choices=list(QUERIES), help="one query")
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    rows: list[Row] = []
    shapes: Sequence[Shape] = [shape for shape in SHAPES if arguments.only is None or shape.name in arguments.only]
    with (
        tempfile.TemporaryDirectory() as scratch,
        broker() as kafka,
        service(kafka) as running,
        open_spark("benchmark", replace(find_engine(Path(scratch)), jvm_options=AS_USERS)) as spark,
    ):
        for shape in shapes:
            sided = written(kafka, running, shape, arguments.megabytes)
            for query in QUERIES if arguments.query is None else [arguments.query]:
                rows.append(compare(spark, kafka, running, shape, sided, query, arguments.runs))
                say(table(rows[-1:], COLUMNS))
    say(table(rows, COLUMNS))
    write_json(arguments.json, rows)


if __name__ == "__main__":
    main()
