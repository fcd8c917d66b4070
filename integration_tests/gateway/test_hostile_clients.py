"""A gateway under attack on its own node's port and on a relay port, while honest clients work: nothing that strangers send harms them.

Each test attacks inside `under_attack`, which holds what must be true of every attack.
"""

from __future__ import annotations

import asyncio
import random
import socket
import struct
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress

import pytest
from confluent_kafka import Consumer, TopicCollection

from cli.dev.gateway import GatewayProcess
from cli.dev.kafka import BrokerRuntime
from coordinator.adapters.kafka.cluster import topic_id_bytes
from coordinator.protocol.framing import request_frame
from gateway.kafka_apis import KafkaApi
from integration_tests.gateway.samples import frame
from integration_tests.gateway.test_produce import Written, producer
from integration_tests.gateway.world import World
from integration_tests.honest_work import LOG_LINES_MAX, RSS_GROWTH_MAX_MB, rss_mb
from integration_tests.hostile import changed, damaged_stream
from integration_tests.waiting import wait_until
from tests.gateway.produce.kio_produce import encode_request

pytestmark = pytest.mark.long
SEED = 34
HONEST, ATTACKED = "honest", "attacked"
LAST = 0x7EEE_EEEE
ANSWER_TIMEOUT_S = 60.0
SETTLE_S = 60.0
UNANSWERED_MAX = 1_000
LOOKED_INTO = (
    KafkaApi.PRODUCE,
    KafkaApi.FETCH,
    KafkaApi.LIST_OFFSETS,
    KafkaApi.METADATA,
    KafkaApi.FIND_COORDINATOR,
    KafkaApi.API_VERSIONS,
    KafkaApi.DELETE_RECORDS,
    KafkaApi.OFFSET_FOR_LEADER_EPOCH,
    KafkaApi.ADD_PARTITIONS_TO_TXN,
    KafkaApi.DESCRIBE_CONFIGS,
    KafkaApi.DESCRIBE_CLUSTER,
)
"""Requests that the gateway itself reads, on one kind of port at least.

Without those that can have a broker make millions of partitions: what is not for the gateway gets there unread, and costs a small broker
all of its memory.
"""


@pytest.fixture(scope="module")
def world(broker_runtime: BrokerRuntime, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with World(tmp_path_factory.mktemp("hostile"), broker_runtime) as made:
        [gateway] = made.start(1001)
        for name in (HONEST, ATTACKED):
            made.create(gateway, name, 2, is_diskless=True)
        yield made


@pytest.fixture
def gateway(world: World) -> GatewayProcess:
    return world.gateways[1001]


@pytest.fixture(params=["own node", "relay port"])
def place(request: pytest.FixtureRequest, gateway: GatewayProcess) -> tuple[str, int]:
    """Where a test attacks."""
    host, _, port = gateway.address.rpartition(":")
    return host, int(port) if request.param == "own node" else gateway.relay_ports[1]


class HonestClients:
    """A producer and a reader of librdkafka's, which work until they are told to end."""

    def __init__(self, gateway: GatewayProcess) -> None:
        self._gateway = gateway
        self._mark = uuid.uuid4().hex[:8].encode()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._work)
        self.written, self.sent = Written(), 0
        self.read: list[bytes] = []

    def __enter__(self) -> HonestClients:
        self._thread.start()
        wait_until(lambda: len(self.written.offsets) > 10, "honest clients to work")
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join(3 * SETTLE_S)

    def _work(self) -> None:
        client = producer(self._gateway, enable_idempotence="true", linger_ms="5")
        reader = Consumer({"bootstrap.servers": self._gateway.address, "group.id": str(uuid.uuid4()), "auto.offset.reset": "earliest"})
        reader.subscribe([HONEST])
        until = None
        while until is None or (len(self.read) < self.sent and time.monotonic() < until):
            if until is None:
                # While there are earlier records to read, this turns thousands of times a second: faster than they are acknowledged.
                if len(client) < UNANSWERED_MAX:
                    self.sent += 1
                    client.produce(HONEST, b"%s %d" % (self._mark, self.sent), on_delivery=self.written)
                client.poll(0)
                if self._is_over.is_set():
                    client.flush(SETTLE_S)
                    until = time.monotonic() + SETTLE_S
            message = reader.poll(0.02)
            if message is not None and message.error() is None and (message.value() or b"").startswith(self._mark):
                self.read.append(message.value() or b"")
        reader.close()

    def check(self) -> None:
        assert self.written.errors == []
        assert len(self.written.offsets) == self.sent
        assert sorted(self.read) == sorted(self.written.offsets)


