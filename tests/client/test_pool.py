"""Pooled connections and the peers adapter over them, against the real socket server."""

from __future__ import annotations

import asyncio
import socket

import pytest

from coordinator.adapters.peers import PooledPeers
from coordinator.adapters.server.contract import Handler, IncomingRequest, Respond
from coordinator.client.routing.connection import ClientConnection, ConnectionLost, RequestTimedOut
from coordinator.client.routing.pool import ConnectionPool, Line
from coordinator.protocol.codec import encode
from coordinator.protocol.messages import DeleteTopicsResponse, RegisterNodeRequest, RegisterNodeResponse
from coordinator.runtime.ports import PeerUnavailable
from coordinator.security.client_security import ClientSecurity
from tests.client.strangers import listening
from tests.server.lines import KEY, REMAINS_S, Echo, Held, serving, until

REGISTER = RegisterNodeRequest(
    node_id=1,
    rack=None,
    endpoints=(),
    schema_level_max=1,
    incarnation_id=bytes(16),
    replaced_id=bytes(16),
    log_dirs=(),
    is_any_dir_offline=False,
)


class Registers(Handler):
    def handle(self, _request: IncomingRequest, respond: Respond) -> None:
        respond(encode(RegisterNodeResponse(error_code=0)))


class Garbles(Handler):
    def handle(self, _request: IncomingRequest, respond: Respond) -> None:
        respond(encode(DeleteTopicsResponse(responses=())) + b"more")


class HangsUp(Handler):
    def handle(self, _request: IncomingRequest, respond: Respond) -> None:
        respond(None)


def _pool(connect_timeout_s: float = REMAINS_S) -> ConnectionPool:
    return ConnectionPool(client_id="c", connect_timeout_s=connect_timeout_s)


async def test_requests_of_one_line_share_a_connection() -> None:
    echo = Echo()
    async with serving(echo) as (server, port):
        pool = _pool()
        line = Line("127.0.0.1", port, "a")
        bodies = [b"%d" % i for i in range(20)]
        assert await asyncio.gather(*(pool.request(line, KEY, 0, body, REMAINS_S) for body in bodies)) == bodies
        assert server.stats.connections_opened == 1
        await pool.request(line._replace(purpose="b"), KEY, 0, b"", REMAINS_S)
        assert server.stats.connections_opened == 2
        await pool.close()


async def test_a_lost_connection_is_made_again() -> None:
    async with serving(Echo()) as (server, port):
        pool = _pool()
        line = Line("127.0.0.1", port, "a")
        await pool.request(line, KEY, 0, b"", REMAINS_S)
        await server.stop(0)
        await until(lambda: not any(connection.is_open for connection in pool._open.values()))
        with pytest.raises(ConnectionLost) as refused:
            await pool.request(line, KEY, 0, b"", REMAINS_S)
        assert not refused.value.was_sent
        again = type(server)(Echo(), server.table, listener="test")
        assert await again.start("127.0.0.1", port) == port
        assert await pool.request(line, KEY, 0, b"x", REMAINS_S) == b"x"
        await pool.close()
        await again.stop(0)


async def test_a_silent_node_is_asked_over_a_new_connection() -> None:
    held = Held()
    async with serving(held) as (server, port):
        pool = _pool()
        line = Line("127.0.0.1", port, "a")
        # The connection is there before the short time begins, which on a busy machine may be over before one is made.
        first = asyncio.ensure_future(pool.request(line, KEY, 0, b"", REMAINS_S))
        await held.wait_for(1)
        held.requests[0][1](b"x")
        assert await first == b"x"
        with pytest.raises(RequestTimedOut):
            await pool.request(line, KEY, 0, b"", 0.01)
        again = asyncio.ensure_future(pool.request(line, KEY, 0, b"", REMAINS_S))
        await held.wait_for(3)
        assert server.stats.connections_opened == 2
        held.requests[2][1](b"y")
        assert await again == b"y"
        await pool.close()


async def test_closing_ends_what_waits() -> None:
    held = Held()
    async with serving(held) as (_, port):
        pool = _pool()
        waiting = asyncio.ensure_future(pool.request(Line("127.0.0.1", port, "a"), KEY, 0, b"", REMAINS_S))
        await held.wait_for(1)
        await pool.close()
        with pytest.raises(ConnectionLost):
            await waiting
        with pytest.raises(ConnectionLost, match="closed"):
            await pool.request(Line("127.0.0.1", port, "a"), KEY, 0, b"", REMAINS_S)


async def test_a_server_that_hangs_up_during_the_handshake_is_named_with_a_reason() -> None:
    async def hear_and_hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(65_536)
        writer.close()

    security = ClientSecurity({"security.protocol": "SSL"})
    async with listening(hear_and_hang_up) as port:
        with pytest.raises(ConnectionLost, match=f"127.0.0.1:{port}: the other side hangs up; does it speak this security.protocol"):
            await ClientConnection.connect("127.0.0.1", port, client_id="c", timeout_s=REMAINS_S, security=security)


async def test_closing_ends_an_attempt_to_connect() -> None:
    with socket.socket() as deaf:
        # A listener with a full backlog never completes another handshake.
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        port = deaf.getsockname()[1]
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
        pool = _pool()
        waiting = asyncio.ensure_future(pool.request(Line("127.0.0.1", port, "a"), KEY, 0, b"", REMAINS_S))
        await until(lambda: bool(pool._connecting))
        with pytest.raises(ConnectionLost, match="no connection in time"):
            await pool.request(Line("127.0.0.1", port, "a"), KEY, 0, b"", 0.01)
        await pool.close()
        with pytest.raises(ConnectionLost):
            await waiting
        for filler in fillers:
            filler.close()


async def test_peers_answer() -> None:
    async with serving(Registers()) as (_, port):
        peers = PooledPeers(client_id="diskless-1")
        assert await peers.call("127.0.0.1", port, REGISTER, 20_000) == RegisterNodeResponse(error_code=0)
        await peers.close()
        with pytest.raises(PeerUnavailable, match="closed"):
            await peers.call("127.0.0.1", port, REGISTER, 20_000)


@pytest.mark.parametrize(
    ("handler", "timeout_ms", "why"),
    [(HangsUp(), 20_000, "closed by the other side"), (Garbles(), 20_000, "compatible versions"), (Held(), 1_000, "no reply")],
)
async def test_a_peer_that_does_not_answer_is_unavailable(handler: Handler, timeout_ms: int, why: str) -> None:
    async with serving(handler) as (_, port):
        peers = PooledPeers(client_id="diskless-1")
        with pytest.raises(PeerUnavailable, match=why):
            await peers.call("127.0.0.1", port, REGISTER, timeout_ms)
        await peers.close()


async def test_a_peer_that_refuses_connections_is_unavailable() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, not listening
        peers = PooledPeers(client_id="diskless-1")
        with pytest.raises(PeerUnavailable):
            await peers.call("127.0.0.1", taken.getsockname()[1], REGISTER, 20_000)
        await peers.close()


@pytest.mark.parametrize(("host", "port"), [("a..b", 9192), ("x" * 70, 9192), ("\ud800", 9192), ("127.0.0.1", 70_000)])
async def test_an_address_that_is_none_is_a_lost_connection(host: str, port: int) -> None:
    """Nodes connect to what others registered: whatever stands there must not end them."""
    with pytest.raises(ConnectionLost):
        await ClientConnection.connect(host, port, client_id="test", timeout_s=5.0)
