"""`GatewaySettings`: every setting of a gateway as one frozen, typed object, declared and loaded as those of a node are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final

from coordinator.config.load import ProcessKind, load
from coordinator.config.problems import Problem
from coordinator.config.rules import (
    SettingRules,
    advertised_can_be_reached,
    heartbeats_fit,
    http_tls_has_files,
    listeners_are_distinct,
    ports_are_distinct,
    problem_of,
)
from coordinator.config.sections.http import HttpSettings
from coordinator.config.sections.network import ConnectionSettings
from coordinator.config.sections.security import ProtocolSettings, TlsSettings
from coordinator.config.security_rules import tls_problems
from coordinator.config.table import KeyFamily, ProcessSettings, SettingsTable
from gateway.sections.access import AccessSettings
from gateway.sections.data import GatewayDataSettings, GatewayTopicSettings
from gateway.sections.essential import GatewayEssentialSettings, GatewayGroupSettings
from gateway.view.model import RelayIds

PORT_MAX: Final = 65_535

FAMILIES: Final = (
    KeyFamily(
        prefix="kafka.",
        attribute="kafka",
        why="How the gateway connects to brokers, with librdkafka's names: security.protocol, sasl.*, ssl.*. TLS counts for connections of "
        "clients too, the login only for the gateway's own questions. Known are PLAINTEXT, SSL, SASL_PLAINTEXT and SASL_SSL with "
        "certificates in PEM files, and the mechanisms PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER with a token in a file.",
    ),
    KeyFamily(
        prefix="coordinator.client.",
        attribute="coordinator_client",
        why="How the gateway connects to nodes of the coordinator service: security.protocol, sasl.*, ssl.*, as for kafka.*.",
    ),
    KeyFamily(
        prefix="object.store.option.",
        attribute="object_store_option",
        why="Passed to the object store's client with underscores for dots, as for a node.",
    ),
)


@dataclass(frozen=True, kw_only=True)
class GatewaySettings(
    GatewayEssentialSettings,
    GatewayGroupSettings,
    GatewayTopicSettings,
    GatewayDataSettings,
    AccessSettings,
    ProtocolSettings,
    TlsSettings,
    HttpSettings,
    ConnectionSettings,
    ProcessSettings[TlsSettings],
):
    """All settings."""

    listener_type: ClassVar[type[TlsSettings]] = TlsSettings

    coordinator_client: Mapping[str, str] = field(repr=False)

    def relay_base(self, port: int) -> int:
        """Return the first relay port of a listener, or of an advertised one, by its own port."""
        return self.gateway_relay_port_base or port + 1


GATEWAY: Final = SettingsTable.of(GatewaySettings, FAMILIES)
RULES: Final[SettingRules[Any]] = SettingRules(GATEWAY)

_SET_ELSEWHERE: Final = {
    "bootstrap.servers": "set bootstrap.servers instead",
    "client.id": "leave it out: clients are named after gateway.node.id",
}

RULES("listeners")(listeners_are_distinct)
RULES("listeners", "advertised.listeners")(advertised_can_be_reached)
RULES("listeners", "http.listener")(ports_are_distinct)
RULES("http.listener", "http.ssl.certificate.location", "http.ssl.key.location")(http_tls_has_files)
RULES("listeners", "listener.security.protocol.map", *GATEWAY.listener_keys)(tls_problems)


@RULES("listeners", "gateway.relay.port.base", "gateway.relay.brokers", "http.listener")
def _relay_ports(settings: GatewaySettings) -> Iterator[Problem]:
    """Relay ports are apart from each other and from other ports."""
    if settings.gateway_relay_port_base and len(settings.listeners) > 1:
        yield problem_of(
            settings, "gateway.relay.port.base", "counts for one listener only", "leave it out: relay ports follow each listener's own port"
        )
        return
    count = RelayIds(settings.gateway_relay_brokers).count
    http = settings.http_listener
    taken = {} if http is None else {http.port: "http.listener"}
    for listener in settings.listeners:
        if not listener.port:
            yield problem_of(settings, "listeners", f"{listener} must have a port: relay ports follow it", "choose a port")
            continue
        base = settings.relay_base(listener.port)
        if base + count - 1 > PORT_MAX:
            yield problem_of(
                settings,
                "gateway.relay.brokers",
                f"has {count} ports from {base} on, above {PORT_MAX}",
                "name fewer brokers, or lower ports",
            )
        for port in (listener.port, *range(base, base + count)):
            if port in taken:
                yield problem_of(
                    settings,
                    "listeners",
                    f"port {port} is one of {taken[port]} and one of listener {listener.name}, with its relay ports",
                    f"keep {count + 1} ports free for each listener, or name fewer brokers in gateway.relay.brokers",
                )
                break
            taken[port] = f"listener {listener.name}"


@RULES("gateway.session.timeout.ms", "gateway.heartbeat.interval.ms")
def _heartbeats(settings: GatewaySettings) -> Iterator[Problem]:
    yield from heartbeats_fit(settings, "gateway.session.timeout.ms", "gateway.heartbeat.interval.ms")


KIND: Final = ProcessKind("gateway", GATEWAY, RULES, _SET_ELSEWHERE)


def load_gateway_settings(
    file: Path | None = None, env: Mapping[str, str] | None = None, overrides: Mapping[str, str] | None = None
) -> GatewaySettings:
    """Read, check and return the settings. Raises `coordinator.config.problems.ConfigError` with all problems at once."""
    settings = load(KIND, file, env, overrides)
    assert isinstance(settings, GatewaySettings)
    return settings
