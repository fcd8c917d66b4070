"""Blocks from the log: what a follower applies together instead of entry by entry.

A block is made only of files whose batches were all accepted and whose producers stay in their epoch; anything else is
applied by the readable path. Either way the state is the same, and a test holds it so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TypeAlias

import numpy as np

from coordinator.core.files.block import Int64s, ProducerColumns
from coordinator.core.files.commit_vector import Unusual
from coordinator.core.files.read_block import ReadBlock
from coordinator.core.files.replay_loops import place_batches, place_producers
from coordinator.core.log_entry import ReadEntry
from coordinator.core.tables.in_memory import HotState
from coordinator.core.tables.scratch import OF_BATCH, OF_PRODUCER
from coordinator.core.tables.stored_rows import ROW, Rows, numbers_of
from records.bulk_decode import RawFiles, Table, numbers_max, read_files

Parts: TypeAlias = Iterator[tuple[ReadBlock | None, Sequence[ReadEntry]]]
"""Entries with the block they make, None when they make none."""

UNUSUAL_MAX = 4
"""After so many unusual files in one stretch the rest of it is not tried again: every try looks at all of the rest."""

_HASH_BYTES = 16
_ROOM_BYTES = 320 * 1024
_rooms: list[Int64s] = []
"""Where entries of so many bytes are decoded to, which are nearly all (`shard.REPLAY_BYTES_MAX`); taken by whoever decodes.
What is in it means nothing to the next one, and blocks have nothing in it."""


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
    bounds = np.array(list(accumulate(map(len, values), initial=0)), np.int64)
    room = _rooms.pop() if _rooms else np.empty(numbers_max(_ROOM_BYTES), np.int64)
    try:
        yield from _parts(hot, Read(entries, values, raw, read_files(raw, bounds[:-1], bounds[1:], room)), batches_min)
    finally:
        _rooms.append(room)


def _parts(hot: HotState, read: Read, batches_min: int) -> Parts:
    entries, files = read.entries, read.files
    if files.all_accepted and entries:
        yield from _cut(hot, read, 0, len(files), batches_min)
        return
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


def _longest_block(hot: HotState, read: Read, first: int, stop: int, batches_min: int) -> tuple[ReadBlock | None, int]:
    """The block up to the first unusual file, and that file, or `stop`; None when too few batches are before it."""
    while first < stop and _count(read.files, "batches", first, stop) >= batches_min:
        block = block_of(hot, read, first, stop)
        if isinstance(block, ReadBlock):
            return block, stop
        stop = block.file
    return None, stop


def _count(files: RawFiles, kind: str, first: int, stop: int) -> int:
    """How many runs, batches or producers files have."""
    if stop - first == len(files):
        count: int = getattr(files, kind)
        return count
    return int(files.head(f"{kind}_of_file")[first:stop].sum())


def block_of(hot: HotState, read: Read, first: int, stop: int) -> ReadBlock | Unusual:
    """The block of plain files, or one of them that only the readable path can tell what it does."""
    raw, files, table = read.raw, read.files, hot.partitions
    runs = np.empty((2, _count(files, "runs", first, stop)), np.int64)
    partitions_max = min(runs.shape[1], len(table.index))
    segments = np.empty((6, partitions_max), np.int64)
    rows = np.empty(_count(files, "batches", first, stop), ROW)
    topics_max = int(files.head("topics_of_file")[first:stop].max())
    message = int(files.heads[0, first])
    entries = read.entries[message : message + stop - first]
    found = place_batches(
        raw,
        files.heads.data,
        first,
        stop,
        files.columns.data,
        np.array([entry.offset for entry in entries], np.int64).data,
        table.index,
        table.high_watermark.cells,
        table.max_timestamp.cells,
        table.max_timestamp_offset.cells,
        _lookup(partitions_max),
        np.empty(topics_max, np.int64).data,
        segments.data,
        runs.data,
        numbers_of(rows).data,
    )
    if found < 0:
        return Unusual(first - found - 1)
    segments = segments[:, :found].copy()
    producers = _producers(hot, files, first, stop, segments, runs, rows)
    if isinstance(producers, Unusual):
        return producers
    heads = files.heads[:, first:stop]
    starts, sizes, hashes = heads[1].tolist(), heads[2].tolist(), heads[9].tolist()
    owner = int(files.heads[6, :first].sum()) if first else 0
    return ReadBlock(
        heads=heads,
        keys=[raw[start : start + size].decode() for start, size in zip(starts, sizes, strict=True)],
        owner_ids=files.owner_ids[owner : owner + int(heads[6].sum())].tolist(),
        content_hashes=[raw[start : start + _HASH_BYTES] for start in hashes],
        batches_of_file=heads[13].tolist(),
        encoded=read.values[message : message + stop - first],
        producers=producers,
        rows=rows,
        segments=segments,
    )


def _producers(
    hot: HotState, files: RawFiles, first: int, stop: int, segments: Table, runs: Table, rows: Rows
) -> ProducerColumns | Unusual | None:
    """The idempotent batches sorted by producer, None when there are none; or the first file with another epoch or sequence than due."""
    found = _count(files, "producers", first, stop)
    if not found:
        return None
    of_batch, of_producer = np.empty((OF_BATCH, found), np.int64), np.empty((OF_PRODUCER, found), np.int64)
    table = hot.producers
    producers = place_producers(
        files.heads.data,
        first,
        stop,
        files.columns.data,
        segments.data,
        runs.data,
        numbers_of(rows).data,
        table.index,
        table.epoch.cells,
        table.head.cells,
        table.ring_last.cells,
        _lookup(found),
        np.empty((4, found), np.int64).data,
        of_batch.data,
        of_producer.data,
    )
    if producers < 0:
        return Unusual(first - producers - 1)
    return ProducerColumns(of_batch=of_batch, of_producer=np.ascontiguousarray(of_producer[:, :producers]))


def _lookup(count: int) -> memoryview[int]:
    """An empty table for so many numbers, in which half of the places stay free."""
    return np.zeros(2 << count.bit_length(), np.int64).data
