"""A classic topic of a real Kafka: what it is, its partitions for the steps of a migration, and the stop of its writers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import kio.schema.describe_configs.v4 as describe_configs
from kio.schema.errors import ErrorCode

from coordinator.adapters.kafka.broker import refused
from coordinator.adapters.kafka.settings import client_properties
from coordinator.adapters.kafka.stats import KafkaStats
from coordinator.kafka.topic_configs import CLEANUP_POLICY, RETENTION_BYTES, RETENTION_MS
from migration.classic import ClassicState, ProducerBatches
from migration.kafka.fence import TOPIC, AclFence, ConfirmedFence, WriterFence
from migration.kafka.leaders import ClassicLeaders
from migration.kafka.log import ClassicLog

OF_THE_TOPIC: Final = 1
"""Kafka's number for a setting that a topic has of its own."""
COMPACT: Final = "compact"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicTopicFacts:
    """A classic topic as Kafka describes it. `retention` are the settings of retention in force, `own` those that it sets itself."""

    topic_id: bytes
    partitions: int
    is_compacted: bool
    retention: Mapping[str, str]
    own: frozenset[str] = frozenset()


class KafkaClassicTopic:
    """One topic. Nothing is asked before a method is called."""

    def __init__(
        self,
        name: str,
        *,
        bootstrap_servers: str,
        client_id: str,
        kafka_properties: Mapping[str, Any],
        is_fence_confirmed: bool,
        keep_readers: bool = False,
        request_timeout_s: float = 10.0,
    ) -> None:
        """With `is_fence_confirmed` an operator has stopped the writers; else an ACL does, with `keep_readers` as `AclFence` says.

        Raises `KafkaException`, `KafkaPropertyRefused`.
        """
        self.name = name
        properties = client_properties(
            bootstrap_servers=bootstrap_servers,
            client_id=client_id,
            role="classic",
            defaults={},
            fixed={},
            user=kafka_properties,
            stats=KafkaStats(),
        )
        self._leaders = ClassicLeaders(name, properties, request_timeout_s)
        self.fence: WriterFence = (
            ConfirmedFence() if is_fence_confirmed else AclFence(self._leaders, request_timeout_s, keep_readers=keep_readers)
        )
        self._fencing = asyncio.Lock()
        self._is_fenced = False

    async def describe(self) -> ClassicTopicFacts:
        """Ask Kafka. Raises `ClassicTopicMissing`, `KafkaException`."""
        found = await asyncio.to_thread(self._leaders.describe)
        configs = await asyncio.to_thread(self._configs)
        values = {one.name: one.value or "" for one in configs}
        policy = values.pop(CLEANUP_POLICY, "")
        return ClassicTopicFacts(
            topic_id=found.topic_id,
            partitions=len(found.leaders),
            is_compacted=COMPACT in policy.split(","),
            retention=values,
            own=frozenset(one.name for one in configs if one.config_source == OF_THE_TOPIC),
        )

    def _configs(self) -> tuple[describe_configs.response.DescribeConfigsResourceResult, ...]:
        asked = describe_configs.request.DescribeConfigsResource(
            resource_type=TOPIC, resource_name=self.name, configuration_keys=(CLEANUP_POLICY, RETENTION_BYTES, RETENTION_MS)
        )
        request = describe_configs.DescribeConfigsRequest(resources=(asked,))
        [found] = self._leaders.ask_any(request, describe_configs.DescribeConfigsResponse).results
        if found.error_code is not ErrorCode.none:
            raise refused(int(found.error_code.value), f"settings of topic {self.name}: {found.error_message or found.error_code.name}")
        return found.configs

    def log(self, partition: int) -> ClassicLog:
        """Return the reader of a partition's log, which blocks."""
        return ClassicLog(self._leaders, partition)

    def partition(self, topic_id: bytes, partition: int) -> KafkaClassicPartition:
        """Return a partition for the steps of a migration."""
        return KafkaClassicPartition(self, topic_id, partition)

    async def refuse_writes(self) -> None:
        """Stop the writers, once for all partitions. Raises `MigrationRefused`, `KafkaException`."""
        async with self._fencing:
            if not self._is_fenced:
                await self.fence.close()
                self._is_fenced = True


class KafkaClassicPartition:
    """`ClassicPartition` of a real Kafka. Its methods raise `KafkaException` when the brokers do not answer, and `ClassicTopicMissing`."""

    def __init__(self, topic: KafkaClassicTopic, topic_id: bytes, partition: int) -> None:
        self.name = f"{topic.name}-{partition}"
        self.topic_id = topic_id
        self.partition = partition
        self._topic = topic
        self._log = topic.log(partition)

    async def refuse_writes(self) -> None:
        """Stop the writers of the whole topic."""
        await self._topic.refuse_writes()

    async def look(self) -> ClassicState:
        """Ask the leader for the state of the log."""
        return await asyncio.to_thread(self._log.look)

    async def last_batches(self, state: ClassicState) -> ProducerBatches:
        """Read the log backwards for the batches of the producers that the leader remembers."""
        return await asyncio.to_thread(self._log.last_batches, state.log_end_offset)

    async def settle(self, state: ClassicState) -> ClassicState:
        """Ask the leader again: what is replicated is all the durability that Kafka gives a client."""
        return await self.look()

    async def count_records(self, start_offset: int, state: ClassicState) -> int:
        """Read the log from an offset to the high watermark, and count."""
        return await asyncio.to_thread(self._log.count_records, start_offset, state.high_watermark)
