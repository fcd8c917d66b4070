"""A connection from its arrival to the end of its TLS handshake; then the connection takes the transport, and this is out of the way.

The handshake is asked for by `start_tls`, not left to the listening socket: so the arrival is counted and bounded, ends of handshakes are
logged, and every handshake takes the newest certificate. It begins with the first bytes, so a client that says nothing costs a socket.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import Final, Protocol, cast

from coordinator.adapters.server.close_log import CloseLog
from coordinator.adapters.server.connection import Connection, peer_name
from coordinator.adapters.server.contract import CloseReason, ListenerSecurity, Peer, ServerLimits, ServerStats
from coordinator.adapters.server.waiting_room import WaitingRoom
from coordinator.security.login import LoginFailed
from coordinator.security.principal import ANONYMOUS, Principal
from coordinator.security.tls_errors import explain_to_server

log = logging.getLogger(__name__)

SHUTDOWN_TIMEOUT_S: Final = 5.0
_HUNG_UP: Final = (
    "the client hung up in its handshake, as clients do that do not accept this listener's certificate: its authority, its time or its "
    "host names"
)


class ArrivalOwner(Protocol):
    """The server as arrivals see it."""

    limits: ServerLimits
    stats: ServerStats
    listener: str
    security: ListenerSecurity
    waiting_room: WaitingRoom
    close_log: CloseLog

    def admit(self, guest: Arrival) -> bool:
        """Register an arrival, unless there are too many connections."""

    def exchange(self, guest: Arrival, connection: Connection) -> None:
        """Register the connection in place of its arrival."""

    def forget(self, guest: Arrival) -> None:
        """Note that an arrival is gone."""


class Arrival(asyncio.Protocol):
    """See the module."""

    def __init__(self, owner: ArrivalOwner, connection_id: int, context: ssl.SSLContext, connect: Callable[[], Connection]) -> None:
        """`connect` makes the connection of this arrival."""
        self._owner = owner
        self._context = context
        self._connect = connect
        self._peer = Peer(connection_id, owner.listener, "?", ANONYMOUS)
        self._raw: asyncio.Transport | None = None
        self._end: CloseReason | None = None
        self._task: asyncio.Task[None] | None = None
        self._early: list[bytes] = []
        self._is_wrapped = False
        self._connection: Connection | None = None
        self._is_lost = False

    @property
    def peer(self) -> Peer:
        """The client that shakes hands."""
        return self._peer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the first bytes, or hang up."""
        self._raw = cast(asyncio.Transport, transport)
        self._peer = self._peer._replace(address=peer_name(transport))
        if not self._owner.admit(self):
            self._end = CloseReason.TOO_MANY
            self._raw.abort()
            return
        self._owner.waiting_room.enter(self)

    def data_received(self, data: bytes) -> None:
        """Begin the handshake with the first bytes; keep what comes with the last ones."""
        self._early.append(data)
        if self._task is None and self._raw is not None:
            self._raw.pause_reading()
            self._task = asyncio.get_running_loop().create_task(self._shake_hands(self._raw), name="tls-handshake")

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the client went away; the loop may tell this object so after it has handed over."""
        self._is_lost = True
        if self._connection is not None:
            self._connection.connection_lost(exc)
        elif not self._is_wrapped or self._task is None or self._task.done():
            if self._task is not None:
                self._task.cancel()
            self._leave(CloseReason.CLIENT, "")

    def drain(self) -> None:
        """Hang up: nothing was asked yet."""
        self.abort()

    def abort(self) -> None:
        """Hang up."""
        self.turn_out(CloseReason.SHUTDOWN, "in its TLS handshake")

    def turn_out(self, reason: CloseReason, detail: str) -> None:
        """See `Guest`."""
        self._note_end(reason, detail)
        if self._raw is not None:
            self._raw.abort()

    async def _shake_hands(self, raw: asyncio.Transport) -> None:
        try:
            secured = await self._wrap(raw)
            principal = self._principal(secured)
        except ssl.SSLError as error:
            self._leave(CloseReason.TLS_FAILED, explain_to_server(error))
        except LoginFailed as error:
            self._leave(CloseReason.LOGIN_FAILED, error.detail)
        except (OSError, RuntimeError):
            self._leave(CloseReason.TLS_FAILED, _HUNG_UP)
        except Exception as error:  # the connection would count for ever
            log.exception("TLS handshake failed listener=%s peer=%s", self._peer.listener, self._peer.address)
            self._leave(CloseReason.TLS_FAILED, repr(error))
        else:
            self._hand_over(secured, principal)

    async def _wrap(self, raw: asyncio.Transport) -> asyncio.Transport:
        """Return the transport of what TLS decrypts. Raises OSError; `ssl.SSLError` is one."""
        loop = asyncio.get_running_loop()
        timeout_s = self._owner.limits.login_timeout_ms / 1000
        wrapping = loop.create_task(
            loop.start_tls(
                raw, self, self._context, server_side=True, ssl_handshake_timeout=timeout_s, ssl_shutdown_timeout=SHUTDOWN_TIMEOUT_S
            )
        )
        wrapping.add_done_callback(lambda done: done.cancelled() or done.exception())  # marks it as seen
        await asyncio.sleep(0)  # TLS is the protocol of the transport from here on
        protocol = raw.get_protocol()
        if protocol is None or protocol is self:
            wrapping.cancel()
            raise ConnectionResetError  # the client was gone before TLS began
        self._feed(cast(asyncio.BufferedProtocol, protocol))
        secured = await wrapping
        tls = None if secured is None else secured.get_extra_info("ssl_object")
        if secured is None or tls is None or tls.version() is None:
            raise ConnectionResetError  # the loops tell nothing else of a client that hung up
        return secured

    def _feed(self, tls: asyncio.BufferedProtocol) -> None:
        """Give TLS the first bytes."""
        data, self._early, self._is_wrapped = memoryview(b"".join(self._early)), [], True
        while data:
            buffer = memoryview(tls.get_buffer(len(data)))
            size = min(len(buffer), len(data))
            buffer[:size] = data[:size]
            tls.buffer_updated(size)
            data = data[size:]

    def _principal(self, secured: asyncio.Transport) -> Principal:
        """Return the principal of the certificate, which TLS has verified. Raises `LoginFailed`."""
        certificate = secured.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return ANONYMOUS if certificate is None else self._owner.security.principal_of(certificate)

    def _hand_over(self, secured: asyncio.Transport, principal: Principal) -> None:
        if self._end is not None:
            secured.abort()
            self._owner.forget(self)
            return
        connection = self._connection = self._connect()
        self._owner.exchange(self, connection)
        if self._owner.security.has_login:
            self._owner.waiting_room.exchange(self, connection)
        else:
            self._owner.waiting_room.leave(self)
        connection.secured(secured, self._peer._replace(principal=principal))
        secured.set_protocol(connection)
        for data in self._early:
            connection.data_received(data)
        if self._is_lost:
            connection.connection_lost(None)

    def _leave(self, reason: CloseReason, detail: str) -> None:
        self._note_end(reason, detail)
        if self._raw is not None:
            self._raw.abort()
        if self._end is not CloseReason.TOO_MANY:
            self._owner.waiting_room.leave(self)
            self._owner.forget(self)

    def _note_end(self, reason: CloseReason, detail: str) -> None:
        if self._end is not None:
            return
        self._end = reason
        self._owner.stats.closed[reason] += 1
        now_s = asyncio.get_running_loop().time()
        self._owner.close_log.note(reason, detail, connection_id=self._peer.connection_id, peer=self._peer.address, now_s=now_s)
