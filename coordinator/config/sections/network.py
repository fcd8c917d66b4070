"""Settings of the served listeners: limits and timeouts."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.config.keys import INT32_MAX, INT64_MAX, boolean, integer


@dataclass(frozen=True, kw_only=True)
class ConnectionSettings:
    """Limits of the connections of any listener, of a node or of a gateway."""

    socket_request_max_bytes: int = integer(
        "socket.request.max.bytes",
        100 * 1024 * 1024,
        low=1_024,
        high=INT32_MAX,
        why="""Largest request that is read; the size is checked before memory is reserved and a larger one closes the connection.
        Kafka's key and default: far above a commit of 10 000 batches (0.8 MB).""",
    )
    socket_unfinished_max_bytes: int = integer(
        "socket.unfinished.max.bytes",
        512 * 1024 * 1024,
        low=1_024,
        high=1 << 40,
        why="""Bytes that requests which are not complete may have together, for each listener. Beyond it the connection with the largest
        one is closed: clients that begin large requests and never finish them cannot fill the memory. One request of the largest size
        always fits. In a gateway it counts for all ports, not for Produce, and is at most a part of gateway.memory.bytes.""",
    )
    connections_max: int = integer(
        "connections.max",
        10_000,
        low=1,
        high=1_000_000,
        why="""Open connections of each listener at most; a further one is closed at once. Each costs a file descriptor: where the
        process's hard limit of open files (LimitNOFILE, ulimit -Hn) has no room for all and for 500 others, fewer are taken.""",
    )
    connections_max_idle_ms: int = integer(
        "connections.max.idle.ms",
        600_000,
        low=1_000,
        high=INT32_MAX,
        why="""A connection without a request for this long is closed (Kafka's key and default); clients that vanished without a
        word would stay for ever otherwise.""",
    )
    sasl_server_max_receive_size: int = integer(
        "sasl.server.max.receive.size",
        524_288,
        low=1_024,
        high=INT32_MAX,
        why="""Largest request in bytes that is read of a connection that has not logged in, on listeners with logins. Kafka's key and
        default; tokens are the largest messages of a login, and 64 KiB of them are accepted.""",
    )
    connections_unauthenticated_max: int = integer(
        "connections.unauthenticated.max",
        1_000,
        low=1,
        high=1_000_000,
        why="""Connections of a listener with TLS or logins, at most, that have not finished their handshake and login; one more
        closes the oldest of them. So strangers who say nothing can neither use up connections.max nor keep others out. Keep it above
        the number of clients that connect again at once after a restart, and well below connections.max.""",
    )
    connection_login_timeout_ms: int = integer(
        "connection.login.timeout.ms",
        10_000,
        low=100,
        high=600_000,
        why="""A connection that has not finished TLS handshake and login for this long after its beginning is closed.""",
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


@dataclass(frozen=True, kw_only=True)
class NetworkSettings(ConnectionSettings):
    """Limits that keep one client, or one attacker, from harming the others."""

    connection_failed_authentication_delay_ms: int = integer(
        "connection.failed.authentication.delay.ms",
        100,
        low=0,
        high=60_000,
        why="""A login that failed is answered after this time, and the connection closed. Kafka's key and default; it slows down
        attempts to guess passwords, and clients that try again with a wrong one without a pause.""",
    )
    connections_max_reauth_ms: int = integer(
        "connections.max.reauth.ms",
        0,
        low=0,
        high=INT32_MAX,
        why="""How long a login holds at most; 0 is without end. Clients learn this time, and log in again on the same connection as KIP-368
        says; a connection that did not is closed at its next request. Kafka's key and default. It bounds for how long a user that
        was removed goes on. A token that ends earlier counts in any case.""",
    )
    partition_pending_max_bytes: int = integer(
        "partition.pending.max.bytes",
        256 * 1024 * 1024,
        low=1_024,
        high=INT64_MAX,
        why="""Request bytes that wait for one metadata partition, over all connections; a request beyond them is answered
        REQUEST_TIMED_OUT at once, and nothing of it is done. It bounds memory while Kafka does not acknowledge.""",
    )
    max_partitions_per_topic: int = integer(
        "max.partitions.per.topic",
        100_000,
        low=1,
        high=10_000_000,
        why="""Partitions one topic may have; a request for more is answered INVALID_PARTITIONS. It catches a slip of the keyboard
        before it fills the metadata. A replica ignores records that create more than 10 000 000.""",
    )
    wire_kip_keys_enabled: bool = boolean(
        "wire.kip.keys.enabled",
        True,
        why="""Whether the operations answer under the request numbers printed in KIP-1164 too. Newer Kafka uses two of those numbers
        for other requests; every operation is always served under 10000 plus its number, and false leaves only those.""",
    )
