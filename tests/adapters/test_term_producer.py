"""What a term's producer hands to librdkafka at once and what it keeps, against librdkafka's own broker for tests."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from weakref import WeakKeyDictionary

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition, cimpl

from coordinator.adapters.kafka.producing.entry_clients import MESSAGES_AT_ONCE, CallbackClient, DirectClient, EntryClientListener
from coordinator.adapters.kafka.producing.entry_load import SWITCH_AFTER
from coordinator.adapters.kafka.producing.in_flight_window import FEW_MAX, IN_FLIGHT_MAX
from coordinator.adapters.kafka.producing.librdkafka import ReportSignal, handle_of
from coordinator.adapters.kafka.producing.producer import KafkaTermProducers
from coordinator.adapters.kafka.settings import Properties
from coordinator.adapters.kafka.stats import KafkaStats
from coordinator.core.events import NewEntry
from coordinator.runtime.ports import ProduceRefused, Report
from records.entry_key import EntryKey, encode_key
from simulation.fakes.reports import noted_in
from tests.waiting import until

PRODUCE_API_KEY = 0
ROUND_TRIP_MS = 150
"""Long enough for everything that a test hands over meanwhile, and short enough for a test."""


@pytest.fixture(params=["signal", "thread"])
def signals(request: pytest.FixtureRequest) -> bool:
    """Reports come by the event loop itself, or by a thread."""
    return bool(request.param == "signal")


class Watched:
    """A client of librdkafka that tells what is handed over to a world."""

    world: World | None = None
    handle: int
    signal: ReportSignal | None

    def told(self, entries: Sequence[NewEntry]) -> None:
        if self.world is not None:
            self.world.note(entries)


class WatchedDirect(DirectClient, Watched):
    """Reports come by signals."""

    def __init__(self, producer: Producer, topic: str, properties: Properties, listener: EntryClientListener, stats: KafkaStats) -> None:
        super().__init__(producer, topic, properties, listener, stats)
        self.handle = handle_of(producer)
        CLIENTS[listener] = self

    def send(self, partition: int, entries: Sequence[NewEntry]) -> None:
        self.told(entries)
        super().send(partition, entries)


class WatchedCallback(CallbackClient, Watched):
    """Reports come by a thread."""

    def __init__(self, producer: Producer, topic: str, listener: EntryClientListener, stats: KafkaStats) -> None:
        super().__init__(producer, topic, listener, stats)
        self.handle = handle_of(producer)
        CLIENTS[listener] = self

    def send(self, partition: int, entries: Sequence[NewEntry]) -> None:
        self.told(entries)
        super().send(partition, entries)


CLIENTS: WeakKeyDictionary[EntryClientListener, Watched] = WeakKeyDictionary()
"""By producer."""


@pytest.fixture(autouse=True)
def watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Producers have clients that tell."""
    monkeypatch.setattr("coordinator.adapters.kafka.producing.producer.DirectClient", WatchedDirect)
    monkeypatch.setattr("coordinator.adapters.kafka.producing.producer.CallbackClient", WatchedCallback)


