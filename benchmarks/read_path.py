"""The cost of a read for a coordinator, from the bytes of a connection to the bytes of its answer, without sockets and Kafka.

    python -m benchmarks.read_path [--batches N] [--shape PARTITIONSxIN_FLIGHT ...] [--read WHAT] [--profile]

The node, log and reads are those of `benchmarks.request_path` and `benchmarks.reads`: `IN_FLIGHT` requests arrive in each
round of one connection. CPU microseconds of the event loop's thread per partition asked for and per request, medians of
the runs; the entry that proves leadership to a strict read is written, acknowledged and read back as in a node.
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
from pathlib import Path
from typing import cast

import uvloop

from benchmarks.profiling import profiled
from benchmarks.reads import FIND_ONE, LIST, READS, Filled, Kind, made_files
from benchmarks.request_path import TOPIC_ID, Bench, Wire
from coordinator.adapters.server.connection import Connection
from coordinator.app.process.garbage import settle_garbage_collector
from coordinator.kafka.batches import partition_key
from coordinator.protocol.framing import FrameReader, reply_body, request_frame

PARTITIONS = 100
SHAPES = ((1, 1), (10, 1), (100, 1), (1, 16), (10, 16))
REQUESTS_MADE = 200
SECONDS = 0.5


class Answers(Wire):
    """A transport that keeps the last answer and counts them all; see `Wire`."""

    def __init__(self) -> None:
        super().__init__()
        self.last = b""
        self.frames = FrameReader(1 << 30)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Take answers."""
        for frame in self.frames.feed(bytes(data)):
            self.answers += 1
            self.last = frame


class ReadBench(Bench):
    """A node with batches in its state database, and one connection that reads."""

    async def fill(self, batches: int) -> Filled:
        """Commit files, and wait until the state database has them."""
        filled, files = made_files([partition_key(TOPIC_ID, number) for number in range(PARTITIONS)], batches)
        for number, (key, version, body) in enumerate(files):
            self.connections[0].data_received(request_frame(key, version, number, "benchmark", body))
            while self.wires[0].answers <= number:  # noqa: ASYNC110 - the node knows no events
                await asyncio.sleep(0)
        replica = self.node.replicas[0]
        while replica.view is None or replica.writer.written_offset < replica.view.state.applied_offset:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        self.wires[0] = self.answers = Answers()
        self.connections[0].connection_lost(None)
        self.reading = self.connections[0] = Connection(self.server, 99, self.loop)
        self.reading.connection_made(self.answers)
        return filled

    async def read(self, kind: Kind, filled: Filled, seconds: float) -> float:
        """Ask for a while; microseconds of the loop's thread per request."""
        rng = random.Random(3)
        made = [kind.request(filled, rng) for _ in range(REQUESTS_MADE)]
        frames = [request_frame(key, version, 1, "benchmark", body) for key, version, body in made]
        sent = asked = 0
        thread_s, until = time.thread_time(), time.perf_counter() + seconds
        wire = self.answers
        while time.perf_counter() < until:
            data = b"".join([frames[(sent + place) % len(frames)] for place in range(kind.in_flight)])
            sent += kind.in_flight
            asked = wire.answers + kind.in_flight
            self.reading.data_received(data)
            while wire.answers < asked:  # noqa: ASYNC110 - the rounds of the loop are what is measured
                await asyncio.sleep(0)
        cost_us = (time.thread_time() - thread_s) / sent * 1e6
        kind.results(reply_body(wire.last))
        return cost_us


async def measure(shapes: Sequence[tuple[int, int]], reads: Sequence[str], batches: int, runs: int, profile: bool) -> None:
    """Print a line per read and shape."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as writer:
        bench = ReadBench(Path(folder), writer, is_read=True)
        await bench.ready()
        filled = await bench.fill(batches)
        settle_garbage_collector()
        print(f"{'read':>14}{'partitions':>12}{'in flight':>11}{'us/partition':>14}{'us/request':>12}")
        for what in reads:
            for partitions, in_flight in shapes:
                kind = Kind(what=what, partitions=partitions, in_flight=in_flight)
                await bench.read(kind, filled, SECONDS / 5)
                with profiled(profile):
                    cost_us = statistics.median([await bench.read(kind, filled, SECONDS) for _ in range(1 if profile else runs)])
                print(f"{what:>14}{partitions:>12}{in_flight:>11}{cost_us / partitions:>14.1f}{cost_us:>12.1f}", flush=True)
        await bench.node.stop()
        for connection in bench.connections:
            connection.connection_lost(None)
        await bench.server.stop(1_000)


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=200_000)
    parser.add_argument("--shape", action="append", metavar="PARTITIONSxIN_FLIGHT")
    parser.add_argument("--read", action="append", choices=READS)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    shapes: tuple[tuple[int, int], ...] = SHAPES
    if options.shape:
        shapes = tuple(cast(tuple[int, int], tuple(map(int, text.split("x")))) for text in options.shape)
    uvloop.run(measure(shapes, options.read or (LIST, FIND_ONE), options.batches, options.runs, options.profile))


if __name__ == "__main__":
    main()
