"""The questions to the in-memory Kafka about its topic, its logs and its group."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from coordinator.runtime.ports import ClusterRefused, KafkaBroker, KafkaUnavailable, LogEntry, PartitionFacts, TopicFacts, TopicMissing
from simulation.fakes.kafka_log import FakeLog

if TYPE_CHECKING:
    from simulation.fakes.kafka import FakeNode

TOPIC_CONFIG: Mapping[str, str] = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "min.insync.replicas": "2",
    "unclean.leader.election.enable": "false",
    "message.timestamp.type": "LogAppendTime",
    "max.message.bytes": "1048588",
}


class FakeCluster:
    """`Cluster` over the in-memory topic."""

    def __init__(self, node: FakeNode) -> None:
        self._kafka = node.kafka

    def start(self) -> None:
        """Do nothing; the pair of `close`."""

    async def close(self, timeout_s: float = 5.0) -> bool:
        """Do nothing; returns that all has ended."""
        return True

    async def describe_topic(self) -> TopicFacts:
        """Describe the topic. Raises `TopicMissing`, `KafkaUnavailable`."""
        await self._begin("describe_topic", -1)
        topic_id = await self.topic_id()
        kafka = self._kafka
        return TopicFacts(
            cluster_id=kafka.cluster_id,
            topic=kafka.topic,
            topic_id=topic_id,
            partitions=tuple(
                PartitionFacts(
                    partition=number, leader=kafka.in_sync[0] if kafka.in_sync else None, replicas=kafka.replicas, in_sync=kafka.in_sync
                )
                for number in range(len(kafka.logs))
            ),
            config=dict(kafka.config),
        )

    async def create_topic(self, *, partitions: int, replication_factor: int, config: Mapping[str, str]) -> None:
        """Create the topic; one that exists already is left as it is. Raises `KafkaUnavailable`, `ClusterRefused`."""
        await self._begin("create_topic", -1)
        await self._reach()
        kafka = self._kafka
        if kafka.topic_id is not None:
            return
        if not 1 <= replication_factor <= 3:
            raise ClusterRefused(f"could not create the topic {kafka.topic}: replication factor {replication_factor}, 3 brokers")
        kafka.replicas = kafka.in_sync = tuple(range(1, replication_factor + 1))
        kafka.config = {**TOPIC_CONFIG, **config}
        kafka.create(partitions)

    async def topic_id(self) -> bytes:
        """Return the topic id. Raises `TopicMissing`, `KafkaUnavailable`."""
        await self._begin("topic_id", -1)
        await self._reach()
        if self._kafka.topic_id is None:
            raise TopicMissing(f"could not read the topic id {self._kafka.topic}: UNKNOWN_TOPIC_OR_PART")
        return self._kafka.topic_id

    async def log_range(self, partition: int) -> tuple[int, int]:
        """Return (log start offset, log end offset). Raises `TopicMissing`, `KafkaUnavailable`."""
        await self._begin("log_range", partition)
        log = await self._log(partition)
        return log.start_offset, log.end_offset

    async def read_entry(self, partition: int, offset: int) -> LogEntry | None:
        """Read one entry; None when that offset is not in the log."""
        await self._begin("read_entry", partition)
        log = await self._log(partition)
        if not log.start_offset <= offset < log.end_offset:
            return None
        found = log.read(offset, 1)
        return found[0] if found and found[0].offset == offset else None

    async def delete_before(self, partition: int, offset: int) -> int:
        """Delete the entries below `offset`; returns the log's start. Raises `TopicMissing`, `KafkaUnavailable`, `ClusterRefused`."""
        await self._begin("delete_before", partition)
        log = await self._log(partition)
        if offset > log.end_offset:
            raise ClusterRefused(f"{self._kafka.topic}-{partition}: offset {offset} is beyond the end of the log, {log.end_offset}")
        log.delete_before(offset)
        return log.start_offset

    async def group_members(self) -> frozenset[str]:
        """Return the client ids of the members of the group. Raises `KafkaUnavailable`."""
        await self._begin("group_members", -1)
        await self._reach()
        return self._kafka.group.client_ids()

    async def brokers(self) -> tuple[KafkaBroker, ...]:
        """Return the brokers, by id. Raises `KafkaUnavailable`."""
        await self._begin("brokers", -1)
        await self._reach()
        return tuple(sorted(self._kafka.brokers))

    async def _begin(self, question: str, partition: int) -> None:
        if (script := self._kafka.before.get(question)) is not None:
            await script(partition)

    async def _log(self, partition: int) -> FakeLog:
        await self._reach()
        log = self._kafka.log(partition)
        if log is None:
            raise TopicMissing(f"{self._kafka.topic}-{partition} does not exist")
        if partition in self._kafka.unanswered:
            raise KafkaUnavailable(f"the broker of {self._kafka.topic}-{partition} gave no answer")
        return log

    async def _reach(self) -> None:
        await asyncio.sleep(self._kafka.network_delay_s())
        if not self._kafka.is_available:
            raise KafkaUnavailable(f"no broker answered about {self._kafka.topic}")
        if self._kafka.refusal is not None:
            raise ClusterRefused(f"could not ask about {self._kafka.topic}: {self._kafka.refusal}")
