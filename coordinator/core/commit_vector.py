"""CommitFile over whole groups: proves that nothing is unusual and assigns all offsets at once.

The rules are those of `commit.py`, and this module holds none of its own: whatever is not plain (an unknown partition,
a duplicate, a gap, a new epoch, anything refused) makes it name the first file concerned, which then takes the
readable path. Equal records and answers are held by a property test.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from coordinator.core.batches import BATCH, KEY_PARTS, SEQUENCE_MASK, BatchArray, is_start_of_run, join_batches
from coordinator.core.block import CommitBlock, Int64s, ProducerColumns, lengths_of, starts_of_equal
from coordinator.core.commands import OK, CommitFile, Outcome
from coordinator.core.commit import RECORDS_PER_BATCH_MAX, Batch, check_batches, check_file
from coordinator.core.hot import HotState
from coordinator.core.tables import REMEMBERED_BATCHES
from records.bulk import FileHead, FileNumbers, encode_file_entries

_TOPIC_ID_BYTES = 16


@dataclass(frozen=True, slots=True)
class Unusual:
    """The first file that the readable path has to decide; the files before it are plain."""

    file: int


class _Unusual(Exception):
    def __init__(self, file: int) -> None:
        super().__init__(file)
        self.file = file


def decide_block(
    hot: HotState, commands: Sequence[CommitFile], hashes: Sequence[bytes], append_time_ms: int, batches: BatchArray | None = None
) -> CommitBlock | Unusual:
    """Decide plain commits, in order; their heads must have been checked. Every file has a batch.

    `batches` are those of all commands, if they are joined already.
    """
    if batches is None:
        batches = np.frombuffer(join_batches([command.batches for command in commands]), BATCH)
    try:
        return _decide(hot, commands, hashes, append_time_ms, batches)
    except _Unusual as unusual:
        return Unusual(unusual.file)


def check_whole(command: CommitFile, coordinator_ids: Collection[int], coordinator_count: int) -> Outcome:
    """Check a request of several coordinators as it was received, before it is split; its age is left to each of them."""
    problem = check_file(command, coordinator_ids, coordinator_count)
    if problem is None and not _is_sound(command):
        problem = check_batches(command, [Batch._make(row) for row in command.batches.tolist()])
    return OK if problem is None else Outcome(error=problem[0], message=problem[1])


def _is_sound(command: CommitFile) -> bool:
    """Whether the batches pass all checks and stand in the order of their bytes."""
    try:
        _check(command.batches, [command], np.zeros(len(command.batches), np.int64), np.zeros(1, np.int64))
    except _Unusual:
        return False
    return True


def _decide(
    hot: HotState, commands: Sequence[CommitFile], hashes: Sequence[bytes], append_time_ms: int, batches: BatchArray
) -> CommitBlock:
    batches_of_file = np.array([len(command.batches) for command in commands], np.int64)
    first_of_file = batches_of_file.cumsum() - batches_of_file
    file_of = np.repeat(np.arange(len(commands)), batches_of_file)
    count, byte_offset, size, gap = _check(batches, commands, file_of, first_of_file)
    is_start = is_start_of_run(batches)
    is_start[first_of_file] = True
    run_start = is_start.nonzero()[0]
    run_keys: list[bytes] = batches["topic_partition"][run_start].tolist()
    run_row = _rows_of(hot, run_keys, file_of[run_start])
    run_length = lengths_of(run_start, len(batches))
    row = run_row.repeat(run_length)
    order = np.argsort(row.astype(np.uint16) if int(row.max()) < 1 << 16 else row, kind="stable")
    sorted_row = row[order]
    starts = starts_of_equal(sorted_row)
    stops = starts + lengths_of(starts, len(order))
    segment_row = sorted_row[starts]
    base = _assign(hot, count, order, starts, stops, segment_row)
    producers = _producers(hot, batches, row, segment_row, count, file_of)
    key_of_row = dict(zip(run_row.tolist(), run_keys, strict=True))
    log_start = hot.partitions.log_start.array[row]
    timestamp = batches["max_timestamp"].astype(np.int64)
    timestamp_type = batches["timestamp_type"].astype(np.int64)
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
        for command, content_hash in zip(commands, hashes, strict=True)
    ]
    runs_of_file = np.bincount(file_of[run_start], minlength=len(commands))
    topics, run_topic = _topics(run_keys, batches, run_start, runs_of_file)
    at = np.sort(producers.at) if producers is not None else np.zeros(0, np.int64)
    numbers = FileNumbers(
        runs_of_file=runs_of_file,
        batches_of_file=batches_of_file,
        producers_of_file=np.bincount(file_of[at], minlength=len(commands)),
        run_topic=run_topic,
        run_partition=batches.view(KEY_PARTS)["partition"][run_start].astype(np.int64),
        run_length=run_length,
        run_base_offset=base[run_start],
        run_log_start=log_start[run_start],
        byte_gap=gap,
        byte_size=size,
        record_count_minus_one=count - 1,
        timestamp_age=append_time_ms - timestamp,
        timestamp_type=timestamp_type,
        producer_index=_distances(at, file_of, first_of_file),
        producer_id=batches["producer_id"][at].astype(np.int64),
        producer_epoch=batches["producer_epoch"][at].astype(np.int64),
        base_sequence=batches["base_sequence"][at].astype(np.int64),
    )
    return CommitBlock(
        heads=heads,
        append_times=np.full(len(commands), append_time_ms),
        batches_of_file=batches_of_file,
        file_of=file_of,
        keys=[key_of_row[one] for one in segment_row.tolist()],
        order=order,
        starts=starts,
        stops=stops,
        base=base,
        count=count,
        byte_offset=byte_offset,
        size=size,
        timestamp=timestamp,
        timestamp_type=timestamp_type,
        log_start=log_start,
        producers=producers,
        encoded=encode_file_entries(heads, topics, numbers),
    )


def _check(
    batches: BatchArray, commands: Sequence[CommitFile], file_of: Int64s, first_of_file: Int64s
) -> tuple[Int64s, Int64s, Int64s, Int64s]:
    """The checks of `commit.check_request` on batches; returns record counts, byte offsets, sizes and gaps."""
    file_size = np.array([command.file_size for command in commands], np.int64)[file_of]
    byte_offset, size = batches["byte_offset"].astype(np.int64), batches["size"].astype(np.int64)
    # A difference that wraps belongs to a negative offset, which is looked at below.
    base_offset, last_offset = batches["base_offset"].astype(np.int64), batches["last_offset"].astype(np.int64)
    span = (last_offset - base_offset).view(np.uint64)
    byte_end = byte_offset + size
    previous_end = np.empty_like(byte_end)
    previous_end[1:] = byte_end[:-1]
    previous_end[first_of_file] = 0
    gap = byte_offset - previous_end
    kind = batches["timestamp_type"]
    is_bad = (batches["magic"] != 2) | (size <= 0) | (gap < 0) | (byte_end > file_size) | (span >= RECORDS_PER_BATCH_MAX)
    is_bad |= (kind < 0) | (kind > 1) | (batches["max_timestamp"] < -1) | (base_offset < 0) | (last_offset < 0)
    if is_bad.any():
        raise _Unusual(int(file_of[is_bad.argmax()]))
    return span.view(np.int64) + 1, byte_offset, size, gap


def _rows_of(hot: HotState, keys: list[bytes], files: Int64s) -> Int64s:
    index = hot.partitions.index
    try:
        return np.array([index[key] for key in keys], np.int64)
    except KeyError:
        unknown = next(place for place, key in enumerate(keys) if key not in index)
        raise _Unusual(int(files[unknown])) from None


def _assign(hot: HotState, count: Int64s, order: Int64s, starts: Int64s, stops: Int64s, segment_row: Int64s) -> Int64s:
    """Base offsets: dense from each partition's high watermark on, in the order of the requests."""
    sorted_count = count[order]
    before = sorted_count.cumsum() - sorted_count
    shift = hot.partitions.high_watermark.array[segment_row] - before[starts]
    base = np.empty_like(count)
    base[order] = before + shift.repeat(stops - starts)
    return base


