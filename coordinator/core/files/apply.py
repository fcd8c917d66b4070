"""Applies files of the log to the committed tables, up to the first file that contradicts them, and tells why it does."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from coordinator.core.files.commit_loops import apply_files
from coordinator.core.files.logged import LoggedFiles
from coordinator.core.files.outcomes import FAR_BYTES, NO_PARTITION, OLD_EPOCH, PENDING, UNDO_WIDTH, WRONG_OFFSET
from coordinator.core.tables.in_memory import HotState
from coordinator.core.wording import partition_text
from records.committed_files.codec import topic_id_of
from records.committed_files.lines import (
    BASE_OFFSET,
    BASE_SEQUENCE,
    BYTE_OFFSET,
    PARTITION,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    TOPIC_HIGH,
    TOPIC_LOW,
)


class ApplyResult(NamedTuple):
    """The files before `stop` were applied; `contradiction` says why the one at `stop` cannot be, None when it was not looked at."""

    stop: int
    contradiction: str | None
    has_directory_changed: bool


def apply(hot: HotState, files: LoggedFiles, first: int, stop: int) -> ApplyResult:
    """Apply files in order up to the first that the log before it rules out; nothing of that one is applied.

    It is ruled out when a partition does not exist or takes no batches, when offsets or sequences are not the next ones, each partition's
    and each producer's in their order, and when a batch begins beyond what a request can name and packed batches have room for.
    """
    first_line = files.table.first_line
    batches = first_line[stop] - first_line[first]
    longest = batches if stop - first == 1 else int(np.diff(files.bounds[first : stop + 1]).max())
    hot.producers.reserve(batches)
    fault = np.zeros(3, np.int64)
    end = apply_files(
        files.table.lines.data, files.bounds.data, first, stop, files.append_times.data, hot.partitions.rows, hot.producers.rows,
        files.accepted.data, np.empty((longest, UNDO_WIDTH), np.int64).data, fault.data,
    )  # fmt: skip
    has_directory_changed = False
    if end > first:
        times = files.append_times[first:end]
        has_directory_changed = hot.advance_time(int(times[0]), int(times.max()))
    return ApplyResult(end, None if end == stop else _reason(hot, files, end, *fault.tolist()), has_directory_changed)


def _reason(hot: HotState, files: LoggedFiles, file: int, place: int, reason: int, expected: int) -> str:
    line, key = files.table.lines[place].tolist(), files.table.heads[file].object_key
    where = partition_text(hot, topic_id_of(line[TOPIC_HIGH], line[TOPIC_LOW]), line[PARTITION])
    if reason == NO_PARTITION:
        return f"file {key} commits to {where}, which does not exist here"
    if reason == PENDING:
        return f"file {key} commits to {where}, whose log is not initialised"
    if reason == WRONG_OFFSET:
        return f"file {key} gives {where} offset {line[BASE_OFFSET]}, {expected} is next"
    if reason == FAR_BYTES:
        return f"file {key} has a batch at byte {line[BYTE_OFFSET]}, the last possible is {expected}"
    epoch, sequence = line[PRODUCER_EPOCH], line[BASE_SEQUENCE]
    fault = f"epoch {epoch} after epoch {expected}" if reason == OLD_EPOCH else f"sequence {sequence} of epoch {epoch}, {expected} is next"
    return f"file {key}, producer {line[PRODUCER_ID]} in {where}: {fault}"
