"""The plan of a migration of a classic topic, made without changing anything, and every reason why it cannot be done.

A repetition of a migration that was killed is planned like a new one: partitions that have their start already are left as they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from cli.outcome import Exit, Failed

if TYPE_CHECKING:
    from cli.output import Row
    from coordinator.adapters.kafka.classic.fence import TopicAcls
    from coordinator.adapters.kafka.classic.topic import ClassicTopicFacts, KafkaClassicTopic
    from coordinator.client.calls.migrations import DisklessLogState
    from coordinator.client.client import DisklessClient
    from coordinator.client.migration.classic import ClassicState
    from coordinator.client.model import TopicDescription

PLAN_COLUMNS = ("partition", "state", "log_start_offset", "log_end_offset", "start_offset", "leader_epoch", "to_do")
LOOKS_AT_ONCE: Final = 8
EVERYBODY: Final = "everybody"
SUPER_USERS: Final = "super-users"
WITHOUT_ACLS: Final = (EVERYBODY, SUPER_USERS)
"""Who may read a topic that has no ACL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationPlan:
    """A topic as Kafka and the service know it. `known` and `settings` are empty when the service does not know the topic yet."""

    name: str
    topic: ClassicTopicFacts
    classic: tuple[ClassicState, ...]
    known: tuple[DisklessLogState, ...]
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_created(self) -> bool:
        """Whether the service knows all partitions."""
        return len(self.known) == len(self.classic)

    @property
    def records(self) -> int:
        """How many offsets the classic logs have."""
        return sum(one.log_end_offset - one.log_start_offset for one in self.classic)

    def rows(self) -> list[Row]:
        """Return a row for each partition."""
        return [_row(index, state, self.known[index] if index < len(self.known) else None) for index, state in enumerate(self.classic)]

    def check(self) -> None:
        """Raise `Failed` for the first reason why the topic cannot be migrated."""
        from coordinator.client.migration.driver import open_text

        if self.topic.is_compacted:
            raise Failed(
                f"topic {self.name} is compacted (cleanup.policy), and diskless topics are not: set cleanup.policy=delete first if old "
                "values of keys may stay until retention deletes them, or leave the topic classic"
            )
        if len(self.known) > len(self.classic):
            raise Failed(f"the service has {len(self.known)} partitions of topic {self.name}, Kafka has {len(self.classic)}")
        if any(one.state == "born" for one in self.known):
            raise Failed(f"topic {self.name} was created as a diskless topic: there is nothing to migrate")
        if self.is_created and all(one.state == "initialised" for one in self.known):
            raise Failed(
                f"topic {self.name} is migrated already, all {len(self.known)} partitions of it; `diskless migration verify` proves it"
            )
        for index, (classic, known) in enumerate(zip(self.classic, self.known, strict=False)):
            if known.state == "initialised" and classic.log_end_offset < known.start_offset:
                raise Failed(
                    f"{self.name}-{index}: the diskless log begins at {known.start_offset}, the classic log ends at "
                    f"{classic.log_end_offset}; look at `diskless migration state` before the others are migrated"
                )
        for index, classic in enumerate(self.classic):
            if classic.open_transactions:
                raise Failed(f"{self.name}-{index}: {open_text(classic)}; then start again")


def _row(index: int, classic: ClassicState, known: DisklessLogState | None) -> Row:
    is_done = known is not None and known.state == "initialised"
    return {
        "partition": index,
        "state": "classic" if known is None else known.state,
        "log_start_offset": classic.log_start_offset,
        "log_end_offset": classic.log_end_offset,
        "start_offset": known.start_offset if known is not None and is_done else None,
        "leader_epoch": classic.leader_epoch,
        "to_do": "nothing" if is_done else "migrate",
    }


async def make_plan(client: DisklessClient, topic: KafkaClassicTopic, metadata_topic: str, timeout_ms: int) -> MigrationPlan:
    """Look at the topic everywhere. Raises `Failed` when there is none, or another one of its name; `DisklessError`, `KafkaException`."""
    from coordinator.adapters.kafka.classic.leaders import ClassicTopicMissing
    from coordinator.kafka.names import why_classic

    reserved = why_classic(topic.name, metadata_topic)
    if reserved is not None:
        raise Failed(f"{reserved}; migrate other topics")
    try:
        facts = await topic.describe()
    except ClassicTopicMissing as error:
        raise Failed(f"{error}; only topics that Kafka has can be migrated", Exit.NOT_FOUND) from error
    found = await known_topic(client, topic.name, facts.topic_id, timeout_ms)
    return MigrationPlan(
        name=topic.name,
        topic=facts,
        classic=await look_at_all(topic, facts),
        known=await known_logs(client, found, timeout_ms),
        settings={} if found is None else found.settings,
    )


