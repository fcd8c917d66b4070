"""The files of a piece of the log, whichever way they were decoded: what the rules of the scan work on.

Only lawful files get here. Most were read together (`records.committed_files.codec.read_files_at`); those beside other records
or in a transaction were decoded one by one, and `merged` puts both in log order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from records.committed_files.codec import FileCommitted, FileTable, read_files_at, table_of
from records.committed_files.head import FileHead
from records.committed_files.lines import FILE, VERDICT

Int64s = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


SLICE_BYTES = 32 * 1024
"""Some 3000 batches of large files."""


class FilePlace(NamedTuple):
    """The place of a file: its step in the scan, the offset and time of its entry, and its number within the entry."""

    at: int
    offset: int
    append_ms: int
    number: int


@dataclass(slots=True, kw_only=True)
class ScannedFiles:
    """One value per file, and lines: those of accepted batches and the others, file after file. FILE counts these files."""

    at: Int64s
    offset: Int64s
    append_ms: Int64s
    number: Int64s
    heads: list[FileHead]
    batches: Int64s
    others: Int64s

    def __len__(self) -> int:
        return len(self.heads)

    @property
    def batches_of_file(self) -> Int64s:
        """How many accepted batches each file has."""
        return np.bincount(self.batches[:, FILE], minlength=len(self)).astype(np.int64)

    @property
    def file_size(self) -> Int64s:
        """The size of each file, as its commit says."""
        return np.array([head.file_size for head in self.heads], np.int64)

    @property
    def append_time_ms(self) -> Int64s:
        """The append time of each file."""
        return np.array([head.append_time_ms for head in self.heads], np.int64)

    @property
    def uploader(self) -> Int64s:
        """The broker that uploaded each file."""
        return np.array([head.uploader_broker_id for head in self.heads], np.int64)

    def key(self, file: int) -> str:
        """The object key of a file."""
        return self.heads[file].object_key

    def take(self, which: Int64s) -> ScannedFiles:
        """The files at these places, in the order of `which`."""
        places = which.tolist()
        return ScannedFiles(
            at=self.at[which],
            offset=self.offset[which],
            append_ms=self.append_ms[which],
            number=self.number[which],
            heads=[self.heads[file] for file in places],
            batches=_lines_of(self.batches, which, len(self)),
            others=_lines_of(self.others, which, len(self)),
        )


def _lines_of(lines: Int64s, which: Int64s, files: int) -> Int64s:
    """The lines of the files that are taken, in their new order."""
    place = np.full(files, -1, np.int64)
    place[which] = np.arange(len(which))
    file = place[lines[:, FILE]]
    kept = lines[file >= 0]
    kept[:, FILE] = file[file >= 0]
    if (np.diff(which) > 0).all():
        return kept
    ordered: Int64s = kept[np.argsort(kept[:, FILE], kind="stable")]
    return ordered


def sums_of(lines: Int64s, column: int, files: int) -> Int64s:
    """The sum of a column per file. Lines are in the order of files."""
    sums = np.zeros(files, np.int64)
    if len(lines):
        starts = np.concatenate(([0], (lines[1:, FILE] != lines[:-1, FILE]).nonzero()[0] + 1))
        sums[lines[starts, FILE]] = np.add.reduceat(lines[:, column], starts)
    return sums


def read_columns(data: bytes, starts: Int64s, ends: Int64s) -> tuple[list[int], FileTable]:
    """Read files as `records.committed_files.codec.read_files_at` does, but with each column of the lines in one stretch of memory.

    Rules look at one column of all batches at a time. Entries are read in slices whose lines stay in the cache until they are turned.
    """
    taken: list[int] = []
    heads: list[FileHead] = []
    first_line = [0]
    columns: list[Int64s] = []
    first = 0
    while first < len(starts):
        stop = max(first + 1, int(np.searchsorted(ends, ends[first] + SLICE_BYTES)))
        which, table = read_files_at(data, starts[first:stop], ends[first:stop])
        taken += [first + place for place in which]
        table.lines[:, FILE] += len(heads)
        heads += table.heads
        first_line += [first_line[-1] + line for line in table.first_line[1:]]
        columns.append(np.asfortranarray(table.lines))
        first = stop
    lines = np.concatenate(columns) if columns else read_files_at(b"", starts, ends)[1].lines
    return taken, FileTable(heads, first_line, lines)


def columns_of_table(table: FileTable, at: Int64s, offset: Int64s, append_ms: Int64s, number: Int64s) -> ScannedFiles:
    """The files of a table, given the place of each."""
    is_accepted = table.lines[:, VERDICT] == 0
    is_plain = bool(is_accepted.all())
    return ScannedFiles(
        at=at,
        offset=offset,
        append_ms=append_ms,
        number=number,
        heads=table.heads,
        batches=table.lines if is_plain else table.lines[is_accepted],
        others=table.lines[:0] if is_plain else table.lines[~is_accepted],
    )


def columns_of_records(records: Sequence[tuple[FilePlace, FileCommitted]]) -> ScannedFiles:
    """The files of records that were decoded one by one."""
    places = np.array([place for place, _ in records], np.int64).reshape(-1, 4)
    return columns_of_table(table_of([record for _, record in records]), *places.T)


def merged(first: ScannedFiles, second: ScannedFiles) -> ScannedFiles:
    """The files of both, in log order."""
    both = ScannedFiles(
        at=np.concatenate((first.at, second.at)),
        offset=np.concatenate((first.offset, second.offset)),
        append_ms=np.concatenate((first.append_ms, second.append_ms)),
        number=np.concatenate((first.number, second.number)),
        heads=first.heads + second.heads,
        batches=_joined(first.batches, second.batches, len(first)),
        others=_joined(first.others, second.others, len(first)),
    )
    return both.take(np.argsort(both.at, kind="stable"))


def _joined(first: Int64s, second: Int64s, files: int) -> Int64s:
    lines: Int64s = np.concatenate((first, second))
    lines[len(first) :, FILE] += files
    return lines
