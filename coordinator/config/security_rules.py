"""Rules of secure listeners: what a protocol needs, and what works but deserves a warning. Files are not looked at here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from coordinator.config.problems import Problem
from coordinator.config.sections.security import LISTENER_PREFIX, ClientAuth, ListenerSettings, SaslMechanism, TlsSettings
from coordinator.config.settings import NODE, Settings
from coordinator.config.table import ProcessSettings
from coordinator.config.values import SecurityProtocol, text_of

_BY_USERS_FILE = frozenset({SaslMechanism.PLAIN, SaslMechanism.SCRAM_SHA_256, SaslMechanism.SCRAM_SHA_512})
_PROTOCOLS = ", ".join(SecurityProtocol)


def listener_problems(settings: Settings) -> Iterator[Problem]:
    """List what is missing for the listeners of a node to be as secure as they say."""
    yield from tls_problems(settings)
    for name in dict.fromkeys(listener.name for listener in settings.listeners):
        protocol = settings.protocol_of(name)
        if protocol is not None and protocol.has_login:
            yield from _login(settings, name, protocol, settings.for_listener(name))


def tls_problems(settings: ProcessSettings[Any]) -> Iterator[Problem]:
    """List what is missing for the listeners to have protocols, and the files of TLS."""
    names = [listener.name for listener in settings.listeners]
    for name in dict.fromkeys(names):
        protocol = settings.protocol_of(name)
        if protocol is None:
            yield Problem(
                key="listener.security.protocol.map",
                value=",".join(settings.listener_security_protocol_map),
                source=settings.sources.get("listener.security.protocol.map", "default"),
                limit=f"must say the protocol of listener {name}",
                remedy=f"add {name}:PROTOCOL with one of {_PROTOCOLS}, or name the listener after its protocol",
            )
            continue
        own = settings.for_listener(name)
        if protocol.has_tls:
            yield from _tls(settings, name, protocol, own)
    mapped = [entry.partition(":")[0].upper() for entry in settings.listener_security_protocol_map]
    if len(set(mapped)) != len(mapped):
        yield Problem(
            key="listener.security.protocol.map",
            value=",".join(settings.listener_security_protocol_map),
            source=settings.sources.get("listener.security.protocol.map", "default"),
            limit="must name each listener once",
            remedy="leave one entry for each listener",
        )
    for listener in settings.listener_values.keys() - {name.lower() for name in names}:
        given = f"{LISTENER_PREFIX}{listener}."
        key = next(key for key in settings.sources if key.startswith(given))
        yield Problem(
            key=key,
            value=None if NODE.is_secret(key) else text_of(settings.listener_values[listener][key.removeprefix(given).replace(".", "_")]),
            source=settings.sources[key],
            limit=f"{listener} is not one of listeners",
            remedy=f"use the names {', '.join(name.lower() for name in names)}",
        )


def listener_advice(settings: Settings) -> Iterator[str]:
    """List what is allowed and less secure than it may look, as sentences with key and remedy."""
    for listener in settings.listeners:
        protocol, own = settings.protocol_of(listener.name), settings.for_listener(listener.name)
        if protocol is SecurityProtocol.SASL_PLAINTEXT and SaslMechanism.PLAIN in own.sasl_enabled_mechanisms:
            yield f"listener {listener.name}: PLAIN without TLS shows every password to the network; use SASL_SSL, or SCRAM-SHA-512"
        if protocol is not None and protocol.has_login and SaslMechanism.OAUTHBEARER in own.sasl_enabled_mechanisms:
            if not own.sasl_oauthbearer_expected_audience:
                yield (
                    f"listener {listener.name}: sasl.oauthbearer.expected.audience is empty, so tokens that the authority made for "
                    "other services are accepted; name this service's audience"
                )


def _tls(settings: ProcessSettings[Any], name: str, protocol: SecurityProtocol, own: TlsSettings) -> Iterator[Problem]:
    what = f"listener {name} is {protocol}"
    has_pair = own.ssl_certificate_location is not None and own.ssl_key_location is not None
    if own.ssl_keystore_location is None and not has_pair:
        remedy = "name a PEM file with key and certificates, or give ssl.certificate.location and ssl.key.location"
        yield _problem(settings, name, "ssl.keystore.location", f"must be given: {what}", remedy)
    elif own.ssl_keystore_location is not None and (own.ssl_certificate_location or own.ssl_key_location):
        yield _problem(
            settings,
            name,
            "ssl.keystore.location",
            "must not be given beside ssl.certificate.location and ssl.key.location",
            "leave one of the two ways",
        )
    if own.ssl_client_auth is not ClientAuth.NONE and own.ssl_truststore_location is None:
        limit = f"must be given: {what} and ssl.client.auth={own.ssl_client_auth.value}"
        yield _problem(settings, name, "ssl.truststore.location", limit, "name a PEM file with the authorities of clients")


def _login(settings: Settings, name: str, protocol: SecurityProtocol, own: ListenerSettings) -> Iterator[Problem]:
    what = f"listener {name} is {protocol}"
    enabled = own.sasl_enabled_mechanisms
    if not enabled:
        remedy = f"name some of {', '.join(SaslMechanism)}"
        yield _problem(settings, name, "sasl.enabled.mechanisms", f"must name a mechanism: {what}", remedy)
    if _BY_USERS_FILE & set(enabled) and own.users_file is None:
        limit = f"must be given: {what} with {', '.join(one for one in enabled if one in _BY_USERS_FILE)}"
        yield _problem(settings, name, "users.file", limit, "make a file with `diskless users add` and name it")
    if SaslMechanism.OAUTHBEARER in enabled and not own.sasl_oauthbearer_jwks_endpoint_url:
        limit = f"must be given: {what} with OAUTHBEARER"
        yield _problem(settings, name, "sasl.oauthbearer.jwks.endpoint.url", limit, "name the file or https URL of the authority's keys")


def _problem(settings: ProcessSettings[Any], listener: str, key: str, limit: str, remedy: str) -> Problem:
    """Make a problem of one listener, about its own key where that was given."""
    own_key = f"{LISTENER_PREFIX}{listener.lower()}.{key}"
    value = getattr(settings.for_listener(listener), key.replace(".", "_"))
    name = own_key if own_key in settings.sources else key
    shown = text_of(value)
    return Problem(key=name, value=shown or None, source=settings.sources.get(name, "default"), limit=limit, remedy=remedy)
