"""The cost of a commit for a coordinator, from the bytes of a connection to the bytes of its answer, without sockets and Kafka.

    python -m benchmarks.request_path [--shape BATCHESxFILES ...] [--profile] [--no-read-back]

A whole node on the loop of this process: connection, dispatcher, router, replica, core, SQLite. Its log is a list that
acknowledges in the next round of the loop and hands the entries back, as the node reads them. `FILES` requests arrive in
each round. CPU microseconds per batch and per file, medians of the runs: of the event loop's thread, and of all others
(the state database).
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import uvloop

from benchmarks.profiling import profiled
from cli.bench.workload import Shape, Workload
from coordinator.adapters.metrics.registry import Metrics
from coordinator.adapters.server.connection import Connection
from coordinator.adapters.server.contract import ServerLimits
from coordinator.adapters.server.server import Server
from coordinator.adapters.sqlite.stores import StateDatabases
from coordinator.app.process.garbage import settle_garbage_collector
from coordinator.app.requests.dispatch import Dispatcher
from coordinator.app.telemetry import MetricsTelemetry
from coordinator.core.log_entry import size_of
from coordinator.kafka.batches import partition_key
from coordinator.operations.table import ApiTable
from coordinator.operations.topics import wanted_topics
from coordinator.protocol.commit_file import decode_commit_response
from coordinator.protocol.framing import FrameReader
from coordinator.protocol.messages import CreatablePartitions, CreatePartitionsRequest
from coordinator.runtime.directories.port import OpenDirectories
from coordinator.runtime.failures import FatalError
from coordinator.runtime.node.clock import wall_ms
from coordinator.runtime.node.config import NodePorts
from coordinator.runtime.node.node import Node
from coordinator.runtime.ports import LogEntry, LogListener, LogReader, Report
from coordinator.security.acls import Everything
from simulation.fakes.directories import FakeDirectory
from simulation.fakes.kafka import FakeKafka
from tests.runtime.nodes import NO_PEERS, node_config

PARTITIONS = 100
CONNECTIONS = 16
TOPIC_ID = bytes(range(16))
SHAPES = ((10, 1), (10, 10), (10, 64), (100, 1), (100, 10), (100, 40), (1000, 1), (1000, 5))
"""(batches per file, files that arrive together)."""


class Log:
    """Reader and producers in one: produced entries are acknowledged and read in the next rounds of the loop."""

    is_spare_ready = True

    def __init__(self, loop: asyncio.AbstractEventLoop, is_read: bool) -> None:
        self.loop = loop
        self.is_read = is_read
        self.listener: LogListener | None = None
        self.generations: dict[int, int] = {}
        self.logs: dict[int, list[LogEntry]] = {}

    def open_reader(self, listener: LogListener) -> LogReader:
        """Return the log itself, which is the reader, too."""
        self.listener = listener
        return self

    def follow(self, partition: int, next_offset: int, generation: int, last_hash: bytes | None = None) -> None:
        """Hand over the entries that are there."""
        self.generations[partition] = generation
        entries = self.logs.get(partition, [])[next_offset:]
        if entries:
            self.loop.call_soon(self.hand_over, partition, generation, entries)

    def unfollow(self, partition: int) -> None:
        """Stop reading."""
        self.generations.pop(partition, None)

    def hurry(self, partition: int, is_urgent: bool) -> None:
        """Do nothing: entries are always handed over at once."""

    def deliver(self) -> None:
        """Do nothing: no entries wait."""

    def hand_over(self, partition: int, generation: int, entries: Sequence[LogEntry]) -> None:
        """Give entries to the listener."""
        if self.listener is not None and self.generations.get(partition) == generation:
            self.listener.on_entries(partition, generation, entries, size_of(entries))

    def start(self) -> None:
        """Do nothing: there is no thread to start."""

    def open(self, partition: int, on_reports: object) -> LogProducer:
        """A producer of one term."""
        return LogProducer(self, partition, on_reports)


class LogProducer:
    """Appends to the list."""

    def __init__(self, log: Log, partition: int, on_reports: object) -> None:
        self._log = log
        self._partition = partition
        self._on_reports = on_reports
        self._entries = log.logs.setdefault(partition, [])
        self._first = len(self._entries)

    def produce(self, entries: Sequence[tuple[int, bytes, bytes]]) -> None:
        """Append entries, acknowledge them, and have them read."""
        log, at = self._log, len(self._entries)
        now_ms = time.time_ns() // 1_000_000
        new = [LogEntry(at + place, now_ms, key, value) for place, (_, key, value) in enumerate(entries)]
        is_claim = not entries[0][0]
        self._entries += new if log.is_read or is_claim else [LogEntry(entry.offset, now_ms, b"", b"") for entry in new]
        log.loop.call_soon(self._on_reports, [Report(entries[-1][0], at + len(entries) - 1, None, len(entries))])
        if log.is_read or is_claim:
            log.loop.call_soon(log.hand_over, self._partition, log.generations.get(self._partition, -1), new)

    def abandon(self) -> None:
        """Do nothing: there is no connection to end."""


class Wire(asyncio.Transport):
    """The other end of a connection: counts answers."""

    def __init__(self) -> None:
        super().__init__()
        self.frames = FrameReader(1 << 30)
        self.batches = 0
        self.answers = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Take answers; none may be an error."""
        for frame in self.frames.feed(bytes(data)):
            results = decode_commit_response(frame, 5).results
            if results["error_code"].any():
                raise AssertionError(f"a commit was refused: {results['error_code'].tolist()}")
            self.answers += 1
            self.batches += len(results)

    def get_write_buffer_size(self) -> int:
        """Tell that no bytes wait: all are sent at once."""
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Ignore limits."""

    def is_closing(self) -> bool:
        """Tell that the connection is open."""
        return False

    def pause_reading(self) -> None:
        """Do nothing; never called, since the bench waits for its answers."""

    def resume_reading(self) -> None:
        """See `pause_reading`."""

    def close(self) -> None:
        """Do nothing: the bench is over, or answers stay out after an error."""

    def abort(self) -> None:
        """See `close`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """CPU microseconds per batch: the loop's thread, and all the others."""

    loop_us: float
    others_us: float


