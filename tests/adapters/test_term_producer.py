"""What a term's producer hands to librdkafka at once and what it keeps, against librdkafka's own broker for tests."""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, cimpl

from coordinator.adapters.kafka.in_flight_window import FEW_MAX, IN_FLIGHT_MAX
from coordinator.adapters.kafka.producer import KafkaTermProducer, KafkaTermProducers
from coordinator.core.events import NewEntry
from coordinator.runtime.ports import ProduceRefused, Report
from coordinator.testing.reports import noted_in

PRODUCE_API_KEY = 0
ROUND_TRIP_MS = 150
"""Long enough for everything that a test hands over meanwhile, and short enough for a test."""


@pytest.fixture(params=["signal", "thread"])
def signals(request: pytest.FixtureRequest) -> bool:
    """Reports come by the event loop itself, or by a thread."""
    return bool(request.param == "signal")


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

    def answer_next_produce(self, error: int) -> None:
        """Let librdkafka's own broker answer the next produce request with an error of Kafka."""
        library = ctypes.CDLL(cimpl.__file__)
        library.rd_kafka_handle_mock_cluster.argtypes = [ctypes.c_void_p]
        library.rd_kafka_handle_mock_cluster.restype = ctypes.c_void_p
        # The client's handle is the first field of its object, as for `report_signal`.
        handle = ctypes.c_void_p.from_address(id(self.producer._producer) + object.__basicsize__).value
        cluster = ctypes.c_void_p(library.rd_kafka_handle_mock_cluster(handle))
        errors = (ctypes.c_int * 1)(error)
        library.rd_kafka_mock_push_request_errors_array(cluster, ctypes.c_int16(PRODUCE_API_KEY), ctypes.c_size_t(1), errors)

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait for it."""
        async with asyncio.timeout(60):
            while not condition():  # noqa: ASYNC110 - the producer knows no events
                await asyncio.sleep(0.005)

    async def reported(self) -> None:
        """Wait until every entry is, well and in order."""
        await self.until(lambda: len(self.reports) >= self._seq)
        assert self.reports == [Report(seq, seq, None) for seq in range(self._seq)]


@asynccontextmanager
async def world(signals: bool) -> AsyncIterator[World]:
    """A term whose first entry is acknowledged."""
    producers = KafkaTermProducers(
        loop=asyncio.get_running_loop(),
        bootstrap_servers="made by librdkafka",
        topic="t",
        client_id="c",
        message_max_bytes=1_048_588,
        kafka_properties={"test.mock.num.brokers": 1, "test.mock.broker.rtt": ROUND_TRIP_MS},
        report_signals=signals,
    )
    if signals:
        producers.start()
        async with asyncio.timeout(60):
            while not producers.is_signalling:  # noqa: ASYNC110 - the producers know no events
                await asyncio.sleep(0.005)
    reports: list[Report] = []
    made = World(producers.open(0, noted_in(reports)), reports)
    made.group(1)
    await made.reported()
    made.calls.clear()
    try:
        yield made
    finally:
        assert await producers.close(10)


async def test_few_leave_at_once_as_long_as_librdkafka_sends_at_once(signals: bool) -> None:
    async with world(signals) as made:
        for _ in range(IN_FLIGHT_MAX):
            made.group(1)
        assert made.calls == [1] * IN_FLIGHT_MAX
        made.group(1)
        assert made.calls == [1] * IN_FLIGHT_MAX
        await made.reported()


async def test_a_few_entries_leave_by_fives(signals: bool) -> None:
    async with world(signals) as made:
        made.group(IN_FLIGHT_MAX + 3)
        assert made.calls == [IN_FLIGHT_MAX]
        for size in (1, 8):
            made.group(size)
        await made.reported()
        assert max(made.calls) == IN_FLIGHT_MAX


async def test_many_leave_in_one_call(signals: bool) -> None:
    async with world(signals) as made:
        made.group(FEW_MAX + 1)
        assert made.calls == [FEW_MAX + 1]
        made.group(1)
        for size in (8, FEW_MAX - 8):
            made.group(size)
        assert made.calls == [FEW_MAX + 1]
        await made.reported()
        assert made.calls == [FEW_MAX + 1, FEW_MAX + 1]


async def test_what_waits_for_an_abandoned_producer_is_never_sent(signals: bool) -> None:
    async with world(signals) as made:
        made.group(IN_FLIGHT_MAX)
        made.group(2)
        made.producer.abandon()
        assert await made.producer.ended(10)
        assert made.calls == [IN_FLIGHT_MAX]
        assert [report.seq for report in made.reports] == [0]


async def test_what_waited_and_is_refused_then_is_reported_as_not_delivered(signals: bool) -> None:
    async with world(signals) as made:
        made.group(IN_FLIGHT_MAX)
        made.group(2)
        made.refusal = BufferError("the queue is full")
        await made.until(lambda: any(report.error is not None for report in made.reports))
        failed = [report for report in made.reports if report.error is not None]
        assert [(report.seq, report.offset) for report in failed] == [(IN_FLIGHT_MAX + 1, None)]
        assert "the queue is full" in str(failed[0].error)


async def test_behind_entries_that_are_refused_nothing_is_sent(signals: bool) -> None:
    async with world(signals) as made:
        made.group(IN_FLIGHT_MAX - 1)
        made.refusal = BufferError("the queue is full")
        with pytest.raises(ProduceRefused, match="the queue is full"):
            made.group(3)
        made.refusal = None
        await made.until(lambda: len(made.reports) == IN_FLIGHT_MAX)
        assert made.calls == [IN_FLIGHT_MAX - 1]


async def test_a_repeated_request_that_the_broker_does_not_remember_is_reported_without_an_offset(signals: bool) -> None:
    async with world(signals) as made:
        made.answer_next_produce(KafkaError.DUPLICATE_SEQUENCE_NUMBER)
        made.group(1)
        await made.until(lambda: len(made.reports) == 2)
        assert made.reports[1] == Report(1, None, None)


async def test_an_abandoned_producer_leaves_no_descriptor_behind(signals: bool) -> None:
    async with world(signals) as made:
        made.group(1)
        signal = made.producer._signal
        made.producer.abandon()
        assert await made.producer.ended(10)
        assert made.producer._producer is None
        if signal is not None:
            await made.until(lambda: not Path(f"/proc/self/fd/{signal.fd}").exists())


async def test_a_spare_learns_of_its_producer_id_while_the_loop_waits_for_nothing_else(signals: bool) -> None:
    async with world(signals) as made:
        await made.until(lambda: made.producer.is_ready)
