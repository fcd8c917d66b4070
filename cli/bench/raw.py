"""Raw figures of the same machine: Kafka produce with acks=all, SQLite inserts. Each in a process of its own."""

from __future__ import annotations

import random
import tempfile
import threading
import time
import uuid
from array import array
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import apsw
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from cli.bench.connecting import PLAIN
from cli.bench.failure import MeasuringFailed
from cli.bench.percentile import percentile_ms

SQLITE_TRANSACTION_ROWS = 10_000
TOPIC_TIMEOUT_S = 10


@dataclass(slots=True, kw_only=True)
class RawProduce:
    """Messages acknowledged in the window, and the latencies in seconds from when each was due."""

    messages: int
    window_s: float
    latencies_s: array[float] = field(default_factory=lambda: array("d"))

    def percentile_ms(self, share: float) -> float:
        """A percentile of the latencies, in milliseconds."""
        return percentile_ms(self.latencies_s, share)


def measure_produce(
    bootstrap: str,
    topic: str,
    size_bytes: int,
    *,
    rate: float,
    in_flight: int,
    warm_up_s: float,
    window_s: float,
    properties: Mapping[str, str] = PLAIN,
) -> RawProduce:
    """Produce messages of one size to partition 0 with the settings of a leadership term.

    `rate` messages per second (a Poisson process), or with rate 0 as many as `in_flight` allows. Raises MeasuringFailed.
    """
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 0,
            "message.timeout.ms": 0,
            "compression.type": "none",
            "queue.buffering.max.messages": 200_000,
            # At its end it reports events that are not needed any more.
            "log_level": 4,
            **properties,
        }
    )
    try:
        producer.list_topics(topic, timeout=10)
    except KafkaException as error:
        raise MeasuringFailed(f"raw produce to {topic} failed: {error.args[0].str()}") from error
    measured = RawProduce(messages=0, window_s=window_s)
    slots = threading.Semaphore(in_flight)
    value = random.Random(1).randbytes(size_bytes)
    starts = time.perf_counter() + warm_up_s
    ends = starts + window_s
    failures: list[str] = []

    def report(due: float, error: KafkaError | None, _message: Message) -> None:
        now = time.perf_counter()
        slots.release()
        if error is not None:
            failures.append(str(error))
        elif starts <= now < ends:
            measured.messages += 1
            measured.latencies_s.append(now - due)

    stopped = threading.Event()

    def poll() -> None:
        while not stopped.is_set():
            producer.poll(0.1)

    thread = threading.Thread(target=poll, name="raw-poll")
    thread.start()
    rng = random.Random(7)
    due = time.perf_counter()
    while (now := time.perf_counter()) < ends and not failures:
        if rate and now < due:
            time.sleep(due - now)
            continue
        slots.acquire()
        at = due if rate else now
        producer.produce(topic, value, bytes(20), 0, on_delivery=partial(report, at))
        due += rng.expovariate(rate) if rate else 0.0
    producer.flush(10)
    stopped.set()
    thread.join()
    if failures:
        raise MeasuringFailed(f"raw produce to {topic} failed: {failures[0]}")
    return measured


@contextmanager
def raw_topic(bootstrap: str, properties: Mapping[str, str] = PLAIN) -> Iterator[str]:
    """A topic of one partition for raw produces; deleted afterwards. Raises MeasuringFailed."""
    topic = f"bench-raw-{uuid.uuid4().hex[:12]}"
    try:
        # At its end it reports events that are not needed any more.
        with AdminClient({"bootstrap.servers": bootstrap, "log_level": 4, **properties}) as admin:
            admin.create_topics([NewTopic(topic, 1)])[topic].result(TOPIC_TIMEOUT_S)
            try:
                yield topic
            finally:
                admin.delete_topics([topic])[topic].result(TOPIC_TIMEOUT_S)
    except KafkaException as error:
        raise MeasuringFailed(f"the topic {topic} of raw produces: {error.args[0].str()}") from error
    except TimeoutError as error:
        raise MeasuringFailed(f"the topic {topic} of raw produces: Kafka did not answer within {TOPIC_TIMEOUT_S} s") from error


def open_sqlite(path: Path) -> apsw.Connection:
    """A new database with the settings of the state database and a table of plain rows, one per batch."""
    database = apsw.Connection(str(path))
    database.pragma("page_size", 16384)
    database.pragma("journal_mode", "wal")
    database.pragma("synchronous", "OFF")
    database.execute(
        "CREATE TABLE batch(partition INTEGER, base INTEGER, last INTEGER, file INTEGER, byte_offset INTEGER, size INTEGER,"
        " timestamp INTEGER, PRIMARY KEY(partition, base)) WITHOUT ROWID"
    )
    return database


def fill_sqlite(database: apsw.Connection, rows: int, partitions: int = 100) -> None:
    """Insert batches of 10 records, in order, partition after partition."""
    for first in range(0, rows, SQLITE_TRANSACTION_ROWS):
        with database:
            block = range(first, min(rows, first + SQLITE_TRANSACTION_ROWS))
            places = ((n % partitions, n // partitions * 10, n) for n in block)
            values = ((p, base, base + 9, n // 100, n * 7, 4096, 1_760_000_000_000 + n) for p, base, n in places)
            database.executemany("INSERT INTO batch VALUES(?,?,?,?,?,?,?)", values)


def measure_sqlite(rows: int) -> float:
    """Insert plain rows, one per batch, with the settings of the state database; returns rows per second."""
    with tempfile.TemporaryDirectory() as folder:
        database = open_sqlite(Path(folder) / "raw.db")
        started = time.perf_counter()
        fill_sqlite(database, rows)
        seconds = time.perf_counter() - started
        database.close()
    return rows / seconds