class Bench:
    """One node and its connections."""

    def __init__(self, folder: Path, writer: ThreadPoolExecutor, *, is_read: bool) -> None:
        self.loop = asyncio.get_running_loop()
        kafka = FakeKafka(loop=self.loop, rng=random.Random(2), partitions=1, topic_exists=True)
        fake, self.log = kafka.node("1"), Log(self.loop, is_read)
        metrics = Metrics()
        self.node = Node(
            config=node_config(
                kafka,
                topic_partitions=1,
                topic_auto_create=False,
                flush_interval_ms=500,
                flush_batches_max=50_000,
                flush_backlog_max=5_000_000,
                topic_check_interval_ms=60_000,
            ),
            ports=NodePorts(
                cluster=fake.cluster,
                membership=fake.membership,
                open_reader=self.log.open_reader,
                open_producers=lambda _size: self.log,
                open_directories=lambda _cluster_id: OpenDirectories([FakeDirectory(StateDatabases(folder), folder / "snapshots")]),
                peers=NO_PEERS,
                writer=writer,
                background=writer,
                telemetry=MetricsTelemetry(metrics),
            ),
            clock_ms=wall_ms,
            wall_ms=wall_ms,
            rng=random.Random(1),
            on_fatal=self._on_fatal,
        )
        self.server = Server(Dispatcher(self.node, metrics, Everything()), ApiTable(), listener="PLAINTEXT", limits=ServerLimits())
        self.wires: list[Wire] = []
        self.connections: list[Connection] = []
        self.fatal: FatalError | None = None
        self.node.start()

    def _on_fatal(self, error: FatalError) -> None:
        self.fatal = error

    async def ready(self) -> None:
        """Lead, and have a topic."""
        while not self.node.replicas.led():
            if self.fatal is not None:
                raise self.fatal
            await asyncio.sleep(0.005)
        await self.server.start("127.0.0.1", 0)
        wanted = CreatePartitionsRequest(
            topics=(CreatablePartitions(topic_id=TOPIC_ID, name="bench", num_partitions=PARTITIONS),), timeout_ms=5_000
        )
        outcomes = await self.node.directory.create_topics(wanted_topics(wanted), 5_000)
        if int(outcomes[0].error):
            raise AssertionError(outcomes[0].message)
        for number in range(CONNECTIONS):
            wire, connection = Wire(), Connection(self.server, number, self.loop)
            connection.connection_made(wire)
            self.wires.append(wire)
            self.connections.append(connection)

    async def run(self, workloads: Sequence[Workload], files: int, rounds: int) -> Cost:
        """Send `files` requests, wait for their answers, and again. The requests are made before the clock starts."""
        made = [[[] for _ in self.connections] for _ in range(rounds)]
        for sent in made:
            for number in range(files):
                at = number % CONNECTIONS
                sent[at].append(workloads[at].next_frame(number))
        before = sum(wire.batches for wire in self.wires)
        cpu, thread = time.process_time(), time.thread_time()
        answers = sum(wire.answers for wire in self.wires)
        for sent in made:
            for connection, frames in zip(self.connections, sent, strict=True):
                if frames:
                    connection.data_received(b"".join(frames))
            answers += files
            while sum(wire.answers for wire in self.wires) < answers:  # noqa: ASYNC110 - the rounds of the loop are what is measured
                await asyncio.sleep(0)
        thread, cpu = time.thread_time() - thread, time.process_time() - cpu
        batches = sum(wire.batches for wire in self.wires) - before
        return Cost(loop_us=thread / batches * 1e6, others_us=(cpu - thread) / batches * 1e6)


