"""CommitFile decided: the verdict on every batch of a group's files, their offsets, and their entries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from coordinator.core.commands import CommitFile
from coordinator.core.files.commit_loops import decide_files
from coordinator.core.files.logged import Int64s, LoggedFiles
from coordinator.core.files.outcomes import UNKNOWN_PARTITION
from coordinator.core.files.requests import RequestLines
from coordinator.core.tables.diskless_log import OFFSETS_MAX
from coordinator.core.tables.in_memory import HotState
from records.file_head import FileHead
from records.files import FileTable, encode_files
from records.lines import FILE


class DecidedFiles(NamedTuple):
    """`outcomes` are those of the requests, as `outcomes` names them; `files` those of them that were decided, None for none."""

    outcomes: list[int]
    files: LoggedFiles | None


def select(read: RequestLines, which: Sequence[int]) -> RequestLines:
    """The lines of some of the requests."""
    parts = [read.lines[read.bounds[request] : read.bounds[request + 1]] for request in which]
    bounds = np.zeros(len(parts) + 1, np.int64)
    np.cumsum([len(part) for part in parts], out=bounds[1:])
    lines = np.concatenate(parts)
    lines[:, FILE] = np.repeat(np.arange(len(parts)), np.diff(bounds))
    return RequestLines(lines, bounds, read.faults[list(which)], [read.hashes[request] for request in which])


def decide(hot: HotState, commands: Sequence[CommitFile], read: RequestLines, append_time_ms: int, level: int) -> DecidedFiles:
    """Decide lawful requests, in order, into the speculative tables; entries are written at a schema `level`.

    A request of which a partition is not here is not decided and changes nothing.
    """
    outcomes: Int64s = np.empty(len(commands), np.int64)
    hot.producers.reserve(len(read.lines))
    decide_files(read.lines.data, read.bounds.data, append_time_ms, OFFSETS_MAX, hot.partitions.rows, hot.producers.rows, outcomes.data)
    found = outcomes.tolist()
    if UNKNOWN_PARTITION in found:
        decided = [request for request, outcome in enumerate(found) if outcome != UNKNOWN_PARTITION]
        if not decided:
            return DecidedFiles(found, None)
        read, commands = select(read, decided), [commands[request] for request in decided]
    hot.advance_time(append_time_ms, append_time_ms)
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
        for command, content_hash in zip(commands, read.hashes, strict=True)
    ]
    table = FileTable(heads, read.bounds.tolist(), read.lines)
    return DecidedFiles(found, LoggedFiles(table, encode_files(table, level)))
