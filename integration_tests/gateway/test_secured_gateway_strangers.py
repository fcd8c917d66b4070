"""Strangers at a gateway with logins: nothing is served before the cluster has let a client in, and nobody is kept out by them."""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

import pytest
from confluent_kafka.admin import AdminClient

from cli.dev.gateway import GatewayProcess
from cli.dev.kafka import BrokerRuntime
from coordinator.protocol.api_keys import ApiKey
from coordinator.protocol.framing import request_frame
from coordinator.security.scram import ScramClient
from gateway.kafka_apis import KafkaApi
from integration_tests.gateway.secured import PASSWORDS, SecuredGateway
from integration_tests.strangers import authenticate, client_hello, exchange, handshake, log_in, opened, read_frame, read_to_end
from integration_tests.waiting import WAIT_S, wait_until

SCRAM: Final = "SCRAM-SHA-512"
FRAME_MAX: Final = 16 * 1024
LOGIN_TIMEOUT_MS: Final = 2_000
WAITING_MAX: Final = 60
BEFORE_LOGIN: Final = {int(ApiKey.SASL_HANDSHAKE), int(ApiKey.API_VERSIONS), int(ApiKey.SASL_AUTHENTICATE)}
ASKED: Final = 0x5EC4E7
"""The correlation id of what must not be answered."""
KEYS: Final = (-1, *range(128), 10_095, 32_767)


@pytest.fixture(scope="module")
def world(broker_runtime: BrokerRuntime, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredGateway]:
    """The gateway that all tests attack, one after the other."""
    with SecuredGateway(
        tmp_path_factory.mktemp("strangers"),
        broker_runtime,
        sasl_server_max_receive_size=str(FRAME_MAX),
        connection_login_timeout_ms=str(LOGIN_TIMEOUT_MS),
        connections_unauthenticated_max=str(WAITING_MAX),
    ) as made:
        yield made


def place(gateway: GatewayProcess) -> tuple[str, int]:
    host, _, port = gateway.address.rpartition(":")
    return host, int(port)


def places(world: SecuredGateway) -> Sequence[tuple[str, int]]:
    """The ports of the gateway's own node, and of the relay of the only broker."""
    brokers = AdminClient(world.client("alice")).list_topics(timeout=WAIT_S).brokers.values()
    return [(one.host, one.port) for one in brokers]


def served(gateway: GatewayProcess) -> float:
    """How many requests were served that are not of a login."""
    return gateway.metric("requests_total") - sum(gateway.metric("requests_total", api=KafkaApi(key).text) for key in BEFORE_LOGIN)


def closed(gateway: GatewayProcess, reason: str) -> float:
    return gateway.metric("connections_closed_total", reason=reason)


def is_honest_client_served(world: SecuredGateway) -> bool:
    AdminClient(world.client("alice")).list_topics(timeout=WAIT_S)
    return True


def asking(key: int, version: int) -> bytes:
    """A request with a body of zeros, which are fields of any kind."""
    return struct.pack(">ihhih", 8 + 2 + 1 + 60, key, version, ASKED, -1) + bytes(61)


def versions_of(key: int) -> Sequence[int]:
    if key not in set(KafkaApi):
        return (0,)
    api = KafkaApi(key)
    return tuple(sorted({0, api.first, api.last, api.last + 1}))


async def is_refused(address: tuple[str, int], world: SecuredGateway, frames: Sequence[bytes], last: bytes) -> None:
    """Send frames that are answered, and one that must not be."""
    async with opened(*address, world.ca.ca_file) as (reader, writer):
        for frame in frames:
            writer.write(frame)
            await read_frame(reader)
        writer.write(last)
        rest = await read_to_end(reader)
        assert struct.pack(">i", ASKED) not in rest, f"{last[:12].hex()} was answered after {len(frames)} messages: {rest.hex()}"


