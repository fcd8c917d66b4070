"""The files of a scan one by one: rows for their life cycle, and whether their batches lie where they may.

Batches of a file must not overlap and must end within the file. They are in the order of the request, which need not be
that of their bytes: a negative gap alone is no fault.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa

from records.committed_files.lines import BYTE_OFFSET, BYTE_SIZE, FILE
from spark_jobs.contradiction import BATCH_BYTE_MAX, position_conflict
from spark_jobs.scan.audit import Audit
from spark_jobs.scan.columns import Int64s, Mask, ScannedFiles, sums_of
from spark_jobs.scan.summary import FindingRow, ScannedFileRow, batch_of_columns

FILE_BYTES_MAX = 1 << 50
"""A file that claims to be larger is a mistake; it counts as empty, so that sums stay within 64 bits."""


def batch_bytes(files: ScannedFiles) -> Int64s:
    """The bytes of the accepted batches of each file."""
    return sums_of(files.batches, BYTE_SIZE, len(files))


def sane_sizes(files: ScannedFiles) -> Int64s:
    """The size of each file, 0 where it is absurd."""
    sizes = files.file_size
    return np.where((sizes >= 0) & (sizes <= FILE_BYTES_MAX), sizes, 0)


def counted_here(kpart: int, files: ScannedFiles) -> Mask:
    """Which files this partition of the metadata topic counts: a file of several owners is one object, counted by its first owner."""
    return np.array([not head.owner_ids or head.owner_ids[0] == kpart for head in files.heads], bool)


class Files:
    """The files of one partition of the metadata topic, as batches of the summary: rows of `ScannedFileRow`, made without a loop."""

    def __init__(self, kpart: int) -> None:
        self._kpart = kpart
        self.batches: list[pa.RecordBatch] = []

    def add(self, files: ScannedFiles, used: Int64s, sizes: Int64s) -> None:
        """Describe files. `used` is `batch_bytes`, `sizes` is `sane_sizes`."""
        columns = {
            "at": files.at, "offset": files.offset, "number": files.number, "object_key": [head.object_key for head in files.heads],
            "owners": _owners(files), "append_ms": files.append_ms, "created_ms": [head.created_ms for head in files.heads],
            "uploader": files.uploader, "file_bytes": sizes, "batches": files.batches_of_file, "size_bytes": used,
        }  # fmt: skip
        self.batches.append(batch_of_columns(ScannedFileRow, self._kpart, columns, len(files)))


def _owners(files: ScannedFiles) -> pa.Array:
    """The owners of each file as a JSON list."""
    first = files.heads[0].owner_ids
    if all(head.owner_ids == first for head in files.heads):
        return pa.repeat(pa.scalar(str(first)), len(files))
    return pa.array([str(head.owner_ids) for head in files.heads])


def check_bytes(kpart: int, files: ScannedFiles, audit: Audit) -> None:
    """Find batches that overlap or lie outside their file."""
    lines, sizes = files.batches, files.file_size
    begins, ends = lines[:, BYTE_OFFSET], lines[:, BYTE_OFFSET] + lines[:, BYTE_SIZE]
    suspicious = (sizes < 0) | (sizes > FILE_BYTES_MAX)
    suspicious[lines[ends > sizes[lines[:, FILE]], FILE]] = True
    goes_back = (lines[1:, FILE] == lines[:-1, FILE]) & (begins[1:] < ends[:-1])
    suspicious[lines[1:][goes_back, FILE]] = True
    for file in suspicious.nonzero()[0].tolist():
        _check_file(kpart, files, file, audit)


def find_beyond(kpart: int, files: ScannedFiles) -> dict[int, FindingRow]:
    """The files with a batch that begins beyond what can be asked for, by their place: they contradict the log by themselves."""
    found: dict[int, FindingRow] = {}
    beyond = files.batches[files.batches[:, BYTE_OFFSET] > BATCH_BYTE_MAX]
    for file, begin in beyond[:, [FILE, BYTE_OFFSET]].tolist():
        if file not in found:
            key = files.key(file)
            found[file] = FindingRow.of(kpart, int(files.offset[file]), position_conflict(key, begin), object_key=key)
    return found


def check_owners(kpart: int, files: ScannedFiles, audit: Audit) -> None:
    """Find files that do not name this partition of the metadata topic among their owners."""
    for file, head in enumerate(files.heads):
        if kpart not in head.owner_ids:
            key, owners = head.object_key, head.owner_ids
            message = f"file {key} is committed here and has owners {owners}: coordinator {kpart} is not one of them"
            audit.find(FindingRow(kpart, int(files.offset[file]), "owner-missing", message, object_key=key, expected=kpart))


def check_times(kpart: int, files: ScannedFiles, log_time_ms: int, audit: Audit) -> int:
    """Find append times that go back; returns the newest. `log_time_ms` is the newest before, NOT_SAID for none."""
    times = files.append_time_ms
    newest = np.maximum.accumulate(np.concatenate((np.array([log_time_ms]), times)))
    for file in (times < newest[:-1]).nonzero()[0].tolist():
        due, found, key = int(newest[file]), int(times[file]), files.key(file)
        message = f"file {key} was appended {due - found} ms before an earlier file of the log"
        audit.find(FindingRow(kpart, int(files.offset[file]), "append-time-backwards", message, object_key=key, expected=due, found=found))
    return int(newest[-1])


def _check_file(kpart: int, files: ScannedFiles, file: int, audit: Audit) -> None:
    lines = files.batches[files.batches[:, FILE] == file]
    ranges = [(begin, begin + size) for begin, size in lines[:, [BYTE_OFFSET, BYTE_SIZE]].tolist()]
    offset, key, size = int(files.offset[file]), files.key(file), int(files.file_size[file])
    ranges.sort()
    furthest = max((end for _, end in ranges), default=0)
    if not 0 <= size <= FILE_BYTES_MAX or furthest > size:
        message = f"batches of file {key} reach to byte {furthest}, the file has {size} bytes"
        audit.find(FindingRow(kpart, offset, "batches-beyond-file", message, object_key=key, expected=size, found=furthest))
    for (_, before), (begin, _) in pairwise(ranges):
        if begin < before:
            message = f"batches of file {key} overlap at byte {begin}: the one before ends at {before}"
            audit.find(FindingRow(kpart, offset, "byte-overlap", message, object_key=key, expected=before, found=begin))
            return
