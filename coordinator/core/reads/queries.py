"""Reads: list offsets, find batches, describe files. Answers come from committed state only and change nothing.

The offsets from the log start to the high watermark are dense and each batch has a known file. A read that finds anything else
raises `BrokenInvariant`: a wrong answer would be believed, and the replica has to be built anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from coordinator.core.commands import (
    OK,
    Answer,
    Barrier,
    Command,
    DescribedFile,
    DescribeDisklessLogs,
    DescribedLog,
    DescribeFiles,
    DescribeStretches,
    FenceFiles,
    FetchPoint,
    FoundBatch,
    FoundBatches,
    FoundOffset,
    KnownStretch,
    ListOffsets,
    LogOrigin,
    NamedLog,
    OffsetQuery,
    OlderStretches,
    Outcome,
)
from coordinator.core.files.answers import released_row, served_row, unknown_partition
from coordinator.core.limits import BATCHES_PER_FILE_BITS
from coordinator.core.moves import Stretch
from coordinator.core.reads.standings import answer_fence
from coordinator.core.state.lookups import Lookups
from coordinator.core.state.unwritten import UnwrittenRun
from coordinator.core.tables.diskless_log import facts_of
from coordinator.core.tables.in_memory import BrokenInvariant, HotState
from coordinator.core.tables.search_loops import packed_reaching, row_reaching, unpack_batches
from coordinator.core.tables.stored_rows import APPEND_TIME_BIT, PACKED_CELLS, FileName, Rows, WrittenRun, numbers_of
from coordinator.core.tables.stretches import is_released
from coordinator.core.wording import row_text
from coordinator.kafka.batches import split_partition_key
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.names import topic_id_text
from coordinator.kafka.timestamps import EARLIEST, EARLIEST_LOCAL, LATEST, LATEST_TIERED, MAX_TIMESTAMP

MAGIC = 2
"""The magic byte of every batch; commits of batches with another one are refused."""

BATCH_ID_FILE_BITS = 46
"""Bits of a batch's id for the coordinator and the entry; with those of the place in the entry they make 63."""

BATCHES_PER_ANSWER_MAX = 5_000
"""About half a megabyte of answer, made in some 10 ms."""
ROWS_AT_FIRST = 8
ROWS_AT_ONCE = 512

_NOTHING_FOUND = FoundOffset(outcome=OK)


def answer_read(state: Lookups, read: Command) -> Answer:
    """Answer a strict read once its entry is acknowledged. Raises `BrokenInvariant`, also for a write, whose answer was decided with it."""
    match read:
        case FenceFiles():
            return answer_fence(state, read)
        case ListOffsets():
            return [list_offset(state, query) for query in read.queries]
        case DescribeFiles():
            return [describe_file(state, key) for key in read.object_keys]
        case DescribeDisklessLogs():
            return [_describe_log(state.hot, one) for one in read.partitions]
        case DescribeStretches():
            return [_known_stretch(state.hot, key, stretch) for key, stretch in state.hot.stretches.items()]
        case Barrier():
            return OK
        case _:
            raise BrokenInvariant(f"{type(read).__name__} was acknowledged without an answer")


def _known_stretch(hot: HotState, key: bytes, stretch: Stretch) -> KnownStretch:
    topic_id, partition = split_partition_key(key)
    row = hot.partitions.find(topic_id, partition)
    return KnownStretch(topic_id, partition, stretch, -1 if row is None else hot.partitions.log_start.cells[row])


def _describe_log(hot: HotState, asked: NamedLog) -> DescribedLog:
    row = hot.partitions.find(asked.topic_id, asked.partition)
    if row is None:
        return DescribedLog(unknown_partition(hot, asked.topic_id, asked.partition))
    if is_released(hot.partitions, row) and isinstance(moved := served_row(hot, asked.topic_id, asked.partition), Outcome):
        return DescribedLog(moved)
    facts = facts_of(hot.partitions, row)
    return DescribedLog(OK, facts._replace(suffix_start=-1, high_watermark=-1) if facts.origin is LogOrigin.PENDING else facts)


def list_offset(state: Lookups, query: OffsetQuery) -> FoundOffset:
    """Answer one ListOffsets query (KIP-1164, DisklessListOffsets)."""
    hot = state.hot
    row = served_row(hot, query.topic_id, query.partition)
    if isinstance(row, Outcome):
        return FoundOffset(outcome=row)
    log_start = hot.partitions.log_start.cells[row]
    match query.timestamp:
        case t if t >= 0 or t == MAX_TIMESTAMP:
            found = _max_timestamp(state, row, log_start) if t == MAX_TIMESTAMP else _first_at_or_after(state, row, log_start, t)
            return found._replace(older=_older_stretches(hot, query, log_start)) if hot.stretches else found
        case t if t == LATEST:
            return FoundOffset(outcome=OK, offset=hot.partitions.high_watermark.cells[row])
        case t if t == EARLIEST:
            return FoundOffset(outcome=OK, offset=facts_of(hot.partitions, row).earliest)
        case t if t == EARLIEST_LOCAL:
            return FoundOffset(outcome=OK, offset=log_start)
        case t if t == LATEST_TIERED:
            return _NOTHING_FOUND
        case _:
            where = row_text(hot, row)
            message = f"{where}: timestamp {query.timestamp} is neither a time (0 or more) nor one of -1 to -5; correct it"
            return FoundOffset(outcome=Outcome(error=ErrorCode.UNSUPPORTED_VERSION, message=message))


