"""The plan of a migration of a classic topic, made without changing anything, and every reason why it cannot be done.

A repetition of a migration that was killed is planned like a new one: partitions that have their start already are left as they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from coordinator.client.calls.migrations import DisklessLogState
from coordinator.client.client import DisklessClient
from coordinator.client.errors import NotFound
from coordinator.client.model import PartitionId, TopicDescription
from coordinator.kafka.names import topic_id_text, why_classic
from coordinator.kafka.topic_configs import (
    MAX_MESSAGE_BYTES,
    RETENTION_BYTES,
    RETENTION_MS,
    UNLIMITED,
    UNLIMITED_RETENTION,
    default_of,
)
from migration.classic import ClassicState, ClassicTopicMissing, MigrationRefused
from migration.driver import open_text
from migration.kafka.topic import ClassicTopicFacts, KafkaClassicTopic

LOOKS_AT_ONCE: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationPlan:
    """A topic as Kafka and the service know it. `known` and `settings` are empty when the service does not know the topic yet."""

    name: str
    topic: ClassicTopicFacts
    classic: tuple[ClassicState, ...]
    known: tuple[DisklessLogState, ...]
    settings: Mapping[str, str] = field(default_factory=dict)
    is_closed: bool = False
    """Whether an ACL stops the writers of a topic whose partitions are all diskless."""

    @property
    def is_created(self) -> bool:
        """Whether the service knows all partitions."""
        return len(self.known) == len(self.classic)

    @property
    def records(self) -> int:
        """How many offsets the classic logs have."""
        return sum(one.log_end_offset - one.log_start_offset for one in self.classic)

    def is_done(self, partition: int) -> bool:
        """Whether a partition has its start already."""
        return partition < len(self.known) and self.known[partition].state == "initialised"

    @property
    def is_whole(self) -> bool:
        """Whether all partitions are diskless."""
        return self.is_created and all(one.state == "initialised" for one in self.known)

    def check(self) -> None:
        """Raise `MigrationRefused` for the first reason why the topic cannot be migrated."""
        if self.topic.is_compacted:
            raise MigrationRefused(
                f"topic {self.name} is compacted (cleanup.policy), and diskless topics are not: set cleanup.policy=delete first if old "
                "values of keys may stay until retention deletes them, or leave the topic classic"
            )
        if len(self.known) > len(self.classic):
            raise MigrationRefused(f"the service has {len(self.known)} partitions of topic {self.name}, Kafka has {len(self.classic)}")
        if any(one.state == "born" for one in self.known):
            raise MigrationRefused(f"topic {self.name} was created as a diskless topic: there is nothing to migrate")
        if not self.known and self.topic.is_shadow:
            raise MigrationRefused(
                f"topic {self.name} takes no records ({MAX_MESSAGE_BYTES}=0), as the shadow of a diskless topic, which the service does "
                "not know: its creation or deletion was cut off; delete it, or let it take records first"
            )
        if self.is_whole and self.topic.is_shadow and not self.is_closed:
            raise MigrationRefused(
                f"topic {self.name} is migrated already, all {len(self.known)} partitions of it; `diskless migration verify` proves it"
            )
        for index, (classic, known) in enumerate(zip(self.classic, self.known, strict=False)):
            if known.state == "initialised" and classic.log_end_offset < known.start_offset:
                raise MigrationRefused(
                    f"{self.name}-{index}: the diskless log begins at {known.start_offset}, the classic log ends at "
                    f"{classic.log_end_offset}; look at `diskless migration state` before the others are migrated"
                )
        for index, classic in enumerate(self.classic):
            if classic.open_transactions:
                raise MigrationRefused(f"{self.name}-{index}: {open_text(classic)}; then start again")


async def make_plan(client: DisklessClient, topic: KafkaClassicTopic, metadata_topic: str) -> MigrationPlan:
    """Look at the topic in Kafka and at the service.

    Raises `ClassicTopicMissing`, `MigrationRefused` as `known_topic`, `ServiceError`, `KafkaException`.
    """
    reserved = why_classic(topic.name, metadata_topic)
    if reserved is not None:
        raise MigrationRefused(f"{reserved}; migrate other topics")
    try:
        facts = await topic.describe()
    except ClassicTopicMissing as error:
        raise ClassicTopicMissing(f"{error}; only topics that Kafka has can be migrated") from error
    found = await known_topic(client, topic.name, facts.topic_id)
    plan = MigrationPlan(
        name=topic.name,
        topic=facts,
        classic=await look_at_all(topic, facts),
        known=await known_logs(client, found),
        settings={} if found is None else found.settings,
    )
    return replace(plan, is_closed=(await topic.fence.acls()).is_closed) if plan.is_whole and facts.is_shadow else plan


async def known_topic(client: DisklessClient, name: str, topic_id: bytes | None) -> TopicDescription | None:
    """Return the topic as the service knows it. Raises `MigrationRefused` when it has this name with another id than Kafka's."""
    try:
        found = await client.describe_topic(name)
    except NotFound:
        return None
    if topic_id is not None and found.topic_id != topic_id:
        raise MigrationRefused(
            f"the service has a topic {name} with the id {topic_id_text(found.topic_id)}, Kafka's has {topic_id_text(topic_id)}: they are "
            "different topics, and two cannot have one name; delete or rename one of them"
        )
    return found


