"""A Kafka that lists no broker: what its only broker says of itself for a moment after it stood still, and was missed."""

from __future__ import annotations

import socketserver
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator.adapters.kafka.cluster import KafkaAdmin
from coordinator.runtime.ports import ClusterRefused, KafkaUnavailable

API_VERSIONS, METADATA, CREATE_TOPICS = 18, 3, 19
UNSUPPORTED_VERSION, UNKNOWN_TOPIC_OR_PARTITION, INVALID_REPLICATION_FACTOR = 35, 3, 38
APIS = ((API_VERSIONS, 0, 0), (METADATA, 0, 4), (CREATE_TOPICS, 0, 2))
DESCRIBES = """
import asyncio, sys
from coordinator.adapters.kafka.cluster import KafkaAdmin
from coordinator.runtime.ports import TopicMissing

async def describe():
    cluster = KafkaAdmin(bootstrap_servers=sys.argv[1], topic="t", client_id="c")
    cluster.start()
    try:
        await cluster.describe_topic()
    except TopicMissing:
        print("missing")
    await cluster.close()

asyncio.run(describe())
"""


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


class Broker(socketserver.StreamRequestHandler):
    """Answers just enough: the first question for all brokers with itself, all later ones with none; every topic is unknown."""

    asked_for_brokers = 0
    is_in_service = False
    """It lists itself in every answer."""
    creations = 0

    def handle(self) -> None:
        while len(size := self.rfile.read(4)) == 4:
            request = self.rfile.read(*struct.unpack(">i", size))
            key, version, correlation = struct.unpack_from(">hhi", request)
            answer = struct.pack(">i", correlation) + self._answer(key, version, request)
            self.wfile.write(struct.pack(">i", len(answer)) + answer)

    def _answer(self, key: int, version: int, request: bytes) -> bytes:
        if key == API_VERSIONS:
            return self._api_versions(version)
        return self._create() if key == CREATE_TOPICS else self._metadata(request)

    def _create(self) -> bytes:
        """As a controller that finds no broker for a replica: all are fenced, or they are too few."""
        type(self).creations += 1
        return struct.pack(">ii", 0, 1) + text("t") + struct.pack(">h", INVALID_REPLICATION_FACTOR) + text("no")

    def _api_versions(self, version: int) -> bytes:
        error = 0 if version == 0 else UNSUPPORTED_VERSION
        return struct.pack(">hi", error, len(APIS)) + b"".join(struct.pack(">hhh", *api) for api in APIS)

    def _metadata(self, request: bytes) -> bytes:
        body = request[10 + struct.unpack_from(">h", request, 8)[0] :]
        (topics,) = struct.unpack_from(">i", body)
        brokers = b""
        if topics <= 0:
            type(self).asked_for_brokers += 1
        if topics > 0 or self.is_in_service or type(self).asked_for_brokers == 1:
            host, port = self.request.getsockname()[:2]
            brokers = struct.pack(">i", 1) + text(str(host)) + struct.pack(">ih", port, -1)
        found = struct.pack(">ii", 0, 1 if brokers else 0) + brokers + text("cluster") + struct.pack(">i", 1)
        unknown = struct.pack(">h", UNKNOWN_TOPIC_OR_PARTITION) + text("t") + struct.pack(">?i", False, 0)
        return found + (struct.pack(">i", 1) + unknown if topics > 0 else struct.pack(">i", 0))


@pytest.fixture
def broker() -> type[Broker]:
    """A broker of this test's own."""

    class Own(Broker):
        pass

    return Own


@pytest.fixture
def kafka(broker: type[Broker]) -> Iterator[str]:
    """Where it listens."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), broker) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_describing_the_topic_does_not_end_the_process(kafka: str) -> None:
    """librdkafka's `describe_cluster` does, by an assertion; a process of its own tells that from a failure."""
    here = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", DESCRIBES, kafka], cwd=here, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "missing\n"), done.stderr


async def create(kafka: str) -> None:
    cluster = KafkaAdmin(bootstrap_servers=kafka, topic="t", client_id="c", request_timeout_s=1.0)
    cluster.start()
    try:
        await cluster.create_topic(partitions=1, replication_factor=3, config={})
    finally:
        assert await cluster.close()


async def test_a_replication_factor_is_not_refused_for_good_while_no_broker_is_in_service(kafka: str, broker: type[Broker]) -> None:
    with pytest.raises(KafkaUnavailable) as raised:
        await create(kafka)
    assert not isinstance(raised.value, ClusterRefused)
    assert broker.creations > 0


async def test_a_replication_factor_is_refused_when_brokers_in_service_are_too_few(kafka: str, broker: type[Broker]) -> None:
    broker.is_in_service = True
    with pytest.raises(ClusterRefused):
        await create(kafka)
    assert broker.creations == 2
