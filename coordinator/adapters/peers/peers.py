"""`Peers` over the client's connections: one connection to each node, made again when it is lost.

Never retries a request that may have been received: the caller knows whether that is safe.
Invariant: every call ends in the response or in `PeerUnavailable`, at the latest after its timeout.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Final

from coordinator.client.routing.connection import ConnectionLost, RequestTimedOut
from coordinator.client.routing.pool import CONNECT_TIMEOUT_S, ConnectionPool, Line
from coordinator.protocol.codec import Message
from coordinator.protocol.wire import MalformedMessage
from coordinator.runtime.ports import PeerGone, PeerUnavailable
from coordinator.security.client_security import PLAIN_TEXT, ClientSecurity

LOG = logging.getLogger("coordinator.access")

QUIET_S: Final = 60.0
TELLS_AFTER_S: Final = 5.0
"""A refused login is told when it lasts so long: a node that has just started does not know the nodes' secret yet."""


class PooledPeers:
    """Implements `coordinator.runtime.ports.Peers`. Used on one event loop; close it when the node stops."""

    def __init__(
        self,
        *,
        client_id: str,
        security: ClientSecurity = PLAIN_TEXT,
        can_log_in: asyncio.Event | None = None,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        tells_after_s: float = TELLS_AFTER_S,
    ) -> None:
        """No node is called before `can_log_in` is set; None: nodes may be called at once."""
        self._pool = ConnectionPool(client_id=client_id, security=security, connect_timeout_s=connect_timeout_s)
        self._can_log_in = can_log_in
        self._tells_after_s = tells_after_s
        self._refused_s: dict[tuple[str, int], float] = {}
        """Since when nodes refuse the login, by address."""
        self._said_s: dict[tuple[str, int], float] = {}

    async def call(self, host: str, port: int, request: Message, timeout_ms: int) -> Message:
        """Send a request and return its response. Raises `PeerUnavailable`; the request may have taken effect nevertheless."""
        if self._can_log_in is not None and not self._can_log_in.is_set():
            timeout_ms = await self._wait_for_login(host, port, timeout_ms)
        try:
            response = await self._pool.call(Line(host, port, "peer"), request, timeout_ms / 1000)
        except (ConnectionLost, RequestTimedOut) as error:
            if isinstance(error, ConnectionLost) and error.is_refused:
                self._say(host, port, str(error))
            raise (PeerGone if isinstance(error.__cause__, ConnectionRefusedError) else PeerUnavailable)(str(error)) from error
        except MalformedMessage as error:
            what = f"{host}:{port}: the reply to {type(request).__name__} cannot be read ({error})"
            raise PeerUnavailable(f"{what}; do both nodes run compatible versions?") from error
        self._refused_s.pop((host, port), None)
        return response

    async def _wait_for_login(self, host: str, port: int, timeout_ms: int) -> int:
        """Return how much time is left. Raises `PeerUnavailable`."""
        assert self._can_log_in is not None
        loop = asyncio.get_running_loop()
        end_s = loop.time() + timeout_ms / 1000
        try:
            async with asyncio.timeout_at(end_s):
                await self._can_log_in.wait()
        except TimeoutError as error:
            raise PeerUnavailable(f"{host}:{port} was not asked: the nodes' secret is not known yet") from error
        return max(1, int((end_s - loop.time()) * 1000))

    def _say(self, host: str, port: int, why: str) -> None:
        now_s = time.monotonic()
        has_lasted = now_s - self._refused_s.setdefault((host, port), now_s) >= self._tells_after_s
        if has_lasted and now_s - self._said_s.get((host, port), -QUIET_S) >= QUIET_S:
            self._said_s[host, port] = now_s
            LOG.warning("another node refuses the login of this one: %s; do all nodes have the same internal.* settings?", why)

    async def close(self) -> None:
        """Close every connection; calls under way end with `PeerUnavailable`."""
        await self._pool.close()
