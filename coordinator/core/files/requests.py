"""The checks of a CommitFile request by itself, before the tables are asked: its head, and the form of its batches.

A request that fails one of them is refused as a whole, and nothing of it is logged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from coordinator.core.commands import OK, CommitFile, Outcome
from coordinator.core.files.outcomes import BAD_MAGIC, BAD_OFFSETS, BAD_RANGE, BAD_TYPE, OUT_OF_ORDER
from coordinator.core.files.request_loops import read_requests
from coordinator.core.limits import BATCHES_PER_FILE_BITS, OBJECT_FORMAT_WAL_MULTI_SEGMENT, Limits
from coordinator.kafka.batches import split_partition_key
from coordinator.kafka.coordinators import OWNERS_MAX
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.names import topic_id_text
from coordinator.object_store import key_fault
from records.committed_files.lines import LINE_WIDTH

Int64s = npt.NDArray[np.int64]

RECORDS_PER_BATCH_MAX = 1 << 31
_HASH_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitContext:
    """The inputs of a decision besides the tables."""

    coordinator_id: int
    coordinator_count: int
    limits: Limits
    now_ms: int
    log_time_ms: int
    """The time of the log, which may be later than `now_ms`: append times never go back."""


@dataclass(slots=True)
class RequestLines:
    """The batches of requests as undecided lines; `first_line` says where those of each begin, and where the last one's end.

    `faults` has for each request the place of its first unlawful batch, and what is wrong, 0 for nothing. `hashes` identify the
    content of each, 16 bytes.
    """

    lines: Int64s
    first_line: list[int]
    faults: list[tuple[int, int]]
    hashes: list[bytes]


def read_lines(raw: bytes, commands: Sequence[CommitFile]) -> RequestLines:
    """Read the batches of requests, which follow each other in `raw`."""
    first_line = [0, *accumulate([len(command.batches) for command in commands])]
    heads = [(command.object_format, command.file_size) for command in commands]
    owners = [command.owner_ids for command in commands]
    lines, hashes = np.empty((first_line[-1], LINE_WIDTH), np.int64), bytearray(_HASH_BYTES * len(commands))
    faults = read_requests(raw, first_line, heads, owners, lines.data, memoryview(hashes))
    all_hashes = bytes(hashes)
    return RequestLines(lines, first_line, faults, [all_hashes[at : at + _HASH_BYTES] for at in range(0, len(all_hashes), _HASH_BYTES)])


def batch_fault(command: CommitFile, place: int, reason: int) -> Outcome | None:
    """The refusal of a request that has a fault of `RequestLines`; None when batches that are not in order do not overlap either."""
    if reason == OUT_OF_ORDER:
        return _overlap(command)
    topic_id, partition = split_partition_key(command.batches["topic_partition"][place].item())
    where = f"batch {place} of file {command.object_key} (topic id {topic_id_text(topic_id)}, partition {partition})"
    return Outcome(error=ErrorCode.INVALID_REQUEST, message=f"{where}: {_complaint(command, place, reason)}")


def _complaint(command: CommitFile, place: int, reason: int) -> str:
    batch = dict(zip(command.batches.dtype.names or (), command.batches[place].item(), strict=True))
    if reason == BAD_MAGIC:
        return f"magic {batch['magic']} is not supported; convert to magic 2"
    if reason == BAD_RANGE:
        start, stop = batch["byte_offset"], batch["byte_offset"] + batch["size"]
        return f"bytes [{start}, {stop}) are not a range within the file's {command.file_size} bytes"
    if reason == BAD_OFFSETS:
        return f"offsets {batch['base_offset']} to {batch['last_offset']} are not a batch of 1 to {RECORDS_PER_BATCH_MAX} records"
    if reason == BAD_TYPE:
        return f"timestamp type {batch['timestamp_type']} is neither 0 (CreateTime) nor 1 (LogAppendTime)"
    return f"timestamp {batch['max_timestamp']} is below -1"


def _overlap(command: CommitFile) -> Outcome | None:
    starts, sizes = command.batches["byte_offset"].astype(np.int64), command.batches["size"].astype(np.int64)
    order = np.argsort(starts, kind="stable")
    ends = (starts + sizes)[order]
    overlaps = np.flatnonzero(starts[order][1:] < ends[:-1])
    if not len(overlaps):
        return None
    at = int(overlaps[0])
    message = f"batches of file {command.object_key} overlap at byte {starts[order[at + 1]]}: the one before ends at {ends[at]}"
    return Outcome(error=ErrorCode.INVALID_REQUEST, message=message)


def check_whole(command: CommitFile, coordinator_count: int) -> Outcome:
    """Check a request of several coordinators as it was received, before it is split.

    Its age is left to each of them, and whether it names them: where partitions are, a node may not have read yet.
    """
    problem = _check_file(command, coordinator_count)
    if problem is None:
        place, reason = read_lines(command.batches.tobytes(), [command]).faults[0]
        problem = batch_fault(command, place, reason) if reason else None
    return OK if problem is None else problem


def check_head(command: CommitFile, context: CommitContext) -> Outcome | None:
    """Check the file-level fields. If the command is one coordinator's share of a request that was already checked, return that verdict."""
    checked = command.checked
    if checked is not None and checked.error is not ErrorCode.NONE:
        return checked
    problem = _check_file(command, context.coordinator_count)
    if problem is not None:
        return problem
    if command.object_key.startswith(context.limits.kept_prefixes):
        # Its object would never be deleted.
        *others, last = context.limits.kept_prefixes
        kept = f"{', '.join(others)} and {last}" if others else last
        return _invalid(f"the key of file {command.object_key} is one of this service's own objects, below {kept}: upload it under another")
    age_ms = context.now_ms - command.created_ms
    if command.created_ms >= 0 and age_ms > context.limits.file_commit_max_age_ms:
        limit_ms = context.limits.file_commit_max_age_ms
        message = f"file {command.object_key} is {age_ms} ms old; commits are accepted up to {limit_ms} ms (file.commit.max.age.ms)"
        return _invalid(f"{message}: upload it under a new key")
    # Tombstones are forgotten by the time of the log. Where this node's clock is far behind it, the age alone would let a key pass that was
    # fenced, and whose object is deleted.
    log_age_ms, kept_ms = context.log_time_ms - command.created_ms, context.limits.file_fence_retention_ms
    if command.created_ms >= 0 and log_age_ms > kept_ms:
        message = (
            f"file {command.object_key} is {log_age_ms} ms older than the metadata log's time, and fences are known for {kept_ms} ms"
            " (file.fence.retention.ms): this node's clock is wrong, or an earlier leader's was"
        )
        return _invalid(f"{message}; set the clock right, or wait until clocks have reached the log's time")
    return None


