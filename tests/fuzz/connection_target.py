"""A whole connection of a listener with logins: whatever a stranger sends, in whatever pieces, nothing is served before a login.

The connection is the product's, with a transport in memory; so are its logins. It knows one user.
"""

from __future__ import annotations

import asyncio
import functools
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from coordinator.adapters.server.connection import Connection
from coordinator.adapters.server.contract import (
    Handler,
    IncomingRequest,
    ListenerSecurity,
    RequestRun,
    Respond,
    ServerLimits,
    TakeRun,
)
from coordinator.adapters.server.server import Server
from coordinator.config.sections.security import SaslMechanism
from coordinator.operations.table import ApiTable
from coordinator.protocol.api_keys import ApiKey
from coordinator.protocol.framing import FrameReader, request_frame
from coordinator.security.mechanisms import ListenerLogins
from coordinator.security.scram import NoUsers, ScramClient
from tests.fuzz.engine import Target
from tests.fuzz.login_targets import PASSWORD, USER, known_users, passwords, run

LIMITS = ServerLimits(login_failure_delay_ms=0, login_request_bytes_max=4096)
RIGHT = f"\0{USER}\0{PASSWORD}".encode()
OUTPUT_FRAME_MAX = 1 << 20


class _Served(Handler):
    """Notes and answers every request; commits come in runs."""

    def __init__(self) -> None:
        self.seen: list[IncomingRequest] = []

    def handle(self, request: IncomingRequest, respond: Respond) -> None:
        self.seen.append(request)
        respond(b"")

    @property
    def runs(self) -> Mapping[int, TakeRun]:
        return {int(ApiKey.COMMIT_FILE): self._take}

    def _take(self, run: RequestRun) -> None:
        for place, (request, _) in enumerate(run.each()):
            self.seen.append(request)
            run.replies.give_all([(place, b"")])


class _Pipe(asyncio.Transport):
    """Keeps what is written; ends the connection when it is closed, as a socket does: later."""

    def __init__(self, protocol: asyncio.Protocol) -> None:
        super().__init__({"peername": ("127.0.0.1", 1)})
        self._protocol = protocol
        self.written = bytearray()
        self.is_ended = False

    def write(self, data: Any) -> None:
        self.written += data

    def close(self) -> None:
        if not self.is_ended:
            self.is_ended = True
            asyncio.get_running_loop().call_soon(self._protocol.connection_lost, None)

    abort = close

    def is_closing(self) -> bool:
        return self.is_ended

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...


async def _start() -> tuple[Server, _Served]:
    served = _Served()
    logins = ListenerLogins(
        [SaslMechanism.PLAIN, SaslMechanism.SCRAM_SHA_256], nodes=NoUsers(), users=known_users(USER), passwords=passwords()
    )
    server = Server(served, ApiTable(), limits=LIMITS, security=ListenerSecurity(has_login=True, logins=logins))
    # It admits connections while it listens, and no other than those of this module comes.
    await server.start("127.0.0.1", 0)
    return server, served


@functools.cache
def _server() -> tuple[Server, _Served]:
    return run(_start())


async def _feed(server: Server, data: bytes) -> bytes:
    step, stream = 1 + (data[0] if data else 0) * 8, data[1:]
    connection = Connection(server, 1, asyncio.get_running_loop())
    pipe = _Pipe(connection)
    connection.connection_made(pipe)
    for at in range(0, len(stream), step):
        if pipe.is_ended:
            break
        connection.data_received(stream[at : at + step])
        if at % (8 * step) == 0:
            await _settle()
    await _settle()
    pipe.close()
    await _settle()
    return bytes(pipe.written)


async def _settle() -> None:
    """Let logins that are under way come to their answers."""
    for _ in range(4):
        under_way = asyncio.all_tasks() - {asyncio.current_task()}
        if under_way:
            await asyncio.wait(under_way)
        await asyncio.sleep(0)


def serve(data: bytes) -> tuple[Sequence[IncomingRequest], bytes]:
    """The requests that a stream leads to, and what is answered. The first byte says in how large pieces the rest comes."""
    server, served = _server()
    served.seen.clear()
    return served.seen, run(_feed(server, data))


def _connection(data: bytes) -> None:
    seen, written = serve(data)
    server, _ = _server()
    assert not seen or RIGHT in data, "a request was served without a login"
    assert all(one.peer.principal.name == USER and not one.peer.principal.is_node for one in seen)
    frames = list(FrameReader(OUTPUT_FRAME_MAX).feed(written))
    assert sum(4 + len(frame) for frame in frames) == len(written), "an answer is not whole"
    assert (server.stats.connections_open, len(server.waiting_room)) == (0, 0)


def _call(key: int, version: int, body: bytes, number: int, *, flexible: bool = False) -> bytes:
    return request_frame(key, version, number, "c", body, flexible=flexible)


def _handshake(mechanism: str) -> bytes:
    return _call(ApiKey.SASL_HANDSHAKE, 1, struct.pack(">h", len(mechanism)) + mechanism.encode(), 1)


def _message(data: bytes) -> bytes:
    return _call(ApiKey.SASL_AUTHENTICATE, 0, struct.pack(">i", len(data)) + data, 2)


def _seeds() -> Iterator[bytes]:
    versions = _call(ApiKey.API_VERSIONS, 0, b"", 5)
    ask = _call(ApiKey.DESCRIBE_TOPICS, 0, b"\x01\x00\x00\x00\x01\x00", 9, flexible=True)
    commits = b"".join(_call(ApiKey.COMMIT_FILE, 0, b"body", number, flexible=True) for number in range(10, 14))
    plain = _handshake("PLAIN") + _message(RIGHT)
    scram = _handshake("SCRAM-SHA-256") + _message(ScramClient("SCRAM-SHA-256", USER, PASSWORD, nonce="client").first())
    for pieces in (b"\0", b"\xff"):
        yield pieces + versions + plain + ask
        yield pieces + ask
        yield pieces + _handshake("PLAIN") + _message(b"\0al=i,ce\0wrong") + ask
        yield pieces + scram + _message(b"c=biws,r=client,p=AAAA") + ask
        yield pieces + plain + plain + ask + scram + ask
        yield pieces + plain + commits + ask + commits


CONNECTION_TARGET = Target(name="connection", run=_connection, declared=(), seeds=_seeds, memory_bytes=1_000_000)
