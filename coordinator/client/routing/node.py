"""One node, spoken to directly: no discovery, no retries, errors as they come. For tests, tools and diagnosis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from coordinator.client.routing.pool import ConnectionPool, Line
from coordinator.protocol.api_keys import ApiKey
from coordinator.protocol.codec import Message

if TYPE_CHECKING:  # the codec of commits needs numpy, which other requests do without
    from coordinator.protocol.commit_file import CommitFileBody, CommitResults

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

    async def commit_raw(self, file: CommitFileBody, timeout_ms: int = TIMEOUT_MS) -> CommitResults:
        """Send a CommitFile exactly as given. Raises what `request` raises, UnencodableMessage."""
        from coordinator.protocol.commit_file import decode_commit_response, encode_commit_file

        return decode_commit_response(await self.request(ApiKey.COMMIT_FILE, 0, encode_commit_file(file), timeout_ms))
