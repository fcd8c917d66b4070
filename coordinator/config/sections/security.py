"""Settings of secure listeners: TLS and logins, with the names and meanings of Kafka's broker configuration.

Every key of `ListenerSettings` may be given for one listener as `listener.name.<listener in lower case>.<key>`.
"""

# ruff: noqa: RUF009 - the calls make dataclass fields, as dataclasses.field() does

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from urllib.parse import urlsplit

from coordinator.config.keys import choice, choices, integer, items, mapping_rules, path, text
from coordinator.config.mapping_rules import MappingRules
from coordinator.config.values import SecurityProtocol

LISTENER_PREFIX = "listener.name."


class StoreType(StrEnum):
    """The form of keys and certificates."""

    PEM = "PEM"


class ClientAuth(StrEnum):
    """Whether clients show a certificate."""

    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


class TlsProtocol(StrEnum):
    """Versions of TLS."""

    TLS_1_3 = "TLSv1.3"
    TLS_1_2 = "TLSv1.2"


class SaslMechanism(StrEnum):
    """How clients log in."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"


def _is_mapping(value: str) -> bool:
    return re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*:(PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL)", value, re.IGNORECASE) is not None


def _is_keys_url(value: str) -> bool:
    parts = urlsplit(value)
    is_file = parts.scheme == "file" and not parts.netloc and len(parts.path) > 1
    return not value or is_file or (parts.scheme == "https" and bool(parts.hostname) and "@" not in parts.netloc)


@dataclass(frozen=True, kw_only=True)
class TlsSettings:
    """Keys and certificates of a listener."""

    ssl_keystore_type: StoreType = choice(
        "ssl.keystore.type",
        StoreType.PEM,
        why="""Form of the listener's key and certificates. Only PEM files are read: convert a Java key store by
        `openssl pkcs12 -in store.p12 -out node.pem`.""",
    )
    ssl_keystore_location: Path | None = path(
        "ssl.keystore.location",
        why="""File with the listener's private key and its certificates, the listener's own first, in PEM. Needed on SSL and SASL_SSL
        listeners, unless ssl.certificate.location and ssl.key.location are given. A file that changes is read again within seconds
        and on SIGHUP, for new connections; while the new one is not usable the last one stays in use, which is logged.""",
    )
    ssl_certificate_location: Path | None = path(
        "ssl.certificate.location",
        why="""File with the listener's certificate and those between it and the authority, in PEM, as cert-manager (tls.crt) and Strimzi
        write it. Given with ssl.key.location, in place of ssl.keystore.location.""",
    )
    ssl_key_location: Path | None = path(
        "ssl.key.location",
        why="""File with the private key of ssl.certificate.location in PEM (tls.key).""",
    )
    ssl_key_password: str = text(
        "ssl.key.password",
        "",
        secret=True,
        why="""Password of the private key, when its file is encrypted. Give it by the environment or a file that only the service
        can read.""",
    )
    ssl_truststore_type: StoreType = choice(
        "ssl.truststore.type",
        StoreType.PEM,
        why="""Form of the file with the authorities of clients' certificates; only PEM is read.""",
    )
    ssl_truststore_location: Path | None = path(
        "ssl.truststore.location",
        why="""File with the authorities whose certificates clients may show, in PEM. Needed with ssl.client.auth; no other authority is
        believed, those of the system neither. Of the listener of nodes (inter.node.listener.name) it also has the authority of the
        nodes' own certificates. It is read again like ssl.keystore.location.""",
    )
    ssl_client_auth: ClientAuth = choice(
        "ssl.client.auth",
        ClientAuth.NONE,
        why="""Whether clients must show a certificate (required), may (requested) or need none. On an SSL listener the subject of the
        certificate, changed by ssl.principal.mapping.rules, is the client's principal; without one it is User:ANONYMOUS. On a SASL_SSL
        listener the login says who the client is, and the certificate is a second lock.""",
    )
    ssl_enabled_protocols: tuple[TlsProtocol, ...] = choices(
        "ssl.enabled.protocols",
        (TlsProtocol.TLS_1_3, TlsProtocol.TLS_1_2),
        kind=TlsProtocol,
        empty_ok=False,
        why="""Versions of TLS that are spoken. Older ones than TLSv1.2 are broken and cannot be enabled.""",
    )
    ssl_cipher_suites: tuple[str, ...] = items(
        "ssl.cipher.suites",
        "",
        allowed=lambda value: re.fullmatch(r"[A-Z0-9-]{3,64}", value) is not None,
        bounds="OpenSSL's names of cipher suites, comma separated",
        why="""Cipher suites of TLSv1.2 by OpenSSL's names, such as ECDHE-ECDSA-AES128-GCM-SHA256; empty for a choice of safe ones. The
        suites of TLSv1.3 are all safe and always enabled.""",
    )
    ssl_principal_mapping_rules: MappingRules = mapping_rules(
        "ssl.principal.mapping.rules",
        "DEFAULT",
        why="""Rules, in Kafka's grammar, that make a user name of a certificate's subject (CN=alice,OU=ops,O=acme): the first rule whose
        pattern fits the whole subject counts, a certificate that fits none is refused. RULE:^CN=([^,]+).*$/$1/ takes the common name.""",
    )


