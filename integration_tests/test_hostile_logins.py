"""One node that wants TLS and a login, under attack before and after the login, while an honest client commits and reads.

Each test attacks inside of `honest_work`, which holds what must be true of every attack.
"""

from __future__ import annotations

import asyncio
import random
import resource
import socket
import ssl
import struct
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from cli.bench.connecting import connect
from cli.dev.coordinator import CoordinatorProcess
from cli.dev.kafka import Kafka
from coordinator.client.routing.connection import ClientConnection, ConnectionLost
from coordinator.protocol.api_keys import ApiKey
from coordinator.protocol.codec import encode
from coordinator.protocol.framing import request_frame
from coordinator.protocol.messages import DescribeTopicsRequest, DescribeTopicsResponse
from coordinator.security.client_security import ClientSecurity
from coordinator.security.scram import ScramClient
from coordinator.security.users_file import credentials_of, write_users
from integration_tests.honest_client import Topic, commit_request, create_topic, find_request
from integration_tests.honest_work import honest_work
from integration_tests.hostile import damaged_stream, requests_of_every_kind
from integration_tests.service import UNDISTURBED, Service
from integration_tests.strangers import ENDS_S, authenticate, client_hello, exchange, handshake, log_in, opened, read_frame, read_to_end
from integration_tests.waiting import wait_until
from simulation.fakes.certificates import Authority

SEED = 17
SCRAM = "SCRAM-SHA-256"
PASSWORDS = {"alice": "the honest one's", "eve": "known, without rights"}
WAITING_MAX = 100
LOGIN_TIMEOUT_MS = 6_000
LOGIN_TRIES = 3
FRAME_MAX = 64 * 1024
CROWD, GREAT_CROWD = 2_000, 10_000
ASK = request_frame(ApiKey.DESCRIBE_TOPICS, 0, 9, "stranger", encode(DescribeTopicsRequest(topics=(), timeout_ms=1_000)))


class Secured(NamedTuple):
    """The node, and what clients need."""

    node: CoordinatorProcess
    ca_file: Path

    @property
    def place(self) -> tuple[str, int]:
        host, _, port = self.node.address.rpartition(":")
        return host, int(port)

    def properties(self) -> Mapping[str, str]:
        """The security of the honest client, alice."""
        return {
            "security.protocol": "SASL_SSL",
            "ssl.truststore.location": str(self.ca_file),
            "sasl.mechanism": SCRAM,
            "sasl.username": "alice",
            "sasl.password": PASSWORDS["alice"],
        }

    async def connect(self) -> ClientConnection:
        """Log in as alice; again where the machine stood still for as long as a login may take."""
        security = ClientSecurity(self.properties())
        for _ in range(LOGIN_TRIES - 1):
            with suppress(ConnectionLost):
                return await ClientConnection.connect(*self.place, client_id="alice", timeout_s=60, security=security)
        return await ClientConnection.connect(*self.place, client_id="alice", timeout_s=60, security=security)

    def closed(self, reason: str) -> float:
        """Connections that the node ended for a reason."""
        return self.node.metric("connections_closed_total", reason=reason)


