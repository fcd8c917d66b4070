"""What a term's producer hands to librdkafka at once and what it keeps, against librdkafka's own broker for tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from coordinator.adapters.kafka import report_signal
from coordinator.adapters.kafka.producer import FEW_MAX, UNDER_WAY_MAX, KafkaTermProducer, KafkaTermProducers
from coordinator.core.events import NewEntry
from coordinator.runtime.ports import ProduceRefused, Report

ROUND_TRIP_MS = 150
"""Long enough for everything that a test hands over meanwhile, and short enough for a test."""


@pytest.fixture(autouse=True, params=["signal", "thread"])
def way_of_reports(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the event loop itself, as with versions of the client that were tried, or by a thread."""
    assert report_signal.is_signalling(), "the client that is installed was not tried yet: see TRIED_VERSIONS"
    if request.param == "thread":
        monkeypatch.setattr(report_signal, "TRIED_VERSIONS", ())


class World:
    """A producer that leads, what was handed to librdkafka in each call, and the reports."""

    def __init__(self, producer: KafkaTermProducer, reports: list[Report]) -> None:
        self.producer = producer
        self.reports = reports
        self.calls: list[int] = []
        self.under_way_most = 0
        self.refusal: Exception | None = None
        self._hand_over = producer._produce
        producer._produce = self._note
        self._seq = 0

    def _note(self, topic: str, messages: list[dict[str, Any]], partition: int) -> int:
        if self.refusal is not None:
            raise self.refusal
        self.calls.append(len(messages))
        self.under_way_most = max(self.under_way_most, self.producer._under_way + len(messages))
        return self._hand_over(topic, messages, partition)

    def group(self, size: int) -> None:
        """Produce so many entries."""
        entries = [NewEntry(seq, seq.to_bytes(8, "big"), b"value") for seq in range(self._seq, self._seq + size)]
        self._seq += size
        self.producer.produce(entries)

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait for it."""
        async with asyncio.timeout(30):
            while not condition():  # noqa: ASYNC110 - the producer knows no events
                await asyncio.sleep(0.005)

    async def reported(self) -> None:
        """Wait until every entry is, well and in order."""
        await self.until(lambda: len(self.reports) >= self._seq)
        assert self.reports == [Report(seq, seq, None) for seq in range(self._seq)]


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    """A term whose first entry is acknowledged."""
    producers = KafkaTermProducers(
        loop=asyncio.get_running_loop(),
        bootstrap_servers="made by librdkafka",
        topic="t",
        client_id="c",
        message_max_bytes=1_048_588,
        kafka_properties={"test.mock.num.brokers": 1, "test.mock.broker.rtt": ROUND_TRIP_MS},
    )
    reports: list[Report] = []
    made = World(producers.open(0, reports.extend), reports)
    made.group(1)
    await made.reported()
    made.calls.clear()
    try:
        yield made
    finally:
        assert await producers.close(10)


async def test_few_leave_at_once_as_long_as_librdkafka_sends_at_once() -> None:
    async with world() as made:
        for _ in range(UNDER_WAY_MAX):
            made.group(1)
        assert made.calls == [1] * UNDER_WAY_MAX
        made.group(1)
        assert made.calls == [1] * UNDER_WAY_MAX
        await made.reported()


async def test_a_few_entries_are_never_more_under_way_than_librdkafka_sends_at_once() -> None:
    async with world() as made:
        made.group(UNDER_WAY_MAX + 3)
        assert made.calls == [UNDER_WAY_MAX]
        for size in (1, 8):
            made.group(size)
        await made.reported()
        assert made.under_way_most == UNDER_WAY_MAX


async def test_many_leave_in_one_call() -> None:
    async with world() as made:
        made.group(FEW_MAX + 1)
        assert made.calls == [FEW_MAX + 1]
        made.group(1)
        for size in (8, FEW_MAX - 8):
            made.group(size)
        assert made.calls == [FEW_MAX + 1]
        await made.reported()
        assert made.calls == [FEW_MAX + 1, FEW_MAX + 1]


async def test_what_waits_for_an_abandoned_producer_is_never_sent() -> None:
    async with world() as made:
        made.group(UNDER_WAY_MAX)
        made.group(2)
        made.producer.abandon()
        assert await made.producer.ended(10)
        assert made.calls == [UNDER_WAY_MAX]
        assert [report.seq for report in made.reports] == [0]


async def test_what_waited_and_is_refused_then_is_reported_as_not_delivered() -> None:
    async with world() as made:
        made.group(UNDER_WAY_MAX)
        made.group(2)
        made.refusal = BufferError("the queue is full")
        await made.until(lambda: any(report.error is not None for report in made.reports))
        failed = [report for report in made.reports if report.error is not None]
        assert [(report.seq, report.offset) for report in failed] == [(UNDER_WAY_MAX + 1, None)]
        assert "the queue is full" in str(failed[0].error)


async def test_behind_entries_that_are_refused_nothing_is_sent() -> None:
    async with world() as made:
        made.group(UNDER_WAY_MAX - 1)
        made.refusal = BufferError("the queue is full")
        with pytest.raises(ProduceRefused, match="the queue is full"):
            made.group(3)
        made.refusal = None
        await made.until(lambda: len(made.reports) == UNDER_WAY_MAX)
        assert made.calls == [UNDER_WAY_MAX - 1]


async def test_an_abandoned_producer_leaves_no_descriptor_behind() -> None:
    async with world() as made:
        made.group(1)
        signal = made.producer._signal
        made.producer.abandon()
        assert await made.producer.ended(10)
        assert made.producer._producer is None
        if signal is not None:
            await made.until(lambda: not Path(f"/proc/self/fd/{signal.fd}").exists())


async def test_a_spare_learns_of_its_producer_id_while_the_loop_waits_for_nothing_else() -> None:
    async with world() as made:
        await made.until(lambda: made.producer.is_ready)
