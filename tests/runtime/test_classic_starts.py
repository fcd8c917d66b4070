"""A node follows where the classic parts of its partitions begin: with few questions, through the log, and it tells what it cannot know."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import cast

import pytest

from coordinator.core.commands import FoundOffset, ListOffsets, LogInit, MigratedLog, MigratePartitions, OffsetQuery, WantedTopic
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.timestamps import EARLIEST, EARLIEST_LOCAL
from coordinator.runtime.retention.rules import RetentionRules
from records.codec import decode_entry
from records.model import PrefixStartReported
from simulation.fakes.classic import InMemoryClassicLogs, InMemoryClassicPartition
from simulation.fakes.state_store import MemoryStateStores
from tests.core.build import TOPIC
from tests.runtime.nodes import TIMEOUT_MS, Running, in_memory, running

PARTITIONS, B0 = 4, 100


class Migrated:
    """A node that leads both coordinators, with a migrated topic of which Kafka has offsets 20 to 99 of each partition."""

    def __init__(self, running: Running, logs: InMemoryClassicLogs) -> None:
        self.running = running
        self.logs = logs
        self.classic = list(logs.partitions.values())

    def _owner(self, partition: int) -> int:
        owner = self.running.node.view.owner_of(TOPIC + partition.to_bytes(4, "big"))
        assert owner is not None
        return owner

    async def begin(self, partition: int) -> None:
        step = LogInit(TOPIC, partition, B0, 20, 7, [])
        [done] = cast(
            list[MigratedLog],
            await self.running.node.replicas[self._owner(partition)].ask(MigratePartitions(steps=[step]), TIMEOUT_MS),
        )
        assert done.outcome.error is ErrorCode.NONE, done.outcome

    async def earliest(self, partition: int, timestamp: int = EARLIEST) -> int:
        query = ListOffsets(queries=[OffsetQuery(topic_id=TOPIC, partition=partition, timestamp=timestamp)])
        [found] = cast(list[FoundOffset], await self.running.ask(self._owner(partition), query))
        return found.offset

    async def until_earliest(self, wanted: Sequence[int]) -> None:
        await self.until_asked_again()
        for partition, offset in enumerate(wanted):
            assert await self.earliest(partition) == offset

    async def until_asked_again(self) -> None:
        """Wait until what was learned from a question that begins from now on is logged."""
        asked = len(self.logs.asked)
        await self.running.until(lambda: len(self.logs.asked) >= asked + 2, "two more questions")


@asynccontextmanager
async def migrated() -> AsyncIterator[Migrated]:
    classic = [InMemoryClassicPartition(topic_id=TOPIC, partition=index) for index in range(PARTITIONS)]
    for one in classic:
        one.log_start_offset = 20
    logs = InMemoryClassicLogs(classic)
    rules = RetentionRules(check_interval_ms=20)
    async with running(in_memory(), MemoryStateStores(), retention=rules, classic_logs=logs) as started:
        await started.leads()
        wanted = WantedTopic(topic_id=TOPIC, name="orders", num_partitions=PARTITIONS, classic_pending=True)
        await started.until(lambda: started.node.schema_level >= 2, "a level that has migrations")
        [outcome] = await started.node.directory.create_topics([wanted], TIMEOUT_MS)
        assert outcome.error is ErrorCode.NONE
        to = Migrated(started, logs)
        for partition in range(PARTITIONS):
            await to.begin(partition)
        yield to


async def test_earliest_follows_the_classic_logs_and_is_the_suffix_once_they_are_gone() -> None:
    async with migrated() as to:
        for one, start in zip(to.classic, (20, 60, 100, 130), strict=True):
            one.log_start_offset = start
        await to.until_earliest((20, 60, 100, 100))
        assert await to.earliest(1, EARLIEST_LOCAL) == B0
        # Partitions without a classic part are asked about no more, the others all together, whoever owns them here.
        await to.until_asked_again()
        assert set(to.logs.asked[-2:]) == {2}
        to.classic[0].log_start_offset = 15  # Kafka's log starts never go back; another broker may be behind
        await to.until_earliest((20, 60, 100, 100))


async def test_only_what_has_moved_is_logged() -> None:
    async with migrated() as to:
        to.classic[2].log_start_offset = 70
        await to.until_earliest((20, 20, 70, 20))
        await to.until_asked_again()
        entries = [entry for log in to.running.kafka.logs for entry in log.entries()]
        records = [record for entry in entries for record in decode_entry(entry.value or b"")]
        reported = [(one.partition, one.prefix_start_offset) for one in records if isinstance(one, PrefixStartReported)]
        assert reported == [(2, 70)]


async def test_an_unknown_start_is_told_once_and_stays_as_it_was(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "coordinator.migration"):
        async with migrated() as to:
            del to.logs.partitions[next(iter(to.logs.partitions))]
            to.classic[1].log_start_offset = 30
            await to.until_earliest((20, 30, 20, 20))
            await to.until_asked_again()
            to.logs.is_reachable = False
            await to.until_asked_again()
            to.logs.is_reachable = True
            to.classic[1].log_start_offset = 40
            await to.until_earliest((20, 40, 20, 20))
    texts = [record.getMessage().partition("gone: ")[2] for record in caplog.records if record.name == "coordinator.migration"]
    assert texts == ["orders-0: there is no such topic", "all: no broker answers", "orders-0: there is no such topic"]
