"""Changes that are applied but not yet written to the state database.

The log is the truth and the database follows lazily: a *generation* collects applied files, runs and tombstones until
it is frozen and written in one transaction. Reads look into the database, then the frozen generation, then the
active one: for each partition the three hold consecutive offsets, so nothing is ever seen twice or missed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from coordinator.core.files.block import AppliedBlock, BlockFile, GatheredFiles, Int64s, Segment, owners_text
from coordinator.core.files.read_block import AppliedRead
from coordinator.core.tables.row_loops import place_record
from coordinator.core.tables.stored_rows import ROW, FileName, FileRow, Rows, Tombstone, numbers_of
from records.file_head import FileHead
from records.model import FileCommitted


@dataclass(slots=True)
class FileBlock:
    """The accepted batches of one committed file; expanded to rows when somebody looks."""

    file_id: int
    record: FileCommitted
    partition_rows: list[int]
    encoded: bytes
    live_batches: int
    _rows: Rows | None = None

    @property
    def object_key(self) -> str:
        return self.record.object_key

    @property
    def files(self) -> list[FileBlock]:
        """The files of the block: itself."""
        return [self]

    def rows(self) -> Rows:
        """All accepted batches in request order."""
        if self._rows is None:
            lengths = self.lengths()
            rows = np.empty(len(self.record.byte_size), ROW)
            self.place((lengths.cumsum() - lengths).data, numbers_of(rows).data)
            self._rows = rows
        return self._rows

    def lengths(self) -> Int64s:
        """How many batches each run of the record has."""
        return np.array(self.record.run_length, np.int64)

    def place(self, targets: memoryview[int], rows: memoryview[int]) -> None:
        """Write the batches of each run of the record to these lines of numbers, from its target on."""
        record = self.record
        place_record(
            record.run_length, record.run_base_offset, record.record_count_minus_one, record.byte_gap, record.byte_size,
            record.timestamp_age, record.timestamp_type, targets, self.file_id, record.append_time_ms, rows,
        )  # fmt: skip

    def file_name(self) -> FileName:
        """Return the properties of a file that are answered with each of its batches."""
        return FileName(self.record.object_key, self.record.append_time_ms)

    def file_row(self) -> FileRow:
        record = self.record
        return FileRow(
            self.file_id,
            record.object_key,
            record.content_hash,
            record.object_format,
            record.file_size,
            record.uploader_broker_id,
            owners_text(record.owner_ids),
            record.created_ms,
            record.append_time_ms,
            len(record.byte_size),
            self.live_batches,
            self.encoded,
        )

    def add_files(self, to: GatheredFiles) -> None:
        """Add the file, of which `file_row` says the same."""
        record = self.record
        to.files.append(self)
        to.heads.append(
            FileHead(
                object_key=record.object_key,
                object_format=record.object_format,
                file_size=record.file_size,
                uploader_broker_id=record.uploader_broker_id,
                owner_ids=record.owner_ids,
                created_ms=record.created_ms,
                append_time_ms=record.append_time_ms,
                content_hash=record.content_hash,
            )
        )
        to.batches.append(len(record.byte_size))
        to.encoded.append(self.encoded)

    def segments(self) -> Iterator[Segment]:
        """The runs of the record."""
        record = self.record
        counts = record.record_count_minus_one
        start = 0
        for run, length in enumerate(record.run_length):
            stop = start + length
            base = record.run_base_offset[run]
            yield Segment(self.partition_rows[run], base, base + sum(counts[start:stop]) + length - 1, start, stop)
            start = stop


class TailRun(NamedTuple):
    """Consecutive batches of one partition inside a block: rows `[start, stop)`."""

    base: int
    last: int
    block: FileBlock | AppliedBlock | AppliedRead
    start: int
    stop: int

    def rows(self) -> Rows:
        return self.block.rows()[self.start : self.stop]


@dataclass(slots=True)
class Generation:
    """Everything applied between two writes of the state database."""

    blocks: list[FileBlock | AppliedBlock | AppliedRead] = field(default_factory=list)
    _runs: dict[int, list[TailRun]] = field(default_factory=dict)
    _indexed: int = 0
    files: dict[str, FileBlock | BlockFile] = field(default_factory=dict)
    files_by_id: dict[int, FileBlock | BlockFile] = field(default_factory=dict)
    tombstones: dict[str, Tombstone] = field(default_factory=dict)
    tombstones_expired_before_ms: int = 0
    files_removed: dict[str, FileRow] = field(default_factory=dict)
    live_lost: dict[int, int] = field(default_factory=dict)
    trimmed: dict[int, int] = field(default_factory=dict)
    trimmed_rows: list[tuple[int, Rows]] = field(default_factory=list)
    purged: list[int] = field(default_factory=list)
    batches: int = 0

    def add(self, block: FileBlock) -> None:
        """Take a committed file."""
        self.blocks.append(block)
        self.files[block.record.object_key] = block
        self.files_by_id[block.file_id] = block
        self.batches += len(block.record.byte_size) + 1

    def add_block(self, applied: AppliedBlock | AppliedRead) -> None:
        """Take the committed files of a block."""
        self.blocks.append(applied)
        self.files.update(zip(applied.block.object_keys(), applied.files, strict=True))
        self.files_by_id.update([(file.file_id, file) for file in applied.files])
        self.batches += applied.block.batches + len(applied.files)

    def _runs_of(self, partition_row: int) -> list[TailRun] | None:
        """The runs of a partition. Blocks are looked through when somebody reads: most are written before that."""
        for block in self.blocks[self._indexed :]:
            for row, base, last, start, stop in block.segments():
                self._runs.setdefault(row, []).append(TailRun(base, last, block, start, stop))
        self._indexed = len(self.blocks)
        return self._runs.get(partition_row)

    def expire_tombstones(self, before_ms: int) -> None:
        """Forget the tombstones so far of keys created before a time; those that come later are not concerned."""
        self.tombstones_expired_before_ms = max(self.tombstones_expired_before_ms, before_ms)
        self.tombstones = {key: stone for key, stone in self.tombstones.items() if not 0 <= stone.created_ms < before_ms}

    def runs_from(self, partition_row: int, offset: int) -> list[TailRun]:
        """The runs that end at or after an offset, in order."""
        runs = self._runs_of(partition_row)
        if not runs:
            return []
        at = bisect_left(runs, offset, key=lambda run: run.last)
        return runs[at:]

    def first_base(self, partition_row: int) -> int | None:
        """Offset where this generation's batches of a partition begin."""
        runs = self._runs_of(partition_row)
        return runs[0].base if runs else None

    def lose(self, file_id: int, count: int) -> int | None:
        """Count batches of a file as gone. Returns what is left if the file is in this generation."""
        block = self.files_by_id.get(file_id)
        if block is None:
            self.live_lost[file_id] = self.live_lost.get(file_id, 0) + count
            return None
        block.live_batches -= count
        return block.live_batches


def with_losses(row: FileRow, *generations: Generation | None) -> FileRow:
    """A written file row, less the batches lost since."""
    lost = sum(generation.live_lost.get(row.file_id, 0) for generation in generations if generation is not None)
    return row if not lost else row._replace(live_batches=row.live_batches - lost)
