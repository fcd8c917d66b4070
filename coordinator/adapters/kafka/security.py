"""TLS and login of a connection that this process opens to a broker itself, from the librdkafka properties of an operator.

Known are the protocols PLAINTEXT, SSL, SASL_PLAINTEXT and SASL_SSL with certificates in files and the mechanisms PLAIN, SCRAM-SHA-256 and
SCRAM-SHA-512. Any other security property is refused by name: a connection that ignored one would be less secure than was asked for.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from coordinator.security.scram import SCRAM_HASHES, ScramClient

_FALSE: Final = frozenset({"false", "f", "0"})
_TLS_KEYS: Final = frozenset(
    {
        "enable.ssl.certificate.verification", "ssl.ca.location", "ssl.ca.pem", "ssl.certificate.location",
        "ssl.endpoint.identification.algorithm", "ssl.key.location", "ssl.key.password",
    }
)  # fmt: skip
_LOGIN_KEYS: Final = frozenset({"sasl.mechanism", "sasl.mechanisms", "sasl.password", "sasl.username"})

Exchange = Callable[[bytes], bytes]
"""Sends one message of a login and returns the broker's answer to it."""


class SecurityUnsupported(Exception):
    """The configured security is not known to connections of this process; the text says what is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """The steps of a connection before its first request. `tls` None means plain text, `mechanism` None means no login."""

    tls: ssl.SSLContext | None
    mechanism: str | None
    username: str
    password: str

    def wrap(self, plain: socket.socket, host: str) -> socket.socket:
        """Put TLS around a connection if it is asked for. Raises `ssl.SSLError`, `OSError`."""
        return plain if self.tls is None else self.tls.wrap_socket(plain, server_hostname=host)

    def log_in(self, exchange: Exchange) -> None:
        """Log in by the mechanism. Raises `ScramRefused` for a broker that does not know the password, and the exceptions of `exchange`."""
        if self.mechanism == "PLAIN":
            exchange(f"\0{self.username}\0{self.password}".encode())
        elif self.mechanism is not None:
            client = ScramClient(self.mechanism, self.username, self.password)
            client.check(exchange(client.final(exchange(client.first()))))


def security_of(properties: Mapping[str, Any]) -> Security:
    """Read the security of librdkafka properties. Raises `SecurityUnsupported`; `OSError` for files that cannot be read."""
    texts = {name: str(value) for name, value in properties.items()}
    protocol = texts.get("security.protocol", "plaintext").upper()
    has_tls, has_login = protocol in ("SSL", "SASL_SSL"), protocol in ("SASL_PLAINTEXT", "SASL_SSL")
    if not has_tls and not has_login and protocol != "PLAINTEXT":
        raise SecurityUnsupported(f"security.protocol {protocol} is not known; use PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL")
    used = {name for name in texts if (has_tls and "ssl." in name) or (has_login and name.startswith("sasl."))}
    if unknown := sorted(used - _TLS_KEYS - _LOGIN_KEYS):
        raise SecurityUnsupported(f"{', '.join(unknown)} cannot be followed; use {', '.join(sorted(_TLS_KEYS | _LOGIN_KEYS))}")
    mechanism = texts.get("sasl.mechanisms", texts.get("sasl.mechanism", "GSSAPI")).upper() if has_login else None
    if mechanism is not None and mechanism != "PLAIN" and mechanism not in SCRAM_HASHES:
        raise SecurityUnsupported(f"sasl.mechanism {mechanism} is not known; use PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512")
    return Security(
        tls=_tls(texts) if has_tls else None,
        mechanism=mechanism,
        username=texts.get("sasl.username", ""),
        password=texts.get("sasl.password", ""),
    )


def _tls(texts: Mapping[str, str]) -> ssl.SSLContext:
    location = texts.get("ssl.ca.location")
    if location == "probe":
        location = None  # librdkafka's word for the certificates of the system
    is_folder = location is not None and Path(location).is_dir()
    # With an authority of its own a context does not trust those of the system.
    context = ssl.create_default_context(
        cafile=None if is_folder else location, capath=location if is_folder else None, cadata=texts.get("ssl.ca.pem")
    )
    if texts.get("ssl.endpoint.identification.algorithm", "https").lower() == "none":
        context.check_hostname = False
    if texts.get("enable.ssl.certificate.verification", "true").lower() in _FALSE:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if (certificate := texts.get("ssl.certificate.location")) is not None:
        context.load_cert_chain(certificate, texts.get("ssl.key.location"), texts.get("ssl.key.password"))
    return context
