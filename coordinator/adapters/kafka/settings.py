"""The librdkafka properties of each client: which are fixed, which are defaults, and what an operator may add.

Fixed properties carry the safety of the log (a producer that times an entry out leaves a hole after it, a consumer
that resets its offset skips entries silently), so an operator's value for one is refused with an error instead of
being ignored. Everything else, security above all, is taken as given and wins over our defaults.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from coordinator.adapters.kafka.stats import KafkaStats
from coordinator.security.client_security import KAFKA_MECHANISMS, ClientSecurity, SecurityUnsupported

LOG = logging.getLogger("coordinator.kafka.client")

FAILURES_QUIET_S = 10.0

Properties = dict[str, Any]

FIXED = frozenset(
    {
        "bootstrap.servers", "metadata.broker.list", "client.id", "group.id", "group.instance.id", "group.protocol",
        "group.remote.assignor", "partition.assignment.strategy", "session.timeout.ms", "heartbeat.interval.ms",
        "max.poll.interval.ms", "acks", "request.required.acks", "enable.idempotence", "enable.gapless.guarantee",
        "message.timeout.ms", "delivery.timeout.ms", "message.max.bytes", "linger.ms", "queue.buffering.max.ms",
        "compression.type", "compression.codec", "transactional.id", "max.in.flight", "max.in.flight.requests.per.connection",
        "retries", "message.send.max.retries", "queuing.strategy", "delivery.report.only.error", "isolation.level",
        "auto.offset.reset", "check.crcs", "enable.auto.commit", "auto.commit.enable", "enable.auto.offset.store",
        "enable.partition.eof", "on_commit", "on_delivery", "delivery.callback", "error_cb", "stats_cb", "logger",
        "statistics.interval.ms", "allow.auto.create.topics",
    }
)  # fmt: skip
"""Properties no operator may set: correctness or our own configuration depends on each."""

OF_THE_GROUP = KafkaError.GROUP_AUTHORIZATION_FAILED
"""librdkafka looks for the coordinator of a consumer's group though nothing of the group is used, and tells the readers of partitions when
the node's principal has no right to a group of that name. The reading goes on."""

COMMON_DEFAULTS: Mapping[str, Any] = {
    # A hung broker is noticed after 3 s; with the default of 60 s commits and group membership freeze as long as it hangs.
    "socket.timeout.ms": 3000,
    "reconnect.backoff.max.ms": 1000,
    "topic.metadata.refresh.interval.ms": 5000,
}


class _Unalarming(logging.Filter):
    """Drops what librdkafka says loudly about things done on purpose, and all but the first of a storm of failures."""

    def __init__(self) -> None:
        super().__init__()
        self._quiet_until_s = 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        # The gapless guarantee is "experimental" at every start, and a purge at the end of a term trips it by design.
        if "CONFWARN" in text or "Purged in" in text:
            return False
        if not text.startswith("FAIL"):
            return True
        # While a broker is away each client says so several times a second.
        now_s = time.monotonic()
        is_first = now_s >= self._quiet_until_s
        if is_first:
            self._quiet_until_s = now_s + FAILURES_QUIET_S
        return is_first


def client_logger(role: str) -> logging.Logger:
    """Return the logger that librdkafka writes to for one kind of client."""
    logger = LOG.getChild(role)
    if not logger.filters:
        logger.addFilter(_Unalarming())
    return logger


class KafkaPropertyRefused(ValueError):
    """An operator's librdkafka property is one that the coordinator must control itself."""


def check_user_properties(properties: Mapping[str, Any]) -> None:
    """Raise `KafkaPropertyRefused` when one of the properties is fixed."""
    refused = sorted(set(properties) & FIXED)
    if refused:
        raise KafkaPropertyRefused(
            f"kafka properties {', '.join(refused)} cannot be set: the coordinator fixes them because the safety of the "
            f"metadata log depends on them. Remove them; security, socket and fetch properties are free to set."
        )


def prove_user_properties(properties: Mapping[str, Any]) -> None:
    """Let both of a node's clients of Kafka read an operator's properties, without any broker: librdkafka and connections of its own.

    Raises `KafkaPropertyRefused` for those that are fixed, that one of them does not know, or whose values or files it does not take.
    """
    check_user_properties(properties)
    _prove_own(properties)
    try:
        # A producer knows the properties of consumers too. Without brokers it opens no connection, and it ends with its last reference.
        Producer({**properties, "log_level": 0, "logger": client_logger("check")})
    except (KafkaException, ValueError, TypeError) as error:
        reason = error.args[0].str() if error.args and isinstance(error.args[0], KafkaError) else str(error)
        raise KafkaPropertyRefused(
            f"Kafka's client refuses the kafka properties: {reason}; names and values are those of librdkafka's CONFIGURATION.md"
        ) from error


def _prove_own(properties: Mapping[str, Any]) -> None:
    """Prove the security of connections of this process's own, without which a node knows neither members of its group nor brokers."""
    try:
        ClientSecurity(properties, KAFKA_MECHANISMS)
    except (SecurityUnsupported, OSError) as error:
        raise KafkaPropertyRefused(f"a node's own connections to Kafka cannot be made with these kafka properties: {error}") from error


def client_properties(
    *,
    bootstrap_servers: str,
    client_id: str,
    role: str,
    defaults: Mapping[str, Any],
    fixed: Mapping[str, Any],
    user: Mapping[str, Any],
    stats: KafkaStats,
) -> Properties:
    """Merge defaults, the operator's properties and the fixed ones; `role` names the client in counters and logs."""
    check_user_properties(user)
    return {
        **COMMON_DEFAULTS,
        **defaults,
        **user,
        **fixed,
        "bootstrap.servers": bootstrap_servers,
        "client.id": client_id,
        "error_cb": error_counter(stats, role),
        "logger": client_logger(role),
    }


def error_counter(stats: KafkaStats, role: str) -> Callable[[KafkaError], None]:
    """Make an `error_cb` that counts and does nothing else."""

    def count(error: KafkaError) -> None:
        stats.client_errors[f"{role}:{error.name()}"] += 1

    return count
