"""Kafka's requests by which a client logs in: SaslHandshake and SaslAuthenticate, answered by the server's connections.

Version 0 of SaslHandshake, after which the messages of a login have no header, is not served: clients have known version 1 since Kafka 1.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final, cast

from kio.schema.errors import ErrorCode as KioError

from coordinator.kafka.errors import ErrorCode
from coordinator.operations.declaration import EVERYBODY
from coordinator.operations.kafka_versions import kafka_operation, schema_module
from coordinator.protocol.api_keys import ApiKey
from coordinator.protocol.codec import encode

if TYPE_CHECKING:
    from kio.schema.sasl_authenticate.v2 import SaslAuthenticateRequest
    from kio.schema.sasl_handshake.v1 import SaslHandshakeRequest

SASL_HANDSHAKE: Final = kafka_operation(ApiKey.SASL_HANDSHAKE, 1, 1, acl=EVERYBODY, refuse=None)
SASL_AUTHENTICATE: Final = kafka_operation(ApiKey.SASL_AUTHENTICATE, 0, 2, acl=EVERYBODY, refuse=None)


def read_mechanism(version: int, data: bytes, offset: int) -> str:
    """Return the mechanism that a SaslHandshake asks for. Raises MalformedMessage."""
    return cast("SaslHandshakeRequest", SASL_HANDSHAKE.decode(version, data, offset)).mechanism


def write_mechanisms(version: int, error: ErrorCode, mechanisms: Sequence[str]) -> bytes:
    """Encode the answer to a SaslHandshake."""
    module = schema_module("sasl_handshake", version, "response")
    return encode(module.SaslHandshakeResponse(error_code=KioError(int(error)), mechanisms=tuple(mechanisms)))


def read_login(version: int, data: bytes, offset: int) -> bytes:
    """Return the message of the mechanism in a SaslAuthenticate. Raises MalformedMessage."""
    return cast("SaslAuthenticateRequest", SASL_AUTHENTICATE.decode(version, data, offset)).auth_bytes


def write_login(version: int, reply: bytes, *, session_ms: int = 0, error: ErrorCode = ErrorCode.NONE, text: str | None = None) -> bytes:
    """Encode the answer to a SaslAuthenticate; version 0 cannot tell how long the login holds."""
    module = schema_module("sasl_authenticate", version, "response")
    lifetime = {"session_lifetime": timedelta(milliseconds=session_ms)} if version else {}
    return encode(module.SaslAuthenticateResponse(error_code=KioError(int(error)), error_message=text, auth_bytes=reply, **lifetime))
