"""Settings of secure listeners: protocols by name and map, values for one listener alone, secrets, mapping rules."""

from __future__ import annotations

import pytest

from coordinator.config import advice, load_settings, render
from coordinator.config.mapping_rules import MappingRules
from coordinator.config.sections.security import ClientAuth, SaslMechanism, TlsProtocol
from coordinator.config.values import SecurityProtocol
from tests.config.test_config_load import ESSENTIAL

SECURED = ESSENTIAL | {
    "authorizer": "acls",
    "listeners": "SASL_SSL://:9192,CLIENTS://:9194,PLAINTEXT://:9195",
    "listener.security.protocol.map": "clients:ssl",
    "ssl.keystore.location": "/etc/node.pem",
    "ssl.key.password": "hidden-1",
    "sasl.enabled.mechanisms": "scram-sha-512",
    "users.file": "/etc/users",
    "internal.secret.file": "/etc/secret",
    "listener.name.clients.ssl.keystore.location": "",
    "listener.name.clients.ssl.certificate.location": "/etc/tls.crt",
    "listener.name.clients.ssl.key.location": "/etc/tls.key",
    "listener.name.clients.ssl.key.password": "hidden-2",
    "listener.name.clients.ssl.client.auth": "required",
    "listener.name.clients.ssl.truststore.location": "/etc/ca.crt",
}


def test_protocols_come_from_names_and_the_map() -> None:
    settings = load_settings(overrides=SECURED)
    found = [settings.protocol_of(one.name) for one in settings.listeners]
    assert found == [SecurityProtocol.SASL_SSL, SecurityProtocol.SSL, SecurityProtocol.PLAINTEXT]
    assert [one is not None and (one.has_tls, one.has_login) for one in found] == [(True, True), (True, False), (False, False)]
    assert settings.protocol_of("OTHER") is None
    assert advice(settings) == []


def test_a_listener_has_its_own_values_and_those_of_all_listeners() -> None:
    settings = load_settings(overrides=SECURED)
    inside, clients = settings.for_listener("SASL_SSL"), settings.for_listener("CLIENTS")
    assert (str(inside.ssl_keystore_location), inside.ssl_client_auth) == ("/etc/node.pem", ClientAuth.NONE)
    assert inside.ssl_enabled_protocols == (TlsProtocol.TLS_1_3, TlsProtocol.TLS_1_2)
    assert clients.ssl_keystore_location is None
    assert (str(clients.ssl_key_location), clients.ssl_client_auth) == ("/etc/tls.key", ClientAuth.REQUIRED)
    assert (inside.ssl_key_password, clients.ssl_key_password) == ("hidden-1", "hidden-2")
    assert clients.sasl_enabled_mechanisms == (SaslMechanism.SCRAM_SHA_512,)


def test_secrets_are_shown_nowhere() -> None:
    settings = load_settings(overrides=SECURED)
    shown = {one.key: one.value for one in render(settings)}
    assert shown["ssl.key.password"] == shown["listener.name.clients.ssl.key.password"] == "***"
    assert shown["listener.name.clients.ssl.key.location"] == "/etc/tls.key"
    assert "hidden" not in f"{settings!r}{settings.for_listener('CLIENTS')!r}{shown}"


@pytest.mark.parametrize(
    ("variable", "listener"),
    [("DISKLESS_LISTENER_NAME_SASL_SSL_SSL_CIPHER_SUITES", "SASL_SSL"), ("DISKLESS_LISTENER_NAME_CLIENTS_SSL_CIPHER_SUITES", "CLIENTS")],
)
def test_values_of_one_listener_come_from_the_environment(variable: str, listener: str) -> None:
    settings = load_settings(env={variable: "AES256-SHA"}, overrides=SECURED)
    others = {one.name for one in settings.listeners} - {listener}
    assert settings.for_listener(listener).ssl_cipher_suites == ("AES256-SHA",)
    assert all(settings.for_listener(other).ssl_cipher_suites == () for other in others)


def test_what_is_less_secure_than_it_looks_is_told() -> None:
    given = {
        "authorizer": "acls",
        "listeners": "SASL_PLAINTEXT://:9192",
        "sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
        "users.file": "/etc/users",
        "internal.secret.file": "/etc/secret",
        "sasl.oauthbearer.jwks.endpoint.url": "https://keys.example/set",
    }
    plain, tokens = advice(load_settings(overrides=ESSENTIAL | given))
    assert "PLAIN without TLS shows every password" in plain
    assert "sasl.oauthbearer.expected.audience is empty" in tokens


@pytest.mark.parametrize(
    ("rules", "subject", "name"),
    [
        ("", "CN=a,O=b", "CN=a,O=b"),
        ("DEFAULT", "CN=a", "CN=a"),
        ("RULE:^CN=(.*?),OU=(.*?),O=.*$/$1@$2/L,DEFAULT", "CN=Alice,OU=Ops,O=acme", "alice@ops"),
        ("RULE:^CN=(.*?),OU=(.*?),O=.*$/$1@$2/L,DEFAULT", "CN=Alice", "CN=Alice"),
        ("RULE:^CN=([^,]+).*$/$1/U", "CN=bob,O=x", "BOB"),
        ("RULE:^CN=([^,]+)$/$1/", "CN=bob,O=x", None),
        (r"RULE:^CN=(a)\/(b)$/$2\/$1/, DEFAULT", "CN=a/b", "b/a"),
        ("RULE:^CN=nobody$/x/,RULE:^O=(.*)$/$1/", "O=acme", "acme"),
    ],
)
def test_mapping_rules_are_those_of_kafka(rules: str, subject: str, name: str | None) -> None:
    assert MappingRules.parse(rules).name_of(subject) == name