def _check_file(command: CommitFile, coordinator_count: int) -> Outcome | None:
    """The checks on the file as a whole that all coordinators make alike."""
    if fault := key_fault(command.object_key):
        # A store lists the object under another key, if at all: it would be taken for an orphan, or stay for ever.
        return _invalid(fault)
    if command.object_format != OBJECT_FORMAT_WAL_MULTI_SEGMENT:
        return _invalid(f"object format {command.object_format} is unknown; send {OBJECT_FORMAT_WAL_MULTI_SEGMENT}")
    if command.file_size < 0:
        return _invalid(f"file size {command.file_size} is negative")
    if len(command.owner_ids) > OWNERS_MAX:
        return _invalid(f"{len(command.owner_ids)} owners; at most {OWNERS_MAX} are allowed: make several files of it")
    if len(command.batches) > 1 << BATCHES_PER_FILE_BITS:
        return _invalid(f"{len(command.batches)} batches; at most {1 << BATCHES_PER_FILE_BITS} are allowed in a file: make several of it")
    return _check_owners(tuple(command.owner_ids), coordinator_count)


@lru_cache(maxsize=1024)
def _check_owners(owners: tuple[int, ...], coordinator_count: int) -> Outcome | None:
    """The checks on the owner list, which is that of many files."""
    if not owners:
        return _invalid("the owner list is empty; name the coordinators that own partitions of the file")
    if len(set(owners)) != len(owners):
        return _invalid(f"owner list {list(owners)} names a coordinator twice")
    if any(owner < 0 for owner in owners):
        return _invalid(f"owner list {list(owners)} has a negative coordinator id")
    unknown = [owner for owner in owners if owner >= coordinator_count]
    if unknown:
        return Outcome(error=ErrorCode.COORDINATOR_NOT_AVAILABLE, message=f"coordinators {unknown} are not known here (yet); retry")
    return None


def _invalid(message: str) -> Outcome:
    return Outcome(error=ErrorCode.INVALID_REQUEST, message=message)
