"""TLS and login of a connection that this process opens itself, to a node or to a Kafka broker, from properties with Kafka's names.

Known are the protocols PLAINTEXT, SSL, SASL_PLAINTEXT and SASL_SSL with certificates in PEM files and the mechanisms PLAIN, SCRAM-SHA-256,
SCRAM-SHA-512 and OAUTHBEARER with a token in a file. Names are librdkafka's and, where they differ, the Java client's too. Any other
security property is refused by name: a connection that ignored one would be less secure than was asked for.
"""

from __future__ import annotations

import logging
import re
import ssl
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from coordinator.security.file_stamps import FileStamps
from coordinator.security.scram import SCRAM_HASHES, ScramClient

LOG = logging.getLogger(__name__)

_FALSE: Final = frozenset({"false", "f", "0"})
_AUTHORITIES: Final = ("ssl.ca.location", "ssl.truststore.location")
_OWN: Final = ("ssl.certificate.location", "ssl.keystore.location")
_TOKEN: Final = "sasl.oauthbearer.token.endpoint.url"
_TLS_KEYS: Final = frozenset(
    {
        "enable.ssl.certificate.verification", "ssl.ca.pem", "ssl.endpoint.identification.algorithm", "ssl.key.location",
        "ssl.key.password", "ssl.keystore.type", "ssl.truststore.type", *_AUTHORITIES, *_OWN,
    }
)  # fmt: skip
_LOGIN_KEYS: Final = frozenset({"sasl.jaas.config", "sasl.mechanism", "sasl.mechanisms", "sasl.password", "sasl.username", _TOKEN})
KAFKA_MECHANISMS: Final = ("PLAIN", *SCRAM_HASHES)
"""Those towards Kafka: for OAUTHBEARER librdkafka would ask the Python client for tokens, which has none to offer."""
MECHANISMS: Final = (*KAFKA_MECHANISMS, "OAUTHBEARER")


class SecurityUnsupported(Exception):
    """The configured security is not known to connections of this process; the text says what is."""


class ClientSecurity:
    """The steps of a connection before its first request. Without properties it is plain text and no login.

    Raises `SecurityUnsupported` for properties that cannot be followed or a mechanism that is none of `mechanisms`, and OSError for files
    that cannot be read.
    """

    def __init__(self, properties: Mapping[str, Any] | None = None, mechanisms: Sequence[str] = MECHANISMS) -> None:
        self.properties = texts = {name: str(value) for name, value in (properties or {}).items()}
        self.protocol = texts.get("security.protocol", "plaintext").upper()
        self.has_tls = self.protocol in ("SSL", "SASL_SSL")
        self.has_certificate = self.has_tls and any(name in texts for name in _OWN)
        has_login = self.protocol in ("SASL_PLAINTEXT", "SASL_SSL")
        if not self.has_tls and not has_login and self.protocol != "PLAINTEXT":
            raise SecurityUnsupported(f"security.protocol {self.protocol} is not known; use PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL")
        mechanism = texts.get("sasl.mechanisms", texts.get("sasl.mechanism", "GSSAPI")).upper()
        if has_login and mechanism not in mechanisms:
            raise SecurityUnsupported(f"sasl.mechanism {mechanism} is not known; use {', '.join(mechanisms)}")
        used = {name for name in texts if (self.has_tls and "ssl." in name) or (has_login and name.startswith("sasl."))}
        if unknown := sorted(used - _TLS_KEYS - _LOGIN_KEYS):
            raise SecurityUnsupported(f"{', '.join(unknown)} cannot be followed; use {', '.join(sorted(_TLS_KEYS | _LOGIN_KEYS))}")
        self.mechanism = mechanism if has_login else None
        """The mechanism of the login; None for none."""
        if self.mechanism == "OAUTHBEARER":
            _token_file(texts)
        files = [*_AUTHORITIES, *_OWN, "ssl.key.location"] if self.has_tls else []
        self._stamps = FileStamps([Path(texts[name]) for name in files if name in texts])
        self._context = _make_context(texts) if self.has_tls else None

    def context(self) -> ssl.SSLContext | None:
        """Return the TLS of the next connection, None for plain text.

        Files that have changed are read again; while that is not possible the last ones hold, which is logged.
        """
        if self._context is not None and self._stamps.have_changed():
            try:
                self._context = _make_context(self.properties)
            except (SecurityUnsupported, OSError) as error:
                if self._stamps.could_not_be_read(str(error)):
                    LOG.error("certificates not reloaded error=%r; the last ones stay in use", str(error))
        return self._context

    def login(self) -> Generator[bytes, bytes, None]:
        """Yield the messages of a login, each for the server's answer to the one before; ends at once without a login.

        Raises `ScramRefused` for a server that does not know the password, and OSError for a token that cannot be read.
        """
        if self.mechanism == "PLAIN":
            user, password = self._user()
            yield f"\0{user}\0{password}".encode()
        elif self.mechanism == "OAUTHBEARER":
            token = _read_token(_token_file(self.properties))
            yield f"n,,\x01auth=Bearer {token}\x01\x01".encode()
        elif self.mechanism is not None:
            client = ScramClient(self.mechanism, *self._user())
            first = yield client.first()
            final = yield client.final(first)
            client.check(final)

    def _user(self) -> tuple[str, str]:
        jaas = self.properties.get("sasl.jaas.config", "")
        found = dict(re.findall(r"\b(username|password)=\"((?:[^\"\\]|\\.)*)\"", jaas))
        given = {name: re.sub(r"\\(.)", r"\1", value) for name, value in found.items()}
        user, password = (self.properties.get(f"sasl.{name}", given.get(name, "")) for name in ("username", "password"))
        return user, password


