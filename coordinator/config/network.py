"""Settings of the served listeners: limits, timeouts, security."""

# ruff: noqa: RUF009 - the calls make dataclass fields, as dataclasses.field() does

from __future__ import annotations

from dataclasses import dataclass

from coordinator.config.keys import INT32_MAX, INT64_MAX, boolean, choice, integer, items, pairs, text
from coordinator.config.values import ClientAuth, SecurityProtocol

SASL_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


@dataclass(frozen=True, kw_only=True)
class NetworkSettings:
    """Limits that keep one client, or one attacker, from harming the others."""

    socket_request_max_bytes: int = integer(
        "socket.request.max.bytes",
        100 * 1024 * 1024,
        low=1_024,
        high=INT32_MAX,
        why="""Largest request that is read; the size is checked before memory is reserved and a larger one closes the connection.
        Kafka's key and default: far above a commit of 10 000 batches (0.8 MB).""",
    )
    connections_max: int = integer(
        "connections.max",
        10_000,
        low=1,
        high=1_000_000,
        why="""Open connections of this process at most; a further one is closed at once. Each costs a file descriptor: keep it below
        the process's limit of open files.""",
    )
    connections_max_idle_ms: int = integer(
        "connections.max.idle.ms",
        600_000,
        low=1_000,
        high=INT32_MAX,
        why="""A connection without a request for this long is closed (Kafka's key and default); clients that vanished without a
        word would stay for ever otherwise.""",
    )
    connection_pending_max_bytes: int = integer(
        "connection.pending.max.bytes",
        16 * 1024 * 1024,
        low=1_024,
        high=INT64_MAX,
        why="""Request bytes of one connection that wait for their answer; above it the socket is not read until answers went out.
        The request that crosses the limit is still taken.""",
    )
    connection_pending_max_requests: int = integer(
        "connection.pending.max.requests",
        256,
        low=1,
        high=100_000,
        why="""Requests of one connection that wait for their answer; above it the socket is not read until answers went out. A
        client that pipelines deeper gains nothing, as answers keep the order of requests.""",
    )
    partition_pending_max_bytes: int = integer(
        "partition.pending.max.bytes",
        256 * 1024 * 1024,
        low=1_024,
        high=INT64_MAX,
        why="""Request bytes that wait for one metadata partition, over all connections; above it connections that bring more for it
        are not read. It bounds memory while Kafka does not acknowledge.""",
    )
    max_partitions_per_topic: int = integer(
        "max.partitions.per.topic",
        100_000,
        low=1,
        high=INT32_MAX,
        why="""Partitions one topic may have; a request for more is answered INVALID_PARTITIONS. It catches a slip of the keyboard
        before it fills the metadata.""",
    )
    wire_kip_keys_enabled: bool = boolean(
        "wire.kip.keys.enabled",
        True,
        why="""Whether the operations answer under the request numbers printed in KIP-1164 too. Newer Kafka uses two of those numbers
        for other requests; every operation is always served under 10000 plus its number, and false leaves only those.""",
    )
    listener_security_protocol_map: dict[str, str] = pairs(
        "listener.security.protocol.map",
        "",
        allowed=lambda value: value in SecurityProtocol.__members__,
        bounds="NAME:PROTOCOL, comma separated, with PROTOCOL one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL",
        why="""Security protocol of each listener whose name is not a protocol itself (Kafka's key). It allows two listeners with the
        same protocol, such as one inside and one outside of the cluster.""",
    )
    ssl_certificate_location: str = text(
        "ssl.certificate.location",
        "",
        why="""PEM file with the certificate chain of the SSL and SASL_SSL listeners. It is read again when it changes, so
        certificates are renewed without a restart.""",
    )
    ssl_key_location: str = text(
        "ssl.key.location", "", why="""PEM file with the private key of ssl.certificate.location; readable by this process only."""
    )
    ssl_key_password: str = text(
        "ssl.key.password",
        "",
        secret=True,
        why="""Password of the private key, empty for none. Prefer the environment or a file that only this process may read.""",
    )
    ssl_ca_location: str = text(
        "ssl.ca.location",
        "",
        why="""PEM file with the authorities whose client certificates are accepted. Needed where ssl.client.auth is not none.""",
    )
    ssl_client_auth: ClientAuth = choice(
        "ssl.client.auth",
        ClientAuth.NONE,
        why="""Whether clients of TLS listeners must show a certificate, whose subject is then their principal (Kafka's key).""",
    )
    ssl_reload_interval_ms: int = integer(
        "ssl.reload.interval.ms",
        10_000,
        low=100,
        high=86_400_000,
        why="""How often the certificate files are looked at for a change. New connections use the new ones.""",
    )
    sasl_enabled_mechanisms: tuple[str, ...] = items(
        "sasl.enabled.mechanisms",
        "SCRAM-SHA-512,SCRAM-SHA-256",
        allowed=lambda value: value in SASL_MECHANISMS,
        bounds=", ".join(SASL_MECHANISMS),
        why="""Mechanisms offered by SASL listeners (Kafka's key). PLAIN sends the password itself and belongs on SASL_SSL only.""",
    )
    sasl_credentials_location: str = text(
        "sasl.credentials.location",
        "",
        why="""File with the users of SASL listeners, one `user=password` or `user=SCRAM-SHA-512:...` per line; read again when it
        changes. Needed as soon as a SASL listener is configured.""",
    )
    cluster_action_principals: tuple[str, ...] = items(
        "cluster.action.principals",
        "",
        allowed=lambda value: value.startswith("User:") and len(value) > len("User:"),
        bounds="User:name, comma separated",
        why="""Principals that may use the operations of the coordinator. Once any listener is secure everybody else is refused with
        CLUSTER_AUTHORIZATION_FAILED, and an empty list refuses all.""",
    )
    connection_authentication_timeout_ms: int = integer(
        "connection.authentication.timeout.ms",
        10_000,
        low=100,
        high=600_000,
        why="""A connection that has not authenticated by then is closed, so strangers cannot hold connections open.""",
    )
    connection_authentication_max_bytes: int = integer(
        "connection.authentication.max.bytes",
        65_536,
        low=1_024,
        high=INT32_MAX,
        why="""Largest request of a connection that has not authenticated yet. The handshake needs a few hundred bytes; strangers
        shall not be able to make the process reserve more.""",
    )