@pytest.fixture(scope="module", autouse=True)
def open_files() -> Iterator[None]:
    """Let this process, and the node it starts, open as many files as the greatest crowd needs, where the machine allows it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = GREAT_CROWD + 2_000
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted if hard == resource.RLIM_INFINITY else min(hard, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture(scope="module")
def secured(kafka: Kafka, open_files: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """The node that is attacked by all tests, one after the other."""
    folder = tmp_path_factory.mktemp("secured")
    authority, users, secret = Authority(folder), folder / "users", folder / "secret"
    secret.write_text("0123456789abcdef" * 3, encoding="ascii")
    secret.chmod(0o600)
    write_users(users, {user: credentials_of(password, iterations=4096) for user, password in PASSWORDS.items()})
    settings = {
        **UNDISTURBED,
        "ssl.keystore.location": str(authority.issue("node")),
        "sasl.enabled.mechanisms": SCRAM,
        "users.file": str(users),
        "internal.secret.file": str(secret),
        "authorizer": "acls",
        "super.users": "User:alice",
        "sasl.server.max.receive.size": str(FRAME_MAX),
        "connections.unauthenticated.max": str(WAITING_MAX),
        "connection.login.timeout.ms": str(LOGIN_TIMEOUT_MS),
        "connection.failed.authentication.delay.ms": "10",
    }
    service = Service(kafka.bootstrap, folder, partitions=2, properties=settings)
    node = service.add(1)
    node.properties["listeners"] = f"SASL_SSL://{node.address}"
    try:
        node.start()
        service.wait_shared()
        yield Secured(node, authority.ca_file)
    finally:
        service.stop()


async def topics_of(secured: Secured) -> int:
    """How many topics there are, as alice sees it on a new connection."""
    connection = await secured.connect()
    try:
        found = await connection.call(DescribeTopicsRequest(topics=(), timeout_ms=10_000), 60)
        assert isinstance(found, DescribeTopicsResponse)
        return len(found.topics)
    finally:
        await connection.close()


def test_who_stops_anywhere_before_the_end_of_a_login_is_turned_out(secured: Secured, data_folder: Path) -> None:
    hello, each = client_hello("127.0.0.1"), 5

    async def stop_in_tls(data: bytes) -> None:
        async with opened(*secured.place) as (reader, writer):
            writer.write(data)
            await read_to_end(reader)

    async def trickle() -> None:
        async with opened(*secured.place) as (reader, writer):
            ended = asyncio.ensure_future(read_to_end(reader))
            for at in range(len(hello)):
                writer.write(hello[at : at + 1])
                done, _ = await asyncio.wait([ended], timeout=0.05)
                if done:
                    break
            await ended

    async def stop_in_login(*frames: bytes) -> None:
        # It is turned out earlier than it stops where the machine stands still.
        with suppress(ConnectionError, ssl.SSLError, asyncio.IncompleteReadError):
            async with opened(*secured.place, secured.ca_file) as (reader, writer):
                for frame in frames:
                    writer.write(frame)
                    await read_frame(reader)
                assert await read_to_end(reader) == b""

    first = authenticate(ScramClient(SCRAM, "alice", "unknown").first())

    async def attack() -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(each):
                for data in (b"", hello[:1], hello[: len(hello) // 2], hello):
                    group.create_task(stop_in_tls(data))
                group.create_task(trickle())
                for frames in ((), (handshake(SCRAM),), (handshake(SCRAM), first)):
                    group.create_task(stop_in_login(*frames))

    before = secured.closed("login_slow")
    with honest_work(secured.node, data_folder, name="half logins", properties=secured.properties()):
        asyncio.run(attack())
    assert secured.closed("login_slow") - before == 8 * each


def test_what_comes_before_a_login_is_small(secured: Secured, data_folder: Path) -> None:
    announced = (FRAME_MAX + 1, 100 * 1024 * 1024, 2**31 - 1, -1)

    async def announce(size: int) -> None:
        async with opened(*secured.place, secured.ca_file) as (reader, writer):
            writer.write(struct.pack(">i", size) + bytes(4096))
            assert await read_to_end(reader) == b""

    async def stuff(size: int) -> None:
        async with opened(*secured.place, secured.ca_file) as streams:
            assert (await exchange(streams, handshake(SCRAM)))[0] == 0
            assert (await exchange(streams, authenticate(b"n,,n=" + b"x" * size)))[0] == 58
            assert await read_to_end(streams[0]) == b""

    async def attack() -> None:
        for _ in range(5):
            await asyncio.gather(*(announce(size) for size in announced), *(stuff(FRAME_MAX - 200) for _ in range(10)))

    malformed, failed = secured.closed("malformed"), secured.closed("login_failed")
    with honest_work(secured.node, data_folder, name="large logins", properties=secured.properties()):
        asyncio.run(attack())
    assert secured.closed("malformed") - malformed == 5 * len(announced)
    assert secured.closed("login_failed") - failed == 50


def test_nobody_is_served_by_less_than_tls_and_a_login(secured: Secured, data_folder: Path) -> None:
    async def in_plain_text(data: bytes) -> None:
        async with opened(*secured.place) as (reader, writer):
            writer.write(data)
            answer = await read_to_end(reader)
            # Nothing, or an alert of TLS.
            assert answer == b"" or answer[0] == 21, answer

    async def by_old_tls() -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_ciphers("ALL:@SECLEVEL=0")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            context.minimum_version, context.maximum_version = ssl.TLSVersion.MINIMUM_SUPPORTED, ssl.TLSVersion.TLSv1_1
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.open_connection(*secured.place, ssl=context)

    async def without_a_login(*frames: bytes) -> None:
        async with opened(*secured.place, secured.ca_file) as (reader, writer):
            writer.write(b"".join(frames))
            assert struct.pack(">i", 9) not in await read_to_end(reader), "the question was answered"

    async def by_a_weaker_login(mechanism: str) -> None:
        async with opened(*secured.place, secured.ca_file) as streams:
            assert (await exchange(streams, handshake(mechanism)))[0] == 33
            assert await read_to_end(streams[0]) == b""

    async def attack() -> None:
        await asyncio.gather(*(in_plain_text(data) for data in (ASK, handshake(SCRAM) + ASK, b"GET / HTTP/1.1\r\n\r\n", bytes(100))))
        if ssl.HAS_TLSv1_1:
            await by_old_tls()
        first = authenticate(ScramClient(SCRAM, "alice", "unknown").first())
        for frames in ((ASK,), (handshake(SCRAM), ASK), (handshake(SCRAM), first, ASK)):
            await without_a_login(*frames)
        for mechanism in ("PLAIN", "SCRAM-SHA-512", "GSSAPI", ""):
            await by_a_weaker_login(mechanism)

    with honest_work(secured.node, data_folder, name="downgrades", properties=secured.properties()):
        asyncio.run(attack())


def test_what_was_overheard_of_a_login_lets_nobody_in(secured: Secured, data_folder: Path) -> None:
    async def attack() -> None:
        async with opened(*secured.place, secured.ca_file) as streams:
            first, final, server_final = await log_in(streams, SCRAM, "alice", PASSWORDS["alice"])
        for messages in ([first, final], [final], [final, first], [first, server_final], [first, first]):
            async with opened(*secured.place, secured.ca_file) as streams:
                await exchange(streams, handshake(SCRAM))
                codes = [(await exchange(streams, authenticate(messages[0])))[0]]
                if codes == [0]:
                    codes.append((await exchange(streams, authenticate(messages[1])))[0])
                assert codes[-1] == 58, messages
                streams[1].write(ASK)
                assert await read_to_end(streams[0]) == b""

    with honest_work(secured.node, data_folder, name="replays", properties=secured.properties()):
        asyncio.run(attack())


def test_a_client_behind_tls_that_never_reads_is_not_served_for_ever(secured: Secured, data_folder: Path) -> None:
    readers, requests = 5, 400

    async def fill() -> Topic:
        connection = await secured.connect()
        topic = await create_topic(connection, "large")
        for _ in range(2):
            await connection.call(commit_request(topic, batches=10_000), 60)
        await connection.close()
        return topic

    topic = asyncio.run(fill())
    body = encode(find_request(topic.topic_id, 0))
    pipeline = b"".join(request_frame(ApiKey.FIND_BATCHES, 0, number, "x", body) for number in range(requests))
    with honest_work(secured.node, data_folder, name="deaf", properties=secured.properties()), ExitStack() as sockets:
        before = secured.node.metric("connection_reading_paused_total")
        for _ in range(readers):
            deaf = sockets.enter_context(connect(*secured.place, secured.properties()))
            deaf.sendall(pipeline)
        wait_until(lambda: secured.node.metric("connection_reading_paused_total") >= before + readers, "the node to stop reading them")


def test_noise_inside_of_tls_ends_only_its_own_connection(secured: Secured, data_folder: Path) -> None:
    rng = random.Random(SEED)
    gate = asyncio.Semaphore(20)

    async def one(data: bytes) -> None:
        async with gate, opened(*secured.place, secured.ca_file) as (reader, writer):
            writer.write(data)
            with suppress(TimeoutError):
                async with asyncio.timeout(0.1):
                    await read_to_end(reader)

    async def attack() -> None:
        streams = [damaged_stream(rng) for _ in range(50)]
        logins = [handshake(SCRAM) + authenticate(rng.randbytes(rng.randrange(200))) for _ in range(50)]
        await asyncio.gather(*(one(data) for data in streams + logins))

    with honest_work(secured.node, data_folder, name="noise in TLS", properties=secured.properties()):
        asyncio.run(attack())


def test_a_user_without_rights_changes_nothing_and_learns_nothing(secured: Secured, data_folder: Path) -> None:
    frames = list(requests_of_every_kind(random.Random(SEED), each=3))

    async def attack() -> None:
        before = await topics_of(secured)
        for at in range(0, len(frames), 10):
            async with opened(*secured.place, secured.ca_file) as streams:
                await log_in(streams, SCRAM, "eve", PASSWORDS["eve"])
                streams[1].write(b"".join(frames[at : at + 10]))
                with suppress(ConnectionError, asyncio.IncompleteReadError):
                    for _ in range(10):
                        async with asyncio.timeout(ENDS_S):
                            await read_frame(streams[0])
        assert await topics_of(secured) == before

    with honest_work(secured.node, data_folder, name="a user without rights", properties=secured.properties()):
        asyncio.run(attack())


@pytest.mark.parametrize("count", [CROWD, pytest.param(GREAT_CROWD, marks=pytest.mark.long)])
def test_a_crowd_that_says_nothing_keeps_nobody_out(count: int, secured: Secured, data_folder: Path) -> None:
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < count + 500:
        pytest.fail(f"the machine does not allow {count} connections: raise `ulimit -Hn`")
    hello = client_hello("127.0.0.1")

    async def log_in_again() -> None:
        for _ in range(3):
            assert await topics_of(secured) > 0

    with honest_work(secured.node, data_folder, name=f"a crowd of {count}", properties=secured.properties()), ExitStack() as sockets:
        before = secured.closed("login_displaced") + secured.closed("login_slow")
        for number in range(count):
            stranger = sockets.enter_context(socket.create_connection(secured.place, timeout=60))
            with suppress(ConnectionError):
                stranger.sendall((b"", hello[:7], hello)[number % 3])
            if number % (count // 3) == count // 4:
                asyncio.run(log_in_again())
        wait_until(
            lambda: secured.closed("login_displaced") + secured.closed("login_slow") - before >= count - WAITING_MAX,
            "the node to turn out who is too many",
        )
        asyncio.run(log_in_again())