def _older_stretches(hot: HotState, query: OffsetQuery, log_start: int) -> OlderStretches | None:
    earlier = hot.stretch_of(query.topic_id, query.partition).earlier
    older = tuple(one for one in earlier if one.end_offset > log_start)
    return OlderStretches(log_start, older) if older else None


def list_released(state: Lookups, query: OffsetQuery, start_offset: int) -> FoundOffset:
    """Look a time up, or the greatest one, in the stretch of a partition that has gone on elsewhere, where it starts at an offset."""
    row = released_row(state.hot, query.topic_id, query.partition)
    if isinstance(row, Outcome):
        return FoundOffset(outcome=row)
    log_start = max(start_offset, state.hot.partitions.log_start.cells[row])
    if log_start >= state.hot.partitions.high_watermark.cells[row]:
        return _NOTHING_FOUND
    if query.timestamp == MAX_TIMESTAMP:
        return _max_timestamp(state, row, log_start)
    return _first_at_or_after(state, row, log_start, query.timestamp)


def _max_timestamp(state: Lookups, row: int, log_start: int) -> FoundOffset:
    table = state.hot.partitions
    if table.max_timestamp_offset.cells[row] < log_start:
        recompute_max_timestamp(state, row, log_start)
    if table.max_timestamp_offset.cells[row] < 0:
        return _NOTHING_FOUND
    return FoundOffset(outcome=OK, timestamp=table.max_timestamp.cells[row], offset=table.max_timestamp_offset.cells[row])


def recompute_max_timestamp(state: Lookups, row: int, log_start: int) -> None:
    """The batch that had the greatest timestamp was deleted: find the next one among the live ones."""
    best, best_offset = -1, -1
    for rows in state.rows_of_greatest(row, log_start):
        last = rows["base"] + rows["count"] - 1
        live = last >= log_start
        times = np.where(live, _effective(state, rows, live), np.int64(-2))
        at = int(times.argmax())
        if live[at] and (int(times[at]) > best or best_offset < 0):
            best, best_offset = int(times[at]), int(last[at])
    state.hot.partitions.max_timestamp.cells[row] = best
    state.hot.partitions.max_timestamp_offset.cells[row] = best_offset


