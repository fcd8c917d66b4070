"""What a term's producer hands to librdkafka at once and what it keeps, against librdkafka's own broker for tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from coordinator.adapters.kafka.producer import UNDER_WAY_MAX, KafkaTermProducer, KafkaTermProducers
from coordinator.core.events import NewEntry
from coordinator.runtime.ports import Report

ROUND_TRIP_MS = 150
"""Long enough for everything that a test hands over meanwhile, and short enough for a test."""


class World:
    """A producer that leads, what was handed to librdkafka in each call, and the reports."""

    def __init__(self, producer: KafkaTermProducer, reports: list[Report]) -> None:
        self.producer = producer
        self.reports = reports
        self.calls: list[int] = []
        self.refusal: Exception | None = None
        self._hand_over = producer._produce
        producer._produce = self._note
        self._seq = 0

    def _note(self, topic: str, messages: list[dict[str, Any]], partition: int) -> int:
        if self.refusal is not None:
            raise self.refusal
        self.calls.append(len(messages))
        return self._hand_over(topic, messages, partition)

    def group(self, size: int) -> None:
        """Produce so many entries."""
        entries = [NewEntry(seq, seq.to_bytes(8, "big"), b"value") for seq in range(self._seq, self._seq + size)]
        self._seq += size
        self.producer.produce(entries)

    async def reported(self) -> None:
        """Wait until every entry is, well and in order."""
        async with asyncio.timeout(30):
            while len(self.reports) < self._seq:  # noqa: ASYNC110 - the producer knows no events
                await asyncio.sleep(0.005)
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


async def test_what_comes_while_many_are_under_way_leaves_together_when_they_are_reported() -> None:
    async with world() as made:
        made.group(UNDER_WAY_MAX + 1)
        for size in (3, 1, 8):
            made.group(size)
        assert made.calls == [UNDER_WAY_MAX + 1]
        await made.reported()
        assert made.calls == [UNDER_WAY_MAX + 1, 12]


async def test_few_under_way_hold_nobody_up() -> None:
    async with world() as made:
        for _ in range(UNDER_WAY_MAX + 1):
            made.group(1)
        assert made.calls == [1] * (UNDER_WAY_MAX + 1)
        made.group(1)
        assert len(made.calls) == UNDER_WAY_MAX + 1
        await made.reported()


async def test_what_waits_for_an_abandoned_producer_is_never_sent() -> None:
    async with world() as made:
        made.group(UNDER_WAY_MAX + 1)
        made.group(2)
        made.producer.abandon()
        assert await made.producer.ended(10)
        assert made.calls == [UNDER_WAY_MAX + 1]
        assert [report.seq for report in made.reports] == [0]


async def test_what_waited_and_is_refused_then_is_reported_as_not_delivered() -> None:
    async with world() as made:
        made.group(UNDER_WAY_MAX + 1)
        made.group(2)
        made.refusal = BufferError("the queue is full")
        failed: list[Report] = []
        async with asyncio.timeout(30):
            while not failed:
                await asyncio.sleep(0.005)
                failed = [report for report in made.reports if report.error is not None]
        assert [(report.seq, report.offset) for report in failed] == [(UNDER_WAY_MAX + 2, None)]
        assert "the queue is full" in str(failed[0].error)
