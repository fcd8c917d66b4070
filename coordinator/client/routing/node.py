"""One node, spoken to directly: no discovery, no retries, errors as they come. For tests, tools and diagnosis."""

from __future__ import annotations

from typing import Final

from coordinator.client.routing.pool import ConnectionPool, Line
from coordinator.protocol.codec import Message

TIMEOUT_MS: Final = 10_000


class NodeClient:
    """Requests to one (host, port), pipelined over one connection of its own."""

    def __init__(self, pool: ConnectionPool, host: str, port: int) -> None:
        self._pool = pool
        self._line = Line(host, port, "raw")

    async def call(self, message: Message, timeout_ms: int = TIMEOUT_MS, *, api_key: int | None = None) -> Message:
        """Send a message and return its response. Raises ConnectionLost, RequestTimedOut, MalformedMessage, UnencodableMessage."""
        return await self._pool.call(self._line, message, timeout_ms / 1000, api_key=api_key)

    async def request(self, api_key: int, api_version: int, body: bytes, timeout_ms: int = TIMEOUT_MS) -> bytes:
        """Send an encoded body and return the reply's. Raises ConnectionLost, RequestTimedOut, MalformedMessage."""
        return await self._pool.request(self._line, api_key, api_version, body, timeout_ms / 1000)