async def known_topic(client: DisklessClient, name: str, topic_id: bytes | None, timeout_ms: int) -> TopicDescription | None:
    """Return the topic as the service knows it. Raises `Failed` when it knows another one of that name than the one of Kafka's id."""
    from coordinator.client.errors import NotFound
    from coordinator.kafka.names import topic_id_text

    try:
        found = await client.describe_topic(name, timeout_ms=timeout_ms)
    except NotFound:
        return None
    if topic_id is not None and found.topic_id != topic_id:
        raise Failed(
            f"the service has a topic {name} with the id {topic_id_text(found.topic_id)}, Kafka's has {topic_id_text(topic_id)}: they are "
            "different topics, and two cannot have one name; delete or rename one of them"
        )
    return found


async def known_logs(client: DisklessClient, topic: TopicDescription | None, timeout_ms: int) -> tuple[DisklessLogState, ...]:
    """Return the states of all partitions that the service knows. Raises `DisklessError`."""
    from coordinator.client.model import PartitionId

    if topic is None:
        return ()
    partitions = [PartitionId(topic.topic_id, one.partition) for one in topic.partitions]
    found = await client.describe_diskless_logs(partitions, timeout_ms=timeout_ms)
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
    """Raise `Failed` when writers that an operator says have stopped still write. Raises `KafkaException`."""
    if not is_confirmed:
        return
    await asyncio.sleep(still_s)
    for index, (before, after) in enumerate(zip(plan.classic, await look_at_all(topic, plan.topic), strict=True)):
        if before.log_end_offset != after.log_end_offset:
            raise Failed(
                f"{topic.name}-{index} is still being written: its end moved from {before.log_end_offset} to {after.log_end_offset} within "
                f"{still_s:g} s; stop all writers, or let an ACL stop them (without --writers-stopped)"
            )


def readers_text(name: str, acls: TopicAcls, readers: str | None) -> str:
    """Say what the ACL against writers changes for readers. Raises `Failed` when an operator has to say who they are."""
    from coordinator.adapters.kafka.classic.fence import READERS

    if acls.others:
        return f"the topic has {count_text(acls.others, 'ACL')} of others, which go on to say who reads it"
    if acls.keeps_readers or readers == EVERYBODY:
        return f"the topic has no other ACL: {len(READERS)} more allow everybody all but to write, as it is without any"
    if readers == SUPER_USERS:
        return "the topic has no other ACL: Kafka's super users alone read it"
    raise Failed(
        f"topic {name} has no ACL but the one that stops its writers. If the brokers have allow.everyone.if.no.acl.found=true, that one "
        f"would lock its readers out: keep them with --readers {EVERYBODY}. If not, nobody but super users reads it: say so with --readers "
        f"{SUPER_USERS}, since --readers {EVERYBODY} would open the topic",
        Exit.USAGE,
    )


def settings_of(plan: MigrationPlan) -> Mapping[str, str]:
    """Return the settings that the diskless topic begins with: the retention in force in Kafka, of which any negative is no limit."""
    from coordinator.kafka.topic_configs import UNLIMITED

    return {name: value if value.isdecimal() else str(UNLIMITED) for name, value in plan.topic.retention.items()}


def retention_text(plan: MigrationPlan) -> str:
    """Say what is kept of the diskless part."""
    change = f"`diskless topics alter {plan.name} --config ..` changes that"
    if plan.known:
        own = ", ".join(f"{name}={value}" for name, value in sorted(plan.settings.items()))
        return f"as the diskless topic was created, with {own or 'no setting of its own: the defaults of the service count'}; {change}"
    told = (f"{name}={value}{'' if name in plan.topic.own else ' (default of the brokers)'}" for name, value in settings_of(plan).items())
    return f"as in Kafka, {', '.join(told)}, of each part by itself; {change} for the diskless part"


def count_text(count: int, noun: str) -> str:
    """Return a count with its noun."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def summary(plan: MigrationPlan, *, readers: str | None, still_s: float) -> Sequence[str]:
    """Return what will happen, in lines for people. Without `readers`, a text about them, an operator has stopped the writers."""
    to_do = sum(one["to_do"] == "migrate" for one in plan.rows())
    writers = "an ACL will deny everybody to write to the classic topic, for good"
    return (
        f"topic {plan.name}: {to_do} of {count_text(len(plan.classic), 'partition')} to migrate; {plan.records} offsets stay in Kafka",
        f"  writers: {'their operator has stopped them' if readers is None else writers}",
        f"  readers: {'nothing changes in Kafka' if readers is None else readers}",
        f"  retention: {retention_text(plan)}",
        f"  each log must not move for {still_s:g} s, with no open transaction and everything replicated",
        "  then the last batches of its producers are read, and its diskless log begins at its end",
    )
