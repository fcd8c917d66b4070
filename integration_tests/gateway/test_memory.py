"""The memory of a gateway with 2 000 connections: what writers send while the store hangs, and what readers do not take."""

from __future__ import annotations

import asyncio
import resource
import socket
import struct
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Final, Self

import pytest

from cli.dev.gateway import GatewayProcess
from cli.dev.kafka import BrokerRuntime
from coordinator.protocol.framing import request_frame
from gateway.kafka_apis import KafkaApi
from integration_tests.gateway import samples
from integration_tests.gateway.failing_s3 import FailingS3, Fault
from integration_tests.gateway.test_produce import Written, producer
from integration_tests.gateway.world import World
from integration_tests.honest_work import rss_mb
from integration_tests.s3 import RealS3, find_gateway
from integration_tests.service import Service
from records.record_batch import Record, encode_batch
from tests.gateway.produce.kio_produce import decode_answer, encode_request

pytestmark = [pytest.mark.measured, pytest.mark.timeout(900)]

CONNECTIONS: Final = 2_000
MEMORY_MB: Final = 256
OVER_MB: Final = 150
"""What a process may have beside `gateway.memory.bytes`."""
PRODUCE_VERSION: Final = 9
PARTITIONS: Final = 8
FILES_NEEDED: Final = CONNECTIONS + 1_000


