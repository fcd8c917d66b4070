"""What a port holds for its clients, and that it is read no faster than the broker behind it, nor the broker faster than the client."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

from coordinator.adapters.kafka.link import UNSENT_BYTES_MAX, BrokerLink
from coordinator.adapters.server.contract import IncomingRequest, Peer
from coordinator.adapters.server.request_memory import RequestMemory
from coordinator.security.client_security import ClientSecurity
from coordinator.security.principal import ANONYMOUS
from gateway.front.port import COUNTED_BYTES, Port
from gateway.kafka_apis import KafkaApi

PEER = Peer(1, "PLAINTEXT", "127.0.0.1:5", ANONYMOUS)
REMAINS_S = 30.0


class Door:
    """Knows nobody's zone."""

    def open_desk(self, host: Any, find_upstream: Any) -> Any:
        return None

    def zone_of(self, client_id: str | None, address: str, listener: str) -> str | None:
        return None

    def came(self, connection_id: int, listener: str) -> None:
        return

    def gone(self, connection_id: int) -> None:
        return


class Host:
    """A client's connection."""

    def __init__(self) -> None:
        self.peer = PEER
        self.is_paused = False

    def pause(self, paused: bool) -> None:
        self.is_paused = paused


class Broker(asyncio.Protocol):
    """A broker that reads when it is told to, and answers nothing."""

    def __init__(self) -> None:
        self.received = 0
        self.is_over = False
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.pause_reading()

    def data_received(self, data: bytes) -> None:
        self.received += len(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_over = True


class Scene:
    """A port with a client before it and a broker behind it."""

    def __init__(self, link: BrokerLink, takers: dict[int, Any] | None = None, counted_by_takers: tuple[int, ...] = ()) -> None:
        self.memory = RequestMemory(1 << 30, waiting_keys=(KafkaApi.PRODUCE,))
        self.port = Port(1, lambda: link, takers or {}, Door(), self.memory, counted_by_takers)
        self.host = Host()
        self.port.open_desk(self.host)  # type: ignore[arg-type]
        self.session = self.port.session(PEER)


def request(key: int, size: int) -> IncomingRequest:
    return IncomingRequest(key, 9, 1, "client", bytes(size), 20, key, 0.0, PEER)


@contextmanager
def a_link(port: int) -> Iterator[BrokerLink]:
    async def place(_unreached: Collection[tuple[str, int]]) -> tuple[str, int]:
        return "127.0.0.1", port

    link = BrokerLink(place, ClientSecurity({}), "test")
    yield link
    link.close()


@asynccontextmanager
async def a_broker() -> AsyncIterator[tuple[Broker, BrokerLink]]:
    """A broker and a connection to it, which is opened by its first request."""
    broker = Broker()
    server = await asyncio.get_running_loop().create_server(lambda: broker, "127.0.0.1", 0)
    with a_link(server.sockets[0].getsockname()[1]) as link:
        yield broker, link
    server.close()
    if broker.transport is not None:
        broker.transport.abort()
        await until(lambda: broker.is_over)


async def until(condition: Any) -> None:
    async with asyncio.timeout(REMAINS_S):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.001)


async def test_a_request_is_counted_until_the_broker_has_answered() -> None:
    with a_link(1) as link:
        scene = Scene(link)
        answers: list[object] = []
        scene.port.handle(request(KafkaApi.PRODUCE, 5_000), answers.append)
        scene.port.handle(request(KafkaApi.METADATA, COUNTED_BYTES - 1), answers.append)
        assert scene.memory.bytes_held == 5_000
        scene.port.gone(PEER)
        assert scene.memory.bytes_held == 5_000, "what a client sent before it hung up is kept until the broker has it"
        link.close()
        assert (scene.memory.bytes_held, answers) == (0, [None, None])


async def test_a_taker_that_counts_its_requests_itself_does_so_alone() -> None:
    class Taker:
        def take(self, _session: object, _request: object, _respond: object) -> None:
            return

    with a_link(1) as link:
        scene = Scene(link, {KafkaApi.PRODUCE: Taker(), KafkaApi.FETCH: Taker()}, (KafkaApi.PRODUCE,))
        scene.port.handle(request(KafkaApi.PRODUCE, 5_000), lambda _body: None)
        assert scene.memory.bytes_held == 0
        scene.port.handle(request(KafkaApi.FETCH, 5_000), lambda _body: None)
        assert scene.memory.bytes_held == 5_000


@pytest.mark.parametrize("is_open", [True, False], ids=["open", "opening"])
async def test_a_client_is_not_read_while_its_broker_takes_nothing(is_open: bool) -> None:
    async with a_broker() as (broker, link):
        scene = Scene(link)
        if is_open:
            link.tell(b"x", lambda: None)
            await until(lambda: broker.transport is not None)
        kept = 0
        taken: list[int] = []
        while not scene.host.is_paused:
            link.tell(bytes(UNSENT_BYTES_MAX), lambda: taken.append(1))
            kept += 1
            await asyncio.sleep(0)
        assert len(taken) < kept, "what is kept is said to be kept"
        await until(lambda: broker.transport is not None)
        assert broker.transport is not None
        broker.transport.resume_reading()
        await until(lambda: not scene.host.is_paused and len(taken) == kept)
        await until(lambda: broker.received >= kept * UNSENT_BYTES_MAX)


async def test_a_broker_is_not_read_while_its_client_takes_nothing() -> None:
    answer = struct.pack(">ii", 1_000_000, 1) + bytes(1_000_000 - 4)
    async with a_broker() as (broker, link):
        scene = Scene(link)
        answers: list[bytes | None] = []
        for _ in range(20):
            link.send(bytes(50), answers.append)
        await until(lambda: broker.transport is not None)
        assert broker.transport is not None
        broker.transport.write(answer)
        await until(lambda: len(answers) == 1)
        scene.port.backed_up(PEER, True)
        for _ in range(19):
            broker.transport.write(answer)
        await asyncio.sleep(0.1)
        assert len(answers) == 1
        assert broker.transport.get_write_buffer_size() > 5_000_000, "the broker keeps what nobody reads"
        scene.port.backed_up(PEER, False)
        await until(lambda: len(answers) == 20)
