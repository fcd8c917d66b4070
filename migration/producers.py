"""The last batches of each idempotent producer, from the headers of a log that is read backwards.

A producer has at most five batches in flight, so a retry is of one of its last five: these a partition remembers, Kafka's as ours.
A producer begins with sequence 0 in each epoch, and what it wrote in older epochs is forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from coordinator.client.model import SeededBatch, SeededProducer
from migration.classic import ProducerBatches
from records.record_batch import BatchHeader, TimestampType

BATCHES_REMEMBERED: Final = 5


class LastBatches:
    """Collects batches of the producers that the partition's leader remembers, given with their epochs."""

    def __init__(self, epochs: Mapping[int, int]) -> None:
        self._epochs = dict(epochs)
        self._found: dict[int, list[SeededBatch]] = {producer_id: [] for producer_id in epochs}
        self._open = set(epochs)

    @property
    def is_complete(self) -> bool:
        """Whether nothing that stands further back in the log can add to what was found."""
        return not self._open

    def add_older(self, headers: Sequence[BatchHeader]) -> None:
        """Take the headers of a piece of the log, which ends where the piece taken before begins."""
        for header in reversed(headers):
            producer_id = header.producer_id
            if producer_id not in self._open:
                continue
            if header.producer_epoch != self._epochs[producer_id]:
                self._open.discard(producer_id)
            elif not header.is_control and header.base_sequence >= 0:
                found = self._found[producer_id]
                found.append(_batch(header))
                if header.base_sequence == 0 or len(found) == BATCHES_REMEMBERED:
                    self._open.discard(producer_id)

    def result(self, *, is_whole_log: bool) -> ProducerBatches:
        """Return what was found; `is_whole_log` when the first piece of the log was taken, too."""
        seeds = (
            SeededProducer(producer_id=producer_id, producer_epoch=self._epochs[producer_id], batches=tuple(reversed(batches)))
            for producer_id, batches in sorted(self._found.items())
            if batches
        )
        return ProducerBatches(producers=tuple(seeds), unread=() if is_whole_log else tuple(sorted(self._open)))


def _batch(header: BatchHeader) -> SeededBatch:
    append_time_ms = header.max_timestamp_ms if header.timestamp_type is TimestampType.LOG_APPEND_TIME else -1
    return SeededBatch(header.base_sequence, header.last_sequence, header.base_offset, header.last_offset, append_time_ms)
