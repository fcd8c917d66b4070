"""Logins by pass-through: SaslHandshake and SaslAuthenticate go to the broker, whose word decides.

The upstream connection is the client's principal afterwards. The gateway knows no users and keeps no secrets; it only has to know when a
login has succeeded, which follows from the mechanism: the broker's answers do not say whether more messages have to follow.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import kio.schema.sasl_handshake.v1 as sasl_handshake

from kio.schema.errors import ErrorCode

from coordinator.adapters.server.contract import CloseReason, Host
from coordinator.operations.kafka_versions import schema_module
from coordinator.protocol.codec import decode, encode
from coordinator.protocol.framing import Pending, reply_body
from coordinator.protocol.wire import MalformedMessage
from coordinator.security.principal import ANONYMOUS
from gateway.front.apis import APIS, Key
from gateway.front.session import FrontSession
from gateway.ports import UpstreamLost

STEPS: Final = {"PLAIN": 1, "SCRAM-SHA-256": 2, "SCRAM-SHA-512": 2, "OAUTHBEARER": 1}
"""The mechanisms that can be passed through, and how many messages of the client each takes."""


class PassedLogin:
    """The login of one connection. Implements `Desk`."""

    def __init__(self, host: Host, session: Any) -> None:
        """`session` returns the session of the connection."""
        self._host = host
        self._session = session
        self._mechanism = ""
        self._steps = 0
        self._has_logged_in = False
        self._task: asyncio.Task[None] | None = None

    @property
    def has_logged_in(self) -> bool:
        """See `Desk`."""
        return self._has_logged_in

    def take(self, key: int, version: int, frame: bytes, body_offset: int, pending: Pending) -> None:
        """See `Desk`."""
        if key == Key.SASL_HANDSHAKE:
            self._mechanism = str(decode(sasl_handshake.SaslHandshakeRequest, frame, body_offset).mechanism).upper()
            self._steps = 0
            if self._mechanism not in STEPS:
                refused = sasl_handshake.SaslHandshakeResponse(error_code=ErrorCode.unsupported_sasl_mechanism, mechanisms=tuple(STEPS))
                self._host.respond(pending, encode(refused))
                self._host.close(CloseReason.LOGIN_FAILED, f"{self._mechanism} cannot be passed through")
                return
        self._host.hold()
        self._task = asyncio.get_running_loop().create_task(self._pass(Key(key), version, frame, pending), name="login")

    def close(self) -> None:
        """See `Desk`."""
        if self._task is not None:
            self._task.cancel()

    async def _pass(self, key: Key, version: int, frame: bytes, pending: Pending) -> None:
        session: FrontSession = self._session(self._host.peer)
        try:
            answer = await session.upstream.forward(frame)
            body = reply_body(answer, tagged=APIS[key].is_answer_tagged(version))
            if key == Key.SASL_HANDSHAKE:
                self._host.respond(pending, self._mechanisms(body))
            else:
                kind = schema_module("sasl_authenticate", version, "response").SaslAuthenticateResponse
                if decode(kind, body).error_code:
                    self._host.respond(pending, body)
                    self._host.close(CloseReason.LOGIN_FAILED, f"the broker refused it ({self._mechanism})")
                    return
                self._steps += 1
                if self._steps >= STEPS.get(self._mechanism, 1):
                    self._has_logged_in = True
                    self._host.serve_as(ANONYMOUS)
                self._host.respond(pending, body)
            self._host.resume()
        except (UpstreamLost, MalformedMessage) as error:
            self._host.close(CloseReason.LOGIN_FAILED, str(error))

    def _mechanisms(self, body: bytes) -> bytes:
        """Leave out mechanisms that cannot pass."""
        answer = decode(sasl_handshake.SaslHandshakeResponse, body)
        offered = tuple(one for one in answer.mechanisms if one in STEPS)
        return encode(type(answer)(error_code=answer.error_code, mechanisms=offered))