def _effective(state: Lookups, rows: Rows, live: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Effective timestamps of the live batches; the append time of LogAppendTime batches is that of their file."""
    times = rows["timestamp"].astype(np.int64)
    for at in np.flatnonzero(live & (rows["type"] == 1)).tolist():
        times[at] = int(rows["append_time"][at]) or file_of_batch(state, int(rows["file"][at])).append_time_ms
    return times


def _first_at_or_after(state: Lookups, row: int, log_start: int, timestamp: int) -> FoundOffset:
    table = state.hot.partitions
    if table.max_timestamp.cells[row] < timestamp:
        return _NOTHING_FOUND
    for run in state.runs_reaching(row, log_start, timestamp):
        if isinstance(run, WrittenRun):
            found = _reaching_written(state, run, log_start, timestamp)
        else:
            found = _reaching_unwritten(run, log_start, timestamp)
        if found is not None:
            if found[1] >= table.high_watermark.cells[row]:
                raise BrokenInvariant(f"{_named(state, row)} has a batch at {found[1]}, past its high watermark")
            return FoundOffset(outcome=OK, timestamp=found[0], offset=max(log_start, found[1]))
    if table.max_timestamp_offset.cells[row] >= log_start:
        raise BrokenInvariant(f"{_named(state, row)} has no batch with timestamp {timestamp} or later, which its maximum says it has")
    return _NOTHING_FOUND


def _reaching_written(state: Lookups, written: WrittenRun, log_start: int, timestamp: int) -> tuple[int, int] | None:
    """Effective timestamp and base offset of the first batch that reaches a time."""
    run, end = written
    cells = memoryview(run.data).cast("I")
    place, base = packed_reaching(cells, 0, run.base, end, log_start, run.timestamp_base, timestamp)
    while place >= 0:
        at = place * PACKED_CELLS
        if not cells[at] & APPEND_TIME_BIT:
            return run.timestamp_base + cells[at + 4], base
        append_time = file_of_batch(state, run.file_base + cells[at + 3]).append_time_ms
        if append_time >= timestamp:
            return append_time, base
        base += (cells[at] & (APPEND_TIME_BIT - 1)) + 1
        place, base = packed_reaching(cells, place + 1, base, end, log_start, run.timestamp_base, timestamp)
    return None


def _reaching_unwritten(run: UnwrittenRun, log_start: int, timestamp: int) -> tuple[int, int] | None:
    """Find the first unwritten batch that reaches the time; the result is that of `_reaching_written`."""
    rows = numbers_of(run.files.sorted().rows).data
    at = row_reaching(rows, run.start, run.stop, log_start, timestamp)
    if at < 0:
        return None
    base, time, append_time, is_append_time = rows[at, 0], rows[at, 6], rows[at, 7], rows[at, 8] == 1
    return append_time if is_append_time else time, base


@dataclass(slots=True)
class FetchBudget:
    """The bytes and batches that a whole FindBatches request may still return; spans coordinators.

    However much is asked for, one answer has at most `BATCHES_PER_ANSWER_MAX` batches: it is made in one go, and everybody
    else waits meanwhile. Clients cannot tell it from a spent budget of bytes, and continue after the last batch.
    """

    max_bytes: int
    batches_per_partition: int
    admitted_bytes: int = 0
    admitted_batches: int = 0

    def room(self, partition_limit: int) -> tuple[int, int]:
        """The bytes and batches that one more partition may have: the batch that crosses a limit of bytes still is admitted.

        So is the first of all, whatever the limits of bytes are: a consumer would never get past it.
        """
        size_bytes = min(partition_limit, self.max_bytes - self.admitted_bytes)
        batches = BATCHES_PER_ANSWER_MAX - self.admitted_batches
        if self.batches_per_partition:
            batches = min(batches, self.batches_per_partition)
        return (size_bytes if self.admitted_batches else max(1, size_bytes)), batches

    def take(self, size_bytes: int, batches: int) -> None:
        """Take the bytes and batches found for a partition from the budget."""
        self.admitted_bytes += size_bytes
        self.admitted_batches += batches


def find_batches(state: Lookups, point: FetchPoint, budget: FetchBudget, coordinator_id: int) -> FoundBatches | None:
    """Answer one FindBatches element; None: the offset lies past the high watermark, which only a barrier can judge.

    The caller asks the coordinator that has the stretch of the offset. An offset before the stretch is of batches that a restore has lost.
    """
    hot = state.hot
    row = _readable_row(hot, point)
    if isinstance(row, Outcome):
        return FoundBatches(outcome=row, batches=[])
    log_start = hot.partitions.log_start.cells[row]
    high_watermark = hot.partitions.high_watermark.cells[row]
    if point.offset < log_start:
        message = f"{row_text(hot, row)}: offset {point.offset} is below the log start {log_start}; continue there"
        return FoundBatches(
            outcome=Outcome(error=ErrorCode.OFFSET_OUT_OF_RANGE, message=message),
            log_start=log_start,
            high_watermark=high_watermark,
            batches=[],
        )
    point = point._replace(offset=max(point.offset, hot.stretch_of(point.topic_id, point.partition).base_offset))
    if point.offset > high_watermark:
        return None
    batches = _collect(state, row, point, budget, coordinator_id) if point.offset < high_watermark else []
    return FoundBatches(outcome=OK, log_start=log_start, high_watermark=high_watermark, batches=batches)


def _readable_row(hot: HotState, point: FetchPoint) -> int | Outcome:
    """The row of a partition that has batches here, although it may have gone on elsewhere."""
    row = hot.partitions.find(point.topic_id, point.partition)
    if row is not None and is_released(hot.partitions, row):
        return row
    return served_row(hot, point.topic_id, point.partition)


def past_the_end(state: Lookups, point: FetchPoint, *, is_certain: bool) -> FoundBatches:
    """The answer for an offset past the high watermark: only a leader behind a barrier may reset a consumer.

    It may not either when the partition has gone on elsewhere, which the node that asks does not know yet.
    """
    row = _readable_row(state.hot, point)
    if isinstance(row, Outcome):
        return FoundBatches(outcome=row, batches=[])
    is_certain = is_certain and not is_released(state.hot.partitions, row)
    high_watermark = state.hot.partitions.high_watermark.cells[row]
    error = ErrorCode.OFFSET_OUT_OF_RANGE if is_certain else ErrorCode.OFFSET_NOT_AVAILABLE
    return FoundBatches(
        outcome=Outcome(
            error=error, message=f"{row_text(state.hot, row)}: offset {point.offset} is past the high watermark {high_watermark}"
        ),
        log_start=state.hot.partitions.log_start.cells[row],
        high_watermark=high_watermark,
        batches=[],
    )


def _collect(state: Lookups, row: int, point: FetchPoint, budget: FetchBudget, coordinator_id: int) -> list[FoundBatch]:
    found: list[FoundBatch] = []
    size_bytes_max, batches_max = budget.room(point.max_bytes)
    if size_bytes_max <= 0 or batches_max <= 0:
        return found
    high_watermark = state.hot.partitions.high_watermark.cells[row]
    size_bytes = 0
    due = -1
    files: dict[int, tuple[int, str, int]] = {}
    for base, count, byte_offset, size, file_id, index, timestamp, kind in _batches_from(state, row, point.offset):
        file = files.get(file_id)
        if file is None:
            file = files[file_id] = _file_of(state, coordinator_id, file_id)
        first_id, object_key, append_time_ms = file
        if base != due and (found or not base <= point.offset < base + count):
            raise BrokenInvariant(f"{_named(state, row)} has a batch at {base} where that of {due if found else point.offset} is due")
        due = base + count
        last = due - 1
        found.append(FoundBatch(first_id | index, object_key, MAGIC, byte_offset, size, base, last, append_time_ms, timestamp, kind))
        size_bytes += size
        if size_bytes >= size_bytes_max or len(found) == batches_max:
            break
    else:
        if due != high_watermark:
            raise BrokenInvariant(f"{_named(state, row)} ends at {due}, before its high watermark {high_watermark}")
    if due > high_watermark:
        raise BrokenInvariant(f"{_named(state, row)} has a batch that ends at {due}, past its high watermark {high_watermark}")
    budget.take(size_bytes, len(found))
    return found


def _named(state: Lookups, row: int) -> str:
    """A user partition in an error message."""
    topic_id, partition = split_partition_key(state.hot.partitions.keys[row])
    return f"the state of partition {topic_id_text(topic_id)}:{partition}"


def _batches_from(state: Lookups, row: int, offset: int) -> Iterator[tuple[int, ...]]:
    """Base offset, record count, byte offset, size, file, index, timestamp and its type of each batch that ends at an offset or later.

    Unpacked gradually, few at first: a consumer that asks for little, or lags behind, gets few of many.
    """
    limit = ROWS_AT_FIRST
    for run in state.runs_from(row, offset):
        if isinstance(run, WrittenRun):
            (_, base, _, _, file_base, timestamp_base, data), end = run
            cells = memoryview(data).cast("I")
            place = 0
            while place >= 0:
                some, place, base = unpack_batches(cells, place, base, offset, end, file_base, timestamp_base, limit)
                yield from some
                limit = min(limit * 8, ROWS_AT_ONCE)
            continue
        rows = run.rows()
        for at in range(int(np.searchsorted(rows["base"] + rows["count"] - 1, offset)), len(rows), ROWS_AT_ONCE):
            for *found, _, kind in rows[at : at + ROWS_AT_ONCE].tolist():
                yield *found, kind


def _file_of(state: Lookups, coordinator_id: int, file_id: int) -> tuple[int, str, int]:
    """The id of a file's batch 0, the file's object key and its append time."""
    name = file_of_batch(state, file_id)
    return batch_id(coordinator_id, file_id, 0), name.object_key, name.append_time_ms


def file_of_batch(state: Lookups, file_id: int) -> FileName:
    """The file of a live batch."""
    name = state.file_name(file_id)
    if name is None:
        raise BrokenInvariant(f"file {file_id} has live batches, but the state does not know it")
    return name


def batch_id(coordinator_id: int, entry_offset: int, index: int) -> int:
    """A stable id: coordinator and offset of the entry in 46 bits, place in the entry in 17 bits.

    The coordinator fills the 46 bits from above, its lowest bit first, and the offset from below. So ids differ as long as the number of
    coordinators, rounded up to a power of two, times the entries of one is at most 2^46.
    """
    return ((_from_above(coordinator_id) ^ (entry_offset & ((1 << BATCH_ID_FILE_BITS) - 1))) << BATCHES_PER_FILE_BITS) | index


@cache
def _from_above(coordinator_id: int) -> int:
    """The bits of a coordinator's id in reverse order."""
    return int(f"{coordinator_id:0{BATCH_ID_FILE_BITS}b}"[::-1], 2)


def describe_file(state: Lookups, object_key: str) -> DescribedFile:
    """Answer one DescribeFiles element (strict: only after a barrier)."""
    file = state.find_file(object_key)
    if file is None:
        message = f"file {object_key} is not known to this coordinator"
        return DescribedFile(outcome=Outcome(error=ErrorCode.RESOURCE_NOT_FOUND, message=message))
    return DescribedFile(outcome=OK, has_live_batches=file.live_batches > 0)
