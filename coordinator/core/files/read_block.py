"""A block that a follower reads: many accepted commits as rows, sorted by partition, and how they are applied.

Such a block was made from the state it is applied to and nothing was applied in between, so its partitions are named by
their rows, and what it makes of them is known already (`core.files.replay_loops.place_batches`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, islice

from coordinator.core.files.block import AppliedFiles, FilesBlock, HeadFields, Int64s, ProducerColumns, Segment
from coordinator.core.files.block_apply import slots_of
from coordinator.core.files.replay_loops import advance_partitions, copy_rows, remember_rows
from coordinator.core.tables.in_memory import BrokenInvariant, HotState
from coordinator.core.tables.stored_rows import Rows, numbers_of
from records.bulk_decode import Table
from records.file_head import FileHead


@dataclass(slots=True, kw_only=True)
class ReadBlock(FilesBlock):
    """See the module. `rows` have their file ids; `segments` are the columns of `replay_loops.place_batches`.

    Of the files stand here the columns `heads` of `records.bulk_decode.HEAD_FIELDS`, and what those only point at. Most files
    are written before anybody asks for one of them alone.
    """

    rows: Rows
    segments: Table
    heads: Table
    keys: list[str]
    owner_ids: list[int]
    content_hashes: list[bytes]

    @property
    def starts(self) -> Int64s:
        starts: Int64s = self.segments[2]
        return starts

    @property
    def stops(self) -> Int64s:
        stops: Int64s = self.segments[3]
        return stops

    def object_keys(self) -> list[str]:
        return self.keys

    def head(self, file: int) -> FileHead:
        return FileHead(*next(islice(self.heads_fields(), file, None)))

    def heads_fields(self) -> Iterator[HeadFields]:
        object_format, file_size, uploader, owners, created_ms, append_time_ms = self.heads[3:9].tolist()
        ends = accumulate(owners)
        owner_ids = [self.owner_ids[end - count : end] for end, count in zip(ends, owners, strict=True)]
        columns = (self.keys, object_format, file_size, uploader, owner_ids, created_ms, append_time_ms, self.content_hashes)
        return zip(*columns, strict=True)


@dataclass(slots=True)
class AppliedRead(AppliedFiles):
    """A block of rows, applied."""

    block: ReadBlock

    def rows(self) -> Rows:
        """All batches, sorted by partition."""
        return self.block.rows

    def lengths(self) -> Int64s:
        """How many batches each partition has."""
        return self.block.stops - self.block.starts

    def place(self, targets: memoryview[int], rows: memoryview[int]) -> None:
        """Write the batches of each partition to these lines of numbers, from its target on."""
        block = self.block
        copy_rows(numbers_of(block.rows).data, block.starts.data, block.stops.data, targets, rows)

    def segments(self) -> Iterator[Segment]:
        """The batches of each partition."""
        block = self.block
        bases, lasts = block.rows["base"][block.starts].tolist(), (block.segments[1] - 1).tolist()
        return map(Segment, self.partition_rows, bases, lasts, block.starts.tolist(), block.stops.tolist())


def apply_read(hot: HotState, block: ReadBlock) -> list[int]:
    """Apply a block and return the rows of its segments' partitions. Raises `BrokenInvariant` when it does not fit."""
    table = hot.partitions
    rows, segments = numbers_of(block.rows).data, block.segments.data
    partition_rows: list[int] = block.segments[0].tolist()
    wrong = advance_partitions(
        len(partition_rows), rows, segments, table.high_watermark.cells, table.max_timestamp.cells, table.max_timestamp_offset.cells
    )
    if wrong >= 0:
        base, due = rows[block.starts[wrong], 0], table.high_watermark.cells[partition_rows[wrong]]
        raise BrokenInvariant(f"offset {base} is assigned where the high watermark is {due}")
    times = block.heads[8].tolist()
    hot.advance_time(times[0], max(times))
    hot.touched.partitions.update(partition_rows)
    if block.producers is not None:
        _remember(hot, block, block.producers, partition_rows)
        block.producers = None  # as long as the block is not written, it needs no more memory than it has to
    return partition_rows


def _remember(hot: HotState, block: ReadBlock, producers: ProducerColumns, partition_rows: list[int]) -> None:
    """Put each producer's batches into its ring; only the last ones of many stay."""
    table = hot.producers
    slots = slots_of(hot, producers, partition_rows)
    remember_rows(
        slots,
        producers.of_producer.data,
        producers.of_batch.data,
        producers.of_batch.shape[1],
        numbers_of(block.rows).data,
        table.epoch.cells,
        table.head.cells,
        table.count.cells,
        table.last_append.cells,
        table.ring_first.cells,
        table.ring_last.cells,
        table.ring_base.cells,
        table.ring_time.cells,
    )
    hot.touched.producers.update(slots)