async def known_logs(client: DisklessClient, topic: TopicDescription | None) -> tuple[DisklessLogState, ...]:
    """Return the states of all partitions that the service knows. Raises `ServiceError`."""
    if topic is None:
        return ()
    partitions = [PartitionId(topic.topic_id, one.partition) for one in topic.partitions]
    found = await client.admin.describe_diskless_logs(partitions)
    for one in found:
        one.raise_for_error()
    return tuple(found)


def unmigrated(logs: Sequence[DisklessLogState], partitions: int) -> str:
    """Say which partitions have no diskless log yet, as the end of a sentence; empty when all have one."""
    count = max(partitions, len(logs))
    left = [index for index in range(count) if index >= len(logs) or logs[index].state == "pending"]
    if len(left) == count:
        return "none of its partitions has a diskless log" if left else ""
    if len(left) == 1:
        return f"partition {left[0]} has no diskless log"
    return f"partitions {', '.join(map(str, left))} have no diskless log" if left else ""


async def look_at_all(topic: KafkaClassicTopic, facts: ClassicTopicFacts) -> tuple[ClassicState, ...]:
    """Look at all classic logs, some at a time. Raises `KafkaException`."""
    slots = asyncio.Semaphore(LOOKS_AT_ONCE)

    async def look(index: int) -> ClassicState:
        async with slots:
            return await topic.partition(facts.topic_id, index).look()

    return tuple(await asyncio.gather(*(look(index) for index in range(facts.partitions))))


async def check_writers(topic: KafkaClassicTopic, plan: MigrationPlan, still_s: float, *, is_confirmed: bool) -> None:
    """Raise `MigrationRefused` when writers that an operator says have stopped still write. Raises `KafkaException`."""
    if not is_confirmed:
        return
    await asyncio.sleep(still_s)
    for index, (before, after) in enumerate(zip(plan.classic, await look_at_all(topic, plan.topic), strict=True)):
        if before.log_end_offset != after.log_end_offset:
            raise MigrationRefused(
                f"{topic.name}-{index} is still being written: its end moved from {before.log_end_offset} to {after.log_end_offset} within "
                f"{still_s:g} s; stop all writers, or let an ACL stop them (without --writers-stopped)"
            )


def settings_of(plan: MigrationPlan) -> Mapping[str, str]:
    """Return the settings that the diskless topic begins with: those in force in Kafka that are not the defaults of diskless topics.

    Retention is always among them, of which any negative is no limit. `max.message.bytes` is what `abort` gives back to the classic topic.
    """
    found = {}
    for name, value in plan.topic.settings.items():
        if name in (RETENTION_BYTES, RETENTION_MS):
            found[name] = value if value.isdecimal() else str(UNLIMITED)
        elif value != default_of(name, UNLIMITED_RETENTION):
            found[name] = value
    return found
