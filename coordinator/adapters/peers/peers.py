"""`Peers` over the client's connections: one connection to each node, made again when it is lost.

Never retries a request that may have been received: the caller knows whether that is safe.
Invariant: every call ends in the response or in `PeerUnavailable`, at the latest after its timeout.
"""

from __future__ import annotations

from coordinator.client.connection import ConnectionLost, RequestTimedOut
from coordinator.client.pool import CONNECT_TIMEOUT_S, ConnectionPool, Line
from coordinator.protocol.codec import Message
from coordinator.protocol.wire import MalformedMessage
from coordinator.runtime.ports import PeerGone, PeerUnavailable
from coordinator.security.client_security import PLAIN_TEXT, ClientSecurity


class PooledPeers:
    """Implements `coordinator.runtime.ports.Peers`. Used on one event loop; close it when the node stops."""

    def __init__(self, *, client_id: str, security: ClientSecurity = PLAIN_TEXT, connect_timeout_s: float = CONNECT_TIMEOUT_S) -> None:
        self._pool = ConnectionPool(client_id=client_id, security=security, connect_timeout_s=connect_timeout_s)

    async def call(self, host: str, port: int, request: Message, timeout_ms: int) -> Message:
        """Send a request and return its response. Raises `PeerUnavailable`; the request may have taken effect nevertheless."""
        try:
            return await self._pool.call(Line(host, port, "peer"), request, timeout_ms / 1000)
        except (ConnectionLost, RequestTimedOut) as error:
            raise (PeerGone if isinstance(error.__cause__, ConnectionRefusedError) else PeerUnavailable)(str(error)) from error
        except MalformedMessage as error:
            what = f"{host}:{port}: the reply to {type(request).__name__} cannot be read ({error})"
            raise PeerUnavailable(f"{what}; do both nodes run compatible versions?") from error

    async def close(self) -> None:
        """Close every connection; calls under way end with `PeerUnavailable`."""
        await self._pool.close()
