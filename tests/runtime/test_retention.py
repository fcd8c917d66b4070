"""Retention as a node enforces it where it leads: periodically and on demand, by the newest settings, through the log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import cast

import pytest

from coordinator.core.commands import (
    AlterTopicConfigs,
    CommitResult,
    ConfigChange,
    DeletePoint,
    DeleteRecords,
    Outcome,
    TopicAlteration,
    WantedMove,
    WantedTopic,
)
from coordinator.core.files.answers import FileAnswer
from coordinator.core.moves import MOVES_LEVEL
from coordinator.core.reads.retention import Known
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.timestamps import AFTER_MAX_MS
from coordinator.kafka.topic_configs import ConfigOperation, Retention
from coordinator.runtime.pauses import Pauses
from coordinator.runtime.retention.enforcer import Expired, held_by_time
from coordinator.runtime.retention.rules import RetentionRules
from simulation.fakes.state_store import MemoryStateStores
from tests.core.build import TOPIC, batch, commit
from tests.patient_loop import loop_ms
from tests.runtime.nodes import TIMEOUT_MS, Running, in_memory, running

OFTEN = RetentionRules(check_interval_ms=20)
CENTURY_MS = 100 * 365 * 86_400_000
NEVER = RetentionRules(check_interval_ms=3_600_000)


class Service:
    """A node that leads all coordinators, with the topic `orders` of two partitions."""

    def __init__(self, running: Running) -> None:
        self.running = running
        self.node = running.node
        self._files = 0

    def bounds(self, partition: int) -> tuple[int, int]:
        """Log start and high watermark."""
        for coordinator_id in self.node.replicas.led():
            found = self.node.replicas[coordinator_id].look(lambda view: view.bounds(TOPIC, partition))
            if found is not None:
                return found
        raise AssertionError(f"partition {partition} is nowhere")

    def owner(self, partition: int) -> int:
        placement = self.node.view.placement(TOPIC)
        assert placement is not None
        owner = placement.coordinator_of(partition)
        assert owner is not None
        return owner

    async def commit(self, partition: int, *ages_ms: int, size: int = 10) -> None:
        """A file with a batch of one record for each of these ages."""
        self._files += 1
        batches = [batch(partition, max_timestamp=loop_ms() - age_ms, size=size) for age_ms in ages_ms]
        owner = self.owner(partition)
        answer = await self.running.ask(owner, commit(f"file-{self._files}", batches, owner_ids=[owner]))
        assert isinstance(answer, CommitResult | FileAnswer)
        assert not any(answer.result().errors), answer.result().messages

    async def alter(self, **settings: str) -> None:
        changes = tuple(ConfigChange(name.replace("_", "."), ConfigOperation.SET, value) for name, value in settings.items())
        command = AlterTopicConfigs(alterations=[TopicAlteration("orders", changes)])
        [outcome] = cast(list[Outcome], await self.node.replicas[0].ask(command, TIMEOUT_MS))
        assert outcome.error is ErrorCode.NONE

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        await self.running.until(condition, what)


@asynccontextmanager
async def service(rules: RetentionRules, *, coordinators: int = 2, **settings: str) -> AsyncIterator[Service]:
    pauses = Pauses(level_check_s=0.005)
    async with running(in_memory(partitions=coordinators), MemoryStateStores(), retention=rules, pauses=pauses) as started:
        await started.leads()
        own = tuple((name.replace("_", "."), value) for name, value in settings.items())
        wanted = WantedTopic(topic_id=TOPIC, name="orders", num_partitions=2, settings=own)
        [outcome] = await started.node.directory.create_topics([wanted], TIMEOUT_MS)
        assert outcome.error is ErrorCode.NONE
        yield Service(started)


async def test_old_batches_go_by_themselves() -> None:
    async with service(OFTEN, retention_ms="60000") as to:
        await to.commit(0, 90_000, 80_000, 1_000, 90_000)
        await to.commit(1, 1_000)
        await to.until(lambda: to.bounds(0) == (2, 4), "two batches to go")
        assert to.bounds(1) == (0, 1)
        await to.until(lambda: to.node.workers.retention.deleted_batches.total() == 2, "the batches to be counted")
        await to.until(lambda: set(to.node.workers.retention.last_run_s) == {0, 1}, "both coordinators to have been looked at")


async def test_one_look_deletes_what_is_past_its_time_in_all_coordinators_that_a_partition_was_in() -> None:
    """Else each move would keep records for one interval longer than their topic does."""
    async with service(NEVER, coordinators=5, retention_ms="60000") as to:
        await to.until(lambda: to.node.schema_level == MOVES_LEVEL, "the level at which partitions move")
        route = [to.owner(0), *sorted(set(range(5)) - {to.owner(0)}, reverse=True)]
        for at, coordinator in enumerate(route):
            if at:
                wanted = WantedMove(topic_id=TOPIC, partition=0, to_coordinator=coordinator)
                await to.node.directory.order_moves([wanted], TIMEOUT_MS, is_dry_run=False)
                await to.until(lambda: to.owner(0) == route[at], "the move")  # noqa: B023 - awaited
            # The last batch of the fourth stretch is young, and keeps what is behind it.
            await to.commit(0, 90_000, 1_000 if at == 3 else 80_000)
        await to.node.workers.released.look()
        starts = [to.node.replicas[one].look(lambda view: view.bounds(TOPIC, 0)) for one in route]
        assert starts[:3] == [(2, 2), (4, 4), (6, 6)]
        assert starts[3:] == [(7, 8), (7, 10)]


async def test_large_partitions_lose_their_beginning() -> None:
    async with service(OFTEN, retention_bytes="100") as to:
        await to.commit(0, *[0] * 30)
        await to.until(lambda: to.bounds(0) == (20, 30), "20 of 30 batches to go")
        await to.commit(0, *[0] * 5)
        await to.until(lambda: to.bounds(0) == (25, 35), "5 more batches to go")


async def test_the_services_limit_counts_until_the_topic_has_its_own() -> None:
    async with service(RetentionRules(default=Retention(60_000, -1), check_interval_ms=20)) as to:
        await to.commit(0, 90_000, 50_000, 1_000)
        await to.until(lambda: to.bounds(0) == (1, 3), "the first batch to go")
        await to.alter(retention_ms="40000")
        await to.until(lambda: to.bounds(0) == (2, 3), "the second batch to go")
        await to.alter(retention_ms="-1")
        await to.commit(0, 90_000_000)
        await to.alter(retention_bytes="20")
        await to.commit(0, 90_000_000)
        await to.until(lambda: to.bounds(0) == (3, 5), "the oldest batch to go by its size alone")


async def test_a_dry_run_says_what_goes_and_deletes_nothing() -> None:
    async with service(NEVER, retention_ms="60000") as to:
        await to.commit(0, 90_000, 80_000, 1_000)
        for is_dry_run in (True, True, False):
            owner = to.owner(0)
            outcome, expired, _ = await to.node.workers.retention.enforce(owner, is_dry_run=is_dry_run)
            assert outcome.error is ErrorCode.NONE
            assert expired == [Expired(TOPIC, 0, 0, 2, 2, 20)]
            assert to.bounds(0) == (0 if is_dry_run else 2, 3)
        assert await to.node.workers.retention.enforce(owner) == (Outcome(), [], [])
        assert to.node.workers.retention.deleted_batches == {owner: 2}


async def test_partitions_that_a_time_in_the_future_keeps_are_told_until_it_is_deleted() -> None:
    async with service(OFTEN, retention_ms="60000") as to:
        await to.commit(0, 90_000, -CENTURY_MS, 90_000, 90_000)
        await to.commit(1, -AFTER_MAX_MS, 90_000)  # a time that any topic takes
        owner, retention = to.owner(0), to.node.workers.retention
        await to.until(lambda: retention.held_partitions == {owner: 1, to.owner(1): 0}, "the partition to be counted")
        assert to.bounds(0) == (1, 4)
        for is_dry_run in (True, False):
            [held] = (await retention.enforce(owner, is_dry_run=is_dry_run)).held
            assert (held.topic_id, held.partition, held.next_offset) == (TOPIC, 0, 2)
            assert held.timestamp_ms == pytest.approx(loop_ms() + CENTURY_MS, abs=600_000)
            assert not (await retention.enforce(to.owner(1), is_dry_run=is_dry_run)).held
        point = DeletePoint(topic_id=TOPIC, partition=0, offset=held.next_offset)
        await to.node.replicas[owner].ask(DeleteRecords(points=[point]), TIMEOUT_MS)
        await to.until(lambda: to.bounds(0) == (4, 4), "the batches behind it to go")
        await to.until(lambda: retention.held_partitions[owner] == 0, "nothing to be counted")


async def test_what_only_size_deletes_is_not_held() -> None:
    async with service(NEVER, retention_bytes="1000") as to:
        await to.commit(0, -CENTURY_MS)
        assert (await to.node.workers.retention.enforce(to.owner(0))).held == []


async def test_other_topics_than_the_named_ones_stay() -> None:
    async with service(NEVER, retention_ms="60000") as to:
        await to.commit(0, 90_000)
        assert (await to.node.workers.retention.enforce(to.owner(0), [bytes(15) + b"x"])).expired == []
        assert to.bounds(0) == (0, 1)
        assert len((await to.node.workers.retention.enforce(to.owner(0), [TOPIC])).expired) == 1


async def test_who_does_not_lead_says_so() -> None:
    async with service(NEVER, retention_ms="0") as to:
        assert (await to.node.workers.retention.enforce(7)).outcome.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        to.node.replicas[1].set_assigned(False)
        to.node.replicas[1].invalidate("a test wants it")
        assert (await to.node.workers.retention.enforce(1)).outcome.error is ErrorCode.NOT_COORDINATOR


async def test_nothing_goes_by_settings_that_changed_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    async with service(NEVER, retention_ms="60000") as to:
        await to.commit(0, 90_000)
        is_current = to.node.router.directory_is_current

        async def altered_first(timeout_ms: int) -> bool:
            await to.alter(retention_ms="-1")
            return await is_current(timeout_ms)

        monkeypatch.setattr(to.node.router, "directory_is_current", altered_first)
        assert await to.node.workers.retention.enforce(to.owner(0)) == (Outcome(), [], [])
        assert to.bounds(0) == (0, 1)


async def test_nothing_goes_while_the_newest_settings_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    async with service(NEVER, retention_ms="60000") as to:
        await to.commit(0, 90_000)

        async def never(timeout_ms: int) -> bool:
            return False

        monkeypatch.setattr(to.node.router, "directory_is_current", never)
        outcome, expired, _ = await to.node.workers.retention.enforce(to.owner(0))
        assert outcome.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert expired == []
        assert to.bounds(0) == (0, 1)


@pytest.mark.parametrize("settings", [{"retention_bytes": "100"}, {"retention_ms": "0"}, {"retention_ms": "40", "retention_bytes": "100"}])
async def test_a_look_ends_however_fast_batches_come(settings: dict[str, str]) -> None:
    # Else the other partitions, and the other coordinators of the node, would not be looked at again.
    async with service(NEVER, **settings) as to:
        await to.commit(0, *[1_000] * 30)

        async def write_on() -> None:
            while True:
                await to.commit(0, *[1_000] * 3)

        writing = asyncio.create_task(write_on())
        try:
            async with asyncio.timeout(20):
                outcome, [expired], _ = await to.node.workers.retention.enforce(to.owner(0))
        finally:
            writing.cancel()
        assert outcome == Outcome()
        assert expired.log_start == 0
        assert expired.batches >= 20


def test_partitions_that_nothing_holds_are_not_sorted() -> None:
    """All that are known may be a hundred thousand, and this holds the event loop."""

    class Unsorted(tuple[bytes, int]):
        def __lt__(self, _other: object) -> bool:
            raise AssertionError

    known = {Unsorted((TOPIC, partition)): Known(0, 0, oldest_ms=0) for partition in range(3)}
    assert held_by_time(known, 0, lambda _topic_id: True) == []
