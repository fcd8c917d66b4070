"""The producers of leadership terms: one librdkafka producer per term, never used again.

Settings and life follow from what librdkafka really does. A timed-out or permanently refused entry would be skipped
and its successors delivered, hence `message.timeout.ms=0` and `enable.gapless.guarantee`. A new idempotent producer
asks for its producer id only after half a second, hence spare ones are kept ready. `close()` and `flush()` wait
without a limit, hence neither is ever called: an abandoned producer is purged, polled for at most a second, and its
last reference dropped in a thread of its own. It sends only while fewer than five messages are in flight, hence the others wait
in an `InFlightWindow`.
Its reports are taken by the event loop itself, which waits for a descriptor (`librdkafka`); where there is none a thread waits.

Invariants: reports of a term come in the order librdkafka gives them, each exactly once, never after `abandon`; one for an entry
that waited and was refused then may come before those of entries under way;
the event loop never waits for the network here.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaException, Producer

from coordinator.adapters.kafka.bridge import post, wait_for_end
from coordinator.adapters.kafka.producing.broker_threads import BrokerThreads
from coordinator.adapters.kafka.producing.entry_clients import CallbackClient, DirectClient, EntryClient
from coordinator.adapters.kafka.producing.entry_load import EntryLoad
from coordinator.adapters.kafka.producing.in_flight_window import InFlightWindow
from coordinator.adapters.kafka.producing.librdkafka import ReportSignal, is_usable
from coordinator.adapters.kafka.settings import Properties, client_properties
from coordinator.adapters.kafka.stats import KafkaStats
from coordinator.core.events import NewEntry
from coordinator.runtime.ports import ProduceRefused, Report

LOG = logging.getLogger("coordinator.kafka.producer")

POLL_S = 1.0
"""How long a poll thread blocks when nothing is reported; reports wake it at once."""
PURGE_POLL_S = 1.0
"""How long the reports of a purge are waited for."""
STATISTICS_INTERVAL_MS = 1_000
"""Only the statistics say that the producer id was fetched. Making and taking them costs an idle process 0.2 ms for each spare."""
SPARES = 4
"""One made on demand costs its partition half a second; each spare one costs a few threads that sleep."""
SPARE_RETRY_DELAY_S = 1.0
REAP_RETRY_S = 1.0
METADATA_TIMEOUT_S = 3.0

OnReports = Callable[[Sequence[Report]], None]


class KafkaTermProducer:
    """One producer: a spare first, then the producer of one term."""

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        topic: str,
        properties: Properties,
        stats: KafkaStats,
        load: EntryLoad,
        is_signalling: bool,
    ) -> None:
        self._loop = loop
        self._load = load
        self._topic = topic
        self._stats = stats
        self._partition = -1
        self._on_reports: OnReports | None = None
        self._window = InFlightWindow[NewEntry]()  # loop only
        self._reports: deque[Report] = deque()
        self._drain_due = False
        self._abandoned = False
        self._id_fetched = threading.Event()
        self._producer: Producer | None = Producer({**properties, "stats_cb": self.on_statistics})
        self._client: EntryClient | None = (
            DirectClient(self._producer, topic, properties, self, stats)
            if is_signalling
            else CallbackClient(self._producer, topic, self, stats)
        )
        self._poller: threading.Thread | None = None
        if self._client.signal is not None:
            post(loop, self._watch, self._client.signal)
        else:
            self._poller = threading.Thread(target=self._poll, name="kafka-producer-poll", daemon=True)
            self._poller.start()
        self._reaper: threading.Thread | None = None
        stats.producers_made += 1

    # ---- on the loop

    @property
    def is_ready(self) -> bool:
        """The producer id is fetched: the first entry costs one round trip, not half a second more."""
        return self._id_fetched.is_set()

    def bind(self, partition: int, on_reports: OnReports) -> None:
        """Make this spare the producer of a term."""
        assert self._on_reports is None, "a producer serves one term only"
        self._partition = partition
        self._on_reports = on_reports

    def produce(self, entries: Sequence[NewEntry]) -> None:
        """Hand the entries of a group over. Raises `ProduceRefused` when some were definitely not sent.

        Those that have to wait and are refused then are reported as not delivered.
        """
        if self._abandoned:
            raise ProduceRefused(f"the producer of partition {self._partition} was abandoned")
        self._window.add(entries)
        self._send_waiting()

    def _send_waiting(self) -> None:
        """Hand over the entries that may leave now. Raises `ProduceRefused`; nothing is sent after a refused entry."""
        entries = self._window.take()
        if not entries:
            return
        try:
            # One call for all of them, so that they travel in few requests: one by one, the first would leave alone.
            self._hand_over(entries)
        except ProduceRefused:
            self._window.refused(entries)
            raise

    def _hand_over(self, entries: Sequence[NewEntry]) -> None:
        assert self._client is not None, "an abandoned producer sends nothing"
        self._load.handing_over(len(entries))
        self._client.send(self._partition, entries)

    def _send_next(self) -> None:
        """Hand over the entries that may leave after reports."""
        first = self._window.first_waiting
        if first is None:
            return
        try:
            self._send_waiting()
        except ProduceRefused as refused:
            self._reports.append(Report(first.seq, None, str(refused)))
            self._wake_loop()

    def abandon(self) -> None:
        """End at once; entries under way may or may not land. No report follows (idempotent)."""
        if self._abandoned:
            return
        self._abandoned = True
        self._window.clear()
        self._reports.clear()
        self._stats.producers_abandoned += 1
        self._start_reaper()

    def _start_reaper(self) -> None:
        reaper = threading.Thread(target=self._reap, name="kafka-producer-end", daemon=True)
        try:
            reaper.start()
        except RuntimeError as error:
            # The process may have no more threads now. The producer is kept until it can be ended: here that would block the loop.
            LOG.warning("the producer of partition %d is ended later: %s", self._partition, error)
            self._loop.call_later(REAP_RETRY_S, self._start_reaper)
        else:
            self._reaper = reaper

    async def ended(self, timeout_s: float) -> bool:
        """Wait until an abandoned producer is destroyed; False when it was not within `timeout_s`."""
        return self._reaper is not None and await wait_for_end(self._reaper, timeout_s)

    def _drain(self) -> None:
        self._drain_due = False
        if self._abandoned or self._on_reports is None:
            return
        reports = self._reports
        # The poll thread may append meanwhile: those wake the loop again, because the flag is down already.
        batch = [reports.popleft() for _ in range(len(reports))]
        reported = sum([report.entries for report in batch])
        self._window.reported(reported)
        # An entry that was not delivered ends the term, so later entries need not be sent.
        if not any(report.error for report in batch):
            self._send_next()
        if batch:
            self._stats.report_wakeups += 1
            self._stats.reports += reported
            self._on_reports(batch)

    # ---- taking reports: on the loop, or in the poll thread

    def _watch(self, signal: ReportSignal) -> None:
        self._loop.add_reader(signal.fd, self._on_signal, signal)
        self._on_signal(signal)  # what came before there was a signal is not signalled

    def _unwatch(self, signal: ReportSignal) -> None:
        self._loop.remove_reader(signal.fd)
        signal.close()

    def _on_signal(self, signal: ReportSignal) -> None:
        signal.clear()
        if self._abandoned:
            return  # the thread that ends the producer takes the others
        assert self._client is not None
        self._client.take(0)
        if self._reports:
            self._drain()

    def _poll(self) -> None:
        client = self._client
        assert client is not None
        while not self._abandoned:
            client.take(POLL_S)
            self._wake_loop()

    def on_report(self, report: Report) -> None:
        """Librdkafka has a report: called in `take`."""
        if not self._abandoned:
            self._reports.append(report)

    def _wake_loop(self) -> None:
        if self._reports and not self._drain_due:
            self._drain_due = True
            post(self._loop, self._drain)

    def on_statistics(self, text: str) -> None:
        """Librdkafka has statistics: called in `take`."""
        if not self._id_fetched.is_set() and json.loads(text).get("eos", {}).get("idemp_state") == "Assigned":
            self._id_fetched.set()

    # ---- preparing and ending, in threads that may wait

    def prepare(self, give_up: Callable[[], bool]) -> None:
        """Fetch metadata and wait for the producer id, until `give_up`. Raises `KafkaException`."""
        producer = self._producer
        assert producer is not None
        producer.list_topics(self._topic, timeout=METADATA_TIMEOUT_S)
        while not self._id_fetched.wait(0.2):
            if give_up() or self._abandoned:
                return
        self._stats.producers_ready += 1

    def _reap(self) -> None:
        producer, client = self._producer, self._client
        assert producer is not None
        assert client is not None
        try:
            producer.purge(in_queue=True, in_flight=True, blocking=False)
        except KafkaException as error:
            LOG.warning("purging the producer of partition %d failed: %s", self._partition, error)
        end_s = time.monotonic() + PURGE_POLL_S
        while len(producer) and time.monotonic() < end_s:
            client.take(0.05)
        if self._poller is not None:
            self._poller.join()
        signal = client.signal
        client.let_go()
        # The last references: the client is destroyed in this thread, which may wait.
        self._producer = self._client = None
        del producer, client
        if signal is not None and not post(self._loop, self._unwatch, signal):
            signal.close()
        self._stats.producers_destroyed += 1


class KafkaTermProducers:
    """Hands out term producers and keeps some spares ready: a fail-over often brings several partitions at once."""

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        bootstrap_servers: str,
        topic: str,
        client_id: str,
        message_max_bytes: int,
        kafka_properties: Mapping[str, Any] | None = None,
        report_signals: bool = False,
        stats: KafkaStats | None = None,
        on_load: Callable[[bool], None] = lambda is_heavy: None,
    ) -> None:
        """`message_max_bytes` is the topic's `max.message.bytes`: a larger limit makes merged requests fail.

        With `report_signals` reports come by signals (`report_signal`) as soon as those are proven to work. With them `on_load` is told
        on the loop when entries begin to leave by many (`EntryLoad`), and when they do not any more.
        """
        self._loop = loop
        self._topic = topic
        self.stats = stats if stats is not None else KafkaStats()
        self._properties = client_properties(
            bootstrap_servers=bootstrap_servers,
            client_id=client_id,
            role="producer",
            defaults={"queue.buffering.max.messages": 200_000, "queue.buffering.max.kbytes": 524_288},
            fixed={
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 0,
                "message.timeout.ms": 0,
                "enable.gapless.guarantee": True,
                "message.max.bytes": message_max_bytes,
                "compression.type": "none",
                "statistics.interval.ms": STATISTICS_INTERVAL_MS,
            },
            user=kafka_properties or {},
            stats=self.stats,
        )
        self._report_signals = report_signals
        self.is_signalling = False
        """New producers report by signals; else each has a thread."""
        self._threads = BrokerThreads()
        self._on_load = on_load
        self._load = EntryLoad(loop, self._load_changed)
        self._condition = threading.Condition()
        self._spares: deque[KafkaTermProducer] = deque()  # shared, under the condition; the oldest first
        self._closing = False
        self._open: list[KafkaTermProducer] = []  # loop only
        self._maker = threading.Thread(target=self._make_spares, name="kafka-producer-spare", daemon=True)

    def start(self) -> None:
        """Start making the spare producers."""
        self._maker.start()

    @property
    def is_spare_ready(self) -> bool:
        """Note that a spare is ready, with its producer id fetched."""
        spares = self._spares
        return bool(spares) and spares[0].is_ready

    def open(self, partition: int, on_reports: OnReports) -> KafkaTermProducer:
        """Hand out a spare, or a new producer when none is ready; never waits."""
        with self._condition:
            producer = self._spares.popleft() if self._spares else None
            self._condition.notify_all()
        if producer is None:
            producer = self._new_producer()
        if not producer.is_ready:
            self.stats.producers_opened_unready += 1
        producer.bind(partition, on_reports)
        self.stats.producers_opened += 1
        self._open = [item for item in self._open if not item._abandoned]
        self._open.append(producer)
        return producer

    async def close(self, timeout_s: float = 5.0) -> bool:
        """Abandon every producer; False when one was not destroyed in time (its threads are daemons)."""
        with self._condition:
            self._closing = True
            producers = [*self._open, *self._spares]
            self._spares.clear()
            self._condition.notify_all()
        end_s = time.monotonic() + timeout_s
        for producer in producers:
            producer.abandon()
        has_ended = await wait_for_end(self._maker, timeout_s)
        with self._condition:
            made_late = [*self._spares]
        for producer in made_late:
            producer.abandon()
        ended = [await producer.ended(max(0.0, end_s - time.monotonic())) for producer in (*producers, *made_late)]
        return has_ended and all(ended)

    def _load_changed(self, is_heavy: bool) -> None:
        self._threads.wait(is_heavy)
        if self.is_signalling:
            # Without signals threads take the reports, and a heavy load would make them wait for the interpreter longer.
            self._on_load(is_heavy)

    def _new_producer(self) -> KafkaTermProducer:
        return KafkaTermProducer(
            loop=self._loop,
            topic=self._topic,
            properties=self._properties,
            stats=self.stats,
            load=self._load,
            is_signalling=self.is_signalling,
        )

    # ---- in the maker thread

    def _make_spares(self) -> None:
        if self._report_signals:
            self.is_signalling = is_usable()
            if not self.is_signalling:
                LOG.warning("this version of confluent-kafka gives no signals here: reports come by threads, a little later")
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._closing or len(self._spares) < SPARES)
                if self._closing:
                    return
            try:
                self._make_spare()
            except Exception:
                # Without a spare the next term starts half a second later; nothing else breaks.
                self.stats.producer_failures += 1
                LOG.exception("no spare producer could be made; tried again in %.1f s", SPARE_RETRY_DELAY_S)
                with self._condition:
                    self._condition.wait_for(lambda: self._closing, SPARE_RETRY_DELAY_S)

    def _make_spare(self) -> None:
        spare = self._new_producer()
        with self._condition:
            # A spare is handed out even before it is ready: a term that needs it now is still faster with it than with a new one. One that
            # comes too late is here too: its reports are taken on the loop, which alone may abandon it (`close`).
            self._spares.append(spare)
        while self._is_spare(spare):
            try:
                spare.prepare(give_up=lambda: not self._is_spare(spare))
                return
            except KafkaException as error:
                self.stats.producer_failures += 1
                LOG.info("the spare producer is not ready yet: %s", error)
                with self._condition:
                    self._condition.wait_for(lambda: spare not in self._spares, SPARE_RETRY_DELAY_S)

    def _is_spare(self, producer: KafkaTermProducer) -> bool:
        with self._condition:
            return producer in self._spares and not self._closing
