"""The server over real sockets: order, bounds, and every reason to hang up."""

from __future__ import annotations

import asyncio
import logging
import random
import socket
from typing import Any, cast

import pytest

from coordinator.adapters.server.connection import Connection
from coordinator.adapters.server.contract import CloseReason, Handler, IncomingRequest, Respond, ServerLimits
from coordinator.adapters.server.server import Server
from coordinator.client.routing.connection import ClientConnection, ConnectionLost
from coordinator.operations.table import APIS, ApiTable
from coordinator.protocol.api_keys import ApiKey
from coordinator.protocol.codec import decode
from coordinator.protocol.framing import reply_body, reply_frame, request_frame
from coordinator.protocol.wire import MalformedMessage
from tests.server.lines import KEY, REMAINS_S, Echo, Held, read_frame, read_to_end, serving, until


def _request(correlation_id: int, body: bytes, key: int = KEY, version: int = 0, *, flexible: bool = True) -> bytes:
    return request_frame(key, version, correlation_id, "c", body, flexible=flexible)


async def test_a_request_arrives_with_its_header() -> None:
    handler = Echo()
    async with serving(handler) as (server, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(_request(5, b"hello", key=98))
        assert await read_frame(reader) == reply_frame(5, b"hello")[4:]
        (request,) = handler.seen
        assert (request.api_key, request.wire_api_key, request.api_version, request.correlation_id) == (10098, 98, 0, 5)
        assert (request.client_id, request.peer.listener) == ("c", "test")
        assert request.peer.address == "{}:{}".format(*writer.get_extra_info("sockname"))
        assert server.stats.requests == {98: 1}
        assert server.stats.connections_open == server.stats.connections_opened == 1
        writer.close()
        await until(lambda: server.stats.connections_open == 0)
        assert server.stats.closed == {CloseReason.CLIENT: 1}
        assert server.stats.bytes_in == len(_request(5, b"hello", key=98))
        assert server.stats.bytes_out == len(reply_frame(5, b"hello"))


async def test_connections_of_different_listeners_have_different_numbers() -> None:
    handler = Echo()
    async with serving(handler) as (_, first), serving(handler) as (_, second):
        for port in (first, second):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request_frame(KEY, 0, 1, "c", b"body", flexible=True))
            await read_frame(reader)
            writer.close()
    one, other = (request.peer.connection_id for request in handler.seen)
    assert one != other


async def test_replies_keep_the_order_of_requests() -> None:
    handler, count = Held(), 60
    async with serving(handler) as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for index in range(count):
            writer.write(_request(index, b""))
        await handler.wait_for(count)
        order = list(range(count))
        random.Random(7).shuffle(order)
        for place in order:
            handler.requests[place][1](b"reply %d" % place)
        for index in range(count):
            assert await read_frame(reader) == reply_frame(index, b"reply %d" % index)[4:]
        writer.close()


async def test_replies_of_one_tick_are_written_together(monkeypatch: pytest.MonkeyPatch) -> None:
    handler, sizes = Held(), []

    class Counted(Connection):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(cast(asyncio.Transport, _Counting(cast(asyncio.Transport, transport), sizes)))

    monkeypatch.setattr("coordinator.adapters.server.server.Connection", Counted)
    async with serving(handler) as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"".join(_request(index, b"") for index in range(10)))
        await handler.wait_for(10)
        for _, respond in handler.requests:
            respond(b"x")
        for _ in range(10):
            await read_frame(reader)
        assert sizes == [10 * len(reply_frame(0, b"x"))]
        writer.close()


class _Counting:
    def __init__(self, transport: asyncio.Transport, sizes: list[int]) -> None:
        self._transport = transport
        self._sizes = sizes

    def write(self, data: bytes) -> None:
        self._sizes.append(len(data))
        self._transport.write(data)

    def __getattr__(self, name: str) -> object:
        return getattr(self._transport, name)


@pytest.mark.parametrize("version", [0, 3, 4])
async def test_api_versions_is_answered_by_the_server(version: int) -> None:
    handler = Echo()
    table = ApiTable(wire_kip_keys_enabled=False)
    async with serving(handler, table=table) as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        body = b"\x02n\x02v\x00" if version >= 3 else b""
        writer.write(_request(1, body, key=18, version=version, flexible=version >= 3))
        reply = reply_body(await read_frame(reader), tagged=False)
        assert reply == table.api_versions_body(version)
        writer.write(_request(2, b"what later clients send \xff\xff", key=18, version=77))
        answer: Any = decode(APIS[18].versions[0].response_type, reply_body(await read_frame(reader), tagged=False))
        assert answer.error_code == 35
        writer.write(_request(3, b"still open"))
        assert reply_body(await read_frame(reader)) == b"still open"
        assert len(handler.seen) == 1
        writer.close()


