"""The rules of the metadata topic, one row per thing that loses acknowledged entries."""

from __future__ import annotations

import pytest

from coordinator.core.topic_rules import ReplicaSets, Severity, TopicExpectations, check_topic, may_lead, wanted_config
from coordinator.kafka.coordinators import COORDINATORS_MAX

PRODUCTION = TopicExpectations()
DEVELOPMENT = TopicExpectations(replication_factor=1, min_insync_replicas=1, is_development=True)
THREE = (ReplicaSets(partition=0, replicas=(1, 2, 3), in_sync=(1, 2, 3)), ReplicaSets(partition=1, replicas=(2, 3, 1), in_sync=(2, 3, 1)))


def good_config(**changes: str) -> dict[str, str]:
    return {**wanted_config(PRODUCTION), **{key.replace("_", "."): value for key, value in changes.items()}}


def test_a_topic_created_as_wanted_has_no_findings() -> None:
    assert check_topic(topic="t", config=good_config(), partitions=THREE, expectations=PRODUCTION) == ()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("retention.ms", "604800000"),
        ("retention.bytes", "1000"),
        ("cleanup.policy", "compact"),
        ("cleanup.policy", "compact,delete"),
        ("unclean.leader.election.enable", "true"),
        ("min.insync.replicas", "1"),
        ("message.timestamp.type", "CreateTime"),
    ],
)
def test_a_key_that_loses_acknowledged_entries_refuses_to_lead(key: str, value: str) -> None:
    findings = check_topic(topic="t", config={**good_config(), key: value}, partitions=THREE, expectations=PRODUCTION)
    assert [(finding.key, finding.value, finding.severity) for finding in findings] == [(key, value, Severity.REFUSE)]
    assert f"--entity-name t --add-config {key}=" in findings[0].remedy
    assert not may_lead(findings)


@pytest.mark.parametrize("key", sorted(wanted_config(PRODUCTION).keys() - {"segment.bytes"}))
def test_a_key_the_cluster_does_not_report_refuses_to_lead(key: str) -> None:
    config = good_config()
    del config[key]
    findings = check_topic(topic="t", config=config, partitions=THREE, expectations=PRODUCTION)
    assert [(finding.key, finding.value) for finding in findings] == [(key, "unknown")]
    assert not may_lead(findings)


def test_min_insync_above_the_replica_count_refuses_although_kafka_accepts_it() -> None:
    findings = check_topic(topic="t", config=good_config(min_insync_replicas="4"), partitions=THREE, expectations=PRODUCTION)
    refused = [finding for finding in findings if finding.severity is Severity.REFUSE]
    assert [finding.key for finding in refused] == ["replicas of partition 0", "replicas of partition 1"]
    assert "silently lowers" in refused[0].reason


def test_one_partition_with_too_few_replicas_refuses_by_name() -> None:
    partitions = (THREE[0], ReplicaSets(partition=1, replicas=(2,), in_sync=(2,)))
    findings = check_topic(topic="t", config=good_config(), partitions=partitions, expectations=PRODUCTION)
    assert [(finding.key, finding.value, finding.severity) for finding in findings] == [("replicas of partition 1", "2", Severity.REFUSE)]


def test_a_shrunken_in_sync_set_only_warns() -> None:
    partitions = (ReplicaSets(partition=0, replicas=(1, 2, 3), in_sync=(1,)),)
    findings = check_topic(topic="t", config=good_config(), partitions=partitions, expectations=PRODUCTION)
    assert [finding.severity for finding in findings] == [Severity.WARN]
    assert findings[0].remedy == "bring back the brokers 2, 3"
    assert may_lead(findings)


def test_a_development_cluster_may_have_one_replica_but_not_finite_retention() -> None:
    one = (ReplicaSets(partition=0, replicas=(1,), in_sync=(1,)),)
    config = {**good_config(), "min.insync.replicas": "1"}
    assert check_topic(topic="t", config=config, partitions=one, expectations=DEVELOPMENT) == ()
    assert not may_lead(check_topic(topic="t", config={**config, "retention.ms": "5"}, partitions=one, expectations=DEVELOPMENT))


def test_a_development_cluster_with_min_insync_2_on_one_replica_is_warned() -> None:
    one = (ReplicaSets(partition=0, replicas=(1,), in_sync=(1,)),)
    findings = check_topic(topic="t", config=good_config(), partitions=one, expectations=DEVELOPMENT)
    assert [finding.severity for finding in findings] == [Severity.WARN]


def test_findings_that_refuse_come_first() -> None:
    partitions = (ReplicaSets(partition=0, replicas=(1, 2, 3), in_sync=(1,)),)
    config = good_config(max_message_bytes="1000", retention_ms="1")
    severities = [finding.severity for finding in check_topic(topic="t", config=config, partitions=partitions, expectations=PRODUCTION)]
    assert severities == [Severity.REFUSE, Severity.WARN, Severity.WARN]


def test_expectations_that_contradict_themselves_are_refused() -> None:
    with pytest.raises(ValueError, match="between 1 and the replication factor 1"):
        TopicExpectations(replication_factor=1)


def test_a_topic_of_more_partitions_than_a_service_has_coordinators_is_refused() -> None:
    def findings(count: int) -> list[tuple[str, str, Severity]]:
        partitions = [ReplicaSets(partition=one, replicas=(1, 2, 3), in_sync=(1, 2, 3)) for one in range(count)]
        found = check_topic(topic="t", config=good_config(), partitions=partitions, expectations=PRODUCTION)
        return [(one.key, one.value, one.severity) for one in found]

    assert findings(COORDINATORS_MAX) == []
    assert findings(COORDINATORS_MAX + 1) == [("number of partitions", str(COORDINATORS_MAX + 1), Severity.REFUSE)]
