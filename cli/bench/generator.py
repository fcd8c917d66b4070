"""Sends commits over real sockets and notes how long each took; runs in a process of its own.

Closed loop: `depth` requests in flight on each connection. Open loop: a Poisson process of `rate` requests per second
over all connections, latency counted from the time a request was due, so that a stall is not hidden.
Every result is checked: an error or an unexpected duplicate is counted and reported.
"""

from __future__ import annotations

import asyncio
import random
import resource
import time
from array import array
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

from cli.bench.workload import Shape, Workload
from coordinator.protocol.commit_file import decode_commit_response
from coordinator.protocol.framing import FrameReader

REPLY_BYTES_MAX = 64 << 20
REPLY_BODY_AT = 5
"""A reply frame: correlation id, empty tag section, body."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where one connection goes and what it commits to."""

    host: str
    port: int
    coordinator_id: int
    partition_keys: list[bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How to load. `rate` 0 is a closed loop of `depth` requests per connection; `templates` are the different files of each."""

    shape: Shape
    targets: Sequence[Target]
    depth: int = 4
    rate: float = 0.0
    warm_up_s: float = 2.0
    window_s: float = 5.0
    templates: int = 8


@dataclass(slots=True, kw_only=True)
class Measured:
    """What happened inside the window. Latencies in seconds."""

    window_s: float = 0.0
    requests: int = 0
    batches: int = 0
    errors: int = 0
    duplicates: int = 0
    cpu_s: float = 0.0
    latencies_s: array[float] = field(default_factory=lambda: array("d"))

    def percentile_ms(self, share: float) -> float:
        """A percentile of the latencies, in milliseconds."""
        ordered = sorted(self.latencies_s)
        return ordered[int((len(ordered) - 1) * share)] * 1000 if ordered else float("nan")


class _Connection(asyncio.Protocol):
    def __init__(self, run: _Run, workload: Workload) -> None:
        self._run = run
        self._workload = workload
        self._frames = FrameReader(REPLY_BYTES_MAX)
        self._sent: deque[float] = deque()
        self._correlation_id = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def send(self, due_s: float) -> None:
        self._correlation_id += 1
        self._sent.append(due_s)
        self._transport.write(self._workload.next_frame(self._correlation_id))

    def data_received(self, data: bytes) -> None:
        now = self._run.now()
        for frame in self._frames.feed(data):
            sent = self._sent.popleft()
            self._run.answered(self, frame, now - sent, now)

    def connection_lost(self, exc: Exception | None) -> None:
        self._run.lost(exc)


class _Run:
    def __init__(self, load: Load) -> None:
        self._loop = asyncio.get_running_loop()
        self.load = load
        self.measured = Measured()
        # The loop's own clock stands still while it works, and has milliseconds only.
        self.now = time.perf_counter
        self._is_measuring = False
        self._is_over = False
        self._failure: asyncio.Future[None] = self._loop.create_future()

    async def run(self) -> Measured:
        load, loop = self.load, self._loop
        connections: list[_Connection] = []
        for number, target in enumerate(load.targets):
            owners = [target.coordinator_id]
            workload = Workload(load.shape, target.partition_keys, owners, seed=number + 1, templates=load.templates)
            connection = _Connection(self, workload)
            await loop.create_connection(lambda made=connection: made, target.host, target.port)  # type: ignore[misc]
            connections.append(connection)
        if load.rate:
            feeding = loop.create_task(self._feed(connections))
        else:
            feeding = None
            for connection in connections:
                for _ in range(load.depth):
                    connection.send(self.now())
        await self._pass(load.warm_up_s)
        started, cpu = self.now(), _cpu_s()
        self._is_measuring = True
        await self._pass(load.window_s)
        self._is_measuring, self._is_over = False, True
        self.measured.window_s, self.measured.cpu_s = self.now() - started, _cpu_s() - cpu
        if feeding is not None:
            feeding.cancel()
        return self.measured

    async def _pass(self, seconds: float) -> None:
        done, _ = await asyncio.wait([self._failure], timeout=seconds)
        for failure in done:
            failure.result()

    async def _feed(self, connections: list[_Connection]) -> None:
        rng = random.Random(7)
        due = self.now()
        turn = 0
        while True:
            while due <= self.now():
                connections[turn].send(due)
                turn = (turn + 1) % len(connections)
                due += rng.expovariate(self.load.rate)
            await asyncio.sleep(due - self.now())

    def answered(self, connection: _Connection, frame: bytes, took_s: float, now: float) -> None:
        if self._is_measuring:
            results = decode_commit_response(frame, REPLY_BODY_AT).results
            measured = self.measured
            measured.requests += 1
            measured.batches += len(results)
            measured.errors += int((results["error_code"] != 0).sum())
            measured.duplicates += int(results["is_duplicate"].sum())
            measured.latencies_s.append(took_s)
        if not self.load.rate and not self._is_over:
            connection.send(now)

    def lost(self, error: Exception | None) -> None:
        if not self._is_over and not self._failure.done():
            self._failure.set_exception(ConnectionError(f"a node closed a connection of the benchmark: {error}"))


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def run_load(load: Load) -> Measured:
    """Run a load in this process. Raises ConnectionError when a node hangs up."""
    import uvloop

    async def main() -> Measured:
        return await _Run(load).run()

    return uvloop.run(main())
