"""Many accepted commits as one block: the vector form of some `FileCommitted` records.

A block holds only what is usual: every batch of every file accepted, partitions known, producers in sequence and in
their epoch. The batches of a partition stand together in offset order ("segments"). A leader's block (`CommitBlock`) has
columns in the order of the requests, file after file, which `order` sorts by partition; it names partitions by their
keys, because the committed and the speculative tables number their rows on their own. What a follower reads
(`core.files.read_block`) has rows, sorted already.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from coordinator.core.commands import CommitResult
from coordinator.core.tables import scratch
from coordinator.core.tables.row_loops import place_columns
from coordinator.core.tables.stored_rows import ROW, FileLists, FileName, FileRow, Rows, lists_of_files, numbers_of
from coordinator.kafka.batches import LOG_APPEND_TIME
from records.file_head import FileHead

Int64s = npt.NDArray[np.int64]


def starts_of_equal(values: Int64s) -> Int64s:
    """Where each stretch of equal neighbours begins; `values` is not empty."""
    is_start = np.empty(len(values), bool)
    is_start[0] = True
    np.not_equal(values[1:], values[:-1], out=is_start[1:])
    return is_start.nonzero()[0]


def owners_text(owner_ids: list[int]) -> str:
    """Owners as a file's row has them."""
    return str(owner_ids[0]) if len(owner_ids) == 1 else ",".join(map(str, owner_ids))


@dataclass(slots=True, kw_only=True)
class ProducerColumns:
    """The idempotent batches of a block, sorted by producer, in sequence order within each: two tables, whose rows `scratch` names.

    `of_batch`: where each is in the block, first and last sequence. `of_producer`: where each one's batches begin; the place of
    its partition among the block's, and its id, which name it; its slot; its epoch. Slots are rows in the table the block was
    made from, below 0 for new producers: in other tables they are likely to be the same, and whoever relies on that looks.
    """

    of_batch: Int64s
    of_producer: Int64s


HeadFields: TypeAlias = tuple[str, int, int, int, list[int], int, int, bytes]
"""The fields of `FileHead`."""


@dataclass(slots=True, kw_only=True)
class FilesBlock(ABC):
    """The part of a block that leaders and followers share: its files, and where its segments are in the sorted order."""

    batches_of_file: list[int]
    encoded: list[bytes]
    producers: ProducerColumns | None
    first_batch: list[int] = field(init=False)
    """Where each file's batches begin, and the end of the last one's."""

    def __post_init__(self) -> None:
        self.first_batch = [0, *accumulate(self.batches_of_file)]

    @property
    def batches(self) -> int:
        """How many batches the block has."""
        return self.first_batch[-1]

    @property
    @abstractmethod
    def starts(self) -> Int64s:
        """Where each segment begins in the sorted order."""

    @property
    @abstractmethod
    def stops(self) -> Int64s:
        """Where each segment ends."""

    @abstractmethod
    def object_keys(self) -> list[str]:
        """The key of each file."""

    @abstractmethod
    def head(self, file: int) -> FileHead:
        """The properties of a file as a whole."""

    @abstractmethod
    def heads_fields(self) -> Iterable[HeadFields]:
        """The properties of all files, in order."""


@dataclass(slots=True, kw_only=True)
class CommitBlock(FilesBlock):
    """See the module's text. `keys` are the partitions of the segments; all files have the same append time.

    `columns` has a row per kind of number, as `scratch` names them, and a place per batch or segment. Loops take it whole:
    making and passing an array of each column was a sixth of what a lone file costs.
    """

    heads: list[FileHead]
    append_time_ms: int
    keys: list[bytes]
    columns: Int64s
    answers: list[bytes] | None = None
    """The answer of each file as bytes of the wire, kept here by the first encoder."""

    @property
    def starts(self) -> Int64s:
        return self._column(scratch.STARTS)[: len(self.keys)]

    @property
    def stops(self) -> Int64s:
        return self._column(scratch.STOPS)[: len(self.keys)]

    @property
    def order(self) -> Int64s:
        """The batches, sorted by partition."""
        return self._column(scratch.ORDER)

    @property
    def base(self) -> Int64s:
        """The first offset of each batch."""
        return self._column(scratch.BASE)

    @property
    def count(self) -> Int64s:
        """How many offsets each batch has."""
        return self._column(scratch.COUNT)

    def _column(self, kind: int) -> Int64s:
        column: Int64s = self.columns[kind]
        return column

    def object_keys(self) -> list[str]:
        return [head.object_key for head in self.heads]

    def head(self, file: int) -> FileHead:
        return self.heads[file]

    def heads_fields(self) -> Iterable[HeadFields]:
        return self.heads

    def answer_times(self) -> Int64s:
        """The append time each batch is answered with: -1 for CreateTime."""
        times: Int64s = np.where(self.columns[scratch.TYPE] == LOG_APPEND_TIME, self.append_time_ms, -1)
        return times


