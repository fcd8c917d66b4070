"""Consumer groups of Kafka that read diskless topics: their offsets are with the brokers, the ends of partitions with coordinators."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException

from cli.kafka.cluster import kafka_errors
from cli.kafka.questions import KafkaQuestions
from cli.outcome import Exit, Failed


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOffset:
    """How far a group has committed a partition; `offset` is -1 where it has not. `member` reads it now, if any does."""

    group: str
    state: str
    topic: str
    partition: int
    offset: int
    member: str = ""
    host: str = ""


class ReaderGroups(KafkaQuestions):
    """All methods raise `Failed`."""

    def offsets(self, groups: Sequence[str], topics: Collection[str]) -> list[GroupOffset]:
        """Return the offsets that groups (none named: all) have committed or read now of some topics, by group, topic and partition."""
        with kafka_errors():
            names = list(dict.fromkeys(groups)) or self._all()
            found = [one for name in names for one in self._offsets_of(name, topics)]
        return sorted(found, key=lambda one: (one.group, one.topic, one.partition))

    def _all(self) -> list[str]:
        listed = self._admin.list_consumer_groups(request_timeout=self._timeout_s).result()
        if listed.errors:
            raise Failed(f"the groups of some brokers cannot be listed: {listed.errors[0]}; retry", Exit.UNAVAILABLE)
        return sorted(one.group_id for one in listed.valid)

    def _offsets_of(self, group: str, topics: Collection[str]) -> list[GroupOffset]:
        try:
            described = self._admin.describe_consumer_groups([group], request_timeout=self._timeout_s)[group].result()
        except KafkaException as error:
            raise Failed(f"group {group} cannot be described: {error}", Exit.NOT_FOUND) from error
        [asked] = self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)], request_timeout=self._timeout_s).values()
        committed = {(one.topic, one.partition): one.offset for one in asked.result().topic_partitions or ()}
        readers: Mapping[tuple[str, int], tuple[str, str]] = {
            (place.topic, place.partition): (member.member_id, member.host)
            for member in described.members
            for place in (member.assignment.topic_partitions if member.assignment is not None else ())
        }
        return [
            GroupOffset(
                group=group,
                state=described.state.name.lower().replace("_", " "),
                topic=topic,
                partition=partition,
                offset=committed.get((topic, partition), -1),
                member=readers.get((topic, partition), ("", ""))[0],
                host=readers.get((topic, partition), ("", ""))[1],
            )
            for topic, partition in {**committed, **readers}
            if topic in topics
        ]