class World:
    """A producer that leads, what was handed to librdkafka in each call, and the reports."""

    def __init__(self, producers: KafkaTermProducers) -> None:
        self.stats = producers.stats
        self.told: list[Report] = []
        reports: list[Report] = []
        note = noted_in(reports)

        def on_reports(told: Sequence[Report]) -> None:
            self.told.extend(told)
            note(told)

        self.producer = producers.open(0, on_reports)
        self.client = CLIENTS[self.producer]
        self.reports = reports
        self.calls: list[int] = []
        self.refusal: Exception | None = None
        self._seq = 0
        self.client.world = self

    def note(self, entries: Sequence[NewEntry]) -> None:
        """Entries are handed to librdkafka. Raises the refusal."""
        if self.refusal is not None:
            raise self.refusal
        self.calls.append(len(entries))

    def group(self, size: int) -> None:
        """Produce so many entries."""
        entries = [NewEntry(seq, encode_key(EntryKey(1, 2, seq)), b"value") for seq in range(self._seq, self._seq + size)]
        self._seq += size
        self.producer.produce(entries)

    def answer_next_produce(self, error: int) -> None:
        """Let librdkafka's own broker answer the next produce request with an error of Kafka."""
        library = self._mock_functions()
        cluster = self._cluster(library)
        errors = (ctypes.c_int * 1)(error)
        library.rd_kafka_mock_push_request_errors_array(cluster, ctypes.c_int16(PRODUCE_API_KEY), ctypes.c_size_t(1), errors)

    def _mock_functions(self) -> ctypes.CDLL:
        library = ctypes.CDLL(cimpl.__file__)
        library.rd_kafka_handle_mock_cluster.argtypes = [ctypes.c_void_p]
        library.rd_kafka_handle_mock_cluster.restype = ctypes.c_void_p
        return library

    def _cluster(self, library: ctypes.CDLL) -> ctypes.c_void_p:
        return ctypes.c_void_p(library.rd_kafka_handle_mock_cluster(self.client.handle))

    def read(self, count: int) -> list[tuple[bytes | None, bytes | None]]:
        """Keys and values of the first entries, as librdkafka's own broker has them."""
        library = self._mock_functions()
        library.rd_kafka_mock_cluster_bootstraps.argtypes = [ctypes.c_void_p]
        library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
        servers = library.rd_kafka_mock_cluster_bootstraps(self._cluster(library)).decode()
        consumer = Consumer({"bootstrap.servers": servers, "group.id": "g", "auto.offset.reset": "earliest", "log_level": 0})
        consumer.assign([TopicPartition("t", 0, 0)])
        try:
            messages = consumer.consume(count, 60)
            return [(message.key(), message.value()) for message in messages]
        finally:
            consumer.close()

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait for it."""
        await until(condition, "the producer")

    async def reported(self) -> None:
        """Wait until every entry is, well and in order."""
        await self.until(lambda: len(self.reports) >= self._seq)
        assert self.reports == [Report(seq, seq, None) for seq in range(self._seq)]


class SlowMaking(KafkaStats):
    """Holds the thread that has made a producer."""

    def __init__(self) -> None:
        super().__init__()
        self.is_made, self.may_go_on = threading.Event(), threading.Event()

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        if name == "producers_made" and value:
            self.is_made.set()
            self.may_go_on.wait(60)


def producers_of(
    signals: bool,
    properties: dict[str, int],
    servers: str = "made by librdkafka",
    stats: KafkaStats | None = None,
    on_load: Callable[[bool], None] = lambda is_heavy: None,
) -> KafkaTermProducers:
    return KafkaTermProducers(
        loop=asyncio.get_running_loop(),
        bootstrap_servers=servers,
        topic="t",
        client_id="c",
        message_max_bytes=1_048_588,
        kafka_properties=properties,
        report_signals=signals,
        stats=stats,
        on_load=on_load,
    )


@asynccontextmanager
async def world(signals: bool, on_load: Callable[[bool], None] = lambda is_heavy: None) -> AsyncIterator[World]:
    """A term whose first entry is acknowledged."""
    producers = producers_of(signals, {"test.mock.num.brokers": 1, "test.mock.broker.rtt": ROUND_TRIP_MS}, on_load=on_load)
    if signals:
        producers.start()
        await until(lambda: producers.is_signalling, "signals")
    made = World(producers)
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


async def test_a_load_is_heavy_while_entries_leave_by_many_and_no_thread_takes_reports(signals: bool) -> None:
    said: list[bool] = []
    heavy, light = ([True], [True, False]) if signals else ([], [])
    async with world(signals, said.append) as made:
        for _ in range(SWITCH_AFTER):
            assert said == []
            made.group(FEW_MAX + 1)
            await made.reported()
        assert made.calls == [FEW_MAX + 1] * SWITCH_AFTER
        assert said == heavy
        for _ in range(SWITCH_AFTER):
            made.group(1)
            await made.reported()
        assert said == light


async def test_what_waits_for_an_abandoned_producer_is_never_sent(signals: bool) -> None:
    async with world(signals) as made:
        made.group(IN_FLIGHT_MAX)
        made.group(2)
        made.producer.abandon()
        assert await made.producer.ended(10)
        assert made.calls == [IN_FLIGHT_MAX]
        assert [report.seq for report in made.reports] == [0]


async def test_an_abandoned_producer_ends_when_the_process_may_have_a_thread_again(signals: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    start, refused = threading.Thread.start, []

    def refuse_once(thread: threading.Thread) -> None:
        if thread.name == "kafka-producer-end" and not refused:
            refused.append(thread)
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse_once)
    async with world(signals) as made:
        made.group(1)
        made.producer.abandon()
        assert not await made.producer.ended(0)
        await made.until(lambda: made.stats.producers_destroyed == 1)
        assert await made.producer.ended(10)
    assert len(refused) == 1


async def test_what_waited_and_is_refused_then_is_reported_as_not_delivered(signals: bool) -> None:
    async with world(signals) as made:
        made.group(IN_FLIGHT_MAX)
        made.group(2)
        made.refusal = ProduceRefused("the queue is full")
        await made.until(lambda: any(report.error is not None for report in made.reports))
        failed = [report for report in made.reports if report.error is not None]
        assert [(report.seq, report.offset) for report in failed] == [(IN_FLIGHT_MAX + 1, None)]
        assert "the queue is full" in str(failed[0].error)


async def test_behind_entries_that_are_refused_nothing_is_sent(signals: bool) -> None:
    async with world(signals) as made:
        made.group(IN_FLIGHT_MAX - 1)
        made.refusal = ProduceRefused("the queue is full")
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


@pytest.mark.parametrize("count", [3, 100, 2 * MESSAGES_AT_ONCE + 1])
async def test_no_place_is_made_up_for_the_entries_of_such_a_request(signals: bool, count: int) -> None:
    async with world(signals) as made:
        made.answer_next_produce(KafkaError.DUPLICATE_SEQUENCE_NUMBER)
        made.group(count)
        await made.until(lambda: len(made.reports) == 1 + count)
        offsets = [report.offset for report in made.reports[1:]]
        # librdkafka may send some entries behind that request, by others: the broker has the claim and these.
        untold = offsets.count(None)
        assert untold >= 1
        assert offsets == [None] * untold + list(range(1, count - untold + 1))


async def test_many_entries_that_travel_together_are_told_in_few_reports(signals: bool) -> None:
    async with world(signals) as made:
        made.group(2 * MESSAGES_AT_ONCE + 1)
        await made.reported()
        assert len(made.told) == 2 * MESSAGES_AT_ONCE + 2 if not signals else len(made.told) <= 8
        assert sum(report.entries for report in made.told) == len(made.reports) == made.stats.reports


async def test_an_entry_that_the_broker_refuses_is_reported_and_so_is_the_end_of_the_producer(signals: bool) -> None:
    async with world(signals) as made:
        made.answer_next_produce(KafkaError.TOPIC_AUTHORIZATION_FAILED)
        made.group(1)
        await made.until(lambda: len(made.reports) == 2)
        text = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED).str()
        assert made.reports[1] == Report(1, None, f"TOPIC_AUTHORIZATION_FAILED: {text}")
        assert made.stats.report_errors["TOPIC_AUTHORIZATION_FAILED"] == 1
        await made.until(lambda: any(name.startswith("fatal:") for name in made.stats.report_errors))


async def test_an_entry_that_is_too_large_is_refused_by_its_place(signals: bool) -> None:
    async with world(signals) as made:
        entries = [NewEntry(seq, encode_key(EntryKey(1, 2, seq)), bytes(size)) for seq, size in ((1, 10), (2, 2_000_000), (3, 10))]
        with pytest.raises(ProduceRefused, match=r"entry 2 of partition 0 \(2000000 bytes\): .*MSG_SIZE_TOO_LARGE"):
            made.producer.produce(entries)


async def test_the_bytes_of_entries_are_those_that_were_given(signals: bool) -> None:
    values = [b"", b"\0", bytes(range(256)) * 100, b"", b"the last"]
    async with world(signals) as made:
        entries = [NewEntry(seq, encode_key(EntryKey(1, 2, seq)), value) for seq, value in enumerate(values, 1)]
        made.producer.produce(entries)
        await made.until(lambda: len(made.reports) == 1 + len(values))
        assert made.read(1 + len(values))[1:] == [(key, value) for _, key, value in entries]


async def test_what_a_client_says_of_itself_is_logged_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "coordinator.kafka.client")
    made = producers_of(True, {}, "127.0.0.1:1")
    made.start()
    try:
        await until(lambda: made.stats.client_errors["producer:_ALL_BROKERS_DOWN"] and "127.0.0.1:1" in caplog.text, "the client's words")
        assert "FAIL [c" in caplog.text
    finally:
        assert await made.close(10)


async def test_an_abandoned_producer_leaves_no_descriptor_behind(signals: bool) -> None:
    async with world(signals) as made:
        made.group(1)
        signal = made.client.signal
        made.producer.abandon()
        assert await made.producer.ended(10)
        assert made.stats.producers_destroyed == 1
        if signal is not None:
            await made.until(lambda: not Path(f"/proc/self/fd/{signal.fd}").exists())


async def test_a_spare_learns_of_its_producer_id_while_the_loop_waits_for_nothing_else(signals: bool) -> None:
    async with world(signals) as made:
        await made.until(lambda: made.producer.is_ready)


async def test_a_producer_that_is_being_made_is_ended_with_the_others(signals: bool) -> None:
    stats = SlowMaking()
    producers = producers_of(signals, {"test.mock.num.brokers": 1}, stats=stats)
    producers.start()
    await until(stats.is_made.is_set, "the client to be made in another thread")
    closing = asyncio.ensure_future(producers.close(60))
    await asyncio.sleep(0)
    stats.may_go_on.set()
    assert await closing
    assert stats.producers_destroyed == stats.producers_made == 1
