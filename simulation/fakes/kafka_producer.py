"""The producers of the in-memory Kafka: entries land one after the other, and reports follow in order, unless a fault is injected.

Entries that are reported together and stand side by side have one report, as with the real producer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from coordinator.core.events import NewEntry
from coordinator.runtime.ports import ProduceRefused, Report
from simulation.fakes.kafka_log import Fate
from simulation.fakes.reports import joined

if TYPE_CHECKING:
    from simulation.fakes.kafka import FakeNode

FURTHER_ON_MAX = 5

OnReports = Callable[[Sequence[Report]], None]


@dataclass(slots=True)
class _Sent:
    seq: int
    key: bytes
    value: bytes
    fate: Fate


class FakeTermProducer:
    """`TermProducer`: a queue of entries that land one after the other, and reports that follow in order."""

    def __init__(self, node: FakeNode, partition: int, on_reports: OnReports) -> None:
        self._node = node
        self._kafka = node.kafka
        self._partition = partition
        self._on_reports = on_reports
        self._queue: deque[_Sent] = deque()
        self._reports: deque[Report] = deque()
        self._is_landing_due = False
        self._is_reporting_due = False
        self._no_report_before_s = 0.0
        self.is_abandoned = False
        self._kafka.register(self)

    def produce(self, entries: Sequence[NewEntry]) -> None:
        """Hand the entries of a group over. Raises `ProduceRefused`, after sending the others, as librdkafka does."""
        refusal: ProduceRefused | None = None
        for seq, key, value in entries:
            try:
                self._produce_one(seq, key, value)
            except ProduceRefused as refused:
                refusal = refusal if refusal is not None else refused
        if refusal is not None:
            raise refusal

    def _produce_one(self, seq: int, key: bytes, value: bytes) -> None:
        if self.is_abandoned or not self._node.is_up:
            raise ProduceRefused(f"the producer of partition {self._partition} was abandoned")
        limit = int(self._kafka.config["max.message.bytes"])
        if len(key) + len(value) + 72 > limit:
            raise ProduceRefused(f"entry {seq} of partition {self._partition} ({len(value)} bytes) exceeds max.message.bytes {limit}")
        faults = self._kafka.faults
        refusal = faults.refuse_produce(self._node.name, self._partition, seq)
        if refusal is not None:
            raise ProduceRefused(refusal)
        self._queue.append(_Sent(seq, key, value, faults.fate_of(self._node.name, self._partition, seq, value)))
        self.wake()

    def abandon(self) -> None:
        """End at once; a prefix of what is under way may still land. No report follows."""
        if self.is_abandoned:
            return
        self.is_abandoned = True
        self._reports.clear()
        keep = self._kafka.rng.randint(0, len(self._queue))
        while len(self._queue) > keep:
            self._queue.pop()
        if not self._queue:
            self._kafka.forget(self)
        self._kafka.on_producer("abandoned", self._partition)

    def wake(self) -> None:
        """Go on delivering when the network allows it."""
        kafka = self._kafka
        is_answered = kafka.is_available and self._partition not in kafka.unanswered
        if self._queue and not self._is_landing_due and is_answered and not self._node.is_held:
            self._is_landing_due = True
            self._kafka.loop.call_later(self._kafka.network_delay_s(), self._land)

    def _land(self) -> None:
        self._is_landing_due = False
        if not self._kafka.is_available or self._node.is_held or self._kafka.log(self._partition) is None:
            return
        # Several queued entries travel in one request, as with the real producer.
        for _ in range(self._kafka.rng.randint(1, len(self._queue)) if self._queue else 0):
            self._land_one(self._queue.popleft())
        if self._queue:
            self.wake()
        elif self.is_abandoned:
            self._kafka.forget(self)

    def _land_one(self, sent: _Sent) -> None:
        match sent.fate:
            case Fate.DELIVER:
                self._report(Report(sent.seq, self._append(sent), None))
            case Fate.DOUBLE:
                self._report(Report(sent.seq, self._append(sent), None))
                self._append(sent)
            case Fate.LOSE_REPORT:
                self._append(sent)
            case Fate.LATE_REPORT:
                self._no_report_before_s = self._kafka.loop.time() + self._kafka.faults.late_ms / 1000
                self._report(Report(sent.seq, self._append(sent), None))
            case Fate.NO_OFFSET:
                self._append(sent)
                self._report(Report(sent.seq, None, None))
            case Fate.FURTHER_ON:
                self._report(Report(sent.seq, self._append(sent) + self._kafka.rng.randint(1, FURTHER_ON_MAX), None))
            case Fate.FAIL_AFTER_LANDING:
                self._append(sent)
                self._report(Report(sent.seq, None, "_MSG_TIMED_OUT: injected"))
            case Fate.DROP:
                self._report(Report(sent.seq, None, "_MSG_TIMED_OUT: injected"))
            case Fate.DROP_SILENTLY:
                pass
            case Fate.LATE:
                self._kafka.loop.call_later(self._kafka.faults.late_ms / 1000, self._land_late, sent)

    def _land_late(self, sent: _Sent) -> None:
        if self._kafka.log(self._partition) is not None:
            self._report(Report(sent.seq, self._append(sent), None))

    def _append(self, sent: _Sent) -> int:
        return self._kafka.append(self._partition, sent.key, sent.value)

    def _report(self, report: Report) -> None:
        if self.is_abandoned or not self._node.is_up:
            return
        self._reports.append(report)
        if not self._is_reporting_due:
            self._is_reporting_due = True
            self._deliver_reports_later()

    def _deliver_reports_later(self) -> None:
        late_s = max(0.0, self._no_report_before_s - self._kafka.loop.time())
        self._kafka.loop.call_later(self._kafka.network_delay_s() + late_s, self._deliver_reports)

    def _deliver_reports(self) -> None:
        if self._kafka.loop.time() < self._no_report_before_s:
            self._deliver_reports_later()
            return
        self._is_reporting_due = False
        batch = joined(self._reports)
        self._reports.clear()
        if batch and not self.is_abandoned and self._node.is_up:
            self._on_reports(batch)


class FakeTermProducers:
    """`TermProducers`: every producer is ready at once."""

    def __init__(self, node: FakeNode) -> None:
        self._node = node
        self._opened: list[FakeTermProducer] = []

    @property
    def is_spare_ready(self) -> bool:
        """Always: nothing has to be fetched."""
        return True

    def start(self) -> None:
        """Do nothing; the pair of `close`."""

    async def close(self, timeout_s: float = 5.0) -> bool:
        """Abandon every producer."""
        self.stop()
        return True

    def open(self, partition: int, on_reports: OnReports) -> FakeTermProducer:
        """Hand out a producer for one term. Raises what `FakeKafka.on_producer` does."""
        self._node.kafka.on_producer("open", partition)
        self._opened = [producer for producer in self._opened if not producer.is_abandoned]
        producer = FakeTermProducer(self._node, partition, on_reports)
        self._opened.append(producer)
        return producer

    def stop(self) -> None:
        """Abandon every producer at once."""
        for producer in self._opened:
            producer.abandon()
