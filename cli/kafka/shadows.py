"""Shadows in Kafka: the empty topics by which gateways show diskless topics to Kafka's clients.

A shadow has the name and the id of its topic and takes no records (`max.message.bytes=0`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import ConfigResource, NewPartitions, NewTopic, OffsetSpec, ResourceType

from cli.kafka.cluster import kafka_errors
from cli.kafka.questions import KafkaQuestions
from cli.outcome import Exit, Failed
from coordinator.adapters.kafka.cluster import topic_id_bytes
from coordinator.kafka.topic_configs import MAX_MESSAGE_BYTES, SHADOW_SETTINGS

SPREAD_PAUSE_S: Final = 0.1
_OF_TOPIC: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaTopic:
    """A topic as Kafka has it; `bytes_max` is its own `max.message.bytes`, None when it has none of its own."""

    name: str
    topic_id: bytes
    partitions: int
    bytes_max: str | None

    @property
    def is_shadow(self) -> bool:
        """Whether it takes no records."""
        return self.bytes_max == SHADOW_SETTINGS[MAX_MESSAGE_BYTES]


class ShadowTopics(KafkaQuestions):
    """All methods raise `Failed`."""

    def all(self) -> list[KafkaTopic]:
        """Return all topics of Kafka."""
        with kafka_errors():
            return self._described(sorted(self._admin.list_topics(timeout=self._timeout_s).topics))

    def find(self, name: str) -> KafkaTopic | None:
        """Return a topic of Kafka."""
        with kafka_errors():
            found = self._described([name])
        return found[0] if found else None

    def records(self, topics: Sequence[KafkaTopic], starts: Mapping[tuple[bytes, int], int]) -> dict[str, int]:
        """Return how many offsets logs have, by topic: only those from `starts` (B0) on, by topic id and partition, where there is one."""
        places = [TopicPartition(one.name, partition) for one in topics for partition in range(one.partitions)]
        if not places:
            return {}
        with kafka_errors():
            ends = self._offsets(places, OffsetSpec.latest())  # type: ignore[no-untyped-call]
            begins = self._offsets(places, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
        counts, ids = dict.fromkeys((one.name for one in topics), 0), {one.name: one.topic_id for one in topics}
        for place in places:
            key = (place.topic, place.partition)
            begin = max(begins[key], starts.get((ids[place.topic], place.partition), 0))
            counts[place.topic] += max(0, ends[key] - begin)
        return counts

    def create(self, name: str, partitions: int) -> bytes:
        """Create a shadow, or take the one that an earlier attempt has left; return its id."""
        new = NewTopic(name, num_partitions=partitions, config=SHADOW_SETTINGS)
        with kafka_errors():
            try:
                self._admin.create_topics([new], request_timeout=self._timeout_s)[name].result(self._timeout_s + 1.0)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise
        found, until_s = self.find(name), time.monotonic() + self._timeout_s
        while found is None and time.monotonic() < until_s:  # brokers learn of a new topic one after the other
            time.sleep(SPREAD_PAUSE_S)
            found = self.find(name)
        if found is None:
            raise Failed(f"Kafka does not tell the id of topic {name} yet; run the command again", Exit.UNAVAILABLE)
        if not found.is_shadow:
            raise Failed(
                f"Kafka has a topic {name} that takes records: `diskless migration start` makes it diskless; or choose another name"
            )
        if found.partitions != partitions:
            text = f"Kafka has a shadow {name} with {found.partitions} partitions: create the topic with as many, or delete it there first"
            raise Failed(text)
        return found.topic_id

    def grow(self, name: str, topic_id: bytes, partitions: int) -> None:
        """Give the shadow of a topic partitions; one that has as many is left as it is."""
        found = self._shadow_of(name, topic_id)
        if found is not None and found.partitions < partitions:
            with kafka_errors():
                growing = self._admin.create_partitions([NewPartitions(name, partitions)], request_timeout=self._timeout_s)
                growing[name].result(self._timeout_s + 1.0)

    def delete(self, name: str, topic_id: bytes) -> bool:
        """Delete the shadow of a topic; return whether there was one."""
        if self._shadow_of(name, topic_id) is None:
            return False
        with kafka_errors():
            self._admin.delete_topics([name], request_timeout=self._timeout_s)[name].result(self._timeout_s + 1.0)
        return True

    def _shadow_of(self, name: str, topic_id: bytes) -> KafkaTopic | None:
        found = self.find(name)
        return found if found is not None and found.topic_id == topic_id else None

    def _described(self, names: Sequence[str]) -> list[KafkaTopic]:
        if not names:
            return []
        asked = self._admin.describe_topics(TopicCollection(list(names)), request_timeout=self._timeout_s)
        topics = []
        for name in names:
            try:
                topics.append(asked[name].result(self._timeout_s + 1.0))
            except KafkaException as error:
                if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise
        resources = [ConfigResource(ResourceType.TOPIC, one.name) for one in topics]
        configs = self._admin.describe_configs(resources, request_timeout=self._timeout_s) if resources else {}
        own: dict[str, str | None] = {}
        for resource, future in configs.items():
            entry = future.result(self._timeout_s + 1.0).get(MAX_MESSAGE_BYTES)
            own[resource.name] = entry.value if entry is not None and entry.source == _OF_TOPIC else None
        return [
            KafkaTopic(name=one.name, topic_id=topic_id_bytes(one.topic_id), partitions=len(one.partitions), bytes_max=own.get(one.name))
            for one in topics
        ]

    def _offsets(self, places: Sequence[TopicPartition], spec: OffsetSpec) -> dict[tuple[str, int], int]:
        asked = self._admin.list_offsets(dict.fromkeys(places, spec), request_timeout=self._timeout_s)
        return {(place.topic, place.partition): future.result(self._timeout_s + 1.0).offset for place, future in asked.items()}