def _distances(at: Int64s, file_of: Int64s, first_of_file: Int64s) -> Int64s:
    """Place of each idempotent batch in its file, as the distance to the one before (the first counts from 0)."""
    if not len(at):
        return at
    file = file_of[at]
    place = at - first_of_file[file]
    distance = place.copy()
    same = file[1:] == file[:-1]
    distance[1:][same] -= place[:-1][same]
    return distance


def _topics(run_keys: list[bytes], batches: BatchArray, run_start: Int64s, runs_of_file: Int64s) -> tuple[list[list[bytes]], Int64s]:
    """The topics of each file in order of first appearance, and each run's place among them."""
    topic_ids = {key[:_TOPIC_ID_BYTES] for key in run_keys}
    if len(topic_ids) == 1:
        return [list(topic_ids)] * len(runs_of_file), np.zeros(len(run_keys), np.int64)
    parts = batches.view(KEY_PARTS)[run_start]
    is_new = np.zeros(len(run_start), bool)
    is_new[runs_of_file.cumsum() - runs_of_file] = True
    for name in ("high", "low"):
        column = np.ascontiguousarray(parts[name])
        is_new[1:] |= column[1:] != column[:-1]
    changes = is_new.nonzero()[0]
    topics: list[list[bytes]] = []
    ordinals: list[int] = []
    file_of_run = np.repeat(np.arange(len(runs_of_file)), runs_of_file)
    known: dict[bytes, int] = {}
    for run, file in zip(changes.tolist(), file_of_run[changes].tolist(), strict=True):
        if file == len(topics):
            topics.append([])
            known = {}
        topic_id = run_keys[run][:16]
        ordinal = known.get(topic_id)
        if ordinal is None:
            ordinal = known[topic_id] = len(known)
            topics[-1].append(topic_id)
        ordinals.append(ordinal)
    return topics, np.repeat(np.array(ordinals, np.int64), lengths_of(changes, len(run_start)))


