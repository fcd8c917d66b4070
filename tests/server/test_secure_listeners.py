"""Listeners with TLS and logins, over real sockets: who gets in, whom requests are served for, and what everybody else is told."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import ssl
import struct
import time
from contextlib import suppress
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from coordinator.adapters.server.connection import Connection
from coordinator.adapters.server.contract import CloseReason, ListenerSecurity, ServerLimits
from coordinator.adapters.server.server import Server
from coordinator.client.routing.connection import ClientConnection, ConnectionLost
from coordinator.protocol.api_keys import ApiKey
from coordinator.protocol.framing import request_frame
from coordinator.security.client_security import ClientSecurity
from coordinator.security.users_file import credentials_of, write_users
from simulation.fakes.certificates import Authority
from tests.server.lines import KEY, REMAINS_S, Echo, Held, read_frame, read_to_end, serving, until
from tests.server.secured import PASSWORD, Place
from tests.waiting import attempts

PROTOCOLS = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
NO_DELAY = ServerLimits(login_failure_delay_ms=0)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


async def connect(port: int, security: ClientSecurity) -> ClientConnection:
    return await ClientConnection.connect("127.0.0.1", port, client_id="c", timeout_s=REMAINS_S, security=security)


async def ask(port: int, security: ClientSecurity) -> None:
    """Connect, ask one thing, and close."""
    connection = await connect(port, security)
    try:
        assert await connection.request(KEY, 0, b"x", REMAINS_S) == b"x"
    finally:
        await connection.close()


async def refused(port: int, security: ClientSecurity) -> str:
    """Why a client cannot connect, which no retry would change."""
    with pytest.raises(ConnectionLost) as raised:
        await ask(port, security)
    assert raised.value.is_refused
    return str(raised.value).removeprefix(f"127.0.0.1:{port}: ")


async def lost(port: int, security: ClientSecurity) -> str:
    """What a client is told whose server hung up: the loops send no alert when they do not accept a certificate."""
    with pytest.raises(ConnectionLost) as raised:
        await ask(port, security)
    return str(raised.value).removeprefix(f"127.0.0.1:{port}: ")


async def ended(server: Server, reason: CloseReason, count: int = 1) -> None:
    await until(lambda: server.stats.closed[reason] == count)
    assert server.stats.closed == {reason: count}
    await until(lambda: server.stats.connections_open == 0)
    assert len(server.waiting_room) == 0


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]


def call(key: int, version: int, body: bytes = b"", correlation_id: int = 1, *, flexible: bool = False) -> bytes:
    return request_frame(key, version, correlation_id, "c", body, flexible=flexible)


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


HANDSHAKE = call(ApiKey.SASL_HANDSHAKE, 1, text("PLAIN"))


def plain_login(user: str, password: str, version: int = 0) -> bytes:
    data = f"\0{user}\0{password}".encode()
    return call(ApiKey.SASL_AUTHENTICATE, version, struct.pack(">i", len(data)) + data, 2)


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_requests_are_served_for_who_connected(place: Place, protocol: str) -> None:
    handler = Echo()
    with place.listener(protocol) as security:
        async with serving(handler, security=security) as (server, port):
            connection = await connect(port, place.client(protocol))
            bodies = [b"%d" % n * 1000 for n in range(100)]
            assert await asyncio.gather(*(connection.request(KEY, 0, body, REMAINS_S) for body in bodies)) == bodies
            large = bytes(3 * 1024 * 1024)
            assert await connection.request(KEY, 0, large, REMAINS_S) == large
            assert {str(one.peer.principal) for one in handler.seen} == {"User:ANONYMOUS" if protocol == "SSL" else "User:alice"}
            assert len(server.waiting_room) == 0
            await connection.close()
            await until(lambda: server.stats.connections_open == 0)


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_every_mechanism_lets_the_right_password_in_and_no_other(
    place: Place, mechanism: str, caplog: pytest.LogCaptureFixture
) -> None:
    with place.listener("SASL_PLAINTEXT") as security:
        async with serving(Echo(), NO_DELAY, security=security) as (server, port):
            connection = await connect(port, place.client("SASL_PLAINTEXT", sasl_mechanism=mechanism))
            assert await connection.request(KEY, 0, b"x", REMAINS_S) == b"x"
            await connection.close()
            await until(lambda: server.stats.closed.total() == 1)
            told = await refused(port, place.client("SASL_PLAINTEXT", sasl_mechanism=mechanism, sasl_password="wrong"))
            assert told == "the server refused the login: the user name or the password is wrong"
            unknown = await refused(port, place.client("SASL_PLAINTEXT", sasl_mechanism=mechanism, sasl_username="eve"))
            assert unknown == told
            await until(lambda: server.stats.closed[CloseReason.LOGIN_FAILED] == 2)
    wrong, stranger = lines(caplog)
    assert f"user 'alice' by {mechanism}: " in wrong
    assert "wrong password" in wrong
    assert f"user 'eve' by {mechanism}: " in stranger
    assert PASSWORD not in caplog.text


async def test_tokens_of_the_authority_let_in(place: Place, tmp_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    public = jwt.algorithms.ECAlgorithm(jwt.algorithms.ECAlgorithm.SHA256).to_jwk(key.public_key())
    keys, token = tmp_path / "keys.json", tmp_path / "token"
    keys.write_text(f'{{"keys": [{public[:-1]}, "kid": "a", "alg": "ES256", "use": "sig"}}]}}', encoding="ascii")

    def write(name: str, seconds: float) -> ClientSecurity:
        token.write_text(jwt.encode({"sub": name, "exp": time.time() + seconds}, key, "ES256", headers={"kid": "a"}), encoding="ascii")
        return place.client("SASL_SSL", sasl_mechanism="OAUTHBEARER", sasl_oauthbearer_token_endpoint_url=f"file://{token}")

    handler = Echo()
    settings = {"sasl_enabled_mechanisms": "OAUTHBEARER", "sasl_oauthbearer_jwks_endpoint_url": f"file://{keys}"}
    with place.listener("SASL_SSL", **settings) as security:
        async with serving(handler, NO_DELAY, security=security) as (_, port):
            connection = await connect(port, write("carol", 600))
            assert await connection.request(KEY, 0, b"x", REMAINS_S) == b"x"
            assert str(handler.seen[0].peer.principal) == "User:carol"
            await connection.close()
            assert "the token is not valid: Signature has expired" in await refused(port, write("carol", -600))
            client = write("carol", 600)
            token.write_text(jwt.encode({"sub": "carol", "exp": 10**400}, key, "ES256", headers={"kid": "a"}), encoding="ascii")
            assert "the token is not valid: its end is no time" in await refused(port, client)


async def test_a_token_file_that_is_damaged_is_named(place: Place, tmp_path: Path) -> None:
    (token := tmp_path / "token").write_bytes(b"\xff\xfe")
    client = place.client("SASL_SSL", sasl_mechanism="OAUTHBEARER", sasl_oauthbearer_token_endpoint_url=f"file://{token}")
    with pytest.raises(OSError, match="token: it is no ASCII"):
        next(client.login())


async def test_a_mechanism_that_is_not_enabled_is_named(place: Place) -> None:
    with place.listener("SASL_PLAINTEXT", sasl_enabled_mechanisms="SCRAM-SHA-256") as security:
        async with serving(Echo(), NO_DELAY, security=security) as (server, port):
            told = await refused(port, place.client("SASL_PLAINTEXT", sasl_mechanism="PLAIN"))
            assert told == "the server does not take sasl.mechanism PLAIN; it takes SCRAM-SHA-256"
            await ended(server, CloseReason.LOGIN_FAILED)


@pytest.mark.parametrize("auth", ["required", "requested"])
async def test_certificates_name_the_principal(place: Place, auth: str, caplog: pytest.LogCaptureFixture) -> None:
    settings = {"ssl_client_auth": auth, "ssl_truststore_location": str(place.ca.ca_file)}
    rules = {"ssl_principal_mapping_rules": "RULE:^CN=([a-z]+).*$/$1/"}
    handler = Echo()
    with place.listener("SSL", **settings, **rules) as security:
        async with serving(handler, security=security) as (_, port):
            own = place.client("SSL", ssl_keystore_location=str(place.ca.issue("dave", unit="ops")))
            connection = await connect(port, own)
            assert await connection.request(KEY, 0, b"x", REMAINS_S) == b"x"
            assert str(handler.seen[0].peer.principal) == "User:dave"
            await connection.close()
            stranger = Authority(place.folder, "other").issue("dave", file="stranger.pem")
            assert "does it accept this client's certificate" in await lost(port, place.client("SSL", ssl_keystore_location=str(stranger)))
            expired = place.ca.issue("dave", file="expired.pem", days=-1)
            assert "does it accept this client's certificate" in await lost(port, place.client("SSL", ssl_keystore_location=str(expired)))
            unnamed = place.client("SSL", ssl_keystore_location=str(place.ca.issue("Dave-2")))
            await lost(port, unnamed)
            if auth == "required":
                assert "does it want a certificate" in await lost(port, place.client("SSL"))
            else:
                connection = await connect(port, place.client("SSL"))
                assert await connection.request(KEY, 0, b"x", REMAINS_S) == b"x"
                assert str(handler.seen[-1].peer.principal) == "User:ANONYMOUS"
                await connection.close()
    said = [one for one in lines(caplog) if "connections cut off" not in one]
    assert "the client's certificate is not accepted: " in said[0]
    assert "certificate has expired" in said[1]
    assert "CN=Dave-2 fits no rule of ssl.principal.mapping.rules" in said[2]
    assert [("ssl.client.auth=required" in one) for one in said[3:]] == ([True] if auth == "required" else [])


async def test_both_sides_say_what_is_wrong_with_a_listeners_certificate(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    with place.listener("SSL") as security:
        async with serving(Echo(), security=security) as (server, port):
            other = Authority(place.folder, "other")
            told = await refused(port, place.client("SSL", ssl_truststore_location=str(other.ca_file)))
            assert "the server's certificate is not accepted: unable to get local issuer certificate" in told
            await ended(server, CloseReason.TLS_FAILED)
    with place.listener("SSL", ssl_keystore_location=str(place.ca.issue("old", days=-1))) as security:
        async with serving(Echo(), security=security) as (server, port):
            assert "certificate has expired" in await refused(port, place.client("SSL"))
            await ended(server, CloseReason.TLS_FAILED)
    unknown, expired = lines(caplog)
    for line in (unknown, expired):
        assert "the client hung up in its handshake, as clients do that do not accept this listener's certificate" in line


async def test_certificates_change_without_closing_connections(place: Place) -> None:
    with place.listeners("SSL") as listeners:
        async with serving(Echo(), security=listeners.of("SSL")) as (_, port):
            looking = asyncio.ensure_future(listeners.keep_current(now := asyncio.Event()))
            before = await connect(port, place.client("SSL"))
            first = listeners.expiries_s()
            place.ca.issue("node", days=3)
            now.set()
            await until(lambda: listeners.expiries_s() != first)
            after = await connect(port, place.client("SSL"))
            for connection in (before, after):
                assert await connection.request(KEY, 0, b"x", REMAINS_S) == b"x"
                await connection.close()
            context = ssl.create_default_context(cafile=place.ca.ca_file)
            _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
            shown = ssl.cert_time_to_seconds(writer.get_extra_info("ssl_object").getpeercert()["notAfter"])
            assert [int(shown)] == [expires for _, expires in listeners.expiries_s()]
            writer.close()
            looking.cancel()


async def test_a_certificate_of_a_version_that_does_not_exist_changes_nothing(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    with place.listeners("SSL") as listeners:
        async with serving(Echo(), security=listeners.of("SSL")) as (_, port):
            looking = asyncio.ensure_future(listeners.keep_current(now := asyncio.Event()))
            first = listeners.expiries_s()
            file = place.ca.issue("node", days=3)
            key, mark, certificate = file.read_text().partition("-----BEGIN CERTIFICATE-----")
            der = ssl.PEM_cert_to_DER_cert(mark + certificate)
            # OpenSSL takes it all the same.
            file.write_text(key + ssl.DER_cert_to_PEM_cert(der.replace(bytes.fromhex("a003020102"), bytes.fromhex("a003020107"), 1)))
            now.set()
            await until(lambda: "certificate not reloaded" in caplog.text)
            connection = await connect(port, place.client("SSL"))
            assert await connection.request(KEY, 0, b"x", REMAINS_S) == b"x"
            assert listeners.expiries_s() == first
            await connection.close()
            assert not looking.done()
            looking.cancel()


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
async def test_plain_text_gets_nothing_from_a_listener_with_tls(place: Place, protocol: str, caplog: pytest.LogCaptureFixture) -> None:
    with place.listener(protocol) as security:
        async with serving(Echo(), security=security) as (server, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(call(KEY, 0, b"x", flexible=True))
            await read_to_end(reader)
            await ended(server, CloseReason.TLS_FAILED)
            writer.close()
    (line,) = lines(caplog)
    assert "the client does not speak TLS" in line


FIRST = [(KEY, 0, True), (ApiKey.METADATA, 12, True), (ApiKey.COMMIT_FILE, 0, True), (ApiKey.KIP_FIND_BATCHES, 0, True)]


@pytest.mark.parametrize(("key", "version", "flexible"), FIRST)
async def test_nothing_is_served_before_a_login(place: Place, key: int, version: int, flexible: bool) -> None:
    handler = Echo()
    with place.listener("SASL_PLAINTEXT") as security:
        async with serving(handler, security=security) as (server, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(call(ApiKey.API_VERSIONS, 0) + HANDSHAKE + call(key, version, bytes(20), flexible=flexible))
            assert len(await read_frame(reader)) > 20
            assert b"PLAIN" in await read_frame(reader)
            assert await read_to_end(reader) == b""
            assert handler.seen == []
            await ended(server, CloseReason.NOT_LOGGED_IN)
            writer.close()


async def test_requests_that_follow_a_login_in_one_packet_are_served_for_the_user(place: Place) -> None:
    handler = Echo()
    with place.listener("SASL_PLAINTEXT") as security:
        async with serving(handler, security=security) as (_, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(HANDSHAKE + plain_login("bob", "bob's") + call(KEY, 0, b"hello", 3, flexible=True))
            answers = [await read_frame(reader) for _ in range(3)]
            assert [one[:4] for one in answers] == [struct.pack(">i", n) for n in (1, 2, 3)]
            assert answers[2].endswith(b"hello")
            assert [str(one.peer.principal) for one in handler.seen] == ["User:bob"]
            writer.close()


async def test_requests_behind_a_wrong_login_are_not_served(place: Place) -> None:
    handler = Echo()
    with place.listener("SASL_PLAINTEXT") as security:
        async with serving(handler, NO_DELAY, security=security) as (server, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(HANDSHAKE + plain_login("bob", "alice's") + HANDSHAKE + plain_login("bob", "bob's") + call(KEY, 0, flexible=True))
            await read_frame(reader)
            assert struct.unpack_from(">ih", await read_frame(reader)) == (2, 58)
            assert await read_to_end(reader) == b""
            assert handler.seen == []
            await ended(server, CloseReason.LOGIN_FAILED)
            writer.close()


@pytest.mark.parametrize("sent", [plain_login("bob", "bob's"), HANDSHAKE + HANDSHAKE], ids=["no handshake", "two handshakes"])
async def test_messages_of_a_login_have_an_order(place: Place, sent: bytes) -> None:
    with place.listener("SASL_PLAINTEXT") as security:
        async with serving(Echo(), NO_DELAY, security=security) as (server, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(sent)
            received = await read_to_end(reader)
            assert struct.unpack_from(">h", received, received.rindex(struct.pack(">h", 34)))[0] == 34
            await ended(server, CloseReason.LOGIN_FAILED)
            writer.close()


async def test_before_a_login_requests_are_small_and_afterwards_as_large_as_ever(place: Place) -> None:
    limits = ServerLimits(login_request_bytes_max=1_000)
    with place.listener("SASL_PLAINTEXT") as security:
        async with serving(Echo(), limits, security=security) as (server, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(struct.pack(">i", 1_001))
            assert await read_to_end(reader) == b""
            await ended(server, CloseReason.MALFORMED)
            connection = await connect(port, place.client("SASL_PLAINTEXT"))
            assert await connection.request(KEY, 0, bytes(10_000), REMAINS_S) == bytes(10_000)
            await connection.close()
            writer.close()


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_who_does_not_finish_in_time_is_closed(place: Place, protocol: str) -> None:
    with place.listener(protocol) as security:
        async with serving(Echo(), ServerLimits(login_timeout_ms=50), security=security) as (server, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            assert await read_to_end(reader) == b""
            await ended(server, CloseReason.LOGIN_SLOW)
            writer.close()


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_strangers_who_say_nothing_keep_nobody_out(place: Place, protocol: str) -> None:
    limits = ServerLimits(logins_waiting_max=5)
    with place.listener(protocol) as security:
        async with serving(Echo(), limits, security=security) as (server, port):
            kept = await connect(port, place.client(protocol))
            strangers = [await asyncio.open_connection("127.0.0.1", port) for _ in range(40)]
            await until(lambda: server.stats.closed[CloseReason.LOGIN_DISPLACED] == 35)
            honest = await connect(port, place.client(protocol))
            for connection in (kept, honest):
                assert await connection.request(KEY, 0, b"x", REMAINS_S) == b"x"
                await connection.close()
            assert len(server.waiting_room) <= 5
            for _, writer in strangers:
                writer.close()


async def test_clients_that_hang_up_anywhere_in_their_handshake_leave_nothing_behind(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """Each sends some more bytes of what a client says first, and is gone; half of them reset their connection."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context(cafile=place.ca.ca_file).wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    hello = outgoing.read()
    with place.listener("SSL") as security:
        async with serving(Echo(), security=security) as (server, port):
            for number in range(60):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                if number % 2:
                    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.write((hello + hello)[: number * len(hello) // 40])
                if number % 3:
                    await asyncio.sleep(0)
                writer.transport.abort()
            await until(lambda: server.stats.closed.total() == 60)
            assert set(server.stats.closed) <= {CloseReason.CLIENT, CloseReason.TLS_FAILED}
            await until(lambda: server.stats.connections_open == 0)
            assert len(server.waiting_room) == 0
            connection = await connect(port, place.client("SSL"))
            assert await connection.request(KEY, 0, b"x", REMAINS_S) == b"x"
            await connection.close()
    assert "Traceback" not in caplog.text
    assert not [one for one in caplog.records if one.levelno >= logging.ERROR]


def connections_in_memory() -> list[Connection]:
    """Those that the collector of cycles knows: all that are not freed."""
    return [one for one in gc.get_objects() if isinstance(one, Connection)]


@pytest.mark.parametrize("protocol", ["PLAINTEXT", *PROTOCOLS])
async def test_connections_that_are_gone_leave_nothing_to_the_collector_of_cycles(place: Place, protocol: str) -> None:
    handler = Held()
    with place.listener(protocol) as security:
        async with serving(handler, security=security) as (server, port):
            gc.collect()
            before = connections_in_memory()  # of earlier tests: held here, so that no new one gets the place of one of them
            gc.disable()
            try:
                for is_answered in (True, False):
                    connection = await connect(port, place.client(protocol))
                    asked = asyncio.ensure_future(connection.request(KEY, 0, b"x", REMAINS_S))
                    await handler.wait_for(1)
                    if is_answered:
                        handler.requests[0][1](b"")
                        await asked
                    await connection.close()
                    await until(lambda: server.stats.connections_open == 0)
                    handler.requests.clear()
                    await asyncio.wait([asked])
                    await until(lambda: len(connections_in_memory()) == len(before))
            finally:
                gc.enable()


async def test_a_login_that_failed_is_answered_late(place: Place) -> None:
    with place.listener("SASL_PLAINTEXT") as security:
        async with serving(Echo(), ServerLimits(login_failure_delay_ms=300), security=security) as (server, port):
            begin_s = asyncio.get_running_loop().time()
            await refused(port, place.client("SASL_PLAINTEXT", sasl_password="wrong"))
            assert asyncio.get_running_loop().time() - begin_s >= 0.29
            await ended(server, CloseReason.LOGIN_FAILED)


async def test_clients_log_in_again_and_stay_connected(place: Place) -> None:
    handler = Echo()
    with place.listener("SASL_SSL") as security:
        async with serving(handler, ServerLimits(session_ms_max=400), security=security) as (server, port):
            connection = await connect(port, place.client("SASL_SSL"))
            async for _ in attempts("logins", every_s=0.01):
                if server.stats.requests[ApiKey.SASL_HANDSHAKE] >= 4:
                    break
                assert await connection.request(KEY, 0, b"x", REMAINS_S) == b"x"
            assert {str(one.peer.principal) for one in handler.seen} == {"User:alice"}
            assert server.stats.connections_opened == 1
            await connection.close()


async def test_a_session_that_is_over_serves_nothing_but_a_login(place: Place) -> None:
    handler = Echo()
    limits = ServerLimits(session_ms_max=50, login_failure_delay_ms=0)
    with place.listener("SASL_PLAINTEXT") as security:
        async with serving(handler, limits, security=security) as (server, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(HANDSHAKE + plain_login("bob", "bob's", 1))
            await read_frame(reader)
            answer = await read_frame(reader)
            assert struct.unpack_from(">q", answer, len(answer) - 8) == (50,)
            await asyncio.sleep(0.1)
            writer.write(HANDSHAKE + plain_login("bob", "bob's", 1) + call(KEY, 0, b"again", 3, flexible=True))
            assert [len(await read_frame(reader)) > 0 for _ in range(2)] == [True, True]
            assert (await read_frame(reader)).endswith(b"again")
            await asyncio.sleep(0.1)
            writer.write(call(KEY, 0, b"too late", 4, flexible=True))
            assert await read_to_end(reader) == b""
            assert len(handler.seen) == 1
            await ended(server, CloseReason.NOT_LOGGED_IN)
            writer.close()


@pytest.mark.parametrize(
    ("again", "code"),
    [
        (HANDSHAKE + plain_login("alice", PASSWORD), 58),
        (HANDSHAKE + plain_login("bob", "wrong"), 58),
        (call(ApiKey.SASL_HANDSHAKE, 1, text("SCRAM-SHA-256"), 2), 34),
    ],
    ids=["another user", "wrong password", "another mechanism"],
)
async def test_who_logs_in_again_stays_the_same(place: Place, again: bytes, code: int) -> None:
    with place.listener("SASL_PLAINTEXT") as security:
        async with serving(Echo(), NO_DELAY, security=security) as (server, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(HANDSHAKE + plain_login("bob", "bob's"))
            for _ in range(2):
                await read_frame(reader)
            writer.write(again)
            frames = [await read_frame(reader) for _ in range(1 if code == 34 else 2)]
            assert struct.unpack_from(">ih", frames[-1]) == (2, code)
            assert await read_to_end(reader) == b""
            await ended(server, CloseReason.LOGIN_FAILED)
            writer.close()


async def test_a_listener_without_logins_says_so() -> None:
    async with serving(Echo(), NO_DELAY, security=ListenerSecurity()) as (server, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(HANDSHAKE)
        assert struct.unpack_from(">ihi", await read_frame(reader)) == (1, 33, 0)
        assert await read_to_end(reader) == b""
        await ended(server, CloseReason.LOGIN_FAILED)
        writer.close()


async def test_users_are_read_again(place: Place) -> None:
    with place.listeners("SASL_PLAINTEXT") as listeners:
        async with serving(Echo(), NO_DELAY, security=listeners.of("SASL_PLAINTEXT")) as (_, port):
            looking = asyncio.ensure_future(listeners.keep_current(now := asyncio.Event()))
            await (await connect(port, place.client("SASL_PLAINTEXT"))).close()
            write_users(place.users_file, {"alice": credentials_of("a new one", iterations=4096)})
            now.set()
            changed = place.client("SASL_PLAINTEXT", sasl_password="a new one")
            async for _ in attempts("the changed password"):
                with suppress(ConnectionLost):
                    await (await connect(port, changed)).close()
                    break
            assert "password is wrong" in await refused(port, place.client("SASL_PLAINTEXT"))
            looking.cancel()
