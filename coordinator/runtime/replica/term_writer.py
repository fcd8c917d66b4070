"""The entries of one replica on their way to Kafka: the producer of the term in force, and what its reports say of Kafka and of groups."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial

from coordinator.core.events import Append, Delivered, Event, NewEntry, OpenTerm, ProduceFailed
from coordinator.runtime.ports import ProduceRefused, Report, TermProducer
from coordinator.runtime.replica.broker_time import BrokerTime
from coordinator.runtime.replica.grouping import Grouping
from coordinator.runtime.replica.incoming import IncomingRequests
from coordinator.runtime.replica.recovery import Recovery
from coordinator.runtime.replica_config import ReplicaPorts

LOG = logging.getLogger("coordinator.replica")


class TermWriter:
    """Writes the terms of one replica, each with a producer of its own; `feed` tells the core what became of the entries."""

    def __init__(
        self,
        partition: int,
        ports: ReplicaPorts,
        *,
        grouping: Grouping,
        incoming: IncomingRequests,
        broker_time: BrokerTime,
        recovery: Recovery,
        feed: Callable[[Event], None],
    ) -> None:
        self._partition = partition
        self._producers = ports.producers
        self._grouping = grouping
        self._incoming = incoming
        self._broker_time = broker_time
        self._recovery = recovery
        self._telemetry = ports.telemetry
        self._loop = ports.loop
        self._feed = feed
        self._producer: TermProducer | None = None

    def open(self, effect: OpenTerm) -> None:
        """Begin a term with its claim."""
        self.close()
        try:
            self._producer = self._producers.open(self._partition, partial(self._on_reports, effect.term_id))
        except Exception as error:
            # Any error of the client and of the system: no files or threads left, a certificate that is being replaced. They pass.
            LOG.exception("no producer could be made partition=%d", self._partition)
            self._refused(effect.term_id, f"no producer could be made: {error!r}")
        else:
            self._produce(effect.term_id, [effect.claim])

    def append(self, effect: Append) -> None:
        """Produce the entries of a group."""
        self._grouping.started(effect.entries[-1].seq, self._loop.time())
        self._produce(effect.term_id, effect.entries)
        self._telemetry.group_appended(self._partition, len(effect.entries), sum([len(value) for _, _, value in effect.entries]))

    def close(self) -> None:
        """End the term, if there is one: its entries on their way are reported no longer."""
        self._grouping.clear()
        if self._producer is not None:
            self._producer.abandon()
            self._producer = None

    def _produce(self, term_id: int, entries: Sequence[NewEntry]) -> None:
        producer = self._producer
        if producer is None:
            return
        self._broker_time.produced(entries)
        try:
            producer.produce(entries)
        except ProduceRefused as refused:
            self._refused(term_id, str(refused))

    def _refused(self, term_id: int, reason: str) -> None:
        self._recovery.note_refusal(reason)
        self._loop.call_soon(self._feed, ProduceFailed(term_id, reason))

    def _on_reports(self, term_id: int, reports: Sequence[Report]) -> None:
        last_seq, now_s = reports[-1].seq, self._loop.time()
        starts_s = list(self._grouping.acknowledged(last_seq))
        error = next((report.error for report in reports if report.error is not None), None)
        if error is not None:
            self._recovery.note_refusal(error)
        elif last_seq > 0:
            self._recovery.forget_refusals()
        self._feed(Delivered(term_id, reports))
        if self._grouping.is_idle:
            self._incoming.end_spacing()
        # Clients wait for the answers, and not for this.
        for started_s in starts_s:
            self._telemetry.group_acknowledged(self._partition, now_s - started_s)
