"""Activity per second, per uploader and by size: sums that only ever add up. Times are those of the entries in Kafka."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from records.committed_files.lines import FILE, RECORD_COUNT
from spark_jobs.scan.chains import MINUTE_MS, Partitions
from spark_jobs.scan.columns import Int64s, Mask, ScannedFiles, sums_of
from spark_jobs.scan.summary import BucketRow, SecondRow, UploaderRow

SECOND_MS = 1000
FILL_STEP_PERCENT = 10


class Activity:
    """Sums of one partition of the metadata topic in one micro-batch."""

    def __init__(self, kpart: int) -> None:
        self._kpart = kpart
        self._seconds: dict[int, list[int]] = {}
        self._uploaders: dict[tuple[int, int], list[int]] = {}
        self._buckets: dict[tuple[str, int, int], int] = {}

    def add_entries(self, append_ms: Int64s, counts: Mask) -> None:
        """Count entries, those that are void apart."""
        for second, numbers in _sums(append_ms // SECOND_MS, (~counts).astype(np.int64), np.ones(len(counts), np.int64)):
            self._add_second(second, 6, numbers)

    def add_files(self, files: ScannedFiles, partitions: Partitions, used: Int64s, sizes: Int64s, is_counted: Mask) -> None:
        """Count files and what is in them. `used` are the bytes of their batches, `sizes` their own.

        A file and its size count where `is_counted` says so, its batches wherever they are.
        """
        if not len(files):
            return
        batches = files.batches_of_file
        records = sums_of(files.batches, RECORD_COUNT, len(files))
        uploader, distinct = files.uploader, _partitions(files, partitions)
        ones = is_counted.astype(np.int64)
        counted_sizes = np.where(is_counted, sizes, 0)
        is_shared = (is_counted & np.array([len(head.owner_ids) > 1 for head in files.heads])).astype(np.int64)
        for second, numbers in _sums(files.append_ms // SECOND_MS, ones, batches, records, used, counted_sizes, is_shared):
            self._add_second(second, 0, numbers)
        for minute in np.unique(files.append_ms // MINUTE_MS).tolist():
            which = files.append_ms // MINUTE_MS == minute
            for one, numbers in _sums(uploader[which], ones[which], batches[which], used[which], counted_sizes[which]):
                have = self._uploaders.setdefault((minute, one), [0] * 4)
                have[:] = map(int.__add__, have, numbers)
            self._add_buckets("batches_per_file", minute, _powers(batches[which]))
            self._add_buckets("file_bytes", minute, _powers(sizes[which & is_counted]))
            self._add_buckets("partitions_per_file", minute, _powers(distinct[which]))
            filled = which & (sizes > 0)
            percent = np.minimum(used[filled] / sizes[filled] * 100, 100)
            self._add_buckets("fill_percent", minute, (np.ceil(percent / FILL_STEP_PERCENT) * FILL_STEP_PERCENT).astype(np.int64))

    def _add_second(self, second: int, first: int, numbers: list[int]) -> None:
        have = self._seconds.setdefault(second, [0] * 8)
        for place, number in enumerate(numbers, first):
            have[place] += number

    def _add_buckets(self, name: str, minute: int, uppers: Int64s) -> None:
        values, counts = np.unique(uppers, return_counts=True)
        for upper, count in zip(values.tolist(), counts.tolist(), strict=True):
            self._buckets[(name, minute, upper)] = self._buckets.get((name, minute, upper), 0) + count

    def rows(self) -> Iterator[SecondRow | UploaderRow | BucketRow]:
        """All sums as rows."""
        kpart = self._kpart
        for second, numbers in self._seconds.items():
            yield SecondRow(kpart, second, *numbers)
        for (minute, uploader), numbers in self._uploaders.items():
            yield UploaderRow(kpart, minute, uploader, *numbers)
        for (name, minute, upper), count in self._buckets.items():
            yield BucketRow(kpart, name, minute, upper, count)


def _sums(groups: Int64s, *columns: Int64s) -> Iterator[tuple[int, list[int]]]:
    """Add up columns per group."""
    if not len(groups):
        return
    if (groups == groups[0]).all():
        yield int(groups[0]), [int(column.sum()) for column in columns]
        return
    order = np.argsort(groups, kind="stable")
    groups = groups[order]
    starts = np.flatnonzero(np.r_[True, groups[1:] != groups[:-1]])
    sums = [np.add.reduceat(column[order], starts).tolist() for column in columns]
    for group, *numbers in zip(groups[starts].tolist(), *sums, strict=True):
        yield group, numbers


def _powers(values: Int64s) -> Int64s:
    """The least power of two that is not below each value; 0 for what is not positive."""
    exponents = np.frexp(np.maximum(values - 1, 0).astype(np.float64))[1].astype(np.int64)
    return np.where(values > 0, np.left_shift(1, exponents), 0)


def _partitions(files: ScannedFiles, partitions: Partitions) -> Int64s:
    """How many user partitions each file has accepted batches of."""
    file, number = files.batches[:, FILE], partitions.number
    is_new = np.ones(len(file), bool)
    is_new[1:] = (file[1:] != file[:-1]) | (number[1:] != number[:-1])
    if ((file[1:] == file[:-1]) & (number[1:] < number[:-1])).any():
        return np.bincount(np.unique((file << 32) | number) >> 32, minlength=len(files)).astype(np.int64)
    return np.bincount(file[is_new], minlength=len(files)).astype(np.int64)
