"""The batches of a `FileCommitted` spelled out again: what the columns mean, one value per batch.

Owns the meaning of every derived number (offsets, byte positions, timestamps, last sequences). Records must be
consistent (`records.file_checks`), as everything that `records.codec` decoded is; nothing here checks again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from records.model import FileCommitted

Int64s = npt.NDArray[np.int64]

NO_PRODUCER = -1
SEQUENCE_MODULUS = 2**31


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedBatches:
    """The accepted batches of a file in request order, one int64 array per field; `topic_index` points into `topic_ids`.

    Producer fields are -1 for batches that are not idempotent. `log_start` is the partition's log start at the commit.
    """

    run: Int64s
    topic_index: Int64s
    partition: Int64s
    log_start: Int64s
    base_offset: Int64s
    record_count: Int64s
    byte_offset: Int64s
    byte_size: Int64s
    timestamp_ms: Int64s
    timestamp_type: Int64s
    producer_id: Int64s
    producer_epoch: Int64s
    base_sequence: Int64s
    last_sequence: Int64s

    def __len__(self) -> int:
        return len(self.byte_size)


class CommittedBatch(NamedTuple):
    """One accepted batch, with the fields of `CommittedBatches`."""

    run: int
    topic_index: int
    partition: int
    log_start: int
    base_offset: int
    record_count: int
    byte_offset: int
    byte_size: int
    timestamp_ms: int
    timestamp_type: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    last_sequence: int


class RequestPlace(NamedTuple):
    """The outcome of one batch of the request: `ordinal` counts accepted batches, or else places in the `other_*` columns."""

    is_accepted: bool
    ordinal: int


def batch_count(record: FileCommitted) -> int:
    """Return how many batches the request had, accepted or not."""
    return len(record.byte_size) + len(record.other_index)


def request_order(record: FileCommitted) -> list[RequestPlace]:
    """Return what became of each batch of the request, in its order."""
    order: list[RequestPlace] = []
    place = 0
    for other, distance in enumerate(record.other_index):
        place += distance
        while len(order) < place:
            order.append(RequestPlace(True, len(order) - other))
        order.append(RequestPlace(False, other))
    others = len(record.other_index)
    order += (RequestPlace(True, index) for index in range(len(order) - others, len(record.byte_size)))
    return order


def iterate(record: FileCommitted) -> Iterator[CommittedBatch]:
    """Yield the accepted batches in request order; below about 20 of them this beats `expand`."""
    producers = _producer_of_batch(record)
    log_starts = record.run_log_start or [0] * len(record.run_topic)
    batch = byte_end = 0
    for run, length in enumerate(record.run_length):
        next_offset = record.run_base_offset[run]
        for index in range(batch, batch + length):
            count = record.record_count_minus_one[index] + 1
            byte_offset = byte_end + (record.byte_gap[index] if record.byte_gap else 0)
            byte_end = byte_offset + record.byte_size[index]
            producer = producers.get(index)
            base_sequence = NO_PRODUCER if producer is None else record.base_sequence[producer]
            yield CommittedBatch(
                run=run,
                topic_index=record.run_topic[run],
                partition=record.run_partition[run],
                log_start=log_starts[run],
                base_offset=next_offset,
                record_count=count,
                byte_offset=byte_offset,
                byte_size=record.byte_size[index],
                timestamp_ms=record.append_time_ms - record.timestamp_age[index],
                timestamp_type=record.timestamp_type[index] if record.timestamp_type else 0,
                producer_id=NO_PRODUCER if producer is None else record.producer_id[producer],
                producer_epoch=NO_PRODUCER if producer is None else record.producer_epoch[producer],
                base_sequence=base_sequence,
                last_sequence=NO_PRODUCER if producer is None else (base_sequence + count - 1) % SEQUENCE_MODULUS,
            )
            next_offset += count
        batch += length


def expand(record: FileCommitted) -> CommittedBatches:
    """Return the accepted batches in request order as arrays."""
    lengths = _array(record.run_length)
    run = np.repeat(np.arange(len(lengths)), lengths)
    sizes = _array(record.byte_size)
    counts = _array(record.record_count_minus_one) + 1
    byte_ends = np.cumsum(sizes)
    if record.byte_gap:
        byte_ends += np.cumsum(_array(record.byte_gap))
    # Offset within the file's batches, less what the run's first batch starts at: offset within the run.
    records_before = np.cumsum(counts) - counts
    run_starts = np.cumsum(lengths) - lengths
    base_offsets = records_before + (_array(record.run_base_offset) - records_before[run_starts])[run]
    producers = _expand_producers(record, counts)
    return CommittedBatches(
        run=run,
        topic_index=_array(record.run_topic)[run],
        partition=_array(record.run_partition)[run],
        log_start=_array(record.run_log_start)[run] if record.run_log_start else np.zeros(len(sizes), np.int64),
        base_offset=base_offsets,
        record_count=counts,
        byte_offset=byte_ends - sizes,
        byte_size=sizes,
        timestamp_ms=record.append_time_ms - _array(record.timestamp_age),
        timestamp_type=_array(record.timestamp_type) if record.timestamp_type else np.zeros(len(sizes), np.int64),
        producer_id=producers[0],
        producer_epoch=producers[1],
        base_sequence=producers[2],
        last_sequence=producers[3],
    )


def _array(column: list[int]) -> Int64s:
    return np.fromiter(column, np.int64, len(column))


def _expand_producers(record: FileCommitted, counts: Int64s) -> Int64s:
    """Producer id, epoch, base sequence and last sequence per batch, as the rows of one array."""
    fields = np.full((4, len(counts)), NO_PRODUCER, np.int64)
    if record.producer_index:
        batches = np.cumsum(_array(record.producer_index))
        base_sequences = _array(record.base_sequence)
        fields[0, batches] = _array(record.producer_id)
        fields[1, batches] = _array(record.producer_epoch)
        fields[2, batches] = base_sequences
        fields[3, batches] = (base_sequences + counts[batches] - 1) % SEQUENCE_MODULUS
    return fields


def _producer_of_batch(record: FileCommitted) -> dict[int, int]:
    """Map the accepted batch to its place in the producer columns."""
    places = {}
    batch = 0
    for producer, distance in enumerate(record.producer_index):
        batch += distance
        places[batch] = producer
    return places
