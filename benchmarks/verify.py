"""The time that `diskless monitor verify` takes for a log of some million batches: a real Kafka, a real Spark, from cold.

    python -m benchmarks.verify [--batches N] [--batches-per-file N] [--partitions N] [--bootstrap-server HOST:PORT]

A made log (files over 100 user partitions, 30 % of the batches idempotent) goes into every partition of a topic; printed
are the times of producing it, of Spark's start and of the rebuild, and whether all partitions have the digest that an
unshared walk over the same entries in this process has.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.replay import Log
from cli.dev.kafka import find_kafka
from cli.spark.session import find_engine
from coordinator.core.log_entry import ReadEntry
from records.state_digest import Digest
from spark_jobs.batch_read import LogPlace
from spark_jobs.session import open_spark
from spark_jobs.verify.deletions import Deletions
from spark_jobs.verify.job import Rebuilder
from spark_jobs.verify.rebuild import Rebuild

TOPIC = "benchmark-verify"


@contextmanager
def _kafka(bootstrap: str | None, folder: Path) -> Iterator[str]:
    if bootstrap is not None:
        yield bootstrap
        return
    with find_kafka(folder) as kafka:
        yield kafka.bootstrap


def _produce(bootstrap: str, entries: list[ReadEntry], partitions: int) -> str:
    topic = f"{TOPIC}-{time.time_ns()}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result()
    producer = Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 20, "queue.buffering.max.kbytes": 1 << 20}
    )
    for entry in entries:
        for partition in range(partitions):
            while True:
                try:
                    producer.produce(topic, entry.value, entry.key, partition)
                    break
                except BufferError:
                    producer.poll(0.1)
        producer.poll(0)
    assert producer.flush(120) == 0
    return topic


def _digest(entries: list[ReadEntry]) -> Digest:
    rebuild = Rebuild(Deletions())
    for entry in entries:
        rebuild.read(entry.offset, entry.key, entry.value)
    return rebuild.finish().digest()


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=5_000_000)
    parser.add_argument("--batches-per-file", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--bootstrap-server")
    arguments = parser.parse_args()
    entries = Log(arguments.batches_per_file).entries(arguments.batches // arguments.partitions)
    with tempfile.TemporaryDirectory() as scratch, _kafka(arguments.bootstrap_server, Path(scratch) / "kafka") as bootstrap:
        start_s = time.perf_counter()
        topic = _produce(bootstrap, entries, arguments.partitions)
        print(f"{len(entries) * arguments.partitions} entries produced in {time.perf_counter() - start_s:.1f} s")
        start_s = time.perf_counter()
        with open_spark("benchmark-verify", find_engine(Path(scratch))) as spark:
            started_s = time.perf_counter()
            ends = dict.fromkeys(range(arguments.partitions), len(entries))
            found = Rebuilder(spark.session, LogPlace(bootstrap_servers=bootstrap, topic=topic)).rebuild(ends)
            done_s = time.perf_counter()
    batches = sum(one.batches for one in found.values())
    faults = [one.fault for one in found.values() if one.fault]
    print(f"Spark started in {started_s - start_s:.1f} s; {batches} batches verified in {done_s - started_s:.1f} s")
    agree = {one.digest for one in found.values()} == {_digest(entries)}
    print(f"in all {done_s - start_s:.1f} s, {batches / (done_s - started_s):,.0f} batches/s; digests agree: {agree} {' '.join(faults)}")


if __name__ == "__main__":
    main()
