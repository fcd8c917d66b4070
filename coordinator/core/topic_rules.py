"""Decides whether the metadata topic, as the cluster describes it, keeps what it acknowledges.

Pure: it takes what was read and says what is wrong, why, and how to put it right. A finding of severity REFUSE means
that acknowledged metadata can be lost silently, so no node may lead; WARN means less safety than was asked for.
The replica count of every partition is checked beside the keys, because Kafka lowers an excessive
`min.insync.replicas` to the number of replicas without a word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from coordinator.kafka.coordinators import COORDINATORS_MAX
from coordinator.printable import quoted


class Severity(Enum):
    """The consequence of a finding."""

    REFUSE = "refuse"
    WARN = "warn"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing wrong with the topic: the key, its value, what it costs and how to change it."""

    key: str
    value: str
    severity: Severity
    reason: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicExpectations:
    """Requirements of the topic; a development cluster lowers both numbers explicitly."""

    replication_factor: int = 3
    min_insync_replicas: int = 2
    is_development: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.min_insync_replicas <= self.replication_factor:
            raise ValueError(
                f"min.insync.replicas {self.min_insync_replicas} must lie between 1 and the replication factor {self.replication_factor}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSets:
    """The replicas of one partition of the topic, by broker id."""

    partition: int
    replicas: Sequence[int]
    in_sync: Sequence[int]


TOPIC_CONFIG: Mapping[str, str] = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "unclean.leader.election.enable": "false",
    "message.timestamp.type": "LogAppendTime",
}
"""The topic's configuration, apart from `min.insync.replicas`; each other value loses acknowledged entries, or lets clocks stop leaders."""

SEGMENT_BYTES = 16 * 1024 * 1024
"""Brokers delete the beginning of a log by whole segments: of their default of 1 GiB nearly nothing would go when a log is pruned."""

REASONS: Mapping[str, str] = {
    "cleanup.policy": "compaction removes entries of the log and breaks every replica that reads it",
    "retention.ms": "entries not yet covered by a snapshot are deleted after that time",
    "retention.bytes": "entries not yet covered by a snapshot are deleted at that size",
    "unclean.leader.election.enable": "a broker that missed acknowledged entries may become leader, and they are gone",
    "message.timestamp.type": "brokers refuse entries of a node whose clock is off, and no node learns what the brokers' clocks show",
}

MAX_MESSAGE_BYTES_MIN = 64 * 1024
"""Below this an entry holds too few batches to be worth a round trip, and a claim with long endpoints may not fit."""


def check_topic(
    *, topic: str, config: Mapping[str, str], partitions: Sequence[ReplicaSets], expectations: TopicExpectations
) -> tuple[Finding, ...]:
    """Return everything wrong with the topic, those that forbid leading first."""
    findings = [
        *_check_fixed_keys(topic, config),
        *_check_min_insync(topic, config, expectations),
        *_check_replicas(topic, config, partitions, expectations),
        *_check_count(partitions),
        *_check_message_size(topic, config),
    ]
    return tuple(sorted(findings, key=lambda finding: finding.severity is not Severity.REFUSE))


def may_lead(findings: Sequence[Finding]) -> bool:
    """Whether no finding forbids leading."""
    return all(finding.severity is not Severity.REFUSE for finding in findings)


def wanted_config(expectations: TopicExpectations) -> dict[str, str]:
    """Return the configuration to create the topic with."""
    return {**TOPIC_CONFIG, "segment.bytes": str(SEGMENT_BYTES), "min.insync.replicas": str(expectations.min_insync_replicas)}


def _check_fixed_keys(topic: str, config: Mapping[str, str]) -> list[Finding]:
    findings = []
    for key, wanted in TOPIC_CONFIG.items():
        value = config.get(key)
        if value is not None and _is_same(key, value, wanted):
            continue
        findings.append(
            Finding(
                key=key,
                value=value if value is not None else "unknown",
                severity=Severity.REFUSE,
                reason=REASONS[key] if value is not None else f"the cluster did not say what {key} is",
                remedy=_set_key(topic, key, wanted),
            )
        )
    return findings


