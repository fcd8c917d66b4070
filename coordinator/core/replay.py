"""Blocks from the log: what a follower applies together instead of record by record.

A block is made only of files whose batches were all accepted and whose producers stay in their epoch; anything else is
applied by the readable path. Either way the state is the same, and a test holds it so.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from coordinator.core.batches import SEQUENCE_MASK, partition_key
from coordinator.core.block import CommitBlock, Int64s, ProducerColumns, lengths_of, starts_of_equal
from coordinator.core.hot import HotState
from records.bulk import FileHead
from records.model import FileCommitted


def is_plain(record: FileCommitted) -> bool:
    """Whether all batches of the file were accepted, and there is one at least."""
    return not record.other_index and bool(record.byte_size)


def block_of(hot: HotState, records: Sequence[FileCommitted], encoded: Sequence[bytes]) -> CommitBlock | None:
    """The block of plain records, None when only the readable path can tell what they do."""
    batches_of_file = np.array([len(record.byte_size) for record in records], np.int64)
    file_of = np.repeat(np.arange(len(records)), batches_of_file)
    run_keys = [
        partition_key(record.topic_ids[t], p) for record in records for t, p in zip(record.run_topic, record.run_partition, strict=True)
    ]
    numbers: dict[bytes, int] = {}
    run_number = np.array([numbers.setdefault(key, len(numbers)) for key in run_keys], np.int64)
    run_length = _column(records, "run_length")
    number = run_number.repeat(run_length)
    count = _column(records, "record_count_minus_one") + 1
    append_times = np.array([record.append_time_ms for record in records], np.int64)
    order = np.argsort(number, kind="stable")
    starts = starts_of_equal(number[order])
    keys = list(numbers)
    base = _bases(_column(records, "run_base_offset"), run_length, count)
    producers = _producers(hot, records, keys, number, count, batches_of_file)
    if (producers is not None and not _stay_in_epoch(hot, producers)) or not _is_dense(base, count, order, starts):
        return None
    size = _column(records, "byte_size")
    return CommitBlock(
        heads=[_head(record) for record in records],
        append_times=append_times,
        batches_of_file=batches_of_file,
        file_of=file_of,
        keys=[keys[one] for one in number[order][starts].tolist()],
        order=order,
        starts=starts,
        stops=starts + lengths_of(starts, len(order)),
        base=base,
        count=count,
        byte_offset=_byte_offsets(records, size, batches_of_file),
        size=size,
        timestamp=append_times[file_of] - _column(records, "timestamp_age"),
        timestamp_type=_sparse(records, "timestamp_type", batches_of_file),
        log_start=np.zeros(len(base), np.int64),
        producers=producers,
        encoded=list(encoded),
    )


def _column(records: Sequence[FileCommitted], name: str) -> Int64s:
    columns: list[list[int]] = [getattr(record, name) for record in records]
    return np.fromiter(chain.from_iterable(columns), np.int64, sum(map(len, columns)))


def _sparse(records: Sequence[FileCommitted], name: str, batches_of_file: Int64s) -> Int64s:
    """A column that a file leaves out when all its values are 0."""
    columns: list[list[int]] = [getattr(record, name) for record in records]
    if not any(columns):
        return np.zeros(int(batches_of_file.sum()), np.int64)
    filled = [column or [0] * batches for column, batches in zip(columns, batches_of_file.tolist(), strict=True)]
    return np.fromiter(chain.from_iterable(filled), np.int64)


def _bases(run_base: Int64s, run_length: Int64s, count: Int64s) -> Int64s:
    """Base offset of every batch: dense within its run."""
    before = count.cumsum() - count
    first = run_length.cumsum() - run_length
    bases: Int64s = before + np.repeat(run_base - before[first], run_length)
    return bases


def _is_dense(base: Int64s, count: Int64s, order: Int64s, starts: Int64s) -> bool:
    """Whether each partition's batches follow one another; the readable path names the one that does not."""
    sorted_base, end = base[order], (base + count)[order]
    follows = sorted_base[1:] == end[:-1]
    follows[starts[1:] - 1] = True
    return bool(follows.all())


def _byte_offsets(records: Sequence[FileCommitted], size: Int64s, batches_of_file: Int64s) -> Int64s:
    step = size.copy()
    gap = _sparse(records, "byte_gap", batches_of_file)
    before = step.cumsum() - step + gap.cumsum()
    first = batches_of_file.cumsum() - batches_of_file
    shift = before[first] - gap[first]
    offsets: Int64s = before - shift.repeat(batches_of_file)
    return offsets


def _producers(
    hot: HotState, records: Sequence[FileCommitted], keys: list[bytes], number: Int64s, count: Int64s, batches_of_file: Int64s
) -> ProducerColumns | None:
    """The idempotent batches sorted by producer, None when there are none."""
    distance = _column(records, "producer_index")
    if not len(distance):
        return None
    per_file = np.array([len(record.producer_index) for record in records], np.int64)
    first_of_file = batches_of_file.cumsum() - batches_of_file
    used = per_file > 0
    steps = distance.cumsum()
    first_step = (per_file.cumsum() - per_file)[used]
    before = steps[first_step] - distance[first_step]
    at = steps - before.repeat(per_file[used]) + first_of_file[used].repeat(per_file[used])
    ids, epochs, first = _column(records, "producer_id"), _column(records, "producer_epoch"), _column(records, "base_sequence")
    named: dict[tuple[int, int], int] = {}
    of_batch = np.array([named.setdefault(one, len(named)) for one in zip(number[at].tolist(), ids.tolist(), strict=True)], np.int64)
    order = np.argsort(of_batch, kind="stable")
    at, first = at[order], first[order]
    return ProducerColumns(
        at=at,
        starts=starts_of_equal(of_batch[order]),
        partition_keys=[keys[one] for one, _ in named],
        producer_ids=[producer_id for _, producer_id in named],
        epochs=epochs[order],
        first_sequences=first,
        last_sequences=(first + count[at] - 1) & SEQUENCE_MASK,
    )


def _stay_in_epoch(hot: HotState, producers: ProducerColumns) -> bool:
    """Whether every producer keeps the epoch it has, or begins and ends with the same one; reduces `epochs` to one each."""
    known = [_epoch(hot, *one) for one in zip(producers.partition_keys, producers.producer_ids, strict=True)]
    due = np.array(known, np.int64)
    due = np.where(due < 0, producers.epochs[producers.starts], due)
    stays = not (producers.epochs != due.repeat(lengths_of(producers.starts, len(producers.at)))).any()
    producers.epochs = due
    return stays


def _epoch(hot: HotState, key: bytes, producer_id: int) -> int:
    """The epoch of a producer, -1 when nothing is known of it."""
    row = hot.partitions.index.get(key)
    slot = None if row is None else hot.producers.find(row, producer_id)
    return -1 if slot is None else hot.producers.epoch.cells[slot]


def _head(record: FileCommitted) -> FileHead:
    return FileHead(
        object_key=record.object_key,
        object_format=record.object_format,
        file_size=record.file_size,
        uploader_broker_id=record.uploader_broker_id,
        owner_ids=record.owner_ids,
        created_ms=record.created_ms,
        append_time_ms=record.append_time_ms,
        content_hash=record.content_hash,
    )
