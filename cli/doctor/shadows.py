"""Diskless topics and their shadows in Kafka, as `diskless doctor` compares them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from cli.doctor.diagnosis import Diagnosis, Health
from cli.kafka.shadows import KafkaTopic
from coordinator.client.model import TopicListing
from coordinator.printable import quoted

CHECK = "shadows"


def diagnose_shadows(
    listed: Sequence[TopicListing], kafka: Sequence[KafkaTopic], records: Mapping[str, int], pending: Collection[bytes] = ()
) -> list[Diagnosis]:
    """Topics on one side only, unequal numbers of partitions, and shadows that take records or have some.

    `records` are the offsets that logs of Kafka's topics have, by name, those from B0 on where a topic was migrated. `pending` are the ids
    of topics whose migration has not set B0 everywhere. A service none of whose topics has a shadow uses no gateways.
    """
    by_id = {one.topic_id: one for one in kafka}
    joined = [(topic, by_id[topic.topic_id]) for topic in listed if topic.topic_id in by_id]
    found = _half_made(listed, kafka)
    if not joined:
        if listed and not found:
            text = f"none of {len(listed)} diskless topics has a shadow in Kafka: gateways show none of them"
            return [Diagnosis(health=Health.OK, check=CHECK, finding=text)]
        return found or [Diagnosis(health=Health.OK, check=CHECK, finding="there are no diskless topics, and no shadows in Kafka")]
    found += [
        Diagnosis(
            health=Health.WARNING,
            check=CHECK,
            finding=f"topic {topic.name} has no shadow in Kafka: gateways do not show it",
            remedy=_one_sided(topic, kafka),
        )
        for topic in listed
        if topic.topic_id not in by_id
    ]
    for topic, shadow in joined:
        found += _differences(topic, shadow, records.get(shadow.name, 0), is_pending=topic.topic_id in pending)
    return found or [
        Diagnosis(health=Health.OK, check=CHECK, finding=f"{len(joined)} diskless topics have a shadow in Kafka each that takes no records")
    ]


def _half_made(listed: Sequence[TopicListing], kafka: Sequence[KafkaTopic]) -> list[Diagnosis]:
    known = {one.topic_id for one in listed}
    return [
        Diagnosis(
            health=Health.WARNING,
            check=CHECK,
            finding=f"topic {one.name} of Kafka takes no records (max.message.bytes=0), and the coordinators do not know it",
            remedy="a creation or a deletion was cut off: create the topic again through a gateway with as many partitions, or delete it",
        )
        for one in kafka
        if one.is_shadow and one.topic_id not in known
    ]


def _one_sided(topic: TopicListing, kafka: Sequence[KafkaTopic]) -> str:
    if any(one.name == topic.name for one in kafka):
        return f"Kafka has another topic of that name; `diskless topics delete {quoted(topic.name)}` deletes this one with its records"
    return "it was created without --kafka-bootstrap-server, or its shadow was deleted: only the service's own client reads and writes it"


def _differences(topic: TopicListing, shadow: KafkaTopic, records: int, *, is_pending: bool) -> list[Diagnosis]:
    found = []
    if topic.num_partitions != shadow.partitions:
        wanted = max(topic.num_partitions, shadow.partitions)
        found.append(
            Diagnosis(
                health=Health.WARNING,
                check=CHECK,
                finding=f"topic {topic.name} has {topic.num_partitions} partitions at the coordinators and {shadow.partitions} in Kafka",
                remedy=f"gateways show the smaller number; alter it to {wanted} partitions through a gateway, or by"
                f" `diskless topics alter {quoted(topic.name)} --partitions {wanted} --kafka-bootstrap-server ..`",
            )
        )
    if is_pending:  # it is a classic topic, and the check of migrations tells how to go on
        return found
    if topic.classic:
        return found + _of_migrated(topic, shadow, records)
    if not shadow.is_shadow:
        found.append(
            Diagnosis(
                health=Health.ERROR,
                check=CHECK,
                finding=f"the shadow of topic {topic.name} takes records: max.message.bytes is {shadow.bytes_max or 'that of the brokers'}",
                remedy="what a client writes there past the gateways is found by no reader: set it to 0 with kafka-configs at a broker",
            )
        )
    if records:
        found.append(
            Diagnosis(
                health=Health.ERROR,
                check=CHECK,
                finding=f"the shadow of topic {topic.name} has {records} records, which no reader of the diskless topic finds",
                remedy="somebody wrote past the gateways: read them at a broker with kafka-console-consumer, write them through a gateway,"
                " and delete them with kafka-delete-records",
            )
        )
    return found


def _of_migrated(topic: TopicListing, shadow: KafkaTopic, records: int) -> list[Diagnosis]:
    """A migrated topic is its own shadow, which has its classic records below B0."""
    found = []
    if not shadow.is_shadow:
        found.append(
            Diagnosis(
                health=Health.ERROR,
                check=CHECK,
                finding=f"topic {topic.name} is migrated, and its classic topic takes records: max.message.bytes is "
                f"{shadow.bytes_max or 'that of the brokers'}",
                remedy="what is written there past the gateways is found by no reader: finish the migration with"
                f" `diskless migration start {quoted(topic.name)}`",
            )
        )
    if records:
        found.append(
            Diagnosis(
                health=Health.WARNING,
                check=CHECK,
                finding=f"the classic logs of the migrated topic {topic.name} have {records} offsets past the start of the diskless ones",
                remedy=f"`diskless migration verify {quoted(topic.name)}` tells whether they are records, or only markers of transactions",
            )
        )
    return found