async def in_turn(works: Sequence[tuple[tuple[str, int], Sequence[bytes], bytes]], world: SecuredGateway) -> None:
    """A few at a time: more than may wait without a login would turn each other out."""
    turns = asyncio.Semaphore(WAITING_MAX // 4)

    async def one(address: tuple[str, int], frames: Sequence[bytes], last: bytes) -> None:
        async with turns:
            await is_refused(address, world, frames, last)

    async with asyncio.TaskGroup() as group:
        for work in works:
            group.create_task(one(*work))


def test_no_request_of_any_number_is_served_before_a_login(world: SecuredGateway) -> None:
    addresses = places(world)
    assert len(addresses) == 2
    asked = [asking(key, version) for key in KEYS if key not in BEFORE_LOGIN for version in versions_of(key)]
    before = served(world.gateway)
    asyncio.run(in_turn([(address, (), frame) for address in addresses for frame in asked], world))
    assert served(world.gateway) == before


def test_no_request_is_served_in_the_middle_of_a_login(world: SecuredGateway) -> None:
    addresses = places(world)
    first = authenticate(ScramClient(SCRAM, "alice", "unknown").first())
    token = authenticate(b"n,,\x01auth=Bearer not.a.token\x01\x01")
    beginnings = [(handshake(SCRAM),), (handshake(SCRAM), first), (handshake("OAUTHBEARER"), token), (handshake("PLAIN"),)]
    asked = [asking(api, api.last) for api in KafkaApi if api not in BEFORE_LOGIN]
    before = served(world.gateway)
    asyncio.run(in_turn([(address, begun, frame) for address in addresses for begun in beginnings for frame in asked], world))
    assert served(world.gateway) == before


def test_who_stops_before_the_end_of_a_login_is_turned_out(world: SecuredGateway) -> None:
    hello, each = client_hello("127.0.0.1"), 3

    async def stop_in_tls(data: bytes) -> None:
        async with opened(*place(world.gateway)) as (reader, writer):
            writer.write(data)
            await read_to_end(reader)

    async def stop_in_login(*frames: bytes) -> None:
        with suppress(ConnectionError, ssl.SSLError, asyncio.IncompleteReadError):
            async with opened(*place(world.gateway), world.ca.ca_file) as (reader, writer):
                for frame in frames:
                    writer.write(frame)
                    await read_frame(reader)
                assert await read_to_end(reader) == b""

    async def attack() -> None:
        first = authenticate(ScramClient(SCRAM, "alice", "unknown").first())
        async with asyncio.TaskGroup() as group:
            for _ in range(each):
                for data in (b"", hello[:1], hello[: len(hello) // 2], hello):
                    group.create_task(stop_in_tls(data))
                for frames in ((), (handshake(SCRAM),), (handshake(SCRAM), first)):
                    group.create_task(stop_in_login(*frames))

    before = closed(world.gateway, "login_slow")
    asyncio.run(attack())
    assert closed(world.gateway, "login_slow") - before == 7 * each
    assert is_honest_client_served(world)


def test_what_comes_before_a_login_is_small(world: SecuredGateway) -> None:
    async def announce(size: int) -> None:
        async with opened(*place(world.gateway), world.ca.ca_file) as (reader, writer):
            writer.write(struct.pack(">i", size) + bytes(4096))
            assert await read_to_end(reader) == b""

    async def stuff(size: int) -> None:
        async with opened(*place(world.gateway), world.ca.ca_file) as streams:
            assert (await exchange(streams, handshake("PLAIN")))[0] == 0
            assert (await exchange(streams, authenticate(b"\0alice\0" + b"x" * size)))[0] == 58
            assert await read_to_end(streams[0]) == b""

    async def attack() -> None:
        await asyncio.gather(*(announce(size) for size in (FRAME_MAX + 1, 100 * 1024 * 1024, 2**31 - 1, -1)))
        await asyncio.gather(*(stuff(FRAME_MAX - 200) for _ in range(5)))

    malformed, failed = closed(world.gateway, "malformed"), closed(world.gateway, "login_failed")
    asyncio.run(attack())
    assert closed(world.gateway, "malformed") - malformed == 4
    assert closed(world.gateway, "login_failed") - failed == 5
    assert is_honest_client_served(world)


def test_a_crowd_that_says_nothing_keeps_nobody_out(world: SecuredGateway) -> None:
    async def crowd() -> None:
        writers = [(await asyncio.open_connection(*place(world.gateway)))[1] for _ in range(5 * WAITING_MAX)]
        assert await asyncio.to_thread(is_honest_client_served, world)
        for writer in writers:
            writer.transport.abort()

    before = closed(world.gateway, "login_displaced")
    asyncio.run(crowd())
    assert closed(world.gateway, "login_displaced") > before


@pytest.mark.parametrize("mechanism", ["GSSAPI", "SCRAM-SHA-256", "", "AWS_MSK_IAM", "x" * 300])
def test_a_mechanism_that_is_not_offered_is_answered_with_those_that_are(world: SecuredGateway, mechanism: str) -> None:
    async def ask() -> tuple[int, bytes]:
        async with opened(*place(world.gateway), world.ca.ca_file) as streams:
            answer = await exchange(streams, handshake(mechanism))
            assert await read_to_end(streams[0]) == b""
            return answer

    code, rest = asyncio.run(ask())
    assert code == 33
    assert all(one in rest for one in (b"SCRAM-SHA-512", b"PLAIN", b"OAUTHBEARER"))
    wait_until(lambda: "login failed" in world.gateway.log_text(), "the line of the log")


def test_logins_out_of_turn_let_nobody_in(world: SecuredGateway) -> None:
    plain = authenticate(b"\0alice\0" + PASSWORDS["alice"].encode())

    async def send(*frames: bytes) -> bytes:
        async with opened(*place(world.gateway), world.ca.ca_file) as (reader, writer):
            writer.write(b"".join((*frames, asking(3, 12))))
            return await read_to_end(reader)

    before = served(world.gateway)
    for frames in (
        (plain,),
        (handshake("PLAIN"), handshake("PLAIN"), plain),
        (handshake(SCRAM), plain),
        (handshake("PLAIN", version=0), plain),
        (authenticate(b""), handshake("PLAIN")),
    ):
        assert struct.pack(">i", ASKED) not in asyncio.run(send(*frames))
    assert served(world.gateway) == before


def test_what_was_overheard_of_a_login_lets_nobody_in(world: SecuredGateway) -> None:
    async def attack() -> None:
        async with opened(*place(world.gateway), world.ca.ca_file) as streams:
            first, final, _ = await log_in(streams, SCRAM, "alice", PASSWORDS["alice"])
        async with opened(*place(world.gateway), world.ca.ca_file) as streams:
            assert (await exchange(streams, handshake(SCRAM)))[0] == 0
            assert (await exchange(streams, authenticate(first)))[0] == 0
            assert (await exchange(streams, authenticate(final)))[0] == 58
            assert await read_to_end(streams[0]) == b""

    asyncio.run(attack())


def test_a_login_lets_in_and_requests_behind_it_wait_for_it(world: SecuredGateway) -> None:
    """All in one write: what comes behind the login is served after it, not before and not never."""
    plain = authenticate(b"\0alice\0" + PASSWORDS["alice"].encode())
    body = struct.pack(">i", 0) + b"\0"
    frames = handshake("PLAIN") + plain + request_frame(3, 4, ASKED, "app", body, flexible=False)

    async def send() -> bytes:
        async with opened(*place(world.gateway), world.ca.ca_file) as (reader, writer):
            writer.write(frames)
            for _ in range(2):
                await read_frame(reader)
            return await read_frame(reader)

    assert asyncio.run(send())[:4] == struct.pack(">i", ASKED)
