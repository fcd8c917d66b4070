"""What of a request may be written: each partition is refused, or its batch becomes a row of a commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from coordinator.kafka.errors import ErrorCode
from coordinator.protocol.commit_file import BATCH
from gateway.ports import DisklessTopic
from gateway.produce.checks_loops import check_batches
from gateway.produce.faults import NO_TRANSACTIONS, BatchFault, PartitionRefusal, refusal_of
from gateway.produce.files import FilePart
from gateway.produce.request import PendingProduce, ProduceRequest
from gateway.produce.rules import RulesOfTopics, span_ms
from gateway.produce.wire_loops import TOPIC_IDS_FROM

_ACKS: Final = (-1, 0, 1)
_UNKNOWN_ID: Final = PartitionRefusal(ErrorCode.UNKNOWN_TOPIC_ID, "no diskless topic has this id")


class Admission:
    """Checks requests by the rules of their topics."""

    def __init__(self) -> None:
        self._rules = RulesOfTopics()

    def check(
        self, pending: PendingProduce, topics: Sequence[DisklessTopic | None], forbidden: frozenset[str], now_ms: int
    ) -> FilePart | None:
        """Refuse what is not lawful; return the rest, if any. `topics` are those of the request, None for unknown ones."""
        read = pending.request
        whole = _refusal_of_all(read)
        if whole is not None:
            pending.refuse(range(read.partition_count), whole)
            return None
        rows = _Rows(read.partition_count)
        for (_, _, _, first, stop), name, topic in zip(read.topics, read.names, topics, strict=True):
            refusal = _refusal_of_topic(read, name, topic, forbidden)
            if refusal is not None or topic is None:
                pending.refuse(range(first, stop), refusal or _UNKNOWN_ID)
            else:
                self._check_topic(pending, topic, first, stop, rows, now_ms)
        return rows.part(pending)

    def _check_topic(self, pending: PendingProduce, topic: DisklessTopic, first: int, stop: int, rows: _Rows, now_ms: int) -> None:
        read, rules = pending.request, self._rules.of(topic)
        span = span_ms(rules, now_ms)
        partitions = min(topic.partitions, len(topic.coordinators))
        faults: list[tuple[int, int, int, int]] = []
        bad_records: list[tuple[int, int, int]] = []
        before = rows.count
        rows.count = check_batches(
            read.data,
            read.spans,
            first,
            stop,
            read.version,
            topic.topic_id,
            partitions,
            rules.bytes_max,
            rules.is_log_append_time,
            *span,
            memoryview(rows.rows),
            before,
            rows.starts.data,
            rows.places.data,
            faults,
            bad_records,
        )
        new = slice(before, rows.count)
        rows.coordinators[new] = [topic.coordinators[read.spans[3 * place]] for place in rows.places[new].tolist()]
        if faults:
            _refuse_faults(pending, topic.name, faults, bad_records, span)
        if rows.count - before + len(faults) < stop - first:
            missing = [place for place in range(first, stop) if not 0 <= read.spans[3 * place] < partitions]
            pending.refuse(missing, _unknown(topic.name))


class _Rows:
    """Room for the rows of a request, and what is beside them."""

    def __init__(self, count: int) -> None:
        self.rows = bytearray(count * BATCH.itemsize)
        self.starts, self.places, self.coordinators = (np.empty(count, np.int64) for _ in range(3))
        self.count = 0

    def part(self, pending: PendingProduce) -> FilePart | None:
        """Return the rows as a part of a request; None if there are none."""
        count = self.count
        if count == 0:
            return None
        rows, places, spans = np.frombuffer(self.rows, BATCH, count), self.places[:count], pending.request.spans
        # A lawful batch fills the records of its partition.
        size_bytes = sum([spans[3 * place + 2] for place in places.tolist()])
        return FilePart(pending, rows, self.starts[:count], places, self.coordinators[:count], size_bytes)


def _refusal_of_all(read: ProduceRequest) -> PartitionRefusal | None:
    """The refusal of a request as a whole."""
    if read.is_transactional:
        return PartitionRefusal(ErrorCode.INVALID_TXN_STATE, NO_TRANSACTIONS)
    if read.acks not in _ACKS:
        return PartitionRefusal(ErrorCode.INVALID_REQUIRED_ACKS, f"acks={read.acks}: -1 (all), 0 or 1 is allowed")
    return None


def _refusal_of_topic(
    read: ProduceRequest, name: str | bytes, topic: DisklessTopic | None, forbidden: frozenset[str]
) -> PartitionRefusal | None:
    if topic is None:
        return _UNKNOWN_ID if read.version >= TOPIC_IDS_FROM else _unknown(str(name))
    if topic.name in forbidden:
        return PartitionRefusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"no right to write to topic {topic.name}")
    return None


def _unknown(topic: str) -> PartitionRefusal:
    return PartitionRefusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no such partition of a diskless topic {topic}")


def _refuse_faults(
    pending: PendingProduce,
    topic: str,
    faults: Sequence[tuple[int, int, int, int]],
    bad_records: Sequence[tuple[int, int, int]],
    span: tuple[int, int],
) -> None:
    by_place: dict[int, list[tuple[int, int]]] = {}
    for place, record, timestamp in bad_records:
        by_place.setdefault(place, []).append((record, timestamp))
    for fault in map(BatchFault._make, faults):
        index = pending.request.spans[3 * fault.place]
        pending.refuse([fault.place], refusal_of(fault, topic, index, by_place.get(fault.place, ()), span))