@contextmanager
def under_attack(gateway: GatewayProcess) -> Iterator[None]:
    """Honest clients see no error and miss nothing; memory and log grow by little; the gateway serves, and no part of it broke."""
    with HonestClients(gateway) as honest:
        lines_before, rss_before = gateway.log_text().count("\n"), rss_mb(gateway.pid)
        yield
        rss_after, lines_after = rss_mb(gateway.pid), gateway.log_text().count("\n")
    honest.check()
    assert rss_after - rss_before < RSS_GROWTH_MAX_MB
    assert lines_after - lines_before < LOG_LINES_MAX, gateway.log_tail(40)
    assert "Traceback" not in gateway.log_text(), gateway.log_tail(80)
    assert gateway.readiness()[0]


async def answered(place: tuple[str, int], frames: list[bytes]) -> bool:
    """Send requests and one that is right behind them; True once that one is answered, or the gateway hung up."""
    reader, writer = await asyncio.open_connection(*place)
    try:
        writer.write(b"".join([*frames, request_frame(KafkaApi.API_VERSIONS, 0, LAST, "x", b"", flexible=False)]))
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            while True:
                answer = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                if struct.unpack_from(">i", answer)[0] == LAST:
                    return True
    except (ConnectionError, asyncio.IncompleteReadError):
        return True
    except TimeoutError:
        return False
    finally:
        writer.close()


async def all_answered(place: tuple[str, int], streams: list[list[bytes]]) -> list[list[bytes]]:
    """Send each list of frames by a connection of its own; returns those without an answer."""
    gate = asyncio.Semaphore(20)

    async def one(frames: list[bytes]) -> bool:
        async with gate:
            return await answered(place, frames)

    found = await asyncio.gather(*(one(frames) for frames in streams))
    return [frames for frames, is_answered in zip(streams, found, strict=True) if not is_answered]


def test_damaged_frames_and_noise_end_only_their_own_connection(gateway: GatewayProcess, place: tuple[str, int]) -> None:
    rng, count = random.Random(SEED), 600

    async def one(gate: asyncio.Semaphore, data: bytes, abort: bool) -> None:
        async with gate:
            reader, writer = await asyncio.open_connection(*place)
            writer.write(data)
            if abort:
                writer.transport.abort()
                return
            with suppress(TimeoutError, ConnectionError):
                async with asyncio.timeout(0.1):
                    while await reader.read(1 << 16):
                        pass
            writer.close()

    async def attack() -> None:
        gate = asyncio.Semaphore(50)
        await asyncio.gather(*(one(gate, damaged_stream(rng), rng.random() < 0.3) for _ in range(count)))

    with under_attack(gateway):
        asyncio.run(attack())


def test_changed_requests_are_answered_or_end_their_connection(gateway: GatewayProcess, place: tuple[str, int]) -> None:
    rng = random.Random(SEED)
    admin = World.admin(gateway)  # kept until the answer is there
    described = admin.describe_topics(TopicCollection([ATTACKED]))[ATTACKED].result(30)
    topic_id = uuid.UUID(bytes=topic_id_bytes(described.topic_id))
    known: Mapping[str, object] = {
        **dict.fromkeys(("name", "topic", "resource_name", "topic_names"), ATTACKED),
        "topic_id": topic_id,
        "timeout": None,
        "transactional_id": None,
        "max_bytes": 1_000_000,
        "partition_max_bytes": 1_000_000,
        "replica_id": -1,
        "session_epoch": -1,
        "resource_type": 2,
        "count": 2,
    }
    streams = []
    for api in LOOKED_INTO:
        for version in range(api.first, api.last + 1):
            right = frame(api, version, 7, known)
            head = 4 + 8 + 2 + len("samples") + api.is_flexible(version)
            for _ in range(6):
                body = changed(rng, right[head:])
                streams.append([struct.pack(">i", head - 4 + len(body)) + right[4:head] + body])
    rng.shuffle(streams)
    with under_attack(gateway):
        assert asyncio.run(all_answered(place, streams)) == [], "a request was neither answered nor was its connection closed"


