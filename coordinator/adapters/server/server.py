"""A listener: accepts connections up to a limit, counts them, and stops gracefully.

Owns the listening socket and the set of connections; what happens inside a connection is `connection.py`'s.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from typing import Final

from coordinator.adapters.server.close_log import CloseLog
from coordinator.adapters.server.connection import Connection
from coordinator.adapters.server.contract import (
    CloseReason,
    Desk,
    Handler,
    ListenerSecurity,
    OpenDesk,
    ServedApis,
    ServerLimits,
    ServerStats,
)
from coordinator.adapters.server.limits import AddressLimit
from coordinator.adapters.server.login_desk import LoginDesk
from coordinator.adapters.server.repeats import Repeats
from coordinator.adapters.server.request_memory import RequestMemory
from coordinator.adapters.server.tls_handshake import Arrival
from coordinator.adapters.server.waiting_room import WaitingRoom

log = logging.getLogger(__name__)

_BACKLOG: Final = 1024
_IDS: Final = itertools.count(1)
"""Ids of connections, unique over all listeners: the order and the fairness of requests go by the id alone."""


class Server:
    """One listener. `start`, or `bind` and `listen`, and `stop` once each, on the event loop."""

    def __init__(
        self,
        handler: Handler,
        table: ServedApis,
        *,
        listener: str = "internal",
        limits: ServerLimits | None = None,
        stats: ServerStats | None = None,
        security: ListenerSecurity | None = None,
        open_desk: OpenDesk | None = None,
        addresses: AddressLimit | None = None,
        memory: RequestMemory | None = None,
    ) -> None:
        """`open_desk` makes who takes the login requests of a connection; without it logins are those of `security`.

        `addresses` bounds the connections of each address, and `memory` what requests take, together with other listeners that have the
        same object. Without `memory` unfinished requests have what `limits` say.
        """
        self.handler = handler
        """Serves the requests that are read from now on; may be replaced."""
        self.listener = listener
        self.table = table
        self.limits = limits or ServerLimits()
        self.stats = stats or ServerStats()
        self.security = security or ListenerSecurity()
        self.waiting_room = WaitingRoom(self.limits.logins_waiting_max, self.limits.login_timeout_ms)
        self.close_log = CloseLog(listener)
        self.repeats = Repeats(self.stats)
        self._open_desk = open_desk
        self._addresses = addresses
        self.memory = memory or RequestMemory(self.limits.unfinished_bytes_max)
        self._connections: set[Connection | Arrival] = set()
        self._listening: asyncio.Server | None = None
        self._is_full = False
        self._all_gone = asyncio.Event()
        self._all_gone.set()

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port, which the system chooses if it is 0. Raises OSError."""
        await self.bind(host, port)
        return await self.listen()

    async def bind(self, host: str, port: int) -> None:
        """Take the address; connections are refused until `listen`. Raises OSError, also when another process listens there."""
        self._listening = await asyncio.get_running_loop().create_server(
            self._arrive, host, port, backlog=_BACKLOG, reuse_address=True, start_serving=False
        )

    async def listen(self) -> int:
        """Take connections; returns the port. Raises OSError."""
        assert self._listening is not None
        await self._listening.start_serving()
        host, bound = self._listening.sockets[0].getsockname()[:2]
        log.info(
            "listening listener=%s host=%s port=%d tls=%s login=%s",
            self.listener, host, bound, self.security.tls is not None, self.security.has_login,
        )  # fmt: skip
        return int(bound)

    def _arrive(self) -> Connection | Arrival:
        connection_id, loop = next(_IDS), asyncio.get_running_loop()
        if self.security.tls is None:
            return Connection(self, connection_id, loop)
        return Arrival(self, connection_id, self.security.tls(), lambda: Connection(self, connection_id, loop))

    def open_desk(self, connection: Connection) -> Desk:
        """Return who takes the login requests of a connection."""
        return LoginDesk(connection, self.security, self.limits) if self._open_desk is None else self._open_desk(connection)

    async def stop(self, deadline_ms: int) -> None:
        """Stop accepting, answer the requests that were read, close; connections left after `deadline_ms` are cut off."""
        if self._listening is not None:
            self._listening.close()
            self._listening = None
        for connection in list(self._connections):
            connection.drain()
        try:
            async with asyncio.timeout(deadline_ms / 1000):
                await self._all_gone.wait()
        except TimeoutError:
            log.warning("connections cut off listener=%s connections=%d deadline_ms=%d", self.listener, len(self._connections), deadline_ms)
            for connection in list(self._connections):
                connection.abort()
            await self._all_gone.wait()
        self.repeats.close(asyncio.get_running_loop())

    def admit(self, connection: Connection | Arrival) -> bool:
        """Register a new connection, unless there are too many."""
        if len(self._connections) >= self.limits.connections_max or self._listening is None:
            self.stats.closed[CloseReason.TOO_MANY if self._listening else CloseReason.SHUTDOWN] += 1
            if self._listening is not None and not self._is_full:
                # Once for each time the limit is reached: a flood of connections must not become a flood of lines.
                log.warning(
                    "connections refused listener=%s peer=%s reason='too many' limit=%d remedy='raise connections.max or add nodes'",
                    self.listener,
                    connection.peer.address,
                    self.limits.connections_max,
                )
                self._is_full = True
            return False
        if self._addresses is not None and not self._addresses.enter(connection.peer.address):
            self.stats.closed[CloseReason.TOO_MANY] += 1
            detail = f"its address has {self._addresses.connections_max} ({self._addresses.setting})"
            now_s, peer = asyncio.get_running_loop().time(), connection.peer
            self.close_log.note(CloseReason.TOO_MANY, detail, connection_id=peer.connection_id, peer=peer.address, now_s=now_s)
            return False
        self._connections.add(connection)
        self._all_gone.clear()
        self.stats.connections_opened += 1
        self.stats.connections_open = len(self._connections)
        return True

    def exchange(self, guest: Arrival, connection: Connection) -> None:
        """Register a connection in place of its arrival."""
        self._connections.remove(guest)
        self._connections.add(connection)

    def forget(self, connection: Connection | Arrival) -> None:
        """Note that a connection is gone."""
        if self._addresses is not None and connection in self._connections:
            self._addresses.leave(connection.peer.address)
        self._connections.discard(connection)
        self.stats.connections_open = len(self._connections)
        self._is_full = False
        if not self._connections:
            self._all_gone.set()
