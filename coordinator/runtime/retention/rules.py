"""How much a node keeps of the partitions of topics that do not say so themselves, and how often it looks."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.kafka.topic_configs import UNLIMITED_RETENTION, Retention


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionRules:
    """Settings of retention; times in milliseconds."""

    default: Retention = UNLIMITED_RETENTION
    check_interval_ms: int = 300_000