PLAIN_TEXT: Final = ClientSecurity()
"""Neither TLS nor login."""


def _token_file(texts: Mapping[str, str]) -> Path:
    """Return the file of the token. Raises `SecurityUnsupported`."""
    url = urlsplit(texts.get(_TOKEN, ""))
    if url.scheme != "file" or not url.path:
        raise SecurityUnsupported(f"sasl.mechanism OAUTHBEARER needs {_TOKEN}=file:///folder/token, a file with the token")
    return Path(unquote(url.path))


def _read_token(file: Path) -> str:
    """Return the token of a file. Raises OSError."""
    try:
        return file.read_text(encoding="ascii").strip()
    except UnicodeDecodeError as error:
        raise OSError(f"{file}: it is no ASCII; write the token there, and nothing else") from error


def _make_context(texts: Mapping[str, str]) -> ssl.SSLContext:
    for name in ("ssl.keystore.type", "ssl.truststore.type"):
        if texts.get(name, "PEM").upper() != "PEM":
            raise SecurityUnsupported(f"{name} {texts[name]} is not known; give PEM files")
    location = next((texts[name] for name in _AUTHORITIES if name in texts), None)
    if location == "probe":
        location = None  # librdkafka's word for the certificates of the system
    is_folder = location is not None and Path(location).is_dir()
    try:
        # With an authority of its own a context does not trust those of the system.
        context = ssl.create_default_context(
            cafile=None if is_folder else location, capath=location if is_folder else None, cadata=texts.get("ssl.ca.pem")
        )
    except OSError as error:
        raise _unreadable(error, location or "the authorities of this system", "certificates of authorities") from error
    if texts.get("ssl.endpoint.identification.algorithm", "https").lower() in ("none", ""):
        context.check_hostname = False
    if texts.get("enable.ssl.certificate.verification", "true").lower() in _FALSE:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    own = next((texts[name] for name in _OWN if name in texts), None)
    if own is not None:
        try:
            context.load_cert_chain(own, texts.get("ssl.key.location"), lambda: texts.get("ssl.key.password", ""))
        except OSError as error:
            raise _unreadable(error, own, "a certificate and its key, and ssl.key.password if that is encrypted") from error
    return context


def _unreadable(error: OSError, file: str, wanted: str) -> OSError:
    why = (error.reason or str(error)).replace("_", " ").lower() if isinstance(error, ssl.SSLError) else error.strerror or str(error)
    return OSError(f"{file}: {why}; give a PEM file with {wanted}")
