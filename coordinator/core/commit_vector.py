"""CommitFile over whole groups: proves that nothing is unusual and assigns all offsets at once.

The rules are those of `commit.py`, and this module holds none of its own: whatever is not plain (an unknown partition,
a duplicate, a gap, a new epoch, anything refused) makes it name the first file concerned, which then takes the
readable path. Equal records and answers are held by a property test.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from coordinator.core.batches import BATCH, join_batches
from coordinator.core.block import CommitBlock, Int64s, ProducerColumns
from coordinator.core.commands import OK, CommitFile, Outcome
from coordinator.core.commit import OFFSETS_MAX, Batch, check_batches, check_file
from coordinator.core.commit_loops import assign_offsets, read_batches, read_producers, sort_by_producer
from coordinator.core.hot import HotState
from coordinator.core.scratch import Scratch
from records.bulk import encode_columns
from records.file_head import FileHead

_SCRATCH_OF_CHECKS = Scratch()
"""For requests that are only checked: nothing of it outlives the check."""


@dataclass(frozen=True, slots=True)
class Unusual:
    """The first file that the readable path has to decide; the files before it are plain."""

    file: int


class _Batches(NamedTuple):
    """What was read of the batches of some files, besides what is in the scratch; see `commit_loops.read_batches`."""

    runs: int
    of_file: Int64s
    runs_of_file: memoryview[int]
    file_of: Int64s
    record_count: Int64s
    byte_offset: Int64s
    size: Int64s
    timestamp: Int64s
    timestamp_type: Int64s
    topics: list[list[bytes]]


def decide_block(
    hot: HotState, commands: Sequence[CommitFile], hashes: Sequence[bytes], append_time_ms: int, level: int, raw: bytes | None = None
) -> CommitBlock | Unusual:
    """Decide plain commits, in order; their heads must have been checked. Every file has a batch.

    Entries are written at a schema `level`. `raw` are the batches of all commands as `join_batches` returns them, if they are
    joined already.
    """
    if raw is None:
        raw = bytes(join_batches([command.batches for command in commands]))
    scratch, table = hot.scratch, hot.partitions
    batches = _read(raw, commands, append_time_ms, scratch, table.index)
    if isinstance(batches, Unusual):
        return batches
    base, log_start, order, starts, stops = np.empty((5, len(batches.file_of)), np.int64)
    segments = assign_offsets(
        batches.runs,
        OFFSETS_MAX,
        batches.file_of.data,
        scratch.row,
        batches.record_count.data,
        table.high_watermark.cells,
        table.log_start.cells,
        table.mark.cells,
        scratch.run_first,
        scratch.run_base,
        scratch.run_log_start,
        base.data,
        log_start.data,
        scratch.segment_of,
        order.data,
        scratch.segment_row,
        starts.data,
        stops.data,
    )
    if segments < 0:
        return Unusual(-1 - segments)
    producers_of_file = memoryview(array("q", bytes(8 * len(commands))))
    producers = _read_producers(hot, raw, batches, producers_of_file)
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
    columns = (  # of `FileNumbers`
        batches.runs_of_file,
        batches.of_file.data,
        producers_of_file,
        scratch.run_topic,
        scratch.run_partition,
        scratch.run_length,
        scratch.run_base,
        scratch.run_log_start,
        scratch.gap,
        batches.size.data,
        scratch.count_minus_one,
        scratch.age,
        batches.timestamp_type.data,
        scratch.distance,
        scratch.producer_id,
        scratch.epoch,
        scratch.sequence,
    )
    keys = table.keys
    return CommitBlock(
        heads=heads,
        append_times=np.full(len(commands), append_time_ms),
        batches_of_file=batches.of_file,
        file_of=batches.file_of,
        keys=[keys[row] for row in scratch.segment_row[:segments].tolist()],
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
        producers=producers,
        encoded=encode_columns(heads, batches.topics, len(base), columns, level),
    )


def check_whole(command: CommitFile, coordinator_ids: Collection[int], coordinator_count: int) -> Outcome:
    """Check a request of several coordinators as it was received, before it is split; its age is left to each of them."""
    problem = check_file(command, coordinator_ids, coordinator_count)
    if problem is None and isinstance(_read(command.batches.tobytes(), [command], 0, _SCRATCH_OF_CHECKS, None), Unusual):
        problem = check_batches(command, [Batch._make(row) for row in command.batches.tolist()])
    return OK if problem is None else Outcome(error=problem[0], message=problem[1])


def _read(
    raw: bytes, commands: Sequence[CommitFile], append_time_ms: int, scratch: Scratch, index: dict[bytes, int] | None
) -> _Batches | Unusual:
    """Read and check the batches of files; without an `index` of partitions by themselves, their rows being 0 then."""
    places = len(raw) // BATCH.itemsize
    scratch.reserve(places)
    of_file = np.array([len(command.batches) for command in commands], np.int64)
    file_sizes = memoryview(array("q", [command.file_size for command in commands]))
    runs_of_file = memoryview(array("q", bytes(8 * len(commands))))
    file_of, record_count, byte_offset, size, timestamp, timestamp_type = np.empty((6, places), np.int64)
    topics: list[list[bytes]] = []
    runs = read_batches(
        raw,
        of_file.data,
        file_sizes,
        append_time_ms,
        index,
        scratch.seen,
        file_of.data,
        scratch.row,
        record_count.data,
        byte_offset.data,
        size.data,
        scratch.gap,
        timestamp.data,
        timestamp_type.data,
        scratch.age,
        scratch.count_minus_one,
        runs_of_file,
        scratch.run_first,
        scratch.run_length,
        scratch.run_partition,
        scratch.run_topic,
        topics,
    )
    if runs < 0:
        return Unusual(-1 - runs)
    return _Batches(runs, of_file, runs_of_file, file_of, record_count, byte_offset, size, timestamp, timestamp_type, topics)


def _read_producers(hot: HotState, raw: bytes, batches: _Batches, producers_of_file: memoryview[int]) -> ProducerColumns | Unusual | None:
    """List the idempotent batches and prove that each follows on its producer's last one; None when there are none."""
    slots, epochs, starts = np.empty((3, len(batches.file_of) + 1), np.int64)
    table, scratch = hot.producers, hot.scratch
    producers = read_producers(
        raw,
        batches.file_of.data,
        scratch.row,
        batches.record_count.data,
        table.index,
        table.guesses(),
        table.owner.cells,
        table.producer.cells,
        table.epoch.cells,
        table.head.cells,
        table.ring_last.cells,
        table.mark.cells,
        scratch.batch,
        scratch.producer_id,
        scratch.epoch,
        scratch.sequence,
        scratch.producer_of,
        scratch.distance,
        producers_of_file,
        slots.data,
        epochs.data,
        scratch.expected,
        starts.data,
    )
    if producers <= 0:
        return Unusual(-1 - producers) if producers < 0 else None
    at, first_sequences, last_sequences = np.empty((3, int(starts[producers])), np.int64)
    segments, producer_ids = np.empty((2, producers), np.int64)
    sort_by_producer(
        scratch.batch,
        scratch.sequence,
        scratch.producer_of,
        scratch.producer_id,
        scratch.segment_of,
        batches.record_count.data,
        starts.data,
        scratch.cursor,
        at.data,
        first_sequences.data,
        last_sequences.data,
        segments.data,
        producer_ids.data,
    )
    return ProducerColumns(
        at=at,
        starts=starts[:producers],
        segments=segments,
        producer_ids=producer_ids,
        slots=slots[:producers],
        epochs=epochs[:producers],
        first_sequences=first_sequences,
        last_sequences=last_sequences,
    )