class _Only:
    """A table of one request, as another service than the coordinator may have it: number 0, of which versions 3 and 9 are served."""

    name, canonical, is_unbounded = "PRODUCE", 77, True

    def find(self, api_key: int) -> _Only | None:
        return self if api_key in (0, ApiKey.API_VERSIONS) else None

    def api_versions_body(self, version: int) -> bytes:
        return b"served: %d" % version

    def is_flexible(self, version: int) -> bool | None:
        return {3: False, 9: True}.get(version)

    def is_response_tagged(self, version: int) -> bool:
        return version == 9

    def check(self, version: int, data: bytes, body_offset: int) -> None:
        if data[body_offset:] != b"sound":
            raise MalformedMessage("unsound")


async def test_the_table_that_a_server_is_given_says_all_about_requests() -> None:
    handler = Echo()
    async with serving(handler, table=_Only()) as (server, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for version, flexible in ((3, False), (9, True)):
            writer.write(_request(version, b"body", key=0, version=version, flexible=flexible))
            assert reply_body(await read_frame(reader), tagged=flexible) == b"body"
        assert [(one.api_key, one.wire_api_key, one.api_version) for one in handler.seen] == [(77, 0, 3), (77, 0, 9)]
        for version, body in ((3, b"sound"), (5, b"anything")):
            writer.write(_request(1, body, key=18, version=version, flexible=False))
            assert reply_body(await read_frame(reader), tagged=False) == b"served: %d" % version
        writer.write(_request(1, b"other", key=18, version=9))
        assert await read_to_end(reader) == b""
        writer.close()
        await until(lambda: server.stats.closed == {CloseReason.MALFORMED: 1})
        for key, version in ((0, 4), (KEY, 0)):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(_request(1, b"body", key=key, version=version))
            assert await read_to_end(reader) == b""
            writer.close()
        await until(lambda: server.stats.closed[CloseReason.UNSUPPORTED] == 2)


async def test_answers_have_the_header_of_their_version() -> None:
    """Clients that ask in an old version read an answer without tagged fields in its header."""
    of_the_server = {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}
    async with serving(Echo()) as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for key in APIS.keys() - of_the_server:
            for version, schema in APIS[key].versions.items():
                writer.write(_request(7, b"body", key, version, flexible=schema.request_type.__flexible__))
                tags = b"\0" if schema.response_type.__flexible__ else b""
                assert await read_frame(reader) == b"\0\0\0\7" + tags + b"body", f"request {key} version {version}"
        writer.close()


@pytest.mark.parametrize(
    ("data", "reason", "text"),
    [
        (_request(1, b"", key=0), CloseReason.UNSUPPORTED, "request 0 version 0"),
        (_request(1, b"", key=94), CloseReason.UNSUPPORTED, "request 94 version 0"),
        (_request(1, b"", version=1), CloseReason.UNSUPPORTED, "request 10100 version 1"),
        (b"\x7f\xff\xff\xff", CloseReason.MALFORMED, "frame of 2147483647 bytes"),
        (b"\0\0\0\0", CloseReason.MALFORMED, "frame of 0 bytes"),
        (b"\xff\xff\xff\xff", CloseReason.MALFORMED, "frame of -1 bytes"),
        ((1001).to_bytes(4, "big") + bytes(50), CloseReason.MALFORMED, "socket.request.max.bytes"),
        ((3).to_bytes(4, "big") + bytes(3), CloseReason.MALFORMED, "no request header"),
        (b"\0\0\0\x0a\x27\xd8\0\0\0\0\0\1\0\x09", CloseReason.MALFORMED, "client_id"),
        (b"GET / HTTP/1.1\r\n\r\n", CloseReason.MALFORMED, "frame of 1195725856 bytes"),
        (_request(1, b"\xff", key=18, version=3), CloseReason.MALFORMED, "varint"),
        (_request(1, b"refuse"), CloseReason.MALFORMED, "the handler says no"),
        (_request(1, b"fail"), CloseReason.HANDLER_FAILED, "RuntimeError"),
    ],
)
async def test_what_cannot_be_served_closes_the_connection_with_the_reason_in_the_log(
    data: bytes, reason: CloseReason, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Picky(Echo):
        def handle(self, request: IncomingRequest, respond: Respond) -> None:
            body = request.data[request.body_offset :]
            if body == b"refuse":
                raise MalformedMessage("the handler says no")
            if body == b"fail":
                raise RuntimeError("broken")
            super().handle(request, respond)

    limits, table = ServerLimits(request_bytes_max=1000), ApiTable(wire_kip_keys_enabled=False)
    async with serving(Picky(), limits, table) as (server, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(_request(0, b"before") + data)
        assert await read_to_end(reader) == reply_frame(0, b"before")
        await until(lambda: server.stats.connections_open == 0)
        assert server.stats.closed == {reason: 1}
        (line,) = [one.getMessage() for one in caplog.records if one.getMessage().startswith("connection closed")]
        assert reason.value in line
        assert text in line
        assert "\n" not in line
        writer.close()


async def test_a_connection_that_is_never_answered_is_reset_and_one_that_was_ends_in_order() -> None:
    """Some clients take an orderly end before the first answer for missing TLS, and do not try again."""

    class Unable(Echo):
        def handle(self, request: IncomingRequest, respond: Respond) -> None:
            if request.data[request.body_offset :] == b"fail":
                respond(None)
            else:
                super().handle(request, respond)

    async with serving(Unable()) as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(_request(0, b"fail"))
        with pytest.raises(ConnectionResetError):
            await reader.read()
        writer.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(_request(0, b"before") + _request(1, b"fail"))
        assert await read_to_end(reader) == reply_frame(0, b"before")
        writer.close()


async def test_an_address_that_is_taken_refuses_connections_until_it_is_listened_at() -> None:
    server = Server(Echo(), ApiTable(wire_kip_keys_enabled=False))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    await server.bind("127.0.0.1", port)
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)
    assert await server.listen() == port
    with pytest.raises(OSError, match="in use"):
        await Server(Echo(), ApiTable(wire_kip_keys_enabled=False)).bind("127.0.0.1", port)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(_request(7, b"hello"))
    assert await read_frame(reader) == reply_frame(7, b"hello")[4:]
    writer.close()
    await server.stop(1_000)


async def test_random_bytes_never_end_more_than_their_own_connection() -> None:
    generator = random.Random(3)
    async with serving(Echo(), ServerLimits(request_bytes_max=300)) as (server, port):
        good = await ClientConnection.connect("127.0.0.1", port, client_id="good", timeout_s=REMAINS_S)
        for _ in range(60):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            payload = generator.randbytes(generator.randrange(1, 80))
            writer.write(payload if generator.random() < 0.3 else len(payload).to_bytes(4, "big") + payload)
            writer.write_eof()
            await read_to_end(reader)
            writer.close()
            assert await good.request(KEY, 0, b"still here", REMAINS_S) == b"still here"
        await until(lambda: server.stats.connections_open == 1)
        assert server.stats.closed.total() == 60
        assert set(server.stats.closed) <= {CloseReason.MALFORMED, CloseReason.UNSUPPORTED, CloseReason.CLIENT, CloseReason.NETWORK}
        await good.close()


async def test_a_connection_with_too_much_pending_is_not_read() -> None:
    handler = Held()
    limits = ServerLimits(pending_requests_max=3)
    async with serving(handler, limits) as (server, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"".join(_request(index, b"") for index in range(10)))
        await handler.wait_for(3)
        await until(lambda: server.stats.reading_paused == 1)
        read_bytes = server.stats.bytes_in
        writer.write(b"".join(_request(index, b"") for index in range(10, 20)))
        await writer.drain()
        assert len(handler.requests) == 3
        assert server.stats.bytes_in == read_bytes
        for index in range(20):
            await handler.wait_for(index + 1)
            assert len(handler.requests) <= index + 3
            handler.requests[index][1](b"%d" % index)
            assert await read_frame(reader) == reply_frame(index, b"%d" % index)[4:]
        writer.close()


async def test_pending_bytes_are_bounded_too() -> None:
    handler = Held()
    async with serving(handler, ServerLimits(pending_bytes_max=1000)) as (server, port):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        for index in range(5):
            writer.write(_request(index, bytes(600)))
        await handler.wait_for(2)
        await until(lambda: server.stats.reading_paused == 1)
        assert len(handler.requests) == 2
        writer.close()


def _deaf_socket(port: int) -> socket.socket:
    """A connected socket whose owner reads nothing, with little room in the kernel."""
    deaf = socket.socket()
    deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    deaf.connect(("127.0.0.1", port))
    deaf.setblocking(False)
    return deaf


class Generous(Handler):
    """Answers every request with a megabyte."""

    def __init__(self) -> None:
        self.count = 0

    def handle(self, request: IncomingRequest, respond: Respond) -> None:
        self.count += 1
        respond(bytes(1 << 20))


async def test_a_reader_that_never_reads_is_cut_off_after_the_timeout(caplog: pytest.LogCaptureFixture) -> None:
    handler = Generous()
    limits = ServerLimits(output_pause_bytes=10_000, output_stall_timeout_ms=50, pending_bytes_max=1)
    async with serving(handler, limits) as (server, port):
        deaf = _deaf_socket(port)
        deaf.send(b"".join(_request(index, b"") for index in range(50)))
        await until(lambda: server.stats.closed[CloseReason.SLOW_READER] == 1)
        await until(lambda: server.stats.connections_open == 0)
        assert handler.count < 50
        assert "took nothing of" in caplog.text
        deaf.close()


async def test_a_reader_that_lets_too_much_output_wait_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    handler, paused = Held(), asyncio.Event()

    class Paused(Connection):
        def pause_writing(self) -> None:
            super().pause_writing()
            paused.set()

    monkeypatch.setattr("coordinator.adapters.server.server.Connection", Paused)
    limits = ServerLimits(output_pause_bytes=10_000, output_bytes_max=1 << 20)
    async with serving(handler, limits) as (server, port):
        deaf = _deaf_socket(port)
        deaf.send(b"".join(_request(index, b"") for index in range(50)))
        await handler.wait_for(50)
        handler.requests[0][1](bytes(8 << 20))
        await asyncio.wait_for(paused.wait(), REMAINS_S)
        for _, respond in handler.requests[1:]:
            respond(bytes(100_000))
        await until(lambda: server.stats.closed[CloseReason.OUTPUT_FULL] == 1)
        await until(lambda: server.stats.connections_open == 0)
        deaf.close()


async def test_a_slow_reader_gets_everything() -> None:
    handler = Generous()
    limits = ServerLimits(output_pause_bytes=10_000)
    async with serving(handler, limits) as (server, port):
        slow = _deaf_socket(port)
        slow.send(b"".join(_request(index, b"") for index in range(20)))
        await until(lambda: server.stats.reading_paused > 0)
        assert handler.count < 20
        loop, received = asyncio.get_running_loop(), 0
        while received < 20 * len(reply_frame(0, bytes(1 << 20))):
            received += len(await asyncio.wait_for(loop.sock_recv(slow, 1 << 18), REMAINS_S))
        assert handler.count == 20
        assert server.stats.closed.total() == 0
        slow.close()


async def test_idle_connections_are_closed_and_busy_ones_are_not() -> None:
    handler = Held()
    async with serving(handler, ServerLimits(connection_idle_ms_max=400)) as (server, port):
        idle, idle_writer = await asyncio.open_connection("127.0.0.1", port)
        busy, busy_writer = await asyncio.open_connection("127.0.0.1", port)
        busy_writer.write(_request(1, b""))
        assert await read_to_end(idle) == b""
        await until(lambda: server.stats.closed[CloseReason.IDLE] == 1)
        handler.requests[0][1](b"late")
        assert reply_body(await read_frame(busy)) == b"late"
        assert await read_to_end(busy) == b""
        assert server.stats.closed == {CloseReason.IDLE: 2}
        idle_writer.close()
        busy_writer.close()


async def test_half_a_frame_does_not_keep_a_connection_open() -> None:
    async with serving(Echo(), ServerLimits(connection_idle_ms_max=20)) as (server, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(_request(1, b"12345")[:-1])
        assert await read_to_end(reader) == b""
        assert server.stats.closed == {CloseReason.IDLE: 1}
        writer.close()


async def test_connections_above_the_limit_are_refused_with_one_line(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(Echo(), ServerLimits(connections_max=2)) as (server, port):
        kept = [await ClientConnection.connect("127.0.0.1", port, client_id=None, timeout_s=REMAINS_S) for _ in range(2)]
        for connection in kept:
            assert await connection.request(KEY, 0, b"x", REMAINS_S) == b"x"
        for _ in range(3):
            extra = await ClientConnection.connect("127.0.0.1", port, client_id=None, timeout_s=REMAINS_S)
            await extra.wait_closed()
        assert server.stats.closed == {CloseReason.TOO_MANY: 3}
        assert server.stats.connections_open == 2
        lines = [one.getMessage() for one in caplog.records if "connections refused" in one.getMessage()]
        assert len(lines) == 1
        assert "limit=2 remedy='raise connections.max or add nodes'" in lines[0]
        await kept[0].close()
        await until(lambda: server.stats.connections_open == 1)
        again = await ClientConnection.connect("127.0.0.1", port, client_id=None, timeout_s=REMAINS_S)
        assert await again.request(KEY, 0, b"y", REMAINS_S) == b"y"
        await again.close()
        await kept[1].close()


async def test_a_thousand_connections() -> None:
    async with serving(Echo()) as (server, port):

        async def talk(index: int) -> None:
            connection = await ClientConnection.connect("127.0.0.1", port, client_id=f"c{index}", timeout_s=60)
            replies = await asyncio.gather(*(connection.request(KEY, 0, b"%d %d" % (index, n), 60) for n in range(3)))
            assert replies == [b"%d %d" % (index, n) for n in range(3)]
            open_connections.append(connection)

        open_connections: list[ClientConnection] = []
        await asyncio.gather(*(talk(index) for index in range(1000)))
        assert server.stats.connections_open == 1000
        assert server.stats.requests == {KEY: 3000}
        for connection in open_connections:
            await connection.close()
        await until(lambda: server.stats.connections_open == 0)


async def test_a_stopping_server_answers_what_it_read() -> None:
    handler = Held()
    async with serving(handler, ServerLimits(pending_requests_max=2)) as (server, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        idle, idle_writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"".join(_request(index, b"") for index in range(3)) + _request(9, b"12345")[:-3])
        await handler.wait_for(2)
        stopping = asyncio.ensure_future(server.stop(60_000))
        assert await read_to_end(idle) == b""
        with pytest.raises(ConnectionLost):
            await ClientConnection.connect("127.0.0.1", port, client_id=None, timeout_s=REMAINS_S)
        for index in range(3):
            await handler.wait_for(index + 1)
            handler.requests[index][1](b"%d" % index)
            assert reply_body(await read_frame(reader)) == b"%d" % index
        assert await read_to_end(reader) == b""
        await stopping
        assert len(handler.requests) == 3
        assert server.stats.closed == {CloseReason.SHUTDOWN: 2}
        writer.close()
        idle_writer.close()


async def test_a_stopping_server_waits_no_longer_than_its_deadline(caplog: pytest.LogCaptureFixture) -> None:
    handler = Held()
    async with serving(handler) as (server, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(_request(1, b""))
        await handler.wait_for(1)
        await server.stop(10)
        assert await read_to_end(reader) == b""
        assert "connections cut off listener=test connections=1 deadline_ms=10" in caplog.text
        handler.requests[0][1](b"too late")
        assert server.stats.replies_too_late == 1
        assert server.stats.bytes_out == 0
        writer.close()


async def test_a_reply_after_the_client_left_is_counted_and_dropped() -> None:
    handler = Held()
    async with serving(handler) as (server, port):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(_request(1, b""))
        await handler.wait_for(1)
        writer.close()
        await until(lambda: server.stats.connections_open == 0)
        handler.requests[0][1](b"x")
        assert server.stats.replies_too_late == 1


@pytest.fixture(autouse=True)
def _log_everything(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "coordinator.adapters.server")


async def test_unfinished_requests_of_many_connections_do_not_fill_the_memory() -> None:
    limits = ServerLimits(request_bytes_max=1_000_000, unfinished_bytes_max=100_000)
    async with serving(Echo(), limits=limits) as (server, port):
        begun = []
        for size in (30_000, 20_000, 40_000):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write((900_000).to_bytes(4, "big") + bytes(size))
            begun.append((reader, writer))
        await until(lambda: server.stats.unfinished_bytes == 90_000)
        small = await asyncio.open_connection("127.0.0.1", port)
        small[1].write((900_000).to_bytes(4, "big") + bytes(15_000))
        # The largest one goes, and the others stay.
        assert await read_to_end(begun[2][0]) == b""
        await until(lambda: server.stats.connections_open == 3)
        assert server.stats.closed == {CloseReason.UNFINISHED: 1}
        assert server.stats.unfinished_bytes == 65_000
        # A request that is finished is served, and one whose client is gone takes nothing.
        body = _request(7, bytes(1_000))
        other = await asyncio.open_connection("127.0.0.1", port)
        other[1].write(body[:500])
        await until(lambda: server.stats.unfinished_bytes > 65_000)
        other[1].write(body[500:])
        assert await read_frame(other[0]) == reply_frame(7, bytes(1_000))[4:]
        assert server.stats.unfinished_bytes == 65_000
        for _, writer in (*begun, small, other):
            writer.close()
        await until(lambda: server.stats.unfinished_bytes == server.stats.connections_open == 0)
