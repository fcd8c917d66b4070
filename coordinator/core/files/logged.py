"""Committed files in memory: those of a leader's group, and those that were read from the log.

A replica holds a file once, as lines of numbers (`records.committed_files.lines`) with its head and its entry: while it is decided,
acknowledged, applied, and until it is written to the state database.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from coordinator.core.files.line_loops import count_batches, place_batches, sort_batches
from coordinator.core.tables.stored_rows import ROW, Columns, FileName, FileRow, Rows, numbers_of
from records.committed_files.codec import FileTable
from records.committed_files.lines import ROW as ROW_OF_PARTITION

Int64s = npt.NDArray[np.int64]


def owners_text(owner_ids: list[int]) -> str:
    """Owners as a file's row has them."""
    return str(owner_ids[0]) if len(owner_ids) == 1 else ",".join(map(str, owner_ids))


@lru_cache(maxsize=1024)
def owner_ids_of(text: str) -> tuple[int, ...]:
    """Owners from the text of a file's row."""
    return tuple(map(int, filter(None, text.split(","))))


@dataclass(slots=True)
class LoggedFiles:
    """Files with their entries. `bounds` and `append_times` are those of the table, as arrays for loops.

    `offsets`, `file_ids` and `accepted` have a place for each file: the offset of its entry, its id, and how many of its batches were
    accepted. They are known when the file is applied.
    """

    table: FileTable
    encoded: list[bytes]
    bounds: Int64s = field(init=False)
    append_times: Int64s = field(init=False)
    accepted: Int64s = field(init=False)
    offsets: Int64s = field(init=False)
    file_ids: Int64s = field(init=False)
    answers: list[bytes] | None = None
    """The answers of a leader's group as bytes of the wire, kept here by the first encoder."""

    def __post_init__(self) -> None:
        heads = self.table.heads
        self.bounds = np.array(self.table.first_line, np.int64)
        self.append_times = np.array([head.append_time_ms for head in heads], np.int64)
        self.accepted, self.offsets, self.file_ids = (np.zeros(len(heads), np.int64) for _ in range(3))

    def __len__(self) -> int:
        return len(self.encoded)


class SortedBatches(NamedTuple):
    """Live batches sorted by partition, in offset order within each: those of `partition_rows[i]` begin at `starts[i]`."""

    rows: Rows
    partition_rows: list[int]
    starts: list[int]


@dataclass(slots=True)
class AppliedFiles:
    """The files `[first, stop)` of some that were applied. `live_batches` are those of each file, the first of them at 0."""

    files: LoggedFiles
    first: int
    stop: int
    live_batches: list[int]
    _sorted: SortedBatches | None = None

    def __len__(self) -> int:
        return self.stop - self.first

    @property
    def lines(self) -> int:
        """How many batches the requests had."""
        first_line = self.files.table.first_line
        return first_line[self.stop] - first_line[self.first]

    def object_keys(self) -> list[str]:
        """The key of each file."""
        return [head.object_key for head in self.files.table.heads[self.first : self.stop]]

    def partition_rows(self) -> Int64s:
        """The row of the partition of each batch, also of those that were not accepted."""
        first_line = self.files.table.first_line
        return self.files.table.lines[first_line[self.first] : first_line[self.stop], ROW_OF_PARTITION]

    def count_by_partition(self, counts: Int64s) -> Int64s:
        """Count the accepted batches by the rows of their partitions; returns the counts, longer ones where a row had no place."""
        lines, first_line = self.files.table.lines, self.files.table.first_line
        at, stop = first_line[self.first], first_line[self.stop]
        while (at := count_batches(lines.data, at, stop, counts.data)) < stop:
            # Not joined to zeros, which would touch each of them.
            longer = np.zeros(max(2 * len(counts), int(lines[at, ROW_OF_PARTITION]) + 1), np.int64)
            longer[: len(counts)] = counts
            counts = longer
        return counts

    def sort_into(self, rows: Int64s, places: Int64s) -> None:
        """Write the accepted batches as lines of `stored_rows.ROW`, each at the place of its partition's row, which moves on by one."""
        files = self.files
        first_line = files.table.first_line
        sort_batches(
            files.table.lines.data, first_line[self.first], first_line[self.stop], files.bounds.data, files.file_ids.data,
            files.append_times.data, places.data, rows.data,
        )  # fmt: skip

    def sorted(self) -> SortedBatches:
        """The accepted batches by partition; kept, because readers come again until the files are written."""
        if self._sorted is None:
            files = self.files
            first_line = files.table.first_line
            owners, rows = np.empty(self.lines, np.int64), np.empty(self.lines, ROW)
            end = place_batches(
                files.table.lines.data, first_line[self.first], first_line[self.stop], files.bounds.data, files.file_ids.data,
                files.append_times.data, owners.data, numbers_of(rows).data, 0,
            )  # fmt: skip
            order = np.argsort(owners[:end], kind="stable")
            owners = owners[order]
            is_start = np.ones(end, bool)
            np.not_equal(owners[1:], owners[:-1], out=is_start[1:])
            starts = is_start.nonzero()[0]
            self._sorted = SortedBatches(rows[order], owners[starts].tolist(), starts.tolist())
        return self._sorted

    def file_name(self, file: int) -> FileName:
        """The properties of a file that are returned with each of its batches."""
        head = self.files.table.heads[file]
        return FileName(head.object_key, head.append_time_ms)

    def file_row(self, file: int) -> FileRow:
        """The row of one file in the state database."""
        return self.file_rows(file, file + 1).row(0)

    def file_rows(self, first: int, stop: int) -> Columns[FileRow]:
        """The rows of the files `[first, stop)` in the state database."""
        files, part = self.files, slice(first, stop)
        keys, formats, sizes, uploaders, owners, created, appended, hashes = map(list, zip(*files.table.heads[part], strict=True))
        columns = (
            files.file_ids[part].tolist(),
            keys,
            hashes,
            formats,
            sizes,
            uploaders,
            list(map(owners_text, owners)),
            created,
            appended,
            files.accepted[part].tolist(),
            self.live_batches[first - self.first : stop - self.first],
            files.encoded[part],
            [-1] * (stop - first),
        )
        return Columns(FileRow, columns)
