"""A gateway beside the brokers behind it: Kafka's own Java tools write and read a diskless topic, and a classic one through the relay.

    python -m benchmarks.gateway [--runs N] [--megabytes N] [--partitions N] [--only NAME]

One broker, one node, one gateway, a local store. Each run writes records of 1 KiB with acks=all to a new diskless topic and to a new
classic one in turn, then reads both: batches of 1 MB (linger 20 ms), and Java's defaults (16 KiB). Medians over the runs: MB/s, their
ratio, and CPU milliseconds of the gateway a MB. Then 50 records/s: from the send to the acknowledgement, and to a reader that follows.
Last, 1 000 consumers without news: the gateway's share of a core.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.bed import broker, say, service, table
from cli.bench.counters import cpu_seconds
from cli.dev.gateway import GatewayProcess
from cli.dev.kafka.prepare import LOCK_FILE
from cli.dev.kafka.runtime import java_command
from cli.java.jars import resolve
from cli.java.java import find_java
from integration_tests.kafka_scripts import TOOLS_LOCK

NODE_ID: Final = 1001
RECORD_BYTES: Final = 1024
MB: Final = 1024 * 1024
SHAPES: Final[Mapping[str, Sequence[str]]] = {
    "1 MB batches": ("batch.size=1000000", "linger.ms=20", "buffer.memory=67108864"),
    "Java's defaults": (),
}
PRODUCED: Final = re.compile(r"([\d.]+) MB/sec\), [\d.]+ ms avg latency, [\d.]+ ms max latency, (\d+) ms 50th")
PACED_S: Final = 10.0
PACE_HZ: Final = 50.0
IDLE_CONSUMERS: Final = 1_000
IDLE_S: Final = 10.0
CONNECTING: Final = 50
"""Consumers that begin side by side."""
CONNECT_TIMEOUT_S: Final = 60.0
TOOL_TIMEOUT_S: Final = 600


class Bed:
    """The processes, and topics by name."""

    def __init__(self, gateway: GatewayProcess, partitions: int) -> None:
        self.gateway = gateway
        self._partitions = partitions
        self._java = java_command(find_java(), [*resolve(LOCK_FILE), *resolve(TOOLS_LOCK)], ("-Xmx512m", "-XX:+UseSerialGC"))

    def topic(self, *, is_diskless: bool, partitions: int | None = None) -> str:
        """Make a topic."""
        name = f"{'diskless' if is_diskless else 'classic'}-{uuid.uuid4().hex[:8]}"
        config = {"diskless.enable": "true"} if is_diskless else {}
        admin = AdminClient({"bootstrap.servers": self.gateway.address})
        admin.create_topics([NewTopic(name, partitions or self._partitions, 1, config=config)])[name].result(60)
        return name

    def run(self, tool: str, *arguments: str) -> tuple[str, float]:
        """Run a tool of Kafka's; what it printed, and the CPU seconds that the gateway took meanwhile."""
        before_s = cpu_seconds(self.gateway.pid)
        command = [*self._java, f"org.apache.kafka.tools.{tool}", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TOOL_TIMEOUT_S, check=True)
        return done.stdout, cpu_seconds(self.gateway.pid) - before_s


def produce(bed: Bed, topic: str, megabytes: int, properties: Sequence[str]) -> tuple[float, float]:
    """Write; MB/s and CPU milliseconds a MB."""
    records = megabytes * MB // RECORD_BYTES
    given = (f"bootstrap.servers={bed.gateway.address}", "acks=all", *properties)
    sizes = ("--num-records", str(records), "--record-size", str(RECORD_BYTES), "--throughput", "-1")
    printed, cpu_s = bed.run("ProducerPerformance", "--topic", topic, *sizes, "--command-property", *given)
    found = PRODUCED.search(printed.splitlines()[-1])
    assert found is not None, printed
    return float(found[1]), 1000 * cpu_s / megabytes


def consume(bed: Bed, topic: str, megabytes: int) -> tuple[float, float]:
    """Read all of it in a group; MB/s of the fetches and CPU milliseconds a MB."""
    records = megabytes * MB // RECORD_BYTES
    where = ("--bootstrap-server", bed.gateway.address, "--topic", topic, "--group", f"g-{topic}")
    printed, cpu_s = bed.run("ConsumerPerformance", *where, "--num-records", str(records), "--timeout", "60000")
    rows = [line.split(", ") for line in printed.splitlines() if line.count(", ") >= 9]
    figures = dict(zip(rows[0], rows[-1], strict=True))
    return float(figures["fetch.MB.sec"]), 1000 * cpu_s / megabytes


