"""How a client logs in, by SASL, as a server sees it: exchanges of one mechanism that end in a principal or in `LoginFailed`.

No sockets: a connection carries the exchanges and bounds their size, number and time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from coordinator.security.principal import Principal

NODE_USER: Final = "diskless-node"
"""The user of the service's own nodes. No file of users may define it."""
NODE_MECHANISM: Final = "SCRAM-SHA-256"
"""The mechanism of the service's own nodes, on every listener."""
WRONG_LOGIN: Final = "the user name or the password is wrong"
"""The text for a client. It does not say which of them: names of users are not told to strangers."""

NO_NODE_SECRET: Final = "this node does not know the nodes' secret: it may not have reached Kafka since it started"
"""The text for a node whose login nobody could pass here, which says nothing against its secret."""


class LoginFailed(Exception):
    """A login ends. The text is for the client; `detail` is for the log of the node and may say more."""

    def __init__(self, text: str, detail: str = "") -> None:
        super().__init__(text)
        self.detail = detail or text


class Step(NamedTuple):
    """The answer to one message. `principal` is set by the last step; the login then holds for `session_ms`, 0 means without end."""

    reply: bytes
    principal: Principal | None
    session_ms: int = 0


class ServerLogin(Protocol):
    """One login by one mechanism."""

    async def step(self, data: bytes) -> Step:
        """Take the client's next message. Raises `LoginFailed`. Awaits what takes long: password hashes, keys of an authority."""


class Logins(Protocol):
    """The logins of one listener."""

    @property
    def mechanisms(self) -> Sequence[str]:
        """The mechanisms that clients are offered."""

    def begin(self, mechanism: str) -> ServerLogin:
        """Begin a login. Raises `LoginFailed` for a mechanism that is not enabled."""
