"""The chart's gateways run from what Helm renders, and are replaced one after the other under load, as a StatefulSet does it.

Only addresses are changed: all pods share this machine's loopback, where each needs ports of its own.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from cli.dev.kafka import Kafka
from cli.dev.ports import PortLease, lease_block, lease_ports
from cli.dev.process import ChildProcess, start_child
from integration_tests.service import UNDISTURBED, Service
from integration_tests.waiting import wait_until
from tests.helm.chart_tools import find, render
from tests.helm.pods import containers

GATEWAYS: Final = 3
NAME: Final = "diskless-diskless-coordinator-gateway"
PARTITIONS: Final = 6
START_TIMEOUT_S: Final = 120.0
WAIT_S: Final = 90.0

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


class GatewayPods:
    """The gateways of a rendered chart as processes of this machine; what runs at the end is killed."""

    def __init__(self, kafka: Kafka, service: Service, folder: Path) -> None:
        values = {
            "kafka": {"bootstrapServers": [kafka.bootstrap]},
            "objectStore": {"url": "s3://bucket/prefix"},
            "config": {"metadata.topic": service.topic},
            "gateway": {"enabled": True, "replicaCount": GATEWAYS, "config": {"diskless.gateway.group.id": f"gateways-{service.topic}"}},
        }
        self._objects = render(values)
        self.owner: Mapping[str, Any] = find(self._objects, "StatefulSet", NAME)
        self._coordinators, self._store, self._folder = service.addresses[0], service.properties["object.store.url"], folder
        relays = relay_ports_of(self._objects)
        self._blocks = [lease_block(1 + relays) for _ in range(GATEWAYS)]
        self._http = lease_ports(GATEWAYS)
        self._processes: dict[int, ChildProcess] = {}

    def __enter__(self) -> GatewayPods:
        return self

    def start_all(self) -> None:
        for number in range(GATEWAYS):
            self.start(number)
        for number in range(GATEWAYS):
            wait_until(lambda number=number: self.is_ready(number), f"gateway {number}", START_TIMEOUT_S)  # type: ignore[misc]

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            process.kill()
        leases: list[PortLease] = [*self._http, *(lease for block in self._blocks for lease in block)]
        for lease in leases:
            lease.close()

    @property
    def addresses(self) -> str:
        return ",".join(f"127.0.0.1:{block[0].port}" for block in self._blocks)

    def start(self, number: int) -> None:
        container = containers(self._objects, self.owner, {}, self._folder, number)["gateway"]
        address = f"PLAINTEXT://127.0.0.1:{self._blocks[number][0].port}"
        places = {
            "listeners": address,
            "advertised.listeners": address,
            "http.listener": f"http://127.0.0.1:{self._http[number].port}",
            "coordinator.bootstrap.servers": self._coordinators,
            "object.store.url": self._store,
        }
        properties = [word for key, value in places.items() for word in ("--property", f"{key}={value}")]
        ours = ("PATH", "HOME", "JAVA_HOME", "DISKLESS_CACHE_DIR", "LANG")
        environment = {name: os.environ[name] for name in ours if name in os.environ} | dict(container.environment)
        command = [sys.executable, "-m", "cli.program", *container.arguments, *properties]
        self._processes[number] = start_child(command, marker="cli.program", log=self.log(number), environment=environment)

    def log(self, number: int) -> Path:
        return self._folder / f"gateway-{number}.log"

    def is_ready(self, number: int) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._http[number].port}/ready", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            assert self._processes[number].is_running(), self.log(number).read_text()[-3000:]
            return False

    def replace_all(self) -> None:
        """Replace each pod from the last on, when the one before was ready for `minReadySeconds`."""
        spec = self.owner["spec"]
        grace_s = spec["template"]["spec"]["terminationGracePeriodSeconds"]
        for number in reversed(range(GATEWAYS)):
            self._processes[number].send(signal.SIGTERM)
            assert self._processes[number].wait(grace_s) == 0, self.log(number).read_text()
            self.start(number)
            wait_until(lambda number=number: self.is_ready(number), f"gateway {number}", START_TIMEOUT_S)  # type: ignore[misc]
            time.sleep(spec["minReadySeconds"])


def relay_ports_of(objects: Any) -> int:
    """Return how many relay ports each gateway has."""
    service = find(objects, "Service", f"{NAME}-1000")
    return len(service["spec"]["ports"]) - 1


class Load:
    """An idempotent producer, and a reader with a group, of librdkafka's, until the block ends; then the reader reads what is left."""

    def __init__(self, servers: str, topic: str) -> None:
        self._servers, self._topic = servers, topic
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=self._write), threading.Thread(target=self._read)]
        self.sent = 0
        self.errors: list[KafkaError] = []
        self.read: Counter[bytes] = Counter()

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        wait_until(lambda: len(self.read) > 100, "the load", WAIT_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join(2 * WAIT_S)

    def _write(self) -> None:
        client = Producer({"bootstrap.servers": self._servers, "enable.idempotence": True, "linger.ms": 5})
        while not self._is_over.is_set():
            self.sent += 1
            client.produce(self._topic, b"%d" % self.sent, on_delivery=self._delivered)
            client.poll(0.005)
        assert client.flush(WAIT_S) == 0

    def _delivered(self, error: KafkaError | None, _message: object) -> None:
        if error is not None:
            self.errors.append(error)

    def _read(self) -> None:
        client = Consumer({"bootstrap.servers": self._servers, "group.id": "load", "auto.offset.reset": "earliest"})
        client.subscribe([self._topic])
        until_s = None
        while until_s is None or (len(self.read) < self.sent and time.monotonic() < until_s):
            if until_s is None and self._is_over.is_set() and not self._threads[0].is_alive():
                until_s = time.monotonic() + WAIT_S
            message = client.poll(0.5)
            if message is None:
                continue
            error = message.error()
            if error is not None:
                self.errors.append(error)
            else:
                self.read[message.value() or b""] += 1
        client.close()


@pytest.fixture
def pods(kafka: Kafka, tmp_path: Path) -> Iterator[GatewayPods]:
    service = Service(kafka.bootstrap, tmp_path, partitions=4, properties=UNDISTURBED).start(1)
    try:
        with GatewayPods(kafka, service, tmp_path) as running:
            running.start_all()
            yield running
    finally:
        service.stop()


def test_a_rolling_restart_of_gateways_is_seen_by_no_client(pods: GatewayPods) -> None:
    topic = NewTopic(f"rolling-{time.time_ns()}", PARTITIONS, replication_factor=1, config={"diskless.enable": "true"})
    admin = AdminClient({"bootstrap.servers": pods.addresses})
    admin.create_topics([topic])[topic.topic].result(60)
    with Load(pods.addresses, topic.topic) as load:
        pods.replace_all()
    assert load.errors == []
    assert load.read == Counter(b"%d" % number for number in range(1, load.sent + 1)), "every record once"
