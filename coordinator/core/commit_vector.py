"""CommitFile over whole groups: proves that nothing is unusual and assigns all offsets at once.

The rules are those of `commit.py`, and this module holds none of its own: whatever is not plain (an unknown partition,
a duplicate, a gap, a new epoch, anything refused) makes it name the first file concerned, which then takes the
readable path. Equal records and answers are held by a property test.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from coordinator.core.batches import BATCH, join_batches
from coordinator.core.block import CommitBlock, Int64s, ProducerColumns
from coordinator.core.commands import OK, CommitFile, Outcome
from coordinator.core.commit import Batch, check_batches, check_file
from coordinator.core.commit_loops import assign_offsets, read_batches, read_producers, sort_by_producer
from coordinator.core.hot import HotState
from records.bulk import FileNumbers, encode_file_entries
from records.file_head import FileHead

_SEEN = 256
"""What `commit_loops.read_batches` remembers rows by."""


@dataclass(frozen=True, slots=True)
class Unusual:
    """The first file that the readable path has to decide; the files before it are plain."""

    file: int


class _Batches(NamedTuple):
    """What was read of the batches of some files; see `commit_loops.read_batches`."""

    of_file: Int64s
    file_of: Int64s
    row: Int64s
    record_count: Int64s
    byte_offset: Int64s
    size: Int64s
    gap: Int64s
    timestamp: Int64s
    timestamp_type: Int64s
    age: Int64s
    count_minus_one: Int64s
    runs_of_file: Int64s
    run_first: Int64s
    run_length: Int64s
    run_partition: Int64s
    run_topic: Int64s
    topics: list[list[bytes]]


class _Idempotent(NamedTuple):
    """The idempotent batches in request order, `distance` being how far each is behind the one before in its file."""

    of_file: Int64s
    distance: Int64s
    producer_id: Int64s
    epoch: Int64s
    sequence: Int64s
    columns: ProducerColumns | None


def decide_block(
    hot: HotState, commands: Sequence[CommitFile], hashes: Sequence[bytes], append_time_ms: int, raw: bytes | None = None
) -> CommitBlock | Unusual:
    """Decide plain commits, in order; their heads must have been checked. Every file has a batch.

    `raw` are the batches of all commands as `join_batches` returns them, if they are joined already.
    """
    if raw is None:
        raw = bytes(join_batches([command.batches for command in commands]))
    batches = _read(raw, commands, append_time_ms, hot.partitions.index)
    if isinstance(batches, Unusual):
        return batches
    places = len(batches.row)
    base, log_start, segment_of, order = np.empty((4, places), np.int64)
    segment_row, starts, stops = np.empty((3, places), np.int64)
    run_base, run_log_start = np.empty((2, len(batches.run_first)), np.int64)
    table = hot.partitions
    segments = assign_offsets(
        batches.row.data,
        batches.record_count.data,
        table.high_watermark.cells,
        table.log_start.cells,
        table.mark.cells,
        batches.run_first.data,
        run_base.data,
        run_log_start.data,
        base.data,
        log_start.data,
        segment_of.data,
        order.data,
        segment_row.data,
        starts.data,
        stops.data,
    )
    producers = _read_producers(hot, raw, batches, segment_of)
    if isinstance(producers, Unusual):
        return producers
    heads = [
        FileHead(
            command.object_key,
            command.object_format,
            command.file_size,
            command.uploader_broker_id,
            command.owner_ids,
            command.created_ms,
            append_time_ms,
            content_hash,
        )
        for command, content_hash in zip(commands, hashes, strict=True)
    ]
    numbers = FileNumbers(
        runs_of_file=batches.runs_of_file,
        batches_of_file=batches.of_file,
        producers_of_file=producers.of_file,
        run_topic=batches.run_topic,
        run_partition=batches.run_partition,
        run_length=batches.run_length,
        run_base_offset=run_base,
        run_log_start=run_log_start,
        byte_gap=batches.gap,
        byte_size=batches.size,
        record_count_minus_one=batches.count_minus_one,
        timestamp_age=batches.age,
        timestamp_type=batches.timestamp_type,
        producer_index=producers.distance,
        producer_id=producers.producer_id,
        producer_epoch=producers.epoch,
        base_sequence=producers.sequence,
    )
    keys = table.keys
    return CommitBlock(
        heads=heads,
        append_times=np.full(len(commands), append_time_ms),
        batches_of_file=batches.of_file,
        file_of=batches.file_of,
        keys=[keys[row] for row in segment_row[:segments].tolist()],
        order=order,
        starts=starts[:segments],
        stops=stops[:segments],
        base=base,
        count=batches.record_count,
        byte_offset=batches.byte_offset,
        size=batches.size,
        timestamp=batches.timestamp,
        timestamp_type=batches.timestamp_type,
        log_start=log_start,
        producers=producers.columns,
        encoded=encode_file_entries(heads, batches.topics, numbers),
    )


def check_whole(command: CommitFile, coordinator_ids: Collection[int], coordinator_count: int) -> Outcome:
    """Check a request of several coordinators as it was received, before it is split; its age is left to each of them."""
    problem = check_file(command, coordinator_ids, coordinator_count)
    if problem is None and isinstance(_read(command.batches.tobytes(), [command], 0, None), Unusual):
        problem = check_batches(command, [Batch._make(row) for row in command.batches.tolist()])
    return OK if problem is None else Outcome(error=problem[0], message=problem[1])


def _read(raw: bytes, commands: Sequence[CommitFile], append_time_ms: int, index: dict[bytes, int] | None) -> _Batches | Unusual:
    """Read and check the batches of files; without an `index` of partitions by themselves, their rows being 0 then."""
    places = len(raw) // BATCH.itemsize
    of_file = np.array([len(command.batches) for command in commands], np.int64)
    file_sizes = np.array([command.file_size for command in commands], np.int64)
    file_of, row, count, byte_offset, size, gap, timestamp, timestamp_type, age, count_minus_one = np.empty((10, places), np.int64)
    run_first, run_length, run_partition, run_topic = np.empty((4, places), np.int64)
    runs_of_file = np.empty(len(commands), np.int64)
    topics: list[list[bytes]] = []
    found = read_batches(
        raw,
        of_file.data,
        file_sizes.data,
        append_time_ms,
        index,
        np.zeros(_SEEN, np.int64).data,
        file_of.data,
        row.data,
        count.data,
        byte_offset.data,
        size.data,
        gap.data,
        timestamp.data,
        timestamp_type.data,
        age.data,
        count_minus_one.data,
        runs_of_file.data,
        run_first.data,
        run_length.data,
        run_partition.data,
        run_topic.data,
        topics,
    )
    if found < 0:
        return Unusual(-1 - found)
    return _Batches(
        of_file,
        file_of,
        row,
        count,
        byte_offset,
        size,
        gap,
        timestamp,
        timestamp_type,
        age,
        count_minus_one,
        runs_of_file,
        run_first[:found],
        run_length[:found],
        run_partition[:found],
        run_topic[:found],
        topics,
    )


def _read_producers(hot: HotState, raw: bytes, batches: _Batches, segment_of: Int64s) -> _Idempotent | Unusual:
    """List the idempotent batches and prove that each follows on its producer's last one."""
    places = len(batches.row)
    place, producer_id, epoch, sequence, producer_of, distance = np.empty((6, places), np.int64)
    slots, epochs, expected, starts = np.empty((4, places + 1), np.int64)
    of_file = np.zeros(len(batches.of_file), np.int64)
    table = hot.producers
    producers = read_producers(
        raw,
        batches.file_of.data,
        batches.row.data,
        batches.record_count.data,
        table.index,
        table.guesses(),
        table.owner.cells,
        table.producer.cells,
        table.epoch.cells,
        table.head.cells,
        table.ring_last.cells,
        table.mark.cells,
        place.data,
        producer_id.data,
        epoch.data,
        sequence.data,
        producer_of.data,
        distance.data,
        of_file.data,
        slots.data,
        epochs.data,
        expected.data,
        starts.data,
    )
    if producers < 0:
        return Unusual(-1 - producers)
    found = int(starts[producers])
    columns = None
    if found:
        at, first_sequences, last_sequences = np.empty((3, found), np.int64)
        segments, producer_ids, cursor = np.empty((3, producers), np.int64)
        sort_by_producer(
            place[:found].data,
            sequence.data,
            producer_of.data,
            producer_id.data,
            segment_of.data,
            batches.record_count.data,
            starts.data,
            cursor.data,
            at.data,
            first_sequences.data,
            last_sequences.data,
            segments.data,
            producer_ids.data,
        )
        columns = ProducerColumns(
            at=at,
            starts=starts[:producers],
            segments=segments,
            producer_ids=producer_ids,
            slots=slots[:producers],
            epochs=epochs[:producers],
            first_sequences=first_sequences,
            last_sequences=last_sequences,
        )
    return _Idempotent(of_file, distance, producer_id, epoch, sequence, columns)
