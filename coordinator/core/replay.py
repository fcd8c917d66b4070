"""Blocks from the log: what a follower applies together instead of entry by entry.

A block is made only of files whose batches were all accepted and whose producers stay in their epoch; anything else is
applied by the readable path. Either way the state is the same, and a test holds it so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from coordinator.core.block import CommitBlock, Int64s, ProducerColumns
from coordinator.core.commit_loops import sort_by_producer
from coordinator.core.commit_vector import Unusual
from coordinator.core.events import ReadEntry
from coordinator.core.hot import HotState
from coordinator.core.replay_loops import place_batches, place_producers
from records.bulk_decode import RawFiles, read_files
from records.file_head import FileHead

Parts: TypeAlias = Iterator[tuple[CommitBlock | None, Sequence[ReadEntry]]]
"""Entries with the block they make, None when they make none."""

UNUSUAL_MAX = 4
"""After so many unusual files in one stretch the rest of it is not tried again: every try looks at all of the rest."""

_HASH_BYTES = 16
_NEW_HEAD = partial(tuple.__new__, FileHead)  # half the cost of FileHead(...)


@dataclass(slots=True)
class Read:
    """Entries, the bytes of all of their values, and the files that were read from those."""

    entries: Sequence[ReadEntry]
    values: list[bytes]
    raw: bytes
    files: RawFiles


def blocks_of(hot: HotState, entries: Sequence[ReadEntry], batches_min: int) -> Parts:
    """Cut entries, in order, into blocks and into what only the readable path can tell (None).

    Each part must be applied to the state before the next one is asked for. Fewer than `batches_min` batches make no block.
    """
    values = [entry.value or b"" for entry in entries]
    raw = b"".join(values)
    sizes = np.fromiter(map(len, values), np.int64, len(values))
    ends = sizes.cumsum()
    files = read_files(raw, ends - sizes, ends)
    read = Read(entries, values, raw, files)
    at = 0
    for first, stop in _plain_stretches(files):
        messages = files.head("message")
        start, end = int(messages[first]), int(messages[stop - 1]) + 1
        if start > at:
            yield None, entries[at:start]
        yield from _cut(hot, read, first, stop, batches_min)
        at = end
    if at < len(entries):
        yield None, entries[at:]


def _plain_stretches(files: RawFiles) -> Iterator[tuple[int, int]]:
    """The files that may be of a block, as far as they stand one behind the other: the first and the one after the last."""
    is_plain = (files.head("others_of_file") == 0) & (files.head("batches_of_file") > 0)
    plain = is_plain.nonzero()[0]
    if not len(plain):
        return
    messages = files.head("message")[plain]
    edges = [0, *((np.diff(messages) != 1).nonzero()[0] + 1).tolist(), len(plain)]
    for start, stop in pairwise(edges):
        yield int(plain[start]), int(plain[stop - 1]) + 1


def _cut(hot: HotState, read: Read, first: int, stop: int, batches_min: int) -> Parts:
    """Cut plain files, whose entries stand one behind the other, at those that make no block."""
    shift = int(read.files.head("message")[first]) - first
    entries = read.entries
    for _ in range(UNUSUAL_MAX):
        block, end = _longest_block(hot, read, first, stop, batches_min)
        yield block, entries[first + shift : end + shift]
        if end == stop:
            return
        yield None, entries[end + shift : end + shift + 1]
        first = end + 1
    yield None, entries[first + shift : stop + shift]


def _longest_block(hot: HotState, read: Read, first: int, stop: int, batches_min: int) -> tuple[CommitBlock | None, int]:
    """The block up to the first unusual file, and that file, or `stop`; None when too few batches are before it."""
    while first < stop and int(read.files.head("batches_of_file")[first:stop].sum()) >= batches_min:
        block = block_of(hot, read, first, stop)
        if isinstance(block, CommitBlock):
            return block, stop
        stop = block.file
    return None, stop


def block_of(hot: HotState, read: Read, first: int, stop: int) -> CommitBlock | Unusual:
    """The block of plain files, or the first of them that only the readable path can tell what it does."""
    files = read.files
    batches_of_file = files.head("batches_of_file")[first:stop]
    places = int(batches_of_file.sum())
    columns = np.empty((8, places), np.int64)
    order = columns[7]
    segment_of = np.empty(places, np.int64)
    segments = np.empty((4, int(files.head("runs_of_file")[first:stop].sum())), np.int64)
    ordinals = np.empty(int(files.head("topics_of_file")[first:stop].max()), np.int64)
    keys: list[bytes] = []
    table = hot.partitions
    found = place_batches(
        read.raw,
        files.heads.data,
        first,
        stop,
        files.runs.data,
        files.batches.data,
        table.index,
        table.high_watermark.cells,
        ordinals.data,
        keys,
        segments.data,
        columns.data,
        segment_of.data,
        order.data,
    )
    if found < 0:
        return Unusual(first - found - 1)
    producers = _producers(hot, files, first, stop, segments, segment_of, columns[2])
    if isinstance(producers, Unusual):
        return producers
    file_of, base, count, byte_offset, size, timestamp, timestamp_type, _ = columns
    message = int(files.head("message")[first])
    return CommitBlock(
        heads=_heads(read, first, stop),
        append_times=files.head("append_time_ms")[first:stop].copy(),
        batches_of_file=batches_of_file.copy(),
        file_of=file_of,
        keys=keys,
        order=order,
        starts=segments[2, :found].copy(),
        stops=segments[3, :found].copy(),
        base=base,
        count=count,
        byte_offset=byte_offset,
        size=size,
        timestamp=timestamp,
        timestamp_type=timestamp_type,
        log_start=np.zeros(places, np.int64),
        producers=producers,
        encoded=read.values[message : message + stop - first],
    )


def _producers(
    hot: HotState, files: RawFiles, first: int, stop: int, segments: Int64s, segment_of: Int64s, count: Int64s
) -> ProducerColumns | Unusual | None:
    """The idempotent batches sorted by producer, None when there are none; or the first file that changes an epoch."""
    found = int(files.head("producers_of_file")[first:stop].sum())
    if not found:
        return None
    batch, producer_id, sequence, producer_of, slots, epochs = np.empty((6, found), np.int64)
    starts = np.empty(found + 1, np.int64)
    table = hot.producers
    producers = place_producers(
        files.heads.data,
        first,
        stop,
        files.producers.data,
        segments.data,
        segment_of.data,
        table.index,
        table.epoch.cells,
        table.mark.cells,
        batch.data,
        producer_id.data,
        sequence.data,
        producer_of.data,
        slots.data,
        epochs.data,
        starts.data,
    )
    if producers < 0:
        return Unusual(first - producers - 1)
    at, first_sequences, last_sequences = np.empty((3, found), np.int64)
    segments_of_producers, producer_ids, cursor = np.empty((3, producers), np.int64)
    sort_by_producer(
        batch.data,
        sequence.data,
        producer_of.data,
        producer_id.data,
        segment_of.data,
        count.data,
        starts.data,
        cursor.data,
        at.data,
        first_sequences.data,
        last_sequences.data,
        segments_of_producers.data,
        producer_ids.data,
    )
    return ProducerColumns(
        at=at,
        starts=starts[:producers].copy(),
        segments=segments_of_producers,
        producer_ids=producer_ids,
        slots=slots[:producers].copy(),
        epochs=epochs[:producers].copy(),
        first_sequences=first_sequences,
        last_sequences=last_sequences,
    )


def _heads(read: Read, first: int, stop: int) -> list[FileHead]:
    """The heads of files as the request path has them."""
    raw, files = read.raw, read.files
    _, key_start, key_size, object_format, file_size, uploader, owners, created_ms, append_time_ms, hash_start = files.heads[
        :10, first:stop
    ].tolist()
    owner = int(files.head("owners_of_file")[:first].sum())
    owner_ids = files.owner_ids[owner : owner + sum(owners)].tolist()
    ends = files.head("owners_of_file")[first:stop].cumsum().tolist()
    keys = [raw[start : start + size].decode() for start, size in zip(key_start, key_size, strict=True)]
    owner_lists = [owner_ids[end - count : end] for end, count in zip(ends, owners, strict=True)]
    hashes = [raw[start : start + _HASH_BYTES] for start in hash_start]
    columns = zip(keys, object_format, file_size, uploader, owner_lists, created_ms, append_time_ms, hashes, strict=True)
    return list(map(_NEW_HEAD, columns))
