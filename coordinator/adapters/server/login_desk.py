"""The login of one connection: SaslHandshake and SaslAuthenticate, again and again if the client logs in anew (KIP-368).

A user logs in again by the same mechanism and stays the same: requests that were decided for one principal are never answered to another.
A login that fails is answered after a delay, and ends the connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from coordinator.adapters.server.contract import CloseReason, Host, ListenerSecurity, ServerLimits
from coordinator.kafka.errors import ErrorCode
from coordinator.operations.logins import read_login, read_mechanism, write_login, write_mechanisms
from coordinator.protocol.api_keys import ApiKey
from coordinator.protocol.framing import Pending
from coordinator.security.login import LoginFailed, ServerLogin, Step
from coordinator.security.principal import Principal

log = logging.getLogger(__name__)

DETAIL_CHARACTERS_MAX: Final = 300
SESSION_MS_MAX: Final = 2**31 - 1
"""A login holds for 24 days at most once it ends at all: tokens may name any year."""


class _OutOfTurn(LoginFailed):
    """A message of a login that has no place here."""


class LoginDesk:
    """See the module. Used on one event loop."""

    def __init__(self, host: Host, security: ListenerSecurity, limits: ServerLimits) -> None:
        self._host = host
        self._logins = security.logins
        self._limits = limits
        self._login: ServerLogin | None = None
        self._mechanism = ""
        self._principal: Principal | None = None
        self._task: asyncio.Task[None] | None = None
        self._delay: asyncio.TimerHandle | None = None
        self._session: asyncio.TimerHandle | None = None

    @property
    def mechanisms(self) -> Sequence[str]:
        """The mechanisms that are offered."""
        return () if self._logins is None else self._logins.mechanisms

    @property
    def has_logged_in(self) -> bool:
        """Whether a login succeeded, however long ago."""
        return self._principal is not None

    def take(self, key: int, version: int, frame: bytes, body_offset: int, pending: Pending) -> None:
        """Take a SaslHandshake or SaslAuthenticate. Raises MalformedMessage."""
        if key == ApiKey.SASL_AUTHENTICATE:
            data = read_login(version, frame, body_offset)
            self._host.hold()
            self._task = asyncio.get_running_loop().create_task(self._authenticate(version, data, pending), name="login")
            return
        try:
            self._begin(read_mechanism(version, frame, body_offset))
        except LoginFailed as error:
            code = ErrorCode.ILLEGAL_SASL_STATE if isinstance(error, _OutOfTurn) else ErrorCode.UNSUPPORTED_SASL_MECHANISM
            self._turn_away(pending, write_mechanisms(version, code, self.mechanisms), error)
        else:
            self._host.respond(pending, write_mechanisms(version, ErrorCode.NONE, self.mechanisms))

    def close(self) -> None:
        """Let everything go: the connection is gone."""
        for one in (self._task, self._delay, self._session):
            if one is not None:
                one.cancel()

    def _begin(self, mechanism: str) -> None:
        if self._login is not None:
            raise _OutOfTurn("a login is under way; SaslAuthenticate goes on with it")
        if self._principal is not None and mechanism != self._mechanism:
            raise _OutOfTurn(f"{self._principal} logged in by {self._mechanism} and logs in again by that alone")
        if self._logins is None:
            raise LoginFailed("this listener has no logins")
        self._login = self._logins.begin(mechanism)
        self._mechanism = mechanism

    async def _authenticate(self, version: int, data: bytes, pending: Pending) -> None:
        try:
            step = await self._step(data)
            self._host.respond(pending, write_login(version, step.reply, session_ms=step.session_ms))
            self._host.resume()
        except LoginFailed as error:
            code = ErrorCode.ILLEGAL_SASL_STATE if isinstance(error, _OutOfTurn) else ErrorCode.SASL_AUTHENTICATION_FAILED
            self._turn_away(pending, write_login(version, b"", error=code, text=str(error)), error)
        except Exception as error:  # a login that breaks must end, or its connection would stay held for ever
            log.exception("login failed mechanism=%s", self._mechanism)
            self._host.close(CloseReason.HANDLER_FAILED, repr(error))

    async def _step(self, data: bytes) -> Step:
        """Return the answer to a message of the login under way. Raises `LoginFailed`."""
        if self._login is None:
            raise _OutOfTurn("SaslHandshake comes before SaslAuthenticate")
        step = await self._login.step(data)
        if step.principal is None:
            return step
        self._login = None
        if self._principal is not None and step.principal != self._principal:
            raise LoginFailed("a connection stays with its user", f"{self._principal} wants to go on as {step.principal}")
        self._principal = step.principal
        session_ms = min((one for one in (step.session_ms, self._limits.session_ms_max) if one), default=0)
        session_ms = min(session_ms, SESSION_MS_MAX)
        if self._session is not None:
            self._session.cancel()
        if session_ms:
            self._session = asyncio.get_running_loop().call_later(session_ms / 1000, self._host.end_session)
        self._host.serve_as(step.principal)
        return step._replace(session_ms=session_ms)

    def _turn_away(self, pending: Pending, body: bytes, error: LoginFailed) -> None:
        """Answer later, and close."""
        self._host.hold()

        def answer() -> None:
            self._host.respond(pending, body)
            self._host.close(CloseReason.LOGIN_FAILED, error.detail[:DETAIL_CHARACTERS_MAX])

        self._delay = asyncio.get_running_loop().call_later(self._limits.login_failure_delay_ms / 1000, answer)