async def measure(shapes: Sequence[tuple[int, int]], runs: int, is_read: bool, profile: bool) -> None:
    """Print a line per shape."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as writer:
        bench = Bench(Path(folder), writer, is_read=is_read)
        await bench.ready()
        settle_garbage_collector()
        keys = [partition_key(TOPIC_ID, number) for number in range(PARTITIONS)]
        print(f"{'batches':>8}{'files':>6}{'loop us/batch':>15}{'others':>8}{'loop us/file':>14}")
        for batches, files in shapes:
            workloads = [Workload(Shape(batches_per_file=batches, partitions=PARTITIONS), keys, [0], seed=n) for n in range(CONNECTIONS)]
            rounds = max(3, 100_000 // (batches * files)) if batches * files > 200 else 200
            await bench.run(workloads, files, max(2, rounds // 10))
            with profiled(profile):
                costs = [await bench.run(workloads, files, rounds) for _ in range(1 if profile else runs)]
            loop_us = statistics.median(cost.loop_us for cost in costs)
            others_us = statistics.median(cost.others_us for cost in costs)
            print(f"{batches:>8}{files:>6}{loop_us:>15.2f}{others_us:>8.2f}{loop_us * batches:>14.1f}", flush=True)
        await bench.node.stop()
        for connection in bench.connections:
            connection.connection_lost(None)
        await bench.server.stop(1_000)


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", action="append", metavar="BATCHESxFILES")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--no-read-back", action="store_true")
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    shapes: tuple[tuple[int, int], ...] = SHAPES
    if options.shape:
        shapes = tuple(cast(tuple[int, int], tuple(map(int, text.split("x")))) for text in options.shape)
    uvloop.run(measure(shapes, options.runs, not options.no_read_back, options.profile))


if __name__ == "__main__":
    main()
