"""Steps of the moves of partitions decided at coordinators: what to log, and what to answer once it is logged.

A partition is released once, for good: the order is carried out to its end, or the topic is deleted. A repeated step logs nothing and is
answered as the first time; a delayed step of a move that is over is refused.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from coordinator.core.commands import OK, AdoptPartition, Outcome, ReleasedPartition, ReleasePartition
from coordinator.core.files.answers import unknown_partition
from coordinator.core.limits import Limits
from coordinator.core.moves import WHOLE
from coordinator.core.tables.in_memory import HotState
from coordinator.core.tables.stretches import fault_of_adoption, fault_of_producers, fault_of_release
from coordinator.core.wording import partition_text
from coordinator.kafka.batches import partition_key
from coordinator.kafka.errors import ErrorCode
from records.model import EarlierStretch, PartitionAdopted, PartitionReleased, ProducersAdopted, Record, SeededProducerBatch

BATCHES_PER_RECORD = 2_000
"""Remembered batches of producers in a record, some 50 bytes each."""


def decide_release(
    hot: HotState, command: ReleasePartition, coordinator_id: int, limits: Limits, now_ms: int
) -> tuple[list[Record], list[ReleasedPartition]]:
    """Decide on the overlay, which has everything that was committed to the partition before."""
    topic_id, partition = command.topic_id, command.partition
    row, known = hot.partitions.find(topic_id, partition), hot.stretch_of(topic_id, partition)
    if row is None:
        return [], [ReleasedPartition(outcome=unknown_partition(hot, topic_id, partition))]
    records: list[Record] = []
    producers = tuple(remembered_batches(hot, row))
    time_ms = max(now_ms, hot.log_time_ms)
    if known.released is not None and known.released.move_id == command.move_id:
        time_ms = known.released.time_ms
    else:
        fault = fault_of_release(hot.partitions, row, known, command.move_id)
        if fault is not None:
            message = f"{partition_text(hot, topic_id, partition)} is not released: {fault}"
            return [], [ReleasedPartition(outcome=Outcome(error=ErrorCode.INVALID_REQUEST, message=message))]
        if len(producers) > limits.handed_over_max:
            # Once it is released, only a next coordinator that gets them all can go on.
            message = (
                f"{partition_text(hot, topic_id, partition)} is not released yet: {len(producers)} batches of its producers are remembered,"
                f" and {limits.handed_over_max} fit a request to the next coordinator (socket.request.max.bytes); it moves when enough"
                " producers are forgotten (producer.id.expiration.ms)"
            )
            return [], [ReleasedPartition(outcome=Outcome(error=ErrorCode.MESSAGE_TOO_LARGE, message=message))]
        released = PartitionReleased(
            topic_id=topic_id, partition=partition, move_id=command.move_id, to_coordinator=command.to_coordinator, time_ms=time_ms
        )
        records.append(released)
    end_offset = hot.partitions.high_watermark.cells[row]
    ended = EarlierStretch(coordinator_id=coordinator_id, end_offset=end_offset, move_id=command.move_id, time_ms=time_ms)
    answer = ReleasedPartition(
        outcome=OK,
        name=hot.topics[topic_id].name,
        start_offset=hot.partitions.log_start.cells[row],
        end_offset=end_offset,
        time_ms=time_ms,
        earlier=(*known.earlier, ended),
        producers=producers,
    )
    return records, [answer]


def remembered_batches(hot: HotState, row: int) -> Iterator[SeededProducerBatch]:
    """What is remembered of the producers of a partition; the batches of each are adjacent, the oldest first."""
    table = hot.producers
    for one in table.of_partitions(np.array([row], np.int64)).tolist():
        for batch in reversed(list(table.remembered(one))):
            yield SeededProducerBatch(
                producer_id=table.producer.cells[one],
                producer_epoch=table.epoch.cells[one],
                base_sequence=batch.base_sequence,
                last_sequence=batch.last_sequence,
                base_offset=batch.base_offset,
                timestamp_ms=batch.timestamp_ms,
            )


def decide_adoption(hot: HotState, command: AdoptPartition) -> tuple[list[Record], Outcome]:
    """Decide on the overlay. A topic that was deleted here does not come back."""
    topic_id, partition, released = command.topic_id, command.partition, command.released
    text = partition_text(hot, topic_id, partition)
    if topic_id in hot.deleted_topics:
        return [], Outcome(error=ErrorCode.UNKNOWN_TOPIC_ID, message=f"{text} is not adopted: its topic was deleted here")
    row, known = hot.partitions.find(topic_id, partition), hot.stretches.get(partition_key(topic_id, partition), WHOLE)
    if row is not None and known.move_id == command.move_id:
        return [], OK
    adopted = PartitionAdopted(
        topic_id=topic_id,
        partition=partition,
        name=released.name,
        move_id=command.move_id,
        start_offset=released.start_offset,
        base_offset=released.end_offset,
        earlier=list(released.earlier),
    )
    fault = fault_of_adoption(hot.partitions, row, known, adopted) or fault_of_producers(released.producers, released.end_offset)
    if fault is not None:
        return [], Outcome(error=ErrorCode.INVALID_REQUEST, message=f"{text} is not adopted: {fault}")
    return [adopted, *_producer_records(command)], OK


def _producer_records(command: AdoptPartition) -> Iterator[ProducersAdopted]:
    """The producers in records of at most so many batches; those of a producer are in one."""
    batches: list[SeededProducerBatch] = []
    for batch in command.released.producers:
        if len(batches) >= BATCHES_PER_RECORD and batch.producer_id != batches[-1].producer_id:
            yield _producers_adopted(command, batches)
            batches = []
        batches.append(batch)
    if batches:
        yield _producers_adopted(command, batches)


def _producers_adopted(command: AdoptPartition, batches: list[SeededProducerBatch]) -> ProducersAdopted:
    return ProducersAdopted(topic_id=command.topic_id, partition=command.partition, producers=batches, time_ms=command.released.time_ms)