def _producers(
    hot: HotState, batches: BatchArray, row: Int64s, segment_row: Int64s, count: Int64s, file_of: Int64s
) -> ProducerColumns | None:
    """Prove that every idempotent batch follows on its producer's last one, in the same epoch."""
    at = np.flatnonzero((batches["producer_id"] >= 0) & (batches["producer_epoch"] >= 0))
    if not len(at):
        return None
    first = batches["base_sequence"][at].astype(np.int64)
    last = batches["last_sequence"][at].astype(np.int64)
    is_bad = (first < 0) | (last != (first + count[at] - 1) & SEQUENCE_MASK)
    if is_bad.any():
        raise _Unusual(int(file_of[at[is_bad.argmax()]]))
    rows, ids = row[at], batches["producer_id"][at].astype(np.int64)
    slots = _slots(hot, rows.tolist(), ids.tolist())
    order = np.argsort(slots, kind="stable")
    at, first, last, slots = at[order], first[order], last[order], slots[order]
    epoch = batches["producer_epoch"][at].astype(np.int64)
    starts = starts_of_equal(slots)
    leaders = slots[starts]
    known = leaders >= 0
    known_slots = leaders[known]
    table = hot.producers
    newest = known_slots * REMEMBERED_BATCHES + (table.head.array[known_slots] - 1) % REMEMBERED_BATCHES
    expected = np.empty_like(first)
    expected[1:] = (last[:-1] + 1) & SEQUENCE_MASK
    # Of a producer without state any first sequence and epoch is accepted.
    expected[starts] = first[starts]
    expected[starts[known]] = (table.ring_last.array[newest] + 1) & SEQUENCE_MASK
    epoch_due = epoch[starts].copy()
    epoch_due[known] = table.epoch.array[known_slots]
    is_bad = (first != expected) | (epoch != epoch_due.repeat(lengths_of(starts, len(at))))
    if is_bad.any():
        raise _Unusual(int(file_of[at[is_bad]].min()))
    sources = order[starts]
    return ProducerColumns(
        at=at,
        starts=starts,
        segments=segment_row.searchsorted(rows[sources]),
        producer_ids=ids[sources],
        slots=leaders,
        epochs=epoch[starts],
        first_sequences=first,
        last_sequences=last,
    )


def _slots(hot: HotState, rows: list[int], ids: list[int]) -> Int64s:
    """The row of each producer; producers without one get numbers below zero."""
    index = hot.producers.index
    nothing: dict[int, int] = {}
    new: dict[tuple[int, int], int] = {}
    found = [index.get(row, nothing).get(producer_id) for row, producer_id in zip(rows, ids, strict=True)]
    if None in found:
        named = zip(found, rows, ids, strict=True)
        found = [new.setdefault((row, one), -1 - len(new)) if slot is None else slot for slot, row, one in named]
    return np.array(found, np.int64)
