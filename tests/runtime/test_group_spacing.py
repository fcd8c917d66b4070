"""When a group starts: at once when nothing is in flight; else with the acknowledgement, with as much waiting, or after a while."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager

import pytest

from coordinator.core.commands import Answer
from coordinator.runtime.pauses import Pauses
from coordinator.runtime.replica.grouping import GROUP_BYTES_MIN, Grouping
from coordinator.runtime.telemetry import NoTelemetry
from simulation.fakes.state_store import MemoryStateStores
from tests.core.build import batch, commit, place, result_of
from tests.runtime.nodes import TIMEOUT_MS, Running, in_memory, running

FOR_EVER_S = 3600.0


class Groups(NoTelemetry):
    """How many entries each group had that was appended."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def group_appended(self, partition: int, entries: int, size_bytes: int) -> None:
        self.sizes.append(entries)


class Client:
    """Commits one file after the other and keeps the answers."""

    def __init__(self, started: Running) -> None:
        self.started = started
        self.answers: list[Answer] = []
        self.sent = 0

    def commit(self, *, size_bytes: int = 1) -> None:
        self.sent += 1
        self.started.node.replicas[0].submit(commit(f"file-{self.sent}", [batch()]), TIMEOUT_MS, self.answers.append, size_bytes)

    async def answered(self) -> None:
        """Wait until all are, and every one well."""
        await self.started.until(lambda: len(self.answers) == self.sent, "the answers")
        assert [result_of(answer).errors for answer in self.answers] == [[0]] * self.sent  # type: ignore[arg-type]


async def turns() -> None:
    """Let the loop go round, so that what comes next is not of the same tick."""
    for _ in range(5):
        await asyncio.sleep(0)


async def one_in_flight(started: Running, groups: Groups, size_bytes: int = 1) -> Client:
    """Lead, and append a group of so many bytes that is not acknowledged before Kafka is available again."""
    await started.leads()
    await started.ask(0, place())
    client = Client(started)
    groups.sizes.clear()
    started.kafka.set_available(False)
    client.commit(size_bytes=size_bytes)
    await started.until(lambda: groups.sizes == [1], "the first group")
    return client


def spaced(groups: Groups, *, few_s: float, many_s: float) -> AbstractAsyncContextManager[Running]:
    return running(in_memory(), MemoryStateStores(), telemetry=groups, pauses=Pauses(few_spacing_s=few_s, group_spacing_s=many_s))


async def test_what_arrives_meanwhile_travels_together_once_nothing_is_in_flight() -> None:
    groups = Groups()
    async with spaced(groups, few_s=FOR_EVER_S, many_s=FOR_EVER_S) as started:
        client = await one_in_flight(started, groups)
        for _ in range(3):
            client.commit()
            await turns()
        assert groups.sizes == [1]
        started.kafka.set_available(True)
        await client.answered()
    assert groups.sizes == [1, 3]


async def test_as_much_as_is_in_flight_waits_for_nothing() -> None:
    groups = Groups()
    async with spaced(groups, few_s=FOR_EVER_S, many_s=FOR_EVER_S) as started:
        client = await one_in_flight(started, groups)
        client.commit(size_bytes=GROUP_BYTES_MIN - 1)
        client.commit(size_bytes=1)
        await started.until(lambda: groups.sizes == [1, 2], "the second group")
        started.kafka.set_available(True)
        await client.answered()


@pytest.mark.parametrize(
    ("in_flight_bytes", "few_s", "many_s"),
    [(GROUP_BYTES_MIN - 1, 0.02, FOR_EVER_S), (GROUP_BYTES_MIN, FOR_EVER_S, 0.02)],
)
async def test_nobody_waits_longer_than_the_spacing(in_flight_bytes: int, few_s: float, many_s: float) -> None:
    groups = Groups()
    async with spaced(groups, few_s=few_s, many_s=many_s) as started:
        client = await one_in_flight(started, groups, in_flight_bytes)
        client.commit()
        await started.until(lambda: groups.sizes == [1, 1], "the second group")
        started.kafka.set_available(True)
        await client.answered()


def test_a_request_waits_by_what_is_in_flight() -> None:
    grouping = Grouping(pauses=Pauses(few_spacing_s=1.0, group_spacing_s=5.0))
    assert grouping.wait_s(10.0) <= 0
    grouping.submitted(100)
    grouping.started(last_seq=3, now_s=10.0)
    assert grouping.wait_s(10.25) == 0.75
    assert grouping.enough_bytes == GROUP_BYTES_MIN
    grouping.submitted(2 * GROUP_BYTES_MIN)
    grouping.started(last_seq=7, now_s=11.0)
    assert grouping.wait_s(12.0) == 4.0
    assert grouping.enough_bytes == 2 * GROUP_BYTES_MIN + 100
    assert list(grouping.acknowledged(2)) == []
    assert list(grouping.acknowledged(7)) == [10.0, 11.0]
    assert grouping.is_idle
    assert grouping.wait_s(12.0) <= 0


def test_what_was_submitted_in_a_term_that_ended_counts_for_no_group() -> None:
    grouping = Grouping(pauses=Pauses(few_spacing_s=1.0))
    grouping.submitted(2 * GROUP_BYTES_MIN)
    grouping.started(last_seq=1, now_s=0.0)
    grouping.submitted(2 * GROUP_BYTES_MIN)
    grouping.clear()
    assert grouping.is_idle
    grouping.started(last_seq=1, now_s=0.0)
    assert grouping.wait_s(0.0) == 1.0