def extreme_requests() -> Iterator[bytes]:
    """Requests of numbers, names and tags that only strangers send."""
    huge = b"\xff\xff\xff\xff\x07"  # the largest length of a compact array
    for key, version in ((KafkaApi.PRODUCE, 9), (KafkaApi.FETCH, 12), (KafkaApi.LIST_OFFSETS, 7), (KafkaApi.METADATA, 9)):
        for before in range(0, 40, 3):
            yield request_frame(key, version, 1, "x", bytes(before) + huge + b"\xff" * 200)
            yield request_frame(key, version, 2, "x", b"\1" * before + huge * 30)
    many_tags = b"\x90\x4e" + b"".join(bytes((0x80 | number & 0x7F, number >> 7, 0)) for number in range(128, 10_128))
    yield struct.pack(">ihhih", 10 + len(many_tags) + 1, KafkaApi.METADATA, 9, 3, -1) + many_tags + b"\0"
    tag_without_end = b"\1\0" + huge
    yield struct.pack(">ihhih", 10 + len(tag_without_end), KafkaApi.METADATA, 9, 4, -1) + tag_without_end
    wrong_name = "n\0\0\0\0"
    for version in (5, 9, 12):
        body = encode_request(version, [(wrong_name, [(0, b"\0" * 100)])])
        yield request_frame(
            KafkaApi.PRODUCE, version, 5, "x", body.replace(wrong_name.encode(), b"n\xff\xfe\xc0\x80"), flexible=version >= 9
        )
    yield request_frame(KafkaApi.METADATA, 1, 6, "x", struct.pack(">ih", 1, 3) + b"\xff\xfe\xfd", flexible=False)
    yield request_frame(KafkaApi.METADATA, 1, 6, "x", struct.pack(">i", 2**31 - 1) + b"\0" * 90, flexible=False)
    yield request_frame(KafkaApi.FETCH, 4, 6, "x", struct.pack(">iiiibi", -1, 2**31 - 1, 0, 2**31 - 1, 9, 2**31 - 1), flexible=False)
    yield struct.pack(">ihhih", 12, KafkaApi.METADATA, 1, 7, -2) + b"xx"  # a client id of negative length
    yield struct.pack(">ihhih", 12, KafkaApi.METADATA, 1, 7, 2**15 - 1) + b"xx"


def test_extreme_numbers_names_and_tags_are_answered_or_end_their_connection(gateway: GatewayProcess, place: tuple[str, int]) -> None:
    with under_attack(gateway):
        assert asyncio.run(all_answered(place, [[one] for one in extreme_requests()])) == []


def test_requests_that_never_end_and_clients_that_say_nothing(gateway: GatewayProcess, place: tuple[str, int]) -> None:
    large = 100 * 1024 * 1024
    unfinished = (
        b"",
        b"\0",
        struct.pack(">i", large),
        struct.pack(">ih", large, KafkaApi.PRODUCE) + b"x" * 2_000,
        struct.pack(">ih", large, KafkaApi.FETCH) + b"x" * 2_000,
    )
    with under_attack(gateway), ExitStack() as sockets:
        opened = [sockets.enter_context(socket.create_connection(place, timeout=60)) for _ in range(300)]
        for number, connection in enumerate(opened):
            connection.sendall(unfinished[number % len(unfinished)])
        wait_until(lambda: gateway.metric("connections") >= len(opened), "the gateway to hold all connections")
        for _ in range(20):
            for number, connection in enumerate(opened):
                if number % len(unfinished) >= 2:  # the others would make a frame of no bytes
                    connection.sendall(b"\0")
        for number in range(200):  # a part of a request, and gone without a word
            with socket.create_connection(place, timeout=60) as client:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                client.sendall(unfinished[number % len(unfinished)])


def test_clients_that_never_read_are_not_served_for_ever(gateway: GatewayProcess, place: tuple[str, int]) -> None:
    ask = request_frame(KafkaApi.METADATA, 1, 1, "x", struct.pack(">i", -1), flexible=False)
    with under_attack(gateway), ExitStack() as sockets:
        before = gateway.metric("connection_reading_paused_total")
        for _ in range(10):
            client = sockets.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(place)
            client.setblocking(False)
            with suppress(BlockingIOError):
                while True:
                    client.send(ask * 1_000)
        wait_until(lambda: gateway.metric("connection_reading_paused_total") >= before + 10, "the gateway to stop reading them")
