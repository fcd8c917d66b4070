"""The logins of one listener: its enabled mechanisms for users, and the service's own nodes on every listener.

A node logs in as `diskless-node` by SCRAM-SHA-256, whatever a listener enables; no user gets in by a mechanism that is not enabled.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from coordinator.config.sections.security import SaslMechanism
from coordinator.security.login import NODE_MECHANISM, NODE_USER, LoginFailed, ServerLogin
from coordinator.security.passwords import PasswordCheck, PlainLogin
from coordinator.security.scram import NoUsers, ScramCredentials, ScramServer, ScramUsers
from coordinator.security.tokens import TokenCheck, TokenLogin

_PRETENCE: Final = secrets.token_bytes(32)


@dataclass(frozen=True, slots=True, kw_only=True)
class _UsersAndNodes:
    """The users of a listener by one name space with the service's own nodes, who come first."""

    users: ScramUsers
    nodes: ScramUsers

    def find(self, mechanism: str, user: str) -> ScramCredentials | None:
        return (self.nodes if user == NODE_USER else self.users).find(mechanism, user)


class ListenerLogins:
    """Implements `coordinator.security.login.Logins`."""

    def __init__(
        self,
        enabled: Sequence[SaslMechanism],
        *,
        nodes: ScramUsers,
        users: ScramUsers | None = None,
        passwords: PasswordCheck | None = None,
        tokens: TokenCheck | None = None,
    ) -> None:
        """`nodes` knows `diskless-node` alone. `passwords` is needed for PLAIN and `tokens` for OAUTHBEARER."""
        assert passwords is not None or SaslMechanism.PLAIN not in enabled, enabled
        assert tokens is not None or SaslMechanism.OAUTHBEARER not in enabled, enabled
        self._enabled = tuple(one.value for one in enabled)
        self._nodes = nodes
        self._users = users or NoUsers()
        self._passwords = passwords
        self._tokens = tokens

    @property
    def mechanisms(self) -> Sequence[str]:
        """See `Logins`."""
        return self._enabled

    def begin(self, mechanism: str) -> ServerLogin:
        """See `Logins`."""
        is_enabled = mechanism in self._enabled
        if not is_enabled and mechanism != NODE_MECHANISM:
            raise LoginFailed(f"the mechanism is not enabled; enabled are {', '.join(self._enabled) or 'none'}", f"asked for {mechanism!r}")
        match mechanism:
            case SaslMechanism.PLAIN if self._passwords is not None:
                return PlainLogin(self._passwords)
            case SaslMechanism.OAUTHBEARER if self._tokens is not None:
                return TokenLogin(self._tokens)
        known = _UsersAndNodes(users=self._users if is_enabled else NoUsers(), nodes=self._nodes)
        return ScramServer(mechanism, known, pretence=_PRETENCE)
