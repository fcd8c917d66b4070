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

API_VERSIONS, METADATA, UNSUPPORTED_VERSION, UNKNOWN_TOPIC_OR_PARTITION = 18, 3, 35, 3
APIS = ((API_VERSIONS, 0, 0), (METADATA, 0, 4))
DESCRIBES = """
import asyncio, sys
from coordinator.adapters.kafka.cluster import KafkaCluster
from coordinator.runtime.ports import TopicMissing

async def describe():
    cluster = KafkaCluster(bootstrap_servers=sys.argv[1], topic="t", client_id="c")
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

    def handle(self) -> None:
        while len(size := self.rfile.read(4)) == 4:
            request = self.rfile.read(*struct.unpack(">i", size))
            key, version, correlation = struct.unpack_from(">hhi", request)
            answer = struct.pack(">i", correlation) + (self._api_versions(version) if key == API_VERSIONS else self._metadata(request))
            self.wfile.write(struct.pack(">i", len(answer)) + answer)

    def _api_versions(self, version: int) -> bytes:
        error = 0 if version == 0 else UNSUPPORTED_VERSION
        return struct.pack(">hi", error, len(APIS)) + b"".join(struct.pack(">hhh", *api) for api in APIS)

    def _metadata(self, request: bytes) -> bytes:
        body = request[10 + struct.unpack_from(">h", request, 8)[0] :]
        (topics,) = struct.unpack_from(">i", body)
        brokers = b""
        if topics <= 0:
            type(self).asked_for_brokers += 1
        if topics > 0 or type(self).asked_for_brokers == 1:
            host, port = self.server.server_address[:2]
            brokers = struct.pack(">i", 1) + text(str(host)) + struct.pack(">ih", port, -1)
        found = struct.pack(">ii", 0, 1 if brokers else 0) + brokers + text("cluster") + struct.pack(">i", 1)
        unknown = struct.pack(">h", UNKNOWN_TOPIC_OR_PARTITION) + text("t") + struct.pack(">?i", False, 0)
        return found + (struct.pack(">i", 1) + unknown if topics > 0 else struct.pack(">i", 0))


@pytest.fixture
def kafka() -> Iterator[str]:
    """Where it listens."""

    class Own(Broker):
        pass

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Own) as server:
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
