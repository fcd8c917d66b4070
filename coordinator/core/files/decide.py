"""CommitFile decided: the verdict on every batch of a group's files, their offsets, and their entries."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, repeat
from typing import NamedTuple

import numpy as np

from coordinator.core.commands import CommitFile
from coordinator.core.files.commit_loops import decide_files
from coordinator.core.files.logged import LoggedFiles
from coordinator.core.files.outcomes import UNKNOWN_PARTITION
from coordinator.core.files.requests import RequestLines
from coordinator.core.tables.diskless_log import OFFSETS_MAX
from coordinator.core.tables.in_memory import HotState
from records.committed_files.codec import FileTable, encode_files
from records.committed_files.head import FileHead
from records.committed_files.lines import FILE
from records.tuples import tuples_of


class DecidedFiles(NamedTuple):
    """`outcomes` are those of the requests, as `outcomes` names them; `files` those of them that were decided, None for none."""

    outcomes: list[int]
    files: LoggedFiles | None


def select(read: RequestLines, which: Sequence[int]) -> RequestLines:
    """The lines of some of the requests."""
    parts = [read.lines[read.first_line[request] : read.first_line[request + 1]] for request in which]
    counts = [len(part) for part in parts]
    lines = np.concatenate(parts)
    lines[:, FILE] = np.repeat(np.arange(len(parts)), counts)
    faults, hashes = [read.faults[request] for request in which], [read.hashes[request] for request in which]
    return RequestLines(lines, [0, *accumulate(counts)], faults, hashes)


def decide(hot: HotState, commands: Sequence[CommitFile], read: RequestLines, append_time_ms: int, level: int) -> DecidedFiles:
    """Decide lawful requests, in order, into the tables of the overlay; entries are written at a schema `level`.

    A request with a partition that this coordinator does not have is not decided, and changes nothing.
    """
    hot.producers.reserve(len(read.lines))
    outcomes = decide_files(read.lines.data, read.first_line, append_time_ms, OFFSETS_MAX, hot.partitions.rows, hot.producers.rows)
    if UNKNOWN_PARTITION in outcomes:
        decided = [request for request, outcome in enumerate(outcomes) if outcome != UNKNOWN_PARTITION]
        if not decided:
            return DecidedFiles(outcomes, None)
        read, commands = select(read, decided), [commands[request] for request in decided]
    hot.advance_time(append_time_ms, append_time_ms)
    heads = tuples_of(
        FileHead,
        [command.object_key for command in commands],
        [command.object_format for command in commands],
        [command.file_size for command in commands],
        [command.uploader_broker_id for command in commands],
        [command.owner_ids for command in commands],
        [command.created_ms for command in commands],
        repeat(append_time_ms, len(commands)),
        read.hashes,
    )
    table = FileTable(heads, read.first_line, read.lines)
    return DecidedFiles(outcomes, LoggedFiles(table, encode_files(table, level)))
