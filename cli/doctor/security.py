"""The conclusions of `diskless doctor` about the security of a node, by its settings and the files that they name on this machine."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cli.doctor.diagnosis import Diagnosis, Health
from coordinator.config import Settings
from coordinator.config.settings import NODE
from coordinator.config.values import SecurityProtocol
from coordinator.printable import quoted

CHECK: Final = "security"
EXPIRY_DAYS_MIN: Final = 30
_DAY_S: Final = 86_400
_RENEW: Final = "put a new one in its place; the node reads it within seconds"
_EVERYBODY: Final = frozenset({"User:ANONYMOUS", "User:*"})


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedFile:
    """A file that a setting names: what it is, its mode bits, and when the certificate in it expires, if it has one.

    `problem` says why it could not be looked at; then the rest says nothing.
    """

    key: str
    path: Path
    is_confidential: bool
    mode: int = 0
    expires_s: int | None = None
    problem: str = ""


def named_files(settings: Settings) -> list[NamedFile]:
    """Look at the files that the settings name, as far as they are on this machine."""
    wanted: dict[tuple[str, Path], tuple[bool, bool]] = {}

    def want(key: str, path: Path | None, *, is_confidential: bool, has_certificate: bool = False) -> None:
        if path is not None:
            wanted[key, path] = (is_confidential, has_certificate)

    for listener in settings.listeners:
        protocol, own = settings.protocol_of(listener.name), settings.for_listener(listener.name)
        if protocol is not None and protocol.has_tls:
            want("ssl.keystore.location", own.ssl_keystore_location, is_confidential=True, has_certificate=True)
            want("ssl.certificate.location", own.ssl_certificate_location, is_confidential=False, has_certificate=True)
            want("ssl.key.location", own.ssl_key_location, is_confidential=True)
        if protocol is not None and protocol.has_login:
            want("users.file", own.users_file, is_confidential=True)
    want("http.ssl.certificate.location", settings.http_ssl_certificate_location, is_confidential=False, has_certificate=True)
    want("http.ssl.key.location", settings.http_ssl_key_location, is_confidential=True)
    want("http.bearer.token.file", settings.http_bearer_token_file, is_confidential=True)
    for source in sorted({source for key, source in settings.sources.items() if NODE.is_secret(key)}):
        path = Path(source.rpartition(":")[0])
        if path.is_file():
            want("the settings with passwords", path, is_confidential=True)
    return [_look(key, path, *what) for (key, path), what in wanted.items()]


def _look(key: str, path: Path, is_confidential: bool, has_certificate: bool) -> NamedFile:
    try:
        mode = path.stat().st_mode
        expires_s = _expiry_s(path) if has_certificate else None
    except (OSError, ValueError) as error:
        problem = error.strerror or str(error) if isinstance(error, OSError) else "there is no certificate in it"
        return NamedFile(key=key, path=path, is_confidential=is_confidential, problem=problem)
    return NamedFile(key=key, path=path, is_confidential=is_confidential, mode=mode, expires_s=expires_s)


def _expiry_s(path: Path) -> int:
    """Return when the first certificate of a file expires. Raises OSError, ValueError."""
    from cryptography import x509

    return int(x509.load_pem_x509_certificates(path.read_bytes())[0].not_valid_after_utc.timestamp())


def diagnose_security(settings: Settings, files: Sequence[NamedFile], now_s: float) -> list[Diagnosis]:
    """Listeners that are less secure than they look, rules that let everybody in, files that others read, certificates that end."""
    found = [*_listeners(settings), *_rules(settings), *_kafka(settings), *(one for file in files for one in _file(file, now_s))]
    if found:
        return found
    secure = [str(one) for one in settings.listeners if settings.protocol_of(one.name) is not SecurityProtocol.PLAINTEXT]
    said = f"{', '.join(secure)} secured" if secure else "no listener is secured: programs that reach this node may do all that clients do"
    return [Diagnosis(health=Health.OK, check=CHECK, finding=said)]


def _listeners(settings: Settings) -> Iterator[Diagnosis]:
    protocols = {one.name: settings.protocol_of(one.name) for one in settings.listeners}
    plain = [name for name, protocol in protocols.items() if protocol is SecurityProtocol.PLAINTEXT]
    secure = [name for name in protocols if name not in plain]
    if secure and plain:
        yield _warning(
            f"listener {', '.join(plain)} is in plain text beside {', '.join(secure)}: its users are User:ANONYMOUS",
            "leave it out of listeners, or see that a network policy keeps strangers from it",
        )
    if secure and settings.authorizer == "acls" and not settings.acls and not settings.super_users:
        yield _error("authorizer=acls without acls and super.users: no user may do anything", "give super.users, and acls to clients")
    http = settings.http_listener
    if secure and http is not None and http.host not in ("127.0.0.1", "localhost", "::1") and settings.http_bearer_token_file is None:
        yield _warning(
            f"{http} shows the metrics to everybody, and the listeners are secured", "give http.bearer.token.file, or listen on 127.0.0.1"
        )
    if settings.http_bearer_token_file is not None and http is not None and not http.has_tls:
        yield _warning(
            f"{http} asks for a token that the network can read", "let http.listener begin with https:, with http.ssl.certificate.location"
        )


def _rules(settings: Settings) -> Iterator[Diagnosis]:
    for principal in settings.super_users:
        if principal == "User:ANONYMOUS":
            yield _error(f"super.users has {principal}: users who do not log in may do everything", "name the principals of operators")
        elif principal == "User:*":
            yield _warning("super.users has User:*, which is no user: super users are compared by their whole names", "name each of them")
    for entry in settings.acls:
        changing = sorted(one.name for one in entry.operations if one.name in ("ALL", "ALTER", "ALTER_CONFIGS"))
        if entry.principal in _EVERYBODY and changing:
            yield _warning(f"acls give {', '.join(changing)} to {entry.principal}, which is everybody", "give it to operators by name")
    if settings.authorizer == "kafka" and not settings.super_users:
        yield _warning(
            "authorizer=kafka without super.users: until Kafka has given its ACLs, no user is served",
            "name the principals of operators in super.users",
        )


def _kafka(settings: Settings) -> Iterator[Diagnosis]:
    kafka = settings.kafka
    mechanism = kafka.get("sasl.mechanism", kafka.get("sasl.mechanisms", "")).upper()
    if kafka.get("security.protocol", "").upper() == "SASL_PLAINTEXT" and mechanism == "PLAIN":
        yield _warning("kafka.sasl.mechanism=PLAIN without TLS shows the node's password to the network", "use SASL_SSL, or SCRAM-SHA-512")
    if kafka.get("enable.ssl.certificate.verification", "true").lower() in ("false", "f", "0"):
        yield _warning("Kafka's certificates are not verified: anybody can pose as a broker", "give kafka.ssl.ca.location, and verify")


def _file(file: NamedFile, now_s: float) -> Iterator[Diagnosis]:
    what, name = f"{file.path} ({file.key})", quoted(str(file.path))
    if file.problem:
        yield _warning(f"{what} cannot be looked at: {file.problem}", "run doctor where the node runs, as its user")
        return
    if file.is_confidential and file.mode & stat.S_IWOTH:
        yield _error(f"every user of this machine may change {what}", f"chmod o= {name}, and make a new one")
    elif file.is_confidential and file.mode & stat.S_IROTH:
        yield _warning(f"every user of this machine may read {what}", f"chmod o= {name}; what is in it may be known: make a new one")
    if file.is_confidential and file.mode & stat.S_IWGRP:
        yield _warning(f"the group of {what} may change it", f"chmod g-w {name}")
    if file.expires_s is not None:
        days = (file.expires_s - now_s) / _DAY_S
        if days < 0:
            yield _error(
                f"the certificate in {what} expired {-days:.0f} days ago", "put a new one in its place; the node reads it within seconds"
            )
        elif days < EXPIRY_DAYS_MIN:
            yield _warning(
                f"the certificate in {what} expires in {days:.0f} days", "put a new one in its place; the node reads it within seconds"
            )


def _error(finding: str, remedy: str) -> Diagnosis:
    return Diagnosis(health=Health.ERROR, check=CHECK, finding=finding, remedy=remedy)


def _warning(finding: str, remedy: str) -> Diagnosis:
    return Diagnosis(health=Health.WARNING, check=CHECK, finding=finding, remedy=remedy)