class BlockShare(NamedTuple):
    """The answer of one file of a block: all batches accepted."""

    block: CommitBlock
    file: int

    def bounds(self) -> tuple[int, int]:
        """The batches of the file in the block's columns."""
        first_batch = self.block.first_batch
        return first_batch[self.file], first_batch[self.file + 1]

    def result(self) -> CommitResult:
        """The answer as the readable path gives it."""
        start, stop = self.bounds()
        n = stop - start
        block = self.block
        return CommitResult(
            errors=[0] * n,
            messages=[None] * n,
            base_offsets=block.base[start:stop].tolist(),
            append_times=block.answer_times()[start:stop].tolist(),
            log_starts=block.columns[scratch.LOG_START, start:stop].tolist(),
            duplicates=[False] * n,
        )


@dataclass(slots=True)
class BlockFile:
    """One file of an applied block, as the unwritten state knows it."""

    block: FilesBlock
    file: int
    file_id: int
    live_batches: int

    @property
    def object_key(self) -> str:
        return self.block.head(self.file).object_key

    def file_name(self) -> FileName:
        """The properties of a file that are returned with each of its batches."""
        head = self.block.head(self.file)
        return FileName(head.object_key, head.append_time_ms)

    def file_row(self) -> FileRow:
        """The row of the state database."""
        head, first_batch = self.block.head(self.file), self.block.first_batch
        return FileRow(
            self.file_id,
            head.object_key,
            head.content_hash,
            head.object_format,
            head.file_size,
            head.uploader_broker_id,
            owners_text(head.owner_ids),
            head.created_ms,
            head.append_time_ms,
            first_batch[self.file + 1] - first_batch[self.file],
            self.live_batches,
            self.block.encoded[self.file],
        )


class KnownFile(Protocol):
    """A file that was applied and not yet written."""

    file_id: int
    live_batches: int


@dataclass(slots=True)
class GatheredFiles:
    """The files of many blocks on their way into the state database, in log order."""

    files: list[KnownFile] = field(default_factory=list)
    heads: list[HeadFields] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)
    encoded: list[bytes] = field(default_factory=list)

    def lists(self) -> FileLists:
        """The rows of the state database, as columns."""
        if not self.files:
            return lists_of_files([])
        keys, formats, sizes, uploaders, owners, created, appended, hashes = map(list, zip(*self.heads, strict=True))
        return FileLists(
            [file.file_id for file in self.files],
            keys,
            hashes,
            formats,
            sizes,
            uploaders,
            list(map(owners_text, owners)),
            created,
            appended,
            self.batches,
            [file.live_batches for file in self.files],
            self.encoded,
        )


class Segment(NamedTuple):
    """Consecutive batches of one partition: its row, first and last offset, and rows `[start, stop)` of the block."""

    partition_row: int
    base: int
    last: int
    start: int
    stop: int


@dataclass(slots=True)
class AppliedFiles:
    """A block with its place in the log: file ids, and the committed rows of its segments' partitions."""

    block: FilesBlock
    partition_rows: list[int]
    files: list[BlockFile]

    def add_files(self, to: GatheredFiles) -> None:
        """Add the files, of which `BlockFile.file_row` says the same one by one."""
        block = self.block
        to.files += self.files
        to.heads += block.heads_fields()
        to.batches += block.batches_of_file
        to.encoded += block.encoded


@dataclass(slots=True)
class AppliedBlock(AppliedFiles):
    """A leader's block, applied."""

    block: CommitBlock
    _rows: Rows | None = None

    def rows(self) -> Rows:
        """All batches, sorted by partition."""
        if self._rows is None:
            rows = np.empty(self.block.batches, ROW)
            self.place(self.block.starts.data, numbers_of(rows).data)
            self._rows = rows
        return self._rows

    def lengths(self) -> Int64s:
        """How many batches each partition has."""
        segments, columns = len(self.partition_rows), self.block.columns
        lengths: Int64s = columns[scratch.STOPS, :segments] - columns[scratch.STARTS, :segments]
        return lengths

    def place(self, targets: memoryview[int], rows: memoryview[int]) -> None:
        """Write the batches of each partition to these lines of numbers, from its target on."""
        block, file_ids = self.block, [file.file_id for file in self.files]
        place_columns(block.columns.data, targets, file_ids, block.first_batch, block.append_time_ms, rows)

    def segments(self) -> Iterator[Segment]:
        """The batches of each partition."""
        block = self.block
        first, last = block.order[block.starts], block.order[block.stops - 1]
        bases, lasts = block.base[first].tolist(), (block.base[last] + block.count[last] - 1).tolist()
        return map(Segment, self.partition_rows, bases, lasts, block.starts.tolist(), block.stops.tolist())
