"""The listener of the cluster that clients log in at through this gateway: what it must be like, and what it offers.

A gateway opens the connections of its clients with the TLS of its own `kafka.*` settings, and with the login of each client. So a listener
that knows its clients by certificates alone cannot be used: every client would have the rights of the gateway's certificate.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import kio.schema.sasl_handshake.v1 as sasl_handshake

from coordinator.adapters.kafka.bootstrap import Bootstrap, bootstrap_addresses
from coordinator.security.client_security import ClientSecurity, SecurityUnsupported
from gateway.access.desk import cannot_pass
from gateway.access.listeners import GatedListeners
from gateway.access.logins import PASSING, Mechanisms, split_mechanisms

LOG = logging.getLogger(__name__)

_NONE: Final = "?"
"""A mechanism that no listener enables: brokers answer it with those that they have."""


class ClusterUnfit(Exception):
    """Clients cannot be served through a gateway with these settings, or from this listener; the text names the remedy."""


def cluster_security(properties: Mapping[str, str]) -> ClientSecurity:
    """Return how this gateway connects to brokers: the TLS of all connections, the login of its own. Raises `ClusterUnfit`.

    `properties` are librdkafka's. Connections of clients have the TLS, and no login until the client logs in.
    """
    try:
        security = ClientSecurity(properties)
    except (SecurityUnsupported, OSError) as error:
        raise ClusterUnfit(f"kafka.*: {error}") from error
    if security.has_certificate and security.mechanism is None:
        raise ClusterUnfit(
            "kafka.security.protocol SSL with kafka.ssl.certificate.location: the cluster would take every client for this gateway, and "
            "principals of certificates cannot pass through one; "
            f"name a listener with SASL_SSL, where clients log in by {', '.join(PASSING)}, or one that asks for no certificate"
        )
    return security


def listener_faults(listeners: GatedListeners, security: ClientSecurity) -> Iterator[str]:
    """List what is wrong with the gateway's own listeners beside the cluster's, as sentences that name the remedy."""
    cluster_logs_in = security.mechanism is not None
    for listener in listeners.listeners:
        protocol = listeners.protocol_of(listener.name)
        if protocol is None or protocol.has_login == cluster_logs_in:
            continue
        if cluster_logs_in:
            wanted = "SASL_SSL" if protocol.has_tls else "SASL_PLAINTEXT"
            why, remedy = "clients could not log in, as the cluster wants it", f"make it {wanted}"
        else:
            wanted = "SSL" if protocol.has_tls else "PLAINTEXT"
            why = "the cluster's listener has no logins, and a gateway has none of its own"
            remedy = f"make it {wanted}, or name a listener of the cluster with logins in kafka.security.protocol"
        yield f"listener {listener.name} is {protocol} and kafka.security.protocol is {security.protocol}: {why}; {remedy}"


async def check_mechanisms(bootstrap_servers: str, security: ClientSecurity, client_id: str, timeout_s: float) -> Mechanisms | None:
    """Ask the cluster by which mechanisms clients log in; None without logins. Says which of them cannot pass.

    Raises `ClusterUnfit` when none can pass, and `KafkaException` when no broker answers.
    """
    if security.mechanism is None:
        return None
    offered = split_mechanisms(await asyncio.to_thread(_offered, bootstrap_servers, security, client_id, timeout_s))
    if not offered.passing:
        raise ClusterUnfit(f"no client could log in: of {bootstrap_servers}, {cannot_pass(offered.others or ['no mechanism'])}")
    if offered.others:
        LOG.warning("logins that cannot pass: %s", cannot_pass(offered.others))
    return offered


def _offered(bootstrap_servers: str, security: ClientSecurity, client_id: str, timeout_s: float) -> Sequence[str]:
    # No login: a broker that has logged this process in takes no other handshake.
    properties = {name: value for name, value in security.properties.items() if not name.startswith("sasl.")}
    anonymous = ClientSecurity(properties | {"security.protocol": "SSL" if security.has_tls else "PLAINTEXT"})
    bootstrap = Bootstrap(bootstrap_addresses(bootstrap_servers), anonymous, client_id)
    request = sasl_handshake.SaslHandshakeRequest(mechanism=_NONE)
    return bootstrap.ask(request, sasl_handshake.SaslHandshakeResponse, _mechanisms, time.monotonic() + timeout_s)


def _mechanisms(answer: sasl_handshake.SaslHandshakeResponse) -> Sequence[str]:
    return [str(one) for one in answer.mechanisms]
