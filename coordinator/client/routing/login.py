"""The login of a client's connection: SaslHandshake, then the messages of the mechanism, as Kafka's clients do it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, cast

from coordinator.protocol.codec import Message
from coordinator.security.client_security import ClientSecurity
from coordinator.security.scram import ScramRefused

if TYPE_CHECKING:
    from kio.schema.sasl_authenticate.v2 import SaslAuthenticateResponse
    from kio.schema.sasl_handshake.v1 import SaslHandshakeResponse

Call = Callable[[Message], Awaitable[Message]]
"""Sends a request and returns its answer."""


class LoginRejected(Exception):
    """The server does not let this client in, or did not prove that it knows the password."""


async def log_in(security: ClientSecurity, call: Call) -> int:
    """Log in; return for how many milliseconds it holds, 0 for without end. Raises `LoginRejected`, and the exceptions of `call`."""
    # Kafka's messages are imported when they are first sent, because that takes time in which most commands are done.
    from kio.schema.sasl_authenticate.v2 import SaslAuthenticateRequest
    from kio.schema.sasl_handshake.v1 import SaslHandshakeRequest

    handshake = SaslHandshakeRequest(mechanism=security.mechanism or "")
    chosen = cast("SaslHandshakeResponse", await call(cast(Message, handshake)))
    if chosen.error_code.value:
        known = ", ".join(chosen.mechanisms) or "none"
        raise LoginRejected(f"the server does not take sasl.mechanism {security.mechanism}; it takes {known}")
    session_ms, messages = 0, security.login()
    try:
        message = next(messages)
        while True:
            answer = cast("SaslAuthenticateResponse", await call(cast(Message, SaslAuthenticateRequest(auth_bytes=message))))
            if answer.error_code.value:
                raise LoginRejected(f"the server refused the login: {answer.error_message or answer.error_code.name}")
            session_ms = round(answer.session_lifetime.total_seconds() * 1000)
            message = messages.send(answer.auth_bytes)
    except StopIteration:
        return session_ms
    except (ScramRefused, OSError) as error:
        raise LoginRejected(f"login by {security.mechanism}: {error}") from error
