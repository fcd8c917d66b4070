"""CommitFile over whole groups: proves that nothing is unusual and assigns all offsets at once.

The rules are those of `commit.py`, and this module holds none of its own: a file that is not plain (an unknown partition,
a duplicate, a gap, a new epoch, anything refused) makes it name the first file concerned, which then takes the
readable path. Equal records and answers are held by a property test.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from coordinator.core.commands import OK, CommitFile, Outcome
from coordinator.core.files.block import CommitBlock, Int64s, ProducerColumns
from coordinator.core.files.commit import OFFSETS_MAX, Batch, check_batches, check_file
from coordinator.core.files.commit_loops import assign_offsets, read_batches, read_producers, sort_by_producer
from coordinator.core.tables.in_memory import HotState
from coordinator.core.tables.scratch import COLUMNS, FILE_SIZE, OF_BATCH, OF_PRODUCER, START, Scratch
from coordinator.kafka.batches import BATCH, join_batches
from records.bulk import encode_tables
from records.file_head import FileHead
from records.file_tables import BATCHES_OF_FILE

_SCRATCH_OF_CHECKS = Scratch()
"""For requests that are only checked: nothing of it outlives the check."""


@dataclass(frozen=True, slots=True)
class Unusual:
    """The first file that the readable path has to decide; the files before it are plain."""

    file: int


class _Batches(NamedTuple):
    """The batches of some files as they were read, besides the columns in the scratch; see `commit_loops.read_batches`."""

    runs: int
    columns: Int64s
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
    columns = batches.columns.data
    segments = assign_offsets(
        len(raw) // BATCH.itemsize,
        batches.runs,
        OFFSETS_MAX,
        columns,
        scratch.batches,
        scratch.runs,
        table.high_watermark.cells,
        table.log_start.cells,
        table.mark.cells,
    )
    if segments < 0:
        return Unusual(-1 - segments)
    producers = _read_producers(hot, raw, columns)
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
    keys = table.keys
    tables = scratch.files, scratch.runs, scratch.batches, scratch.idempotent
    return CommitBlock(
        heads=heads,
        append_time_ms=append_time_ms,
        batches_of_file=[len(command.batches) for command in commands],
        keys=[keys[row] for row in scratch.segment_rows[:segments].tolist()],
        columns=batches.columns,
        producers=producers,
        encoded=encode_tables(heads, batches.topics, batches.columns.shape[1], tables, level),
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
    scratch.reserve(max(places, len(commands)))
    files = scratch.files
    for file, command in enumerate(commands):
        files[BATCHES_OF_FILE, file], files[FILE_SIZE, file] = len(command.batches), command.file_size
    columns: Int64s = np.empty((COLUMNS, places), np.int64)
    topics: list[list[bytes]] = []
    runs = read_batches(raw, len(commands), append_time_ms, index, scratch.seen, files, columns.data, scratch.batches, scratch.runs, topics)
    if runs < 0:
        return Unusual(-1 - runs)
    return _Batches(runs, columns, topics)


def _read_producers(hot: HotState, raw: bytes, columns: memoryview[int]) -> ProducerColumns | Unusual | None:
    """List the idempotent batches and prove that each follows on its producer's last one; None when there are none."""
    table, scratch = hot.producers, hot.scratch
    producers = read_producers(
        raw,
        table.index,
        table.guesses(),
        table.owner.cells,
        table.producer.cells,
        table.epoch.cells,
        table.head.cells,
        table.ring_last.cells,
        table.mark.cells,
        scratch.files,
        columns,
        scratch.batches,
        scratch.idempotent,
        scratch.producers,
    )
    if producers <= 0:
        return Unusual(-1 - producers) if producers < 0 else None
    found = scratch.producers[START, producers]
    of_batch, of_producer = np.empty((OF_BATCH, found), np.int64), np.empty((OF_PRODUCER, producers), np.int64)
    sort_by_producer(found, producers, columns, scratch.batches, scratch.idempotent, scratch.producers, of_batch.data, of_producer.data)
    return ProducerColumns(of_batch=of_batch, of_producer=of_producer)
