"""The steps of a migration: in order, killed at each, repeated, raced by rivals, and refused with a reason."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from migration.classic import ClassicState, MigrationRefused, WrittenPastBoundary
from migration.driver import INITS_AT_ONCE, MigrationDriver
from records.record_batch import ProducerSequence
from simulation.fakes.classic import ClassicWriteRefused, InMemoryClassicPartition
from simulation.fakes.diskless_logs import InMemoryDisklessLogs
from tests.migration.steps import Killed, Steps

TOPIC = b"classic-topic-id"
STEPS = (
    "describe_diskless_log",
    "refuse_writes",
    "describe_diskless_log",
    "look",
    "last_batches",
    "settle",
    "init_diskless_log",
    "look",
)
"""The calls of a driver that meets no obstacle."""


def producer(producer_id: int, sequence: int, epoch: int = 0) -> ProducerSequence:
    return ProducerSequence(producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


def written(batches: int = 7) -> InMemoryClassicPartition:
    """A partition to which two producers and one without idempotence have written."""
    partition = InMemoryClassicPartition(topic_id=TOPIC)
    for number in range(batches):
        partition.write(producer(1, 2 * number), 2)
        partition.write(producer(2, number))
        partition.write(None)
    return partition


def driver(logs: Any, **options: Any) -> MigrationDriver:
    return MigrationDriver(logs, **{"still_s": 0.0, "drain_timeout_s": 0.2, "look_every_s": 0.001, **options})


async def test_the_diskless_log_begins_at_the_end_of_the_classic_one_with_its_producers() -> None:
    partition, logs, steps = written(), InMemoryDisklessLogs(), Steps()
    partition.log_start_offset = 3
    migrated = await driver(steps.over(logs)).migrate(steps.over(partition))
    assert (migrated.start_offset, migrated.prefix_start, migrated.was_initialised) == (28, 3, False)
    assert (migrated.producers, migrated.batches, migrated.producers_unread) == (2, 10, ())
    assert tuple(steps.names) == STEPS
    seeded = {one.producer_id: [(b.first_sequence, b.base_offset) for b in one.batches] for one in logs.seeds[TOPIC, 0]}
    assert seeded == {1: [(2 * n, 4 * n) for n in range(2, 7)], 2: [(n, 4 * n + 2) for n in range(2, 7)]}
    with pytest.raises(ClassicWriteRefused):
        partition.write(None)


@pytest.mark.parametrize("number", range(len(STEPS)))
@pytest.mark.parametrize("is_after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("is_elected", [False, True], ids=["same-leader", "new-leader"])
async def test_a_driver_that_is_killed_at_a_step_is_repeated(number: int, is_after: bool, is_elected: bool) -> None:
    partition, logs, steps = written(), InMemoryDisklessLogs(), Steps(number, is_after=is_after)
    with pytest.raises(Killed):
        await driver(steps.over(logs)).migrate(steps.over(partition))
    if not partition.is_refusing:
        partition.write(producer(2, 7))
    if is_elected:
        partition.elect()
    migrated = await driver(logs).migrate(partition)
    end = partition.end_offset
    assert (migrated.start_offset, (await logs.describe_diskless_log(TOPIC, 0)).start_offset) == (end, end)
    [_, second] = logs.seeds[TOPIC, 0]
    assert second.batches[-1].last_offset == (end - 1 if end > 28 else 26)
    again = await driver(logs).migrate(partition)
    assert (again.start_offset, again.was_initialised) == (end, True)


@pytest.mark.parametrize("number", range(len(STEPS)))
@pytest.mark.parametrize("is_after", [False, True], ids=["before", "after"])
async def test_a_leader_that_is_killed_at_a_step_changes_nothing(number: int, is_after: bool) -> None:
    partition, logs = written(), InMemoryDisklessLogs()
    steps = Steps(number, is_after=is_after, action=partition.elect)
    migrated = await driver(steps.over(logs)).migrate(steps.over(partition))
    assert migrated.start_offset == 28
    assert [len(one.batches) for one in logs.seeds[TOPIC, 0]] == [5, 5]


@pytest.mark.parametrize("number", range(len(STEPS)))
async def test_a_rival_at_any_step_leads_to_one_boundary(number: int) -> None:
    partition, logs = written(), InMemoryDisklessLogs()

    async def rival() -> None:
        await driver(logs).migrate(partition)

    class Rival(Steps):
        async def call(self, name: str, method: Callable[..., Any], args: Sequence[Any], options: dict[str, Any]) -> Any:
            if len(self.names) == number:
                partition.elect()
                await rival()
            return await super().call(name, method, args, options)

    steps = Rival()
    migrated = await driver(steps.over(logs)).migrate(steps.over(partition))
    assert migrated.start_offset == 28
    assert [len(one.batches) for one in logs.seeds[TOPIC, 0]] == [5, 5]


@pytest.mark.parametrize("number", [STEPS.index("look"), STEPS.index("last_batches")])
async def test_writes_of_an_unfenced_writer_before_the_last_look_move_the_boundary(number: int) -> None:
    partition, logs = written(), InMemoryDisklessLogs()
    steps = Steps(number, is_after=True, action=lambda: _ignore(partition.write(producer(2, 7), is_fenced=False)))
    migrated = await driver(steps.over(logs)).migrate(steps.over(partition))
    assert migrated.start_offset == 29
    assert logs.seeds[TOPIC, 0][1].batches[-1].last_offset == 28


def _ignore(_offset: int) -> None:
    return None


async def test_writes_past_the_boundary_are_told_loudly_again_and_again() -> None:
    partition, logs = written(), InMemoryDisklessLogs()
    steps = Steps(STEPS.index("init_diskless_log"), action=lambda: _ignore(partition.write(None, 3, is_fenced=False)))
    for attempt in (driver(steps.over(logs)), driver(logs)):
        with pytest.raises(WrittenPastBoundary, match="offsets 28 to 30 of the classic log are read by nobody"):
            await attempt.migrate(steps.over(partition))


async def test_a_marker_past_the_boundary_is_no_record() -> None:
    partition, logs = written(), InMemoryDisklessLogs()
    steps = Steps(STEPS.index("init_diskless_log"), action=lambda: partition.mark(producer(9, -1)))
    migrated = await driver(steps.over(logs)).migrate(steps.over(partition))
    assert (migrated.start_offset, partition.end_offset) == (28, 29)
    assert (await driver(logs).migrate(partition)).was_initialised


async def test_a_transaction_that_ends_in_time_is_waited_for() -> None:
    partition, logs = written(), InMemoryDisklessLogs()
    partition.begin(producer(9, 0))
    steps = Steps(STEPS.index("look") + 1, action=lambda: partition.end(producer(9, -1)))
    migrated = await driver(steps.over(logs), drain_timeout_s=60).migrate(steps.over(partition))
    assert migrated.start_offset == 30


def _held_back(partition: InMemoryClassicPartition) -> None:
    partition.is_replicating = False
    partition.write(None, 2)


@pytest.mark.parametrize(
    ("prepare", "text"),
    [
        (lambda partition: partition.begin(producer(9, 0)), r"the transaction of producer 9, open since offset 28; .*abort it"),
        (_held_back, "records 28 to 29 are not replicated yet; look at the replicas"),
    ],
    ids=["open-transaction", "not-replicated"],
)
async def test_a_log_that_does_not_come_to_rest_is_refused_with_the_reason(prepare: Callable[[Any], None], text: str) -> None:
    partition, logs = written(), InMemoryDisklessLogs()
    prepare(partition)
    with pytest.raises(MigrationRefused, match=text):
        await driver(logs, drain_timeout_s=0.01).migrate(partition)
    assert (await logs.describe_diskless_log(TOPIC, 0)).state == "pending"
    partition.replicate()


async def test_a_log_that_moves_is_refused() -> None:
    partition, logs = written(), InMemoryDisklessLogs()

    class Moving(InMemoryClassicPartition):
        async def look(self) -> ClassicState:
            partition.write(None, is_fenced=False)
            return await partition.look()

    with pytest.raises(MigrationRefused, match=r"its end moved \d+ times, to \d+; stop its writers"):
        await driver(logs, still_s=0.05, drain_timeout_s=0.1).migrate(Moving())
    assert logs.seeds == {}


async def test_a_late_leader_is_fenced_and_waits_for_the_newer_one() -> None:
    partition, logs = written(), InMemoryDisklessLogs()
    logs.reset(TOPIC, 0, 4)
    with pytest.raises(MigrationRefused, match="the leader of epoch 0 answers, the coordinator knows of epoch 4"):
        await driver(logs, drain_timeout_s=0.01).migrate(partition)
    partition.leader_epoch = 4
    assert (await driver(logs).migrate(partition)).leader_epoch == 4


async def test_a_driver_goes_by_the_reset_that_was_recorded_when_it_was_planned() -> None:
    partition, logs = written(), InMemoryDisklessLogs()
    logs.reset(TOPIC, 0, 4)
    assert (await driver(logs).migrate(partition, planned_epoch=4)).leader_epoch == 4


@pytest.mark.parametrize("number", range(STEPS.index("init_diskless_log") + 1))
async def test_a_reset_ends_a_planned_migration_at_any_step_before_its_start_is_set(number: int) -> None:
    partition, logs = written(), InMemoryDisklessLogs()
    steps = Steps(number, action=lambda: logs.reset(TOPIC, 0, partition.leader_epoch + 1))
    with pytest.raises(MigrationRefused, match=r"was reset since this migration was planned \(epoch 1 is recorded, it was -1\)"):
        await driver(steps.over(logs)).migrate(steps.over(partition), planned_epoch=-1)
    assert logs.seeds == {}
    assert ("refuse_writes" in steps.names) == (number > 0)


async def test_a_log_that_ends_before_the_boundary_is_refused() -> None:
    partition, logs = written(), InMemoryDisklessLogs()
    await logs.init_diskless_log(TOPIC, 0, start_offset=30, prefix_start=0, leader_epoch=0, producers=())
    with pytest.raises(MigrationRefused, match="the classic log ends at 28, before the diskless log begins, at 30"):
        await driver(logs).migrate(partition)


class Crowded(InMemoryDisklessLogs):
    """Begins no log before `is_open`, and counts how many are asked for together."""

    def __init__(self) -> None:
        super().__init__()
        self.is_open = asyncio.Event()
        self.at_once = 0
        self.at_once_max = 0

    async def init_diskless_log(self, *args: Any, **options: Any) -> None:
        self.at_once += 1
        self.at_once_max = max(self.at_once_max, self.at_once)
        await self.is_open.wait()
        await super().init_diskless_log(*args, **options)
        self.at_once -= 1


async def test_logs_of_many_are_read_together_and_few_are_begun_at_a_time() -> None:
    count, logs = 6 * INITS_AT_ONCE, Crowded()
    settled: list[int] = []

    class Counted(InMemoryClassicPartition):
        async def settle(self, state: ClassicState) -> ClassicState:
            settled.append(self.partition)
            if len(settled) == count:
                logs.is_open.set()
            return await super().settle(state)

    partitions = [Counted(topic_id=TOPIC, partition=index) for index in range(count)]
    one = driver(logs)
    await asyncio.wait_for(asyncio.gather(*map(one.migrate, partitions)), 60)
    assert sorted(settled) == list(range(count))
    assert logs.at_once_max == INITS_AT_ONCE