def _check_min_insync(topic: str, config: Mapping[str, str], expectations: TopicExpectations) -> list[Finding]:
    key, wanted = "min.insync.replicas", expectations.min_insync_replicas
    value = config.get(key)
    if value is not None and _is_number(value) and int(value) >= wanted:
        return []
    return [
        Finding(
            key=key,
            value=value if value is not None else "unknown",
            severity=Severity.REFUSE,
            reason=f"an entry acknowledged by fewer than {wanted} brokers is lost with them",
            remedy=_set_key(topic, key, str(wanted)),
        )
    ]


def _check_replicas(
    topic: str, config: Mapping[str, str], partitions: Sequence[ReplicaSets], expectations: TopicExpectations
) -> list[Finding]:
    findings = []
    text = config.get("min.insync.replicas", "")
    min_insync = int(text) if _is_number(text) else expectations.min_insync_replicas
    for item in partitions:
        count = len(item.replicas)
        name = f"{topic}-{item.partition}"
        if count < expectations.replication_factor:
            reason = f"{name} has {count} replicas, fewer than the {expectations.replication_factor} expected"
            findings.append(_replica_finding(item, reason, expectations))
        elif min_insync > count:
            reason = f"{name} has {count} replicas, so Kafka silently lowers min.insync.replicas={min_insync} to that"
            findings.append(_replica_finding(item, reason, expectations))
        if len(item.in_sync) < min(min_insync, count):
            findings.append(
                Finding(
                    key=f"in-sync replicas of partition {item.partition}",
                    value=_brokers(item.in_sync),
                    severity=Severity.WARN,
                    reason=f"{name} is below min.insync.replicas={min_insync}: nothing can be committed until brokers return",
                    remedy=f"bring back the brokers {_brokers([x for x in item.replicas if x not in item.in_sync])}",
                )
            )
    return findings


def _check_count(partitions: Sequence[ReplicaSets]) -> list[Finding]:
    if len(partitions) <= COORDINATORS_MAX:
        return []
    return [
        Finding(
            key="number of partitions",
            value=str(len(partitions)),
            severity=Severity.REFUSE,
            reason=f"a service has at most {COORDINATORS_MAX} coordinators: beyond them ids of batches would be equal",
            remedy="Kafka takes no partitions away: use a topic with fewer (metadata.topic, `diskless init`)",
        )
    ]


def _replica_finding(item: ReplicaSets, reason: str, expectations: TopicExpectations) -> Finding:
    remedy = (
        f"add replicas with kafka-reassign-partitions.sh until partition {item.partition} has "
        f"{expectations.replication_factor}, or lower the expectation on a development cluster only"
    )
    return Finding(
        key=f"replicas of partition {item.partition}",
        value=_brokers(item.replicas),
        severity=Severity.WARN if expectations.is_development else Severity.REFUSE,
        reason=reason,
        remedy=remedy,
    )


def _check_message_size(topic: str, config: Mapping[str, str]) -> list[Finding]:
    key = "max.message.bytes"
    value = config.get(key)
    if value is None or not _is_number(value) or int(value) >= MAX_MESSAGE_BYTES_MIN:
        return []
    return [
        Finding(
            key=key,
            value=value,
            severity=Severity.WARN,
            reason=f"entries are limited to {value} bytes: larger files are refused, other requests become transactions of many entries",
            remedy=_set_key(topic, key, "1048588"),
        )
    ]


def _is_same(key: str, value: str, wanted: str) -> bool:
    if key in ("retention.ms", "retention.bytes"):
        return _is_number(value) and int(value) == int(wanted)
    if key == "cleanup.policy":
        return [part.strip() for part in value.split(",")] == [wanted]
    return value.strip().lower() == wanted.lower()


def _is_number(text: str) -> bool:
    return text.strip().lstrip("-").isdigit()


def _brokers(ids: Sequence[int]) -> str:
    return ", ".join(str(item) for item in ids) or "none"


def _set_key(topic: str, key: str, value: str) -> str:
    where = f"--entity-type topics --entity-name {quoted(topic)}"
    return f"kafka-configs.sh --bootstrap-server <broker> --alter {where} --add-config {key}={value}"
