"""Sends commits over real sockets and notes how long each took; runs in a process of its own.

Closed loop: `depth` requests in flight on each connection. Open loop: a Poisson process of `rate` requests per second
over all connections, latency counted from the time a request was due, so that a stall is not hidden.
Every result is checked: an error or an unexpected duplicate is counted and reported.

Sockets and epoll without an event loop: those count time in milliseconds, and a request sent half a millisecond late
would be half a millisecond of latency that the service does not have.
"""

from __future__ import annotations

import random
import resource
import select
import ssl
import time
from array import array
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cli.bench.connecting import connect, read_all
from cli.bench.load_loops import plain_results
from cli.bench.percentile import percentile_ms
from cli.bench.workload import Shape, Workload
from coordinator.protocol.commit_file import decode_commit_response
from coordinator.protocol.framing import FrameReader

REPLY_BYTES_MAX = 64 << 20
REPLY_BODY_AT = 5
"""A reply frame: correlation id, empty tag section, body."""
RECEIVE_BYTES = 1 << 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where one connection goes and what it commits to. `properties` secure it, with the names of Kafka's clients."""

    host: str
    port: int
    coordinator_id: int
    partition_keys: list[bytes]
    properties: Mapping[str, str] = field(default_factory=dict)


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
    """Results of the measured window. Latencies in seconds."""

    window_s: float = 0.0
    requests: int = 0
    batches: int = 0
    errors: int = 0
    duplicates: int = 0
    cpu_s: float = 0.0
    latencies_s: array[float] = field(default_factory=lambda: array("d"))

    def percentile_ms(self, share: float) -> float:
        """A percentile of the latencies, in milliseconds."""
        return percentile_ms(self.latencies_s, share)

    def add(self, frame: bytes, took_s: float) -> None:
        """Count an answer."""
        batches = plain_results(memoryview(frame), REPLY_BODY_AT)
        if batches < 0:
            results = decode_commit_response(frame, REPLY_BODY_AT).results
            batches = len(results)
            self.errors += int((results["error_code"] != 0).sum())
            self.duplicates += int(results["is_duplicate"].sum())
        self.requests += 1
        self.batches += batches
        self.latencies_s.append(took_s)


class _Connection:
    """One socket: requests out, whole answers in, in their order. Raises ConnectionError when the node hangs up."""

    def __init__(self, target: Target, workload: Workload, poller: select.epoll) -> None:
        self._workload = workload
        self._frames = FrameReader(REPLY_BYTES_MAX)
        self._due: deque[float] = deque()
        self._correlation_id = 0
        self._ready = b""
        self._unsent = b""
        self._poller = poller
        self._socket = connect(target.host, target.port, target.properties)
        self._socket.setblocking(False)
        self.number = self._socket.fileno()
        poller.register(self.number, select.EPOLLIN)

    def close(self) -> None:
        self._socket.close()

    def prepare(self) -> None:
        """Make the next request before it is due: its making is no latency of the service."""
        if not self._ready:
            self._correlation_id += 1
            self._ready = self._workload.next_frame(self._correlation_id)

    def send(self, due_s: float, count: int = 1) -> None:
        """Send new requests, as much as the socket takes; the rest follows in `write`."""
        frames = []
        for _ in range(count):
            self._due.append(due_s)
            self.prepare()
            frames.append(self._ready)
            self._ready = b""
        data = frames[0] if count == 1 else b"".join(frames)
        if self._unsent:
            self._unsent += data
            return
        self._unsent = data
        self.write()
        if self._unsent:
            self._poller.modify(self.number, select.EPOLLIN | select.EPOLLOUT)

    def write(self) -> None:
        """Go on sending."""
        try:
            sent = self._socket.send(self._unsent)
        except (BlockingIOError, ssl.SSLWantWriteError):
            return
        self._unsent = self._unsent[sent:]

    def on_writable(self) -> None:
        self.write()
        if not self._unsent:
            self._poller.modify(self.number, select.EPOLLIN)

    def receive(self) -> list[tuple[bytes, float]]:
        """The answers that are there, each with the time when its request was due."""
        try:
            data = read_all(self._socket, RECEIVE_BYTES)
        except BlockingIOError:
            return []
        if not data:
            raise ConnectionError("a node closed a connection of the benchmark")
        return [(frame, self._due.popleft()) for frame in self._frames.feed(data)]


class _Run:
    def __init__(self, load: Load) -> None:
        self.load = load
        self.measured = Measured()
        self._poller = select.epoll()
        self._connections: list[_Connection] = []
        for number, target in enumerate(load.targets):
            workload = Workload(load.shape, target.partition_keys, [target.coordinator_id], seed=number + 1, templates=load.templates)
            self._connections.append(_Connection(target, workload, self._poller))
        self._by_number = {connection.number: connection for connection in self._connections}
        self._rng = random.Random(7)
        self._due_s = 0.0
        self._turn = 0
        self._is_measuring = False

    def run(self) -> Measured:
        now_s = time.perf_counter()
        self._due_s = now_s
        if not self.load.rate:
            for connection in self._connections:
                connection.send(now_s, self.load.depth)
        self._pass(now_s + self.load.warm_up_s)
        started_s, cpu_s = time.perf_counter(), _cpu_s()
        self._is_measuring = True
        self._pass(started_s + self.load.window_s)
        self.measured.window_s, self.measured.cpu_s = time.perf_counter() - started_s, _cpu_s() - cpu_s
        return self.measured

    def close(self) -> None:
        for connection in self._connections:
            connection.close()
        self._poller.close()

    def _pass(self, end_s: float) -> None:
        """Send and receive until then."""
        while (now_s := time.perf_counter()) < end_s:
            next_s = end_s
            if self.load.rate:
                self._send_due(now_s)
                next_s = min(self._due_s, end_s)
            # epoll alone waits for whole milliseconds.
            select.select([self._poller], [], [], max(0.0, next_s - time.perf_counter()))
            for number, events in self._poller.poll(0):
                self._serve(self._by_number[number], events)

    def _send_due(self, now_s: float) -> None:
        while self._due_s <= now_s:
            self._connections[self._turn].send(self._due_s)
            self._turn = (self._turn + 1) % len(self._connections)
            self._due_s += self._rng.expovariate(self.load.rate)
        self._connections[self._turn].prepare()

    def _serve(self, connection: _Connection, events: int) -> None:
        if events & select.EPOLLOUT:
            connection.on_writable()
        if not events & ~select.EPOLLOUT:
            return
        answers = connection.receive()
        now_s = time.perf_counter()
        if answers and not self.load.rate:
            connection.send(now_s, len(answers))
        if self._is_measuring:
            for frame, due_s in answers:
                self.measured.add(frame, now_s - due_s)


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def run_load(load: Load) -> Measured:
    """Run a load in this process. Raises ConnectionError when a node hangs up."""
    run = _Run(load)
    try:
        return run.run()
    finally:
        run.close()