@dataclass(frozen=True, kw_only=True)
class LoginSettings:
    """Logins of a listener."""

    sasl_enabled_mechanisms: tuple[SaslMechanism, ...] = choices(
        "sasl.enabled.mechanisms",
        (),
        kind=SaslMechanism,
        why="""Mechanisms by which clients log in on SASL_PLAINTEXT and SASL_SSL listeners; each such listener needs one at least. SCRAM
        shows no password to anybody; PLAIN shows it to the node, and without TLS to the whole network.""",
    )
    users_file: Path | None = path(
        "users.file",
        why="""File of users with salted hashes, made by `diskless users add`; needed by PLAIN and SCRAM. Give every node the same file. A
        file that changes is read again within seconds and on SIGHUP; while it is not usable the last one stays in use. Who is logged
        in already stays so, at the longest for connections.max.reauth.ms.""",
    )
    sasl_oauthbearer_jwks_endpoint_url: str = text(
        "sasl.oauthbearer.jwks.endpoint.url",
        "",
        allowed=_is_keys_url,
        bounds="file:///folder/keys.json or https://host/path",
        why="""Public keys (JWKS) of the authority whose tokens are trusted; needed by OAUTHBEARER. A file is read again when it
        changes; keys at an https address are fetched every hour, and when a token names another key.""",
    )
    sasl_oauthbearer_expected_audience: tuple[str, ...] = items(
        "sasl.oauthbearer.expected.audience",
        "",
        allowed=lambda value: not any(one.isspace() for one in value),
        bounds="texts without spaces, comma separated",
        why="""Audiences of which a token must name one. Empty accepts the tokens that the authority made for any other service.""",
    )
    sasl_oauthbearer_expected_issuer: str = text(
        "sasl.oauthbearer.expected.issuer",
        "",
        why="""Issuer that a token must name; empty compares nothing, and the keys alone say whose token it is.""",
    )
    sasl_oauthbearer_sub_claim_name: str = text(
        "sasl.oauthbearer.sub.claim.name",
        "sub",
        allowed=lambda value: 0 < len(value) <= 255 and not any(one.isspace() for one in value),
        bounds="1 to 255 characters without spaces",
        why="""Claim of a token that is the user's name: the client's principal is User: and this text.""",
    )
    sasl_oauthbearer_clock_skew_seconds: int = integer(
        "sasl.oauthbearer.clock.skew.seconds",
        30,
        low=0,
        high=3_600,
        why="""How far the clocks of the authority and of this node may differ: a token is accepted so long before its beginning and
        after its end.""",
    )


@dataclass(frozen=True, kw_only=True)
class ListenerSettings(TlsSettings, LoginSettings):
    """The settings of one listener."""


@dataclass(frozen=True, kw_only=True)
class ProtocolSettings:
    """How each listener is secured."""

    listener_security_protocol_map: tuple[str, ...] = items(
        "listener.security.protocol.map",
        "",
        allowed=_is_mapping,
        bounds="NAME:PROTOCOL, comma separated, with the protocols PLAINTEXT, SSL, SASL_PLAINTEXT and SASL_SSL",
        why="""Protocol of each listener by its name, as in Kafka. Listeners that are named PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL need
        no entry; any other name does, so that a slip of the keyboard cannot open a listener in plain text.""",
    )

    def protocol_of(self, listener: str) -> SecurityProtocol | None:
        """Return how a listener is secured; None when its name says nothing and no entry of the map does."""
        named = {name.upper(): protocol for name, _, protocol in (one.partition(":") for one in self.listener_security_protocol_map)}
        found = named.get(listener, listener).upper()
        return SecurityProtocol(found) if found in SecurityProtocol.__members__ else None


@dataclass(frozen=True, kw_only=True)
class SecuritySettings(ProtocolSettings, ListenerSettings):
    """The settings of all listeners; those of `ListenerSettings` hold where a listener has none of its own."""
