"""Blocks from the log: what a follower applies together instead of entry by entry.

A block is made only of files whose batches were all accepted and whose producers stay in their epoch; anything else is
applied by the readable path. Either way the state is the same, and a test holds it so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, repeat
from typing import TypeAlias

import numpy as np

from coordinator.core.batches import partition_key
from coordinator.core.block import CommitBlock, Int64s, ProducerColumns, lengths_of, starts_of_equal
from coordinator.core.commit_vector import Unusual
from coordinator.core.events import ReadEntry
from coordinator.core.hot import HotState
from coordinator.core.tables import ProducerTable
from records.file_head import FileHead
from records.bulk_decode import decode_file_entries
from records.bulk_expand import BatchColumns, expand_batches, expand_idempotent, topics_of_runs
from records.bulk_files import FileColumns

Parts: TypeAlias = Iterator[tuple[CommitBlock | None, Sequence[ReadEntry]]]
"""Entries with the block they make, None when they make none."""

UNUSUAL_MAX = 4
"""After so many unusual files in one stretch the rest of it is not tried again: every try looks at all of the rest."""


def blocks_of(hot: HotState, entries: Sequence[ReadEntry], batches_min: int) -> Parts:
    """Cut entries, in order, into blocks and into what only the readable path can tell (None).

    Each part must be applied to the state before the next one is asked for. Fewer than `batches_min` batches make no block.
    """
    values = [entry.value or b"" for entry in entries]
    sizes = np.array(list(map(len, values)), np.int64)
    ends = sizes.cumsum()
    _, files = decode_file_entries(np.frombuffer(b"".join(values), np.uint8), ends - sizes, ends)
    plain = ((files.others.others_of_file == 0) & (files.numbers.batches_of_file > 0)).nonzero()[0]
    if len(plain) == len(entries):
        yield from _cut(hot, files, entries, batches_min)
        return
    place_of = dict(zip(files.message[plain].tolist(), plain.tolist(), strict=True))
    for is_plain, places in groupby(range(len(entries)), place_of.__contains__):
        stretch = list(places)
        part = entries[stretch[0] : stretch[-1] + 1]
        if is_plain:
            yield from _cut(hot, files.take(np.array([place_of[place] for place in stretch])), part, batches_min)
        else:
            yield None, part


def _cut(hot: HotState, files: FileColumns, entries: Sequence[ReadEntry], batches_min: int) -> Parts:
    """Cut plain files at those that make no block."""
    for _ in range(UNUSUAL_MAX):
        block = block_of(hot, files, entries) if int(files.numbers.batches_of_file.sum()) >= batches_min else None
        if block is None:
            break
        if isinstance(block, CommitBlock):
            yield block, entries
            return
        at = block.file
        before = files.take(np.arange(at))
        usual = block_of(hot, before, entries[:at]) if int(before.numbers.batches_of_file.sum()) >= batches_min else None
        yield usual if isinstance(usual, CommitBlock) else None, entries[:at]
        yield None, entries[at : at + 1]
        files, entries = files.take(np.arange(at + 1, len(files))), entries[at + 1 :]
    yield None, entries


def block_of(hot: HotState, files: FileColumns, entries: Sequence[ReadEntry]) -> CommitBlock | Unusual:
    """The block of plain files, or the first of them that only the readable path can tell what it does."""
    numbers = files.numbers
    batches = expand_batches(files)
    topic_ids = files.topic_id_list()
    run_topic = _numbers_of(topic_ids)[topics_of_runs(files)]
    # A number per partition, small enough to be sorted fast whenever there are few of them.
    width = int(numbers.run_partition.max()) + 1
    number = (run_topic * width + numbers.run_partition)[batches.run]
    order = np.argsort(number.astype(np.uint16) if int(number.max()) < 1 << 16 else number, kind="stable")
    sorted_number = number[order]
    starts = starts_of_equal(sorted_number)
    first_runs = batches.run[order[starts]]
    partitions = numbers.run_partition[first_runs].tolist()
    keys = [partition_key(topic_ids[at], one) for at, one in zip(topics_of_runs(files)[first_runs].tolist(), partitions, strict=True)]
    rows = np.array([hot.partitions.index.get(key, -1) for key in keys], np.int64)
    producers, strangers = _producers(hot, files, batches, number, sorted_number[starts], rows)
    unusual = np.concatenate((strangers, _gaps(hot, batches, order, starts, rows)))
    if len(unusual):
        return Unusual(int(batches.file[unusual].min()))
    return CommitBlock(
        heads=_heads(files),
        append_times=files.append_time_ms,
        batches_of_file=numbers.batches_of_file,
        file_of=batches.file,
        keys=keys,
        order=order,
        starts=starts,
        stops=starts + lengths_of(starts, len(order)),
        base=batches.base_offset,
        count=batches.record_count,
        byte_offset=batches.byte_offset,
        size=batches.byte_size,
        timestamp=batches.timestamp_ms,
        timestamp_type=batches.timestamp_type,
        log_start=np.zeros(len(order), np.int64),
        producers=producers,
        encoded=[entry.value or b"" for entry in entries],
    )


def _numbers_of(topic_ids: Sequence[bytes]) -> Int64s:
    """A small number for each topic id."""
    number_of = {topic_id: number for number, topic_id in enumerate(dict.fromkeys(topic_ids))}
    return np.fromiter(map(number_of.__getitem__, topic_ids), np.int64, len(topic_ids))


def _gaps(hot: HotState, batches: BatchColumns, order: Int64s, starts: Int64s, rows: Int64s) -> Int64s:
    """The batches that do not follow the one before them in their partition; the readable path says what is wrong."""
    base = batches.base_offset[order]
    due = np.empty_like(base)
    due[1:] = (base + batches.record_count[order])[:-1]
    due[starts] = np.where(rows < 0, -1, hot.partitions.high_watermark.array[rows])
    gaps: Int64s = order[base != due]
    return gaps


def _producers(
    hot: HotState, files: FileColumns, batches: BatchColumns, number: Int64s, numbers: Int64s, rows: Int64s
) -> tuple[ProducerColumns | None, Int64s]:
    """The idempotent batches sorted by producer, None when there are none; and those that change their producer's epoch.

    `number` is the partition's number of every batch; `numbers`, ascending, and `rows` are those of each partition.
    """
    found = expand_idempotent(files.numbers)
    if not len(found.batch):
        return None, found.batch
    of_batch = number[found.batch]
    order = np.lexsort((found.producer_id, of_batch))
    sorted_number, sorted_id = of_batch[order], found.producer_id[order]
    is_start = np.ones(len(order), bool)
    is_start[1:] = (sorted_number[1:] != sorted_number[:-1]) | (sorted_id[1:] != sorted_id[:-1])
    starts = is_start.nonzero()[0]
    segments = np.searchsorted(numbers, sorted_number[starts])
    producer_ids = sorted_id[starts]
    at, epochs = found.batch[order], found.producer_epoch[order]
    slots = _slots(hot.producers, rows[segments].tolist(), producer_ids.tolist())
    due = np.where(slots < 0, epochs[starts], hot.producers.epoch.array[slots])
    producers = ProducerColumns(
        at=at,
        starts=starts,
        segments=segments,
        producer_ids=producer_ids,
        slots=slots,
        epochs=due,
        first_sequences=found.base_sequence[order],
        last_sequences=found.last_sequence[order],
    )
    return producers, at[epochs != due.repeat(lengths_of(starts, len(at)))]


def _slots(table: ProducerTable, rows: list[int], producer_ids: list[int]) -> Int64s:
    """The row of each producer, -1 when nothing is known of it."""
    nothing: dict[int, int] = {}
    of_partition = map(table.index.get, rows, repeat(nothing))
    return np.array([known.get(one, -1) for known, one in zip(of_partition, producer_ids, strict=True)], np.int64)


def _heads(files: FileColumns) -> list[FileHead]:
    return [
        FileHead(*head)
        for head in zip(
            files.object_keys(),
            files.object_format.tolist(),
            files.file_size.tolist(),
            files.uploader_broker_id.tolist(),
            _owner_lists(files),
            files.created_ms.tolist(),
            files.append_time_ms.tolist(),
            files.hash_list(),
            strict=True,
        )
    ]


def _owner_lists(files: FileColumns) -> list[list[int]]:
    owners, ends = files.owner_ids.tolist(), files.owners_of_file.cumsum().tolist()
    return [owners[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]
