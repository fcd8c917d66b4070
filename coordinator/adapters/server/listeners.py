"""The security of listeners, made from the settings at a start and kept up with files that change."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from coordinator.adapters.server.contract import ListenerSecurity
from coordinator.config.sections.security import ListenerSettings, SaslMechanism
from coordinator.config.values import Listener, SecurityProtocol
from coordinator.runtime.failures import FatalError
from coordinator.security.certificate_names import principal_of
from coordinator.security.mechanisms import ListenerLogins
from coordinator.security.passwords import PasswordCheck
from coordinator.security.scram import ScramUsers
from coordinator.security.tls import ListenerTls, TlsFilesError
from coordinator.security.token_keys import TokenKeys, TokenKeysError, check_keys
from coordinator.security.tokens import TokenCheck, TokenRules
from coordinator.security.users_file import UsersFileError
from coordinator.security.watched_users import WatchedUsers

LOG = logging.getLogger(__name__)

LOOK_INTERVAL_S: Final = 2.0


class SecuredListeners(Protocol):
    """The settings of a process that has listeners."""

    @property
    def listeners(self) -> Sequence[Listener]:
        """The listeners by their names."""

    def protocol_of(self, listener: str) -> SecurityProtocol | None:
        """Return how a listener is secured."""

    def for_listener(self, listener: str) -> ListenerSettings:
        """Return the settings of one listener."""


class ListenersSecurity:
    """Makes the security of each listener. Files and keys are shared by the listeners that name the same ones.

    Raises `FatalError` for files that are not usable. `nodes` knows the service's own nodes; `executor` hashes passwords and reads keys.
    """

    def __init__(self, settings: SecuredListeners, *, nodes: ScramUsers, executor: Executor) -> None:
        self._settings = settings
        self._nodes = nodes
        self._executor = executor
        self._tls: dict[str, ListenerTls] = {}
        self._users: dict[Path, WatchedUsers] = {}
        self._passwords: dict[Path, PasswordCheck] = {}
        self._keys: dict[str, TokenKeys] = {}
        try:
            self._made = {one.name: self._make(one.name) for one in settings.listeners}
        except (TlsFilesError, UsersFileError, TokenKeysError) as error:
            raise FatalError(str(error)) from error

    def of(self, listener: str) -> ListenerSecurity:
        """Return the security of a listener."""
        return self._made[listener]

    def expiries_s(self) -> Sequence[tuple[str, int]]:
        """Return when the certificate of each listener with TLS expires, in seconds since 1970."""
        return [(listener, tls.expires_s) for listener, tls in self._tls.items()]

    async def keep_current(self, look_now: asyncio.Event) -> None:
        """Look at the files every few seconds, and when `look_now` is set. Ends by being cancelled."""
        while True:
            try:
                async with asyncio.timeout(LOOK_INTERVAL_S):
                    await look_now.wait()
            except TimeoutError:
                pass
            look_now.clear()
            try:
                await self._look()
            except Exception:  # any fault of a file may be repaired at the next look
                LOG.exception("checking the files of the listeners failed")

    async def _look(self) -> None:
        loop = asyncio.get_running_loop()
        for refresh in (*(one.refresh for one in self._tls.values()), *(one.refresh for one in self._users.values())):
            await loop.run_in_executor(self._executor, refresh)
        for keys in self._keys.values():
            await keys.refresh()

    def _make(self, listener: str) -> ListenerSecurity:
        protocol, settings = self._settings.protocol_of(listener), self._settings.for_listener(listener)
        assert protocol is not None, "the rules of the configuration want a protocol"
        if protocol.has_tls:
            self._tls[listener] = ListenerTls(listener, settings)
        return ListenerSecurity(
            tls=self._tls[listener].newest if protocol.has_tls else None,
            has_login=protocol.has_login,
            logins=self._logins(settings) if protocol.has_login else ListenerLogins((), nodes=self._nodes),
            principal_of=partial(principal_of, rules=settings.ssl_principal_mapping_rules),
        )

    def _logins(self, settings: ListenerSettings) -> ListenerLogins:
        enabled, file, url = settings.sasl_enabled_mechanisms, settings.users_file, settings.sasl_oauthbearer_jwks_endpoint_url
        users = passwords = tokens = None
        if file is not None:
            users = self._users.get(file) or self._users.setdefault(file, WatchedUsers(file))
            passwords = self._passwords.setdefault(file, PasswordCheck(users, self._executor))
        if SaslMechanism.OAUTHBEARER in enabled:
            check_keys(url)
            keys = self._keys.setdefault(url, TokenKeys(url, self._executor))
            rules = TokenRules(
                audiences=settings.sasl_oauthbearer_expected_audience,
                issuer=settings.sasl_oauthbearer_expected_issuer,
                user_claim=settings.sasl_oauthbearer_sub_claim_name,
                skew_s=settings.sasl_oauthbearer_clock_skew_seconds,
            )
            tokens = TokenCheck(keys, rules)
        return ListenerLogins(enabled, nodes=self._nodes, users=users, passwords=passwords, tokens=tokens)
