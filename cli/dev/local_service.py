"""Everything `diskless dev up` runs: a Kafka of one broker and some coordinator nodes that share its metadata topic.

`start` brings it up, `look` reports and repairs what died since the last look, `stop` ends it all. Invariants: when
`start` returned, every metadata partition is led by exactly one node; when `stop` returned, no process is left.
A node that ends is started again only after a pause longer than the group's session, so that its fail-over can be watched.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from cli.dev.coordinator import CoordinatorFailedError, CoordinatorProcess
from cli.dev.kafka import KafkaCluster, find_runtime
from cli.dev.ports import lease_ports
from cli.dev.process import end_all_children

KAFKA_PORT = 9092
NODE_PORT = 9192  # node n listens on NODE_PORT + 2 * (n - 1), its HTTP port is the next one
SESSION_TIMEOUT_MS = 6_000  # the lowest that Kafka's own default allows
LOOK_EVERY_S = 0.1
READY_TIMEOUT_S = 60.0
CLEAN_STOP_TIMEOUT_S = 10.0
SOON_S = 30.0
ENDS_SOON_MAX = 3

Say = Callable[[str], None]


class ServiceFailedError(Exception):
    """The service cannot go on; the text says what ended and where its log is."""


@dataclass(slots=True)
class _Watched:
    """A node, and what is known of its ends. `started_s` and `ended_s` are on the monotonic clock."""

    process: CoordinatorProcess
    started_s: float = 0.0
    ended_s: float | None = None
    ends_soon: int = 0
    is_taken_over: bool = False
    is_announced: bool = True


@dataclass(slots=True)
class LocalService:
    """See the module. `folder` gets everything; `clean` says whether Kafka's data will be used again."""

    folder: Path
    nodes: int
    partitions: int
    restart_after_s: float
    clean: bool
    say: Say
    _kafka: KafkaCluster | None = None
    _watched: list[_Watched] = field(default_factory=list)
    _kafka_started_s: float = 0.0
    _kafka_ends_soon: int = 0

    # ---- addresses

    @property
    def kafka(self) -> KafkaCluster:
        """The broker."""
        if self._kafka is None:
            raise ServiceFailedError("Kafka is not started")
        return self._kafka

    @property
    def processes(self) -> list[CoordinatorProcess]:
        """The nodes, in order of their ids."""
        return [one.process for one in self._watched]

    @property
    def addresses(self) -> list[str]:
        """`host:port` of every node."""
        return [process.address for process in self.processes]

    @property
    def objects(self) -> Path:
        """The folder of the object store."""
        return self.folder / "objects"

    # ---- life

    def start(self) -> None:
        """Start all of it, saying each step and how long it took."""
        self._step("Kafka's program (fetched once per machine)", find_runtime)
        self._step("Kafka", self._start_kafka)
        self._step(f"{self.nodes} coordinator nodes", self._start_nodes)
        self._step(f"leaders of {self.partitions} metadata partitions", self._wait_led)

    def stop(self) -> None:
        """End all of it: the nodes cleanly and at once, then Kafka."""
        try:
            running = [process for process in self.processes if _is_running(process)]
            for process in running:
                process.request_stop()
            deadline_s = time.monotonic() + CLEAN_STOP_TIMEOUT_S
            for process in running:
                if not process.wait_ended(max(0.1, deadline_s - time.monotonic())):
                    self.say(
                        f"node {process.node_id} did not stop within {CLEAN_STOP_TIMEOUT_S:g} s and is killed; log: {process.log_file}"
                    )
            for process in self.processes:
                process.close()
            if self._kafka is not None:
                self._kafka.stop(clean=self.clean)
        except TimeoutError as error:
            self.say(f"Kafka did not stop in time and was killed: {error}")
        finally:
            end_all_children()

    def _step(self, what: str, work: Callable[[], object]) -> None:
        start_s = time.monotonic()
        self.say(f"{what} ...")
        work()
        self.say(f"{what}: {time.monotonic() - start_s:.1f} s")

    def _start_kafka(self) -> None:
        leases = lease_ports(1, preferred=[KAFKA_PORT])
        port = leases[0].port
        leases[0].close()  # the cluster takes it itself
        self._kafka = KafkaCluster(1, self.folder / "kafka", ports=[port])
        self._kafka.start()
        self._kafka_started_s = time.monotonic()

    def _start_nodes(self) -> None:
        self.objects.mkdir(exist_ok=True)
        for node_id in range(1, self.nodes + 1):
            port = NODE_PORT + 2 * (node_id - 1)
            process = CoordinatorProcess(
                node_id,
                bootstrap=self.kafka.bootstrap,
                folder=self.folder / f"node-{node_id}",
                ports=[port, port + 1],
                properties={
                    "diskless.metadata.topic.num.partitions": str(self.partitions),
                    "object.store.url": f"file://{self.objects}",
                    "session.timeout.ms": str(SESSION_TIMEOUT_MS),
                },
            )
            watched = _Watched(process)
            self._watched.append(watched)
            self._start_node(watched)
        for process in self.processes:
            process.wait_serving(READY_TIMEOUT_S)

    def _start_node(self, watched: _Watched) -> None:
        watched.process.start()
        watched.started_s, watched.ended_s = time.monotonic(), None

    def _wait_led(self) -> None:
        deadline_s = time.monotonic() + READY_TIMEOUT_S
        while not self._is_led(self.processes, by_all=self.nodes <= self.partitions):
            for process in self.processes:
                if not _is_running(process):
                    raise CoordinatorFailedError(
                        f"node {process.node_id} ended while it started; log: {process.log_file}\n{process.log_tail()}"
                    )
            if time.monotonic() > deadline_s:
                details = [f"node {process.node_id}: {process.readiness()[1]}; log: {process.log_file}" for process in self.processes]
                raise ServiceFailedError("\n".join([f"not every partition has a leader after {READY_TIMEOUT_S:g} s", *details]))
            time.sleep(LOOK_EVERY_S)

    def _is_led(self, processes: list[CoordinatorProcess], *, by_all: bool) -> bool:
        led: list[int] = []
        for process in processes:
            is_ready, detail = process.readiness()
            leading = detail.get("leading")
            if not is_ready or not isinstance(leading, list) or (by_all and not leading):
                return False
            led += leading
        return sorted(led) == list(range(self.partitions))

    # ---- watching

    def look(self) -> None:
        """Report what ended and what came back, and start again what is due. Raises `ServiceFailedError` when that is no use."""
        self._look_at_kafka()
        for watched in self._watched:
            if watched.ended_s is None and not _is_running(watched.process):
                self._note_end(watched)
            elif watched.ended_s is not None:
                self._look_at_ended(watched)
            elif not watched.is_announced and watched.process.readiness()[0]:
                watched.is_announced = True
                took_s = time.monotonic() - watched.started_s
                self.say(f"node {watched.process.node_id} is back (pid {_pid(watched.process)}): ready after {took_s:.1f} s")

    def _look_at_kafka(self) -> None:
        node = self.kafka.node(1)
        if node.pid is not None:
            return
        self.say(f"Kafka ended by itself or was killed; log: {node.log_file}")
        self._kafka_ends_soon = self._kafka_ends_soon + 1 if time.monotonic() - self._kafka_started_s < SOON_S else 1
        if self._kafka_ends_soon >= ENDS_SOON_MAX:
            raise ServiceFailedError(f"Kafka ended {ENDS_SOON_MAX} times soon after its start{node.log_tail()}")
        self._step("Kafka again", lambda: self.kafka.restart(1))
        self._kafka_started_s = time.monotonic()

    def _note_end(self, watched: _Watched) -> None:
        process, now_s = watched.process, time.monotonic()
        watched.ends_soon = watched.ends_soon + 1 if now_s - watched.started_s < SOON_S else 1
        watched.ended_s, watched.is_taken_over, watched.is_announced = now_s, False, False
        if watched.ends_soon >= ENDS_SOON_MAX:
            raise ServiceFailedError(
                f"node {process.node_id} ended {ENDS_SOON_MAX} times soon after its start; log: {process.log_file}\n{process.log_tail()}"
            )
        self.say(
            f"node {process.node_id} {_how_it_ended(process)}; log: {process.log_file}; it is started again in {self.restart_after_s:g} s"
        )

    def _look_at_ended(self, watched: _Watched) -> None:
        assert watched.ended_s is not None
        gone_s = time.monotonic() - watched.ended_s
        others = [one for one in self.processes if one is not watched.process]
        if not watched.is_taken_over and others and self._is_led(others, by_all=False):
            watched.is_taken_over = True
            names = ", ".join(f"node {one.node_id}" for one in others)
            self.say(f"{names} leads all {self.partitions} metadata partitions, {gone_s:.1f} s after node {watched.process.node_id} ended")
        if gone_s >= self.restart_after_s:
            self._start_node(watched)


def _is_running(process: CoordinatorProcess) -> bool:
    return process.process is not None and process.process.is_running()


def _pid(process: CoordinatorProcess) -> int:
    return -1 if process.process is None else process.process.pid


def _how_it_ended(process: CoordinatorProcess) -> str:
    status = None if process.process is None else process.process.exit_status()
    if status is None:
        return "does not run"
    if status < 0:
        return f"was killed by {signal.Signals(-status).name}"
    return f"ended by itself with status {status}"
