"""Passes the login of one connection to its upstream connection: SaslHandshake and SaslAuthenticate, again and again (KIP-368).

The cluster answers, and judges. Of its answers only the mechanisms of SaslHandshake are changed: those that cannot pass are left out. A
client of SaslAuthenticate version 0 is asked for by version 1, whose answer tells the end of the session. The client is served as soon as
the cluster has accepted its login, and nothing but a login when the session is over that the cluster told.
A login that the cluster refuses ends the connection; the cluster has delayed that answer already.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, Final

from kio.schema.errors import ErrorCode

from coordinator.adapters.kafka.link import BrokerLost
from coordinator.adapters.server.contract import CloseReason, Host
from coordinator.operations.logins import read_login, read_mechanism
from coordinator.printable import quoted
from coordinator.protocol.codec import decode, encode
from coordinator.protocol.framing import Pending, reply_body
from coordinator.protocol.wire import MalformedMessage
from coordinator.security.principal import Principal
from gateway.access.logins import NAME_CHARACTERS_MAX, PASSING, Passed, PassingLogin, split_mechanisms
from gateway.kafka_apis import KafkaApi

LOG = logging.getLogger(__name__)

DETAIL_CHARACTERS_MAX: Final = 300
SESSION_MS_MAX: Final = 2**31 - 1
_SESSION_BYTES: Final = 8
"""The session's time is the last field of an answer to SaslAuthenticate of version 1."""

Forward = Callable[[bytes], Awaitable[bytes]]


class PassThroughDesk:
    """See the module. Implements `Desk`. Used on one event loop."""

    def __init__(
        self,
        host: Host,
        forward: Forward,
        *,
        quiet: Callable[[bool], None] = lambda _is_quiet: None,
        accepted: Callable[[bytes | None], None] = lambda _identity: None,
    ) -> None:
        """`forward` sends a frame to the cluster, as `gateway.ports.Upstream.forward`. `accepted` is told the identity of each login that
        the cluster has accepted (`gateway.access.logins.identity_in`).

        `quiet(True)` says that the upstream connection takes nothing but this login until `quiet(False)`: in the middle of a login the
        cluster ends a connection that asks anything else.
        """
        self._host = host
        self._forward = forward
        self._quiet = quiet
        self._accepted = accepted
        self._login: PassingLogin | None = None
        self._principal: Principal | None = None
        self._task: asyncio.Task[None] | None = None
        self._session: asyncio.TimerHandle | None = None

    @property
    def mechanisms(self) -> Sequence[str]:
        """The mechanisms that can pass."""
        return PASSING

    @property
    def has_logged_in(self) -> bool:
        """Whether a login succeeded, however long ago."""
        return self._principal is not None

    def take(self, key: int, version: int, frame: bytes, body_offset: int, pending: Pending) -> None:
        """Take a SaslHandshake or SaslAuthenticate. Raises MalformedMessage."""
        if key == KafkaApi.SASL_HANDSHAKE:
            work = self._handshake(read_mechanism(version, frame, body_offset), frame, pending)
        else:
            work = self._authenticate(read_login(version, frame, body_offset), version, frame, pending)
        self._host.hold()
        self._task = asyncio.get_running_loop().create_task(self._finish(work), name="login")

    def close(self) -> None:
        """Let everything go: the connection is gone."""
        for one in (self._task, self._session):
            if one is not None:
                one.cancel()

    async def _finish(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except BrokerLost as error:
            self._host.close(CloseReason.LOGIN_FAILED, f"the cluster ended the login: {error}"[:DETAIL_CHARACTERS_MAX])
        except MalformedMessage as error:
            self._host.close(CloseReason.HANDLER_FAILED, f"the cluster does not answer as a broker: {error}"[:DETAIL_CHARACTERS_MAX])
        except Exception as error:  # a login that breaks must end, or its connection would stay held for ever
            LOG.exception("login failed")
            self._host.close(CloseReason.HANDLER_FAILED, repr(error))

    async def _handshake(self, mechanism: str, frame: bytes, pending: Pending) -> None:
        self._quiet(True)
        answer = KafkaApi.SASL_HANDSHAKE.read_answer(1, await self._forward(frame))
        offered = split_mechanisms(answer.mechanisms).passing
        code, why = answer.error_code, answer.error_code.name
        if mechanism not in PASSING and code in (ErrorCode.none, ErrorCode.unsupported_sasl_mechanism):
            code, why = ErrorCode.unsupported_sasl_mechanism, cannot_pass([mechanism])
        self._host.respond(pending, encode(replace(answer, error_code=code, mechanisms=tuple(offered))))
        if code is ErrorCode.none:
            self._login = PassingLogin(mechanism)
            self._host.resume()
        elif code is ErrorCode.illegal_sasl_state and self._principal is not None:
            # Logins are not renewed there: the cluster's connection goes on as it was.
            self._quiet(False)
            self._host.resume()
        else:
            self._host.close(CloseReason.LOGIN_FAILED, f"by {quoted(mechanism[:NAME_CHARACTERS_MAX])}: {why}"[:DETAIL_CHARACTERS_MAX])

    async def _authenticate(self, message: bytes, version: int, frame: bytes, pending: Pending) -> None:
        login = self._login
        if login is not None:
            login.send(message)
        # Version 0 has the same fields, and its answer does not tell how long the session holds: the cluster is asked by version 1.
        asked = max(version, 1)
        response = KafkaApi.SASL_AUTHENTICATE.answer_type(asked)
        reply = await self._forward(frame[:2] + asked.to_bytes(2, "big") + frame[4:])
        body = reply_body(reply, tagged=response.__flexible__)
        answer = decode(response, body)
        if not pending.tagged:
            body = reply[4:]  # with the tagged fields of the cluster's header, if there are any
        if version == 0:
            body = body[:-_SESSION_BYTES]
        if login is None:
            # The cluster refuses it. Whatever it says, nobody has logged in by it.
            self._host.respond(pending, body)
            self._host.close(CloseReason.LOGIN_FAILED, "SaslHandshake comes before SaslAuthenticate")
            return
        passed = login.receive(has_error=bool(answer.error_code), reply=answer.auth_bytes)
        if passed is Passed.REFUSED:
            self._host.respond(pending, body)
            detail = f"user {quoted(login.name)} by {login.mechanism}: {quoted(answer.error_message or answer.error_code.name)}"
            self._host.close(CloseReason.LOGIN_FAILED, detail[:DETAIL_CHARACTERS_MAX])
            return
        if passed is Passed.ACCEPTED:
            self._accept(login, int(answer.session_lifetime.total_seconds() * 1000))
        self._host.respond(pending, body)
        self._host.resume()

    def _accept(self, login: PassingLogin, session_ms: int) -> None:
        self._login = None
        self._accepted(login.identity)
        self._quiet(False)
        if self._session is not None:
            self._session.cancel()
            self._session = None
        if session_ms > 0:
            delay_s = min(session_ms, SESSION_MS_MAX) / 1000
            self._session = asyncio.get_running_loop().call_later(delay_s, self._host.end_session)
        # The cluster lets no connection go on as another user. Whoever the name says, rights are asked on the connection.
        self._principal = Principal(login.name)
        self._host.serve_as(self._principal)


def cannot_pass(mechanisms: Sequence[str]) -> str:
    """Say why mechanisms cannot be used through a gateway, and what to do."""
    named = ", ".join(quoted(one[:NAME_CHARACTERS_MAX]) for one in mechanisms)
    return f"{named} cannot pass through a gateway, which forwards a login unread; let clients of gateways log in by {', '.join(PASSING)}"
