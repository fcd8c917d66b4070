"""Settings of retention: what is kept of topics that do not say so themselves, and how often leaders look."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.config.keys import INT64_MAX, integer


@dataclass(frozen=True, kw_only=True)
class RetentionSettings:
    """How long, and how much, batches are kept. Kafka's keys."""

    log_retention_ms: int = integer(
        "log.retention.ms",
        -1,
        low=-1,
        high=INT64_MAX,
        why="""How long batches are kept in topics that do not set retention.ms: batches at the beginning of a partition whose largest
        timestamp is older are deleted. -1 keeps them for ever, unlike Kafka's 168 hours: no data may be lost because an operator
        forgot a setting. It must be the same on all nodes: the leader of a partition applies its own.""",
    )
    log_retention_bytes: int = integer(
        "log.retention.bytes",
        -1,
        low=-1,
        high=INT64_MAX,
        why="""The bytes of batches that each partition keeps at least in topics that do not set retention.bytes: the oldest batches go as
        long as so much is left. -1 is no limit, as in Kafka. It must be the same on all nodes.""",
    )
    log_retention_check_interval_ms: int = integer(
        "log.retention.check.interval.ms",
        300_000,
        low=100,
        high=86_400_000,
        why="""How often the leader of a partition looks for batches that are past retention.ms or retention.bytes (Kafka's key and
        default). Until then they can be read. `diskless retention enforce` looks at once. As often it asks Kafka where the classic parts of
        migrated partitions begin.""",
    )
