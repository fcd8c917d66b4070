"""The secret that nodes of the service share: with it they log in to each other, by SCRAM, and are known as nodes."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Final

from coordinator.security.login import NODE_MECHANISM, NODE_USER
from coordinator.security.scram import ITERATIONS_MIN, SALT_BYTES, ScramCredentials

SECRET_CHARACTERS_MIN: Final = 16
SECRET_CHARACTERS_MAX: Final = 1024


class NodeSecretError(Exception):
    """The secret cannot be used; the text names file and remedy, and nothing of the secret."""


class NodeSecret:
    """Implements `coordinator.security.scram.ScramUsers`: it knows `diskless-node` alone, by SCRAM-SHA-256."""

    def __init__(self, secret: str) -> None:
        self.secret = secret
        # A random text of this length cannot be guessed, so more rounds would protect nothing.
        self._credentials = ScramCredentials.of(NODE_MECHANISM, secret, secrets.token_bytes(SALT_BYTES), ITERATIONS_MIN)

    def find(self, mechanism: str, user: str) -> ScramCredentials | None:
        """See `ScramUsers`."""
        return self._credentials if (mechanism, user) == (NODE_MECHANISM, NODE_USER) else None


def read_node_secret(file: Path) -> NodeSecret:
    """Read the secret from a file. Raises `NodeSecretError`."""
    remedy = f"`openssl rand -hex 24 > {file}` makes one; give every node the same"
    try:
        with file.open("rb") as opened:
            text = opened.read(4 * SECRET_CHARACTERS_MAX).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        why = (error.strerror or str(error)) if isinstance(error, OSError) else "it is no UTF-8"
        raise NodeSecretError(f"internal.secret.file {file}: {why}; {remedy}") from error
    if not SECRET_CHARACTERS_MIN <= len(text) <= SECRET_CHARACTERS_MAX or not text.isprintable():
        limit = f"it is not one line of {SECRET_CHARACTERS_MIN} to {SECRET_CHARACTERS_MAX} characters"
        raise NodeSecretError(f"internal.secret.file {file}: {limit}; {remedy}")
    return NodeSecret(text)
