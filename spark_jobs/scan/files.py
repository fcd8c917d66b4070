"""The files of a scan one by one: rows for their life cycle, and whether their batches lie where they may.

Batches of a file must not overlap and must end within the file. They are in the order of the request, which need not be
that of their bytes: a negative gap alone is no fault.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa

from records.bulk_files import sums_of
from spark_jobs.contradiction import BATCH_BYTE_MAX, position_conflict
from spark_jobs.scan.audit import Audit
from spark_jobs.scan.columns import Bytes, Int64s, Mask, ScannedFiles, starts_of
from spark_jobs.scan.summary import FindingRow, ScannedFileRow, batch_of_columns

FILE_BYTES_MAX = 1 << 50
"""A file that claims to be larger is a mistake; it counts as empty, so that sums stay within 64 bits."""


def batch_bytes(files: ScannedFiles) -> Int64s:
    """The bytes of the accepted batches of each file."""
    return sums_of(files.byte_size, files.batches_of_file)


def sane_sizes(files: ScannedFiles) -> Int64s:
    """The size of each file, 0 where it is absurd."""
    return np.where((files.file_size >= 0) & (files.file_size <= FILE_BYTES_MAX), files.file_size, 0)


def counted_here(kpart: int, files: ScannedFiles) -> Mask:
    """Which files this partition of the metadata topic counts: a file of several owners is one object, counted by its first owner."""
    first = np.full(len(files), kpart, np.int64)
    is_owned = files.owners_of_file > 0
    first[is_owned] = files.owner_ids[starts_of(files.owners_of_file)[is_owned]]
    counted: Mask = first == kpart
    return counted


class Files:
    """The files of one partition of the metadata topic, as batches of the summary: rows of `ScannedFileRow`, made without a loop."""

    def __init__(self, kpart: int) -> None:
        self._kpart = kpart
        self.batches: list[pa.RecordBatch] = []

    def add(self, files: ScannedFiles, used: Int64s, sizes: Int64s) -> None:
        """Describe files. `used` is `batch_bytes`, `sizes` is `sane_sizes`."""
        columns = {
            "at": files.at, "offset": files.offset, "number": files.number, "object_key": _texts(files.keys, files.key_size),
            "owners": _owners(files), "append_ms": files.append_ms, "created_ms": files.created_ms, "uploader": files.uploader,
            "file_bytes": sizes, "batches": files.batches_of_file, "size_bytes": used,
        }  # fmt: skip
        self.batches.append(batch_of_columns(ScannedFileRow, self._kpart, columns, len(files)))


def _texts(data: Bytes, sizes: Int64s) -> pa.Array:
    """Texts that stand one after the other."""
    ends = np.zeros(len(sizes) + 1, np.int32)
    sizes.cumsum(out=ends[1:])
    return pa.StringArray.from_buffers(len(sizes), pa.py_buffer(ends), pa.py_buffer(data))


def _owners(files: ScannedFiles) -> pa.Array:
    """The owners of each file as a JSON list."""
    counts, flat = files.owners_of_file, files.owner_ids
    count = int(counts[0])
    if (counts == count).all() and (flat.reshape(len(counts), count) == flat[:count]).all():
        return pa.repeat(pa.scalar(str(flat[:count].tolist())), len(counts))
    ids, starts = flat.tolist(), starts_of(counts).tolist()
    return pa.array([str(ids[start : start + size]) for start, size in zip(starts, counts.tolist(), strict=True)])


def check_bytes(kpart: int, files: ScannedFiles, audit: Audit) -> None:
    """Find batches that overlap or lie outside their file."""
    ends = sums_of(files.byte_size + files.byte_gap, files.batches_of_file)
    suspicious = (ends > files.file_size) & (files.batches_of_file > 0) | (files.file_size < 0) | (files.file_size > FILE_BYTES_MAX)
    gaps = (files.byte_gap < 0).nonzero()[0]
    if len(gaps):
        suspicious[np.searchsorted(files.batches_of_file.cumsum(), gaps, "right")] = True
    for file in suspicious.nonzero()[0].tolist():
        _check_file(kpart, files, file, audit)


def find_beyond(kpart: int, files: ScannedFiles) -> dict[int, FindingRow]:
    """The files with a batch that begins beyond what can be asked for, by their place: they contradict the log by themselves."""
    reach = files.byte_size.sum(dtype=np.float64) + np.abs(files.byte_gap).sum(dtype=np.float64)
    if reach <= BATCH_BYTE_MAX:
        return {}
    ends = (files.byte_size + files.byte_gap).cumsum()
    before = np.concatenate((np.zeros(1, np.int64), ends))[starts_of(files.batches_of_file)]
    begins = ends - files.byte_size - np.repeat(before, files.batches_of_file)
    found: dict[int, FindingRow] = {}
    for batch in (begins > BATCH_BYTE_MAX).nonzero()[0].tolist():
        file = int(np.searchsorted(files.batches_of_file.cumsum(), batch, "right"))
        if file not in found:
            key = files.key(file)
            found[file] = FindingRow.of(kpart, int(files.offset[file]), position_conflict(key, int(begins[batch])), object_key=key)
    return found


def check_owners(kpart: int, files: ScannedFiles, audit: Audit) -> None:
    """Find files that do not name this partition of the metadata topic among their owners."""
    is_own = files.owner_ids == kpart
    if is_own.all():
        return
    for file in (sums_of(is_own.astype(np.int64), files.owners_of_file) == 0).nonzero()[0].tolist():
        start = int(starts_of(files.owners_of_file)[file])
        owners = files.owner_ids[start : start + int(files.owners_of_file[file])].tolist()
        key = files.key(file)
        message = f"file {key} is committed here and has owners {owners}: coordinator {kpart} is not one of them"
        audit.find(FindingRow(kpart, int(files.offset[file]), "owner-missing", message, object_key=key, expected=kpart))


def check_times(kpart: int, files: ScannedFiles, log_time_ms: int, audit: Audit) -> int:
    """Find append times that go back; returns the newest. `log_time_ms` is the newest before, NOT_SAID for none."""
    newest = np.maximum.accumulate(np.concatenate((np.array([log_time_ms]), files.append_time_ms)))
    for file in (files.append_time_ms < newest[:-1]).nonzero()[0].tolist():
        due, found, key = int(newest[file]), int(files.append_time_ms[file]), files.key(file)
        message = f"file {key} was appended {due - found} ms before a file that stands before it"
        audit.find(FindingRow(kpart, int(files.offset[file]), "append-time-backwards", message, object_key=key, expected=due, found=found))
    return int(newest[-1])


def _check_file(kpart: int, files: ScannedFiles, file: int, audit: Audit) -> None:
    start = int(starts_of(files.batches_of_file)[file])
    which = slice(start, start + int(files.batches_of_file[file]))
    # Plain integers: gaps of a broken file may lead beyond 64 bits.
    ranges: list[tuple[int, int]] = []
    end = 0
    for gap, size in zip(files.byte_gap[which].tolist(), files.byte_size[which].tolist(), strict=True):
        ranges.append((end + gap, end + gap + size))
        end += gap + size
    offset, key, size = int(files.offset[file]), files.key(file), int(files.file_size[file])
    ranges.sort()
    furthest = max((end for _, end in ranges), default=0)
    if not 0 <= size <= FILE_BYTES_MAX or furthest > size:
        message = f"batches of file {key} reach to byte {furthest}, the file has {size} bytes"
        audit.find(FindingRow(kpart, offset, "batches-beyond-file", message, object_key=key, expected=size, found=min(furthest, 2**63 - 1)))
    for (_, before), (begin, _) in pairwise(ranges):
        if begin < before:
            message = f"batches of file {key} overlap at byte {begin}: the one before ends at {before}"
            audit.find(FindingRow(kpart, offset, "byte-overlap", message, object_key=key, expected=before, found=begin))
            return
