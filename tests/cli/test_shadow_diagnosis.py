"""What doctor says of diskless topics and their shadows in Kafka."""

from __future__ import annotations

import pytest

from cli.doctor.diagnosis import Health
from cli.doctor.shadows import diagnose_shadows
from cli.kafka.shadows import KafkaTopic
from coordinator.client.model import TopicListing

A, B, C = b"a" * 16, b"b" * 16, b"c" * 16


def listed(topic_id: bytes = A, name: str = "orders", partitions: int = 3, classic: tuple[int, ...] = ()) -> TopicListing:
    return TopicListing(topic_id=topic_id, name=name, num_partitions=partitions, classic=classic)


def in_kafka(topic_id: bytes = A, name: str = "orders", partitions: int = 3, bytes_max: str | None = "0") -> KafkaTopic:
    return KafkaTopic(name=name, topic_id=topic_id, partitions=partitions, bytes_max=bytes_max)


CASES = [
    ([listed()], [in_kafka()], {}, [(Health.OK, "1 diskless topics have a shadow in Kafka each that takes no records")]),
    ([], [in_kafka(bytes_max=None)], {}, [(Health.OK, "there are no diskless topics")]),
    ([listed()], [in_kafka(B, bytes_max="5")], {}, [(Health.OK, "none of 1 diskless topics has a shadow")]),
    ([], [in_kafka()], {}, [(Health.WARNING, "the coordinators do not know it")]),
    ([listed(), listed(B, "clicks")], [in_kafka()], {}, [(Health.WARNING, "topic clicks has no shadow in Kafka")]),
    ([listed()], [in_kafka(partitions=5)], {}, [(Health.WARNING, "3 partitions at the coordinators and 5 in Kafka")]),
    ([listed()], [in_kafka(bytes_max=None)], {}, [(Health.ERROR, "takes records: max.message.bytes is that of the brokers")]),
    ([listed()], [in_kafka()], {"orders": 7}, [(Health.ERROR, "has 7 records")]),
    ([listed(classic=(0, 1, 2))], [in_kafka()], {}, [(Health.OK, "1 diskless topics")]),
    ([listed(classic=(0, 1, 2))], [in_kafka(bytes_max=None)], {}, [(Health.ERROR, "is migrated, and its classic topic takes records")]),
    ([listed(classic=(0, 1, 2))], [in_kafka()], {"orders": 7}, [(Health.WARNING, "have 7 offsets past the start")]),
    ([listed(C, classic=(0, 1, 2))], [in_kafka(C, bytes_max=None)], {}, [(Health.OK, "1 diskless topics")]),
    (
        [listed(), listed(B, "clicks")],
        [in_kafka(), in_kafka(b"c" * 16, "clicks", bytes_max=None)],
        {},
        [(Health.WARNING, "topic clicks has")],
    ),
]


@pytest.mark.parametrize(("topics", "kafka", "records", "says"), CASES)
def test_differences_are_told_with_a_remedy(
    topics: list[TopicListing], kafka: list[KafkaTopic], records: dict[str, int], says: list[tuple[Health, str]]
) -> None:
    found = diagnose_shadows(topics, kafka, records, pending={C})
    assert [one.health for one in found] == [health for health, _ in says]
    assert all(text in one.finding for one, (_, text) in zip(found, says, strict=True))
    assert all(bool(one.remedy) == (one.health is not Health.OK) for one in found)
