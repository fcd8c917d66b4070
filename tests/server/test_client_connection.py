"""The client's connection: pipelining, time-outs, and what a lost connection means."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from coordinator.adapters.server.contract import Handler, IncomingRequest, Respond
from coordinator.client.routing.connection import ClientConnection, ConnectionLost, RequestTimedOut
from coordinator.operations.table import APIS, ApiTable
from coordinator.protocol import messages
from coordinator.protocol.api_keys import ApiKey
from coordinator.protocol.codec import encode
from coordinator.protocol.framing import reply_frame
from coordinator.protocol.wire import MalformedMessage
from tests.decoding import decode_request
from tests.server.lines import KEY, REMAINS_S, Echo, Held, serving, until


async def _connect(port: int) -> ClientConnection:
    return await ClientConnection.connect("127.0.0.1", port, client_id="c", timeout_s=REMAINS_S)


async def test_requests_are_pipelined() -> None:
    handler = Held()
    async with serving(handler) as (_, port):
        connection = await _connect(port)
        tasks = [asyncio.ensure_future(connection.request(KEY, 0, b"%d" % index, REMAINS_S)) for index in range(10)]
        await handler.wait_for(10)
        assert connection.pending_count == 10
        for request, respond in reversed(handler.requests):
            respond(b"re " + request.data[request.body_offset :])
        assert await asyncio.gather(*tasks) == [b"re %d" % index for index in range(10)]
        assert connection.pending_count == 0
        await connection.close()


async def test_messages_are_encoded_and_decoded() -> None:
    class Service(Handler):
        def __init__(self) -> None:
            self.keys: list[int] = []

        def handle(self, request: IncomingRequest, respond: Respond) -> None:
            self.keys.append(request.wire_api_key)
            message = decode_request(request.api_key, request.api_version, request.data, request.body_offset)
            assert isinstance(message, messages.DeleteTopicsRequest)
            results = tuple(messages.DeletableTopicResult(topic_id=one.topic_id, error_code=100) for one in message.topics)
            respond(encode(messages.DeleteTopicsResponse(responses=results)))

    service = Service()
    async with serving(service) as (_, port):
        connection = await _connect(port)
        request = messages.DeleteTopicsRequest(topics=(messages.DeletableTopicState(topic_id=bytes(range(16))),))
        expected = messages.DeleteTopicsResponse(responses=(messages.DeletableTopicResult(topic_id=bytes(range(16)), error_code=100),))
        assert await connection.call(request, REMAINS_S) == expected
        assert await connection.call(request, REMAINS_S, api_key=ApiKey.KIP_DELETE_TOPICS) == expected
        assert service.keys == [10094, 94]
        request_type: Any = APIS[18].versions[4].request_type
        answer = await connection.call(request_type(client_software_name="n", client_software_version="1"), REMAINS_S)
        assert encode(answer) == ApiTable().api_versions_body(4)
        await connection.close()


async def test_a_request_times_out_and_its_late_reply_harms_nothing() -> None:
    handler = Held()
    async with serving(handler) as (_, port):
        connection = await _connect(port)
        with pytest.raises(RequestTimedOut, match=r"no reply to request 10100 within 0.01 s"):
            await connection.request(KEY, 0, b"", 0.01)
        await handler.wait_for(1)
        second = asyncio.ensure_future(connection.request(KEY, 0, b"", REMAINS_S))
        await handler.wait_for(2)
        handler.requests[0][1](b"late")
        handler.requests[1][1](b"in time")
        assert await second == b"in time"
        assert connection.pending_count == 0
        assert connection.is_open
        await connection.close()


async def test_a_cancelled_request_s_reply_harms_nothing() -> None:
    handler = Held()
    async with serving(handler) as (_, port):
        connection = await _connect(port)
        first = asyncio.ensure_future(connection.request(KEY, 0, b"", REMAINS_S))
        await handler.wait_for(1)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        handler.requests[0][1](b"nobody waits")
        second = asyncio.ensure_future(connection.request(KEY, 0, b"", REMAINS_S))
        await handler.wait_for(2)
        handler.requests[1][1](b"x")
        assert await second == b"x"
        await connection.close()


async def test_requests_under_way_are_lost_with_the_connection() -> None:
    handler = Held()
    async with serving(handler) as (server, port):
        connection = await _connect(port)
        task = asyncio.ensure_future(connection.request(KEY, 0, b"", REMAINS_S))
        await handler.wait_for(1)
        await server.stop(0)
        with pytest.raises(ConnectionLost) as lost:
            await task
        assert lost.value.was_sent
        assert not connection.is_open
        with pytest.raises(ConnectionLost) as later:
            await connection.request(KEY, 0, b"", REMAINS_S)
        assert not later.value.was_sent


async def test_closing_ends_requests() -> None:
    handler = Held()
    async with serving(handler) as (server, port):
        connection = await _connect(port)
        task = asyncio.ensure_future(connection.request(KEY, 0, b"", REMAINS_S))
        await handler.wait_for(1)
        await connection.close()
        await connection.close()
        with pytest.raises(ConnectionLost, match="closed by this side"):
            await task
        assert "closed by this side" in await connection.wait_closed()
        await until(lambda: server.stats.connections_open == 0)


async def test_nobody_listening() -> None:
    async with serving(Echo()) as (server, port):
        await server.stop(0)
        with pytest.raises(ConnectionLost) as lost:
            await _connect(port)
        assert not lost.value.was_sent


@asynccontextmanager
async def _raw_server(behave: Callable[[asyncio.Transport, bytes], None]) -> AsyncIterator[int]:
    """A server that does with the bytes it gets what the test says."""

    class Raw(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.transport = transport
            transports.append(transport)

        def data_received(self, data: bytes) -> None:
            behave(self.transport, data)  # type: ignore[arg-type]

    transports: list[asyncio.BaseTransport] = []
    server = await asyncio.get_running_loop().create_server(Raw, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for transport in transports:
            transport.close()


@pytest.mark.parametrize(
    ("reply", "text"),
    [(reply_frame(99, b""), "reply to request 99"), (b"\0\0\0\0", "frame of 0 bytes"), (b"\0\0\0\1x", "no response header")],
)
async def test_nonsense_from_the_server_closes_the_connection(reply: bytes, text: str) -> None:
    async with _raw_server(lambda transport, _: transport.write(reply)) as port:
        connection = await _connect(port)
        with pytest.raises(ConnectionLost, match=text):
            await connection.request(KEY, 0, b"", REMAINS_S)
        await connection.close()


async def test_a_malformed_reply_is_told_to_the_caller_only() -> None:
    async with _raw_server(lambda transport, data: transport.write(b"\0\0\0\4" + data[8:12])) as port:
        connection = await _connect(port)
        with pytest.raises(MalformedMessage):
            await connection.request(KEY, 0, b"", REMAINS_S)
        assert connection.is_open
        await connection.close()


async def test_a_server_that_does_not_read_makes_requests_wait() -> None:
    def never_read(transport: asyncio.Transport, _: bytes) -> None:
        transport.pause_reading()

    async with _raw_server(never_read) as port:
        connection = await _connect(port)
        with pytest.raises(RequestTimedOut, match="no reply"):
            await connection.request(KEY, 0, bytes(32 << 20), 0.05)
        with pytest.raises(RequestTimedOut, match="was not sent"):
            await connection.request(KEY, 0, b"", 0.05)
        assert connection.pending_count == 1
        await connection.close()