def throughput(bed: Bed, shape: str, megabytes: int, runs: int) -> dict[str, object]:
    """Write and read in turn; the row of a shape."""
    figures: dict[tuple[str, bool], list[float]] = {}
    for number in range(runs + 1):
        for is_diskless in (True, False):
            topic = bed.topic(is_diskless=is_diskless)
            written, write_ms = produce(bed, topic, megabytes, SHAPES[shape])
            read, read_ms = consume(bed, topic, megabytes)
            say(f"{shape} {topic} produce {written:.1f} MB/s {write_ms:.1f} ms/MB, consume {read:.1f} MB/s {read_ms:.1f} ms/MB")
            if number:  # the first round is a warm-up
                for name, value in (("produce", written), ("produce_cpu", write_ms), ("consume", read), ("consume_cpu", read_ms)):
                    figures.setdefault((name, is_diskless), []).append(value)
    median = {key: statistics.median(values) for key, values in figures.items()}
    return {
        "shape": shape,
        "produce MB/s": f"{median['produce', True]:.1f}",
        "classic": f"{median['produce', False]:.1f}",
        "ratio": f"{median['produce', True] / median['produce', False]:.2f}",
        "gateway ms/MB": f"{median['produce_cpu', True]:.1f}",
        "consume MB/s": f"{median['consume', True]:.1f}",
        "of classic": f"{median['consume', False]:.1f}",
        "of produce": f"{median['consume', True] / median['produce', True]:.1f}",
        "read ms/MB": f"{median['consume_cpu', True]:.1f}",
    }


def latencies(bed: Bed, *, is_diskless: bool) -> dict[str, object]:
    """Records at a pace, one reader that follows: medians of acknowledgement and arrival in milliseconds."""
    topic = bed.topic(is_diskless=is_diskless, partitions=1)
    consumer = Consumer({"bootstrap.servers": bed.gateway.address, "group.id": "x", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    sent: dict[bytes, float] = {}
    acknowledged: list[float] = []
    arrived: list[float] = []
    ended = threading.Event()

    def age_s(message: Message) -> float:
        return time.perf_counter() - sent[message.value() or b""]

    def follow() -> None:
        while not ended.is_set():
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                arrived.append(age_s(message))

    reader = threading.Thread(target=follow)
    reader.start()
    producer = Producer({"bootstrap.servers": bed.gateway.address, "linger.ms": 0})
    begun_s = time.perf_counter()
    for number in range(int(PACED_S * PACE_HZ)):
        while (now_s := time.perf_counter()) < begun_s + number / PACE_HZ:
            producer.poll(0.001)
        value = str(number).encode()
        sent[value] = now_s
        producer.produce(topic, value, on_delivery=lambda _error, message: acknowledged.append(age_s(message)))
    producer.flush(60)
    ended.wait(1)
    ended.set()
    reader.join()
    consumer.close()
    return {
        "topic": "diskless" if is_diskless else "classic",
        "ack p50 ms": f"{1000 * statistics.median(acknowledged):.1f}",
        "arrival p50 ms": f"{1000 * statistics.median(arrived):.1f}",
    }


def idle(bed: Bed) -> float:
    """The gateway's share of a core under consumers of librdkafka that have nothing to read."""
    topic = bed.topic(is_diskless=True, partitions=20)
    consumers = []
    for number in range(IDLE_CONSUMERS):
        one = Consumer(
            {"bootstrap.servers": bed.gateway.address, "group.id": "idle", "enable.auto.commit": False, "enable.partition.eof": True}
        )
        one.assign([TopicPartition(topic, number % 20, 0)])
        consumers.append(one)
        for waiting in consumers[-CONNECTING:] if len(consumers) % CONNECTING == 0 else ():
            end = waiting.poll(CONNECT_TIMEOUT_S)
            if end is None or end.error() is None or end.error().code() != KafkaError._PARTITION_EOF:
                raise RuntimeError(f"a consumer did not reach the end of its partition in {CONNECT_TIMEOUT_S:g} s")
    time.sleep(IDLE_S)
    before_s, begun_s = cpu_seconds(bed.gateway.pid), time.perf_counter()
    time.sleep(IDLE_S)
    share = (cpu_seconds(bed.gateway.pid) - before_s) / (time.perf_counter() - begun_s)
    for one in consumers:
        one.close()
    return share


def show(rows: Sequence[dict[str, object]]) -> None:
    say(table(rows, list(rows[0])))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--partitions", type=int, default=6)
    parser.add_argument("--only", choices=("throughput", "latency", "idle"))
    given = parser.parse_args()
    with broker() as kafka, service(kafka, metadata_partitions=2) as nodes, tempfile.TemporaryDirectory() as folder:
        gateway = GatewayProcess(
            NODE_ID,
            bootstrap=kafka.bootstrap,
            coordinators=",".join(nodes.addresses),
            folder=Path(folder),
            properties={"object.store.url": nodes.properties["object.store.url"], "metadata.topic": nodes.topic},
        )
        try:
            gateway.start()
            gateway.wait_ready()
            bed = Bed(gateway, given.partitions)
            if given.only in (None, "throughput"):
                show([throughput(bed, shape, given.megabytes, given.runs) for shape in SHAPES])
            if given.only in (None, "latency"):
                show([latencies(bed, is_diskless=one) for one in (True, False)])
            if given.only in (None, "idle"):
                say(f"{IDLE_CONSUMERS} idle consumers: {100 * idle(bed):.1f} % of a core")
        finally:
            gateway.close()


if __name__ == "__main__":
    main()
