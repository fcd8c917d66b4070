"""A classic topic of a real Kafka: what it is, its partitions for the steps of a migration, and the stop of its writers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from kio.schema.describe_configs.v4.response import DescribeConfigsResponse

from coordinator.adapters.kafka.settings import client_properties
from coordinator.adapters.kafka.stats import KafkaStats
from coordinator.kafka.topic_configs import CLEANUP_POLICY, MAX_MESSAGE_BYTES, TOPIC_CONFIGS
from migration.classic import ClassicState, ProducerBatches
from migration.kafka.fence import AclFence, ConfirmedFence, WriterFence
from migration.kafka.leaders import ClassicLeaders
from migration.kafka.log import ClassicLog
from migration.kafka.size_limit import OF_THE_TOPIC, SHADOW_BYTES, describe_topic, described, read_limit, set_limit
from migration.kafka.transactions import unended_transactions

COMPACT: Final = "compact"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicTopicFacts:
    """A classic topic as Kafka describes it.

    `settings` are those in force that diskless topics have, too, and `own` the names of those that it sets itself. `size_default` is the
    `max.message.bytes` that it has without one of its own.
    """

    topic_id: bytes
    partitions: int
    is_compacted: bool
    settings: Mapping[str, str]
    own: frozenset[str] = frozenset()
    size_default: str = ""

    @property
    def is_shadow(self) -> bool:
        """Whether it takes no records, so that clients can write to the diskless topic alone."""
        return MAX_MESSAGE_BYTES in self.own and self.settings[MAX_MESSAGE_BYTES] == SHADOW_BYTES


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
        self._request_timeout_s = request_timeout_s
        self.fence: WriterFence = (
            ConfirmedFence() if is_fence_confirmed else AclFence(self._leaders, request_timeout_s, keep_readers=keep_readers)
        )
        self._fencing = asyncio.Lock()
        self._is_fenced = False

    async def describe(self) -> ClassicTopicFacts:
        """Ask Kafka. Raises `ClassicTopicMissing`, `KafkaException`."""
        found = await asyncio.to_thread(self._leaders.describe)
        answer = await asyncio.to_thread(self._leaders.ask_any, describe_topic(self.name, *TOPIC_CONFIGS), DescribeConfigsResponse)
        configs = described(answer, self.name)
        values = {one.name: one.value or "" for one in configs}
        policy = values.pop(CLEANUP_POLICY, "")
        return ClassicTopicFacts(
            topic_id=found.topic_id,
            partitions=len(found.leaders),
            is_compacted=COMPACT in policy.split(","),
            settings=values,
            own=frozenset(one.name for one in configs if one.config_source == OF_THE_TOPIC),
            size_default=next((read_limit(one).default for one in configs if one.name == MAX_MESSAGE_BYTES), ""),
        )

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

    async def unended_transactions(self) -> list[str]:
        """Return the ids of transactions that may still write a marker. Raises `KafkaException`."""
        return await asyncio.to_thread(unended_transactions, self._leaders)

    async def take_no_records(self) -> None:
        """Become the shadow of the diskless topic; returns when every broker refuses records. Raises as `set_limit`."""
        await asyncio.to_thread(set_limit, self._leaders, SHADOW_BYTES, self._request_timeout_s)

    async def take_records(self, facts: ClassicTopicFacts, bytes_max: str, *, dry_run: bool = False) -> None:
        """Be a classic topic again that takes batches of so many bytes. Raises as `set_limit`."""
        own = None if bytes_max == facts.size_default else bytes_max
        await asyncio.to_thread(partial(set_limit, self._leaders, own, self._request_timeout_s, dry_run=dry_run))


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
