"""PLAIN logins (RFC 4616): a password is compared with the user's SCRAM credentials.

The hash of a password takes tens of milliseconds, so it runs in a thread, one at a time. A password that was right is remembered by
a keyed hash in memory: clients that reconnect do not wait for the hashing of strangers' guesses.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from concurrent.futures import Executor
from typing import Final

from coordinator.security.login import WRONG_LOGIN, LoginFailed, Step
from coordinator.security.principal import Principal
from coordinator.security.scram import ITERATIONS, SALT_BYTES, SCRAM_HASHES, ScramCredentials, ScramUsers

PASSWORD_BYTES_MAX: Final = 1024
_STRONGEST_FIRST: Final = tuple(sorted(SCRAM_HASHES, reverse=True))
_NOBODY: Final = ScramCredentials(bytes(SALT_BYTES), bytes(64), bytes(64), ITERATIONS)


class PasswordCheck:
    """Compares passwords with the credentials of `users`. Used on one event loop."""

    def __init__(self, users: ScramUsers, executor: Executor) -> None:
        self._users = users
        self._executor = executor
        self._key = secrets.token_bytes(32)
        self._known_good: dict[str, tuple[ScramCredentials, bytes]] = {}

    async def is_right(self, user: str, password: str) -> bool:
        """Tell whether this is the password of a user; a user that is not known takes as long."""
        mechanism, credentials = self._credentials(user)
        digest = hmac.digest(self._key, password.encode(), "sha256")
        remembered = self._known_good.get(user)
        if remembered is not None and remembered[0] == credentials and hmac.compare_digest(remembered[1], digest):
            return True
        loop = asyncio.get_running_loop()
        shown = credentials or _NOBODY
        made = await loop.run_in_executor(self._executor, ScramCredentials.of, mechanism, password, shown.salt, shown.iterations)
        is_right = hmac.compare_digest(made.stored_key, shown.stored_key)
        if credentials is None or not is_right:
            return False
        self._known_good[user] = (credentials, digest)
        return True

    def _credentials(self, user: str) -> tuple[str, ScramCredentials | None]:
        for mechanism in _STRONGEST_FIRST:
            found = self._users.find(mechanism, user)
            if found is not None:
                return mechanism, found
        return _STRONGEST_FIRST[0], None


class PlainLogin:
    """One PLAIN login; implements `coordinator.security.login.ServerLogin`."""

    def __init__(self, passwords: PasswordCheck) -> None:
        self._passwords = passwords

    async def step(self, data: bytes) -> Step:
        """See `ServerLogin`."""
        try:
            acting_as, user, password = data.decode().split("\0")
        except ValueError as error:
            raise LoginFailed("malformed PLAIN message: it is not [AUTHZID] NUL USER NUL PASSWORD in UTF-8") from error
        if not user or len(user) > 255 or not password or len(password.encode()) > PASSWORD_BYTES_MAX:
            raise LoginFailed("malformed PLAIN message: user or password is empty or too long")
        if acting_as not in ("", user):
            raise LoginFailed("a user cannot act as another one", f"user {user!r} by PLAIN: wants to act as another user")
        if not await self._passwords.is_right(user, password):
            raise LoginFailed(WRONG_LOGIN, f"user {user!r} by PLAIN: unknown user or wrong password")
        return Step(b"", Principal(user))
