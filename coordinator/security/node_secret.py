"""The secret by which the nodes of a service know each other: the password of their own user, `diskless-node`, on every listener.

By SCRAM it is proven in both directions, bound to one connection by both sides' nonces, and never sent.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Final

from coordinator.printable import quoted
from coordinator.security.login import NODE_MECHANISM, NODE_USER
from coordinator.security.scram import ITERATIONS_MIN, SALT_BYTES, ScramCredentials

SECRET_CHARACTERS_MIN: Final = 32
SECRET_CHARACTERS_MAX: Final = 4096


class NodeSecretError(Exception):
    """The secret cannot be used; the text names file and remedy, and nothing of the secret."""


class NodeSecret:
    """Implements `coordinator.security.scram.ScramUsers` for the one user of nodes. No login succeeds while the secret is not known."""

    def __init__(self, ask: Callable[[], None] = lambda: None) -> None:
        """`ask` is called at each login as a node: the secret known here may be an old one."""
        self.ask = ask
        """Has the secret looked for again where it comes from."""
        self.is_known = asyncio.Event()
        self._salt = secrets.token_bytes(SALT_BYTES)
        self._secret: str | None = None
        self._credentials: ScramCredentials | None = None

    @property
    def secret(self) -> str | None:
        """The secret; None while it is not known."""
        return self._secret

    def learn(self, secret: str) -> None:
        """Take a secret; logins that have ended already stay."""
        if secret != self._secret:
            self._secret = secret
            self.is_known.set()
            # A random text of this length cannot be guessed: more rounds would only cost time at each connection.
            self._credentials = ScramCredentials.of(NODE_MECHANISM, secret, self._salt, ITERATIONS_MIN)

    def find(self, mechanism: str, user: str) -> ScramCredentials | None:
        """See `ScramUsers`."""
        if user != NODE_USER or mechanism != NODE_MECHANISM:
            return None
        self.ask()
        return self._credentials


def read_node_secret(file: Path) -> str:
    """Return the secret of a file. Raises `NodeSecretError`."""
    remedy = f"`openssl rand -hex 32 > {quoted(str(file))}` makes one; give every node the same"
    try:
        with file.open("rb") as opened:
            secret = opened.read(2 * SECRET_CHARACTERS_MAX).strip()
    except OSError as error:
        raise NodeSecretError(f"internal.secret.file {file}: {error.strerror or error}; {remedy}") from error
    if not SECRET_CHARACTERS_MIN <= len(secret) <= SECRET_CHARACTERS_MAX or any(not 0x21 <= byte <= 0x7E for byte in secret):
        limit = f"it must hold one secret of {SECRET_CHARACTERS_MIN} to {SECRET_CHARACTERS_MAX} printable ASCII characters without spaces"
        raise NodeSecretError(f"internal.secret.file {file}: {limit}; {remedy}")
    return secret.decode("ascii")