@pytest.fixture(scope="module", autouse=True)
def open_files() -> Iterator[None]:
    """Let this process, and the gateway that it starts, open enough files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 3 * CONNECTIONS:
        pytest.fail(f"the machine allows {hard} open files, {3 * CONNECTIONS} are needed: raise `ulimit -Hn`")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 3 * CONNECTIONS), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class FaultyWorld(World):
    """A world of two nodes over an S3, which gateways reach through a proxy that fails as it is told."""

    def __init__(self, folder: Path, runtime: BrokerRuntime, **settings: str) -> None:
        """`settings` are those of its gateway."""
        super().__init__(folder, runtime)
        self._settings = settings
        self.s3 = RealS3(find_gateway(), folder)

    def __enter__(self) -> Self:
        self.kafka.start()
        self.s3.__enter__()
        self.failing = FailingS3(self.s3)
        self.failing.__enter__()
        self.options = {f"object.store.option.{name.replace('_', '.')}": value for name, value in self.s3.options().items()}
        properties = {"object.store.url": self.s3.url("service"), **self.options}
        self.service = Service(self.kafka.bootstrap, self.folder / "nodes", partitions=4, properties=properties)
        self.service.start(2)
        self.start(1001, **{**self.options, "object.store.option.endpoint": self.failing.endpoint, **self._settings})
        return self

    def __exit__(self, *raised: object) -> None:
        super().__exit__(None, None, None)
        self.failing.__exit__(*raised)
        self.s3.__exit__(*raised)


@pytest.fixture
def world(open_files: None, broker_runtime: BrokerRuntime, tmp_path: Path) -> Iterator[FaultyWorld]:
    with FaultyWorld(tmp_path, broker_runtime, gateway_memory_bytes=str(MEMORY_MB * 1024 * 1024)) as made:
        yield made


class Rss:
    """The memory of a gateway over time."""

    def __init__(self, gateway: GatewayProcess, name: str) -> None:
        self._pid = gateway.pid
        self._name = name
        self._began_s = time.monotonic()
        self.seen: list[tuple[float, float]] = []

    async def follow(self) -> None:
        """Look once a second, until cancelled."""
        while True:
            self.seen.append((time.monotonic() - self._began_s, rss_mb(self._pid)))
            await asyncio.sleep(1)

    @property
    def highest_mb(self) -> float:
        return max(size for _, size in self.seen)

    def tell(self) -> None:
        """Print it, at most twenty moments of it."""
        shown = self.seen[:: max(1, len(self.seen) // 20)]
        print(f"{self._name}: " + ", ".join(f"{at_s:.0f} s {size:.0f} MB" for at_s, size in shown) + f"; highest {self.highest_mb:.0f} MB")


def produce_frame(topic: str, partition: int, size_bytes: int) -> bytes:
    """A whole Produce request of one record."""
    batch = encode_batch([Record(timestamp_ms=1_700_000_000_000, key=None, value=bytes(size_bytes), headers=())])
    body = encode_request(PRODUCE_VERSION, [(topic, [(partition, batch)])], timeout_ms=300_000)
    return request_frame(KafkaApi.PRODUCE, PRODUCE_VERSION, 1, "memory", body)


def address(gateway: GatewayProcess) -> tuple[str, int]:
    host, _, port = gateway.address.rpartition(":")
    return host, int(port)


async def connect(gateway: GatewayProcess, receive_bytes: int | None = None) -> socket.socket:
    loop, client = asyncio.get_running_loop(), socket.socket()
    client.setblocking(False)
    if receive_bytes is not None:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    await loop.sock_connect(client, address(gateway))
    return client


async def read_answer(client: socket.socket) -> bytes:
    """Return the next answer with its correlation id. Raises ConnectionError."""
    loop, data, wanted = asyncio.get_running_loop(), b"", 4
    while len(data) < wanted:
        piece = await loop.sock_recv(client, wanted - len(data))
        if not piece:
            raise ConnectionResetError("the gateway hung up")
        data += piece
        if len(data) == 4 == wanted:
            wanted += struct.unpack(">i", data)[0]
    return data[4:]


async def write(gateway: GatewayProcess, topic: str, world: FaultyWorld, rss: Rss, hang_s: float) -> list[tuple[int, int, int]]:
    """Send a request by each connection while the store hangs, then let it go on; returns code, partition and offset of each."""
    loop = asyncio.get_running_loop()
    following = loop.create_task(rss.follow())
    frames = [produce_frame(topic, partition, 1_000_000) for partition in range(PARTITIONS)]
    clients = [await connect(gateway) for _ in range(CONNECTIONS)]
    world.failing.faults = [Fault.HANGS]
    sending = [loop.create_task(loop.sock_sendall(client, frames[number % PARTITIONS])) for number, client in enumerate(clients)]
    await asyncio.sleep(hang_s)
    assert world.failing.seen[Fault.HANGS] > 0
    world.failing.faults = [Fault.NONE]

    async def outcome(client: socket.socket, sent: asyncio.Task[None]) -> tuple[int, int, int]:
        await sent
        answer = await read_answer(client)
        [[one]] = decode_answer(PRODUCE_VERSION, answer[5:])[0].values()
        return one.code, one.partition, one.base_offset

    found = await asyncio.gather(*(outcome(client, sent) for client, sent in zip(clients, sending, strict=True)))
    following.cancel()
    for client in clients:
        client.close()
    return found


def test_requests_of_2000_connections_stay_within_memory_while_the_store_hangs(world: FaultyWorld) -> None:
    gateway, topic = world.gateways[1001], "hangs"
    world.create(gateway, topic, PARTITIONS, is_diskless=True)
    rss = Rss(gateway, f"{CONNECTIONS} connections with 1 MB each, {MEMORY_MB} MB of memory")
    try:
        found = asyncio.run(write(gateway, topic, world, rss, hang_s=30))
    finally:
        rss.tell()
    each = CONNECTIONS // PARTITIONS
    assert sorted(found) == [(0, partition, offset) for partition in range(PARTITIONS) for offset in range(each)]
    assert rss.highest_mb < MEMORY_MB + OVER_MB


def test_answers_that_2000_readers_do_not_take_stay_within_memory(world: FaultyWorld) -> None:
    gateway, topic = world.gateways[1001], "deaf"
    world.create(gateway, topic, PARTITIONS, is_diskless=True)
    written, client = Written(), producer(gateway, batch_size="1000000")
    for number in range(8 * PARTITIONS):
        client.produce(topic, b"%d " % number + bytes(900_000), partition=number % PARTITIONS, on_delivery=written)
    assert client.flush(60) == 0
    assert written.errors == []
    rss = Rss(gateway, f"{CONNECTIONS} readers that take nothing, {MEMORY_MB} MB of memory")
    asked = {
        "topic": topic,
        "max_wait": timedelta(milliseconds=500),
        "replica_id": -1,
        "min_bytes": 1,
        "max_bytes": 50_000_000,
        "partition_max_bytes": 10_000_000,
        "current_leader_epoch": -1,
    }
    frames = [samples.frame(KafkaApi.FETCH, 4, 1, {**asked, "partition": partition}) for partition in range(PARTITIONS)]

    async def work() -> None:
        loop = asyncio.get_running_loop()
        following = loop.create_task(rss.follow())
        clients = [await connect(gateway, receive_bytes=4096) for _ in range(CONNECTIONS)]
        for number, one in enumerate(clients):
            await loop.sock_sendall(one, 4 * frames[number % PARTITIONS])
        async with asyncio.timeout(150):
            while not gateway.metric("connections_closed_total", reason="slow_reader"):  # noqa: ASYNC110
                await asyncio.sleep(1)
        following.cancel()
        for one in clients:
            one.close()

    try:
        asyncio.run(work())
    finally:
        rss.tell()
    assert gateway.metric("fetch_bytes_total") > 10_000_000
    assert rss.highest_mb < MEMORY_MB + OVER_MB
