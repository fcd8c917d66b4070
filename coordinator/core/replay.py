"""Blocks from the log: what a follower applies together instead of entry by entry.

A block is made only of files whose batches were all accepted and whose producers stay in their epoch; anything else is
applied by the readable path. Either way the state is the same, and a test holds it so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from typing import TypeAlias

import numpy as np

from coordinator.core.block import CommitBlock, ProducerColumns
from coordinator.core.commit_vector import Unusual
from coordinator.core.events import ReadEntry
from coordinator.core.hot import HotState
from coordinator.core.replay_loops import place_batches, place_producers
from records.bulk_decode import RawFiles, Table, read_files
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
    bounds = np.array(list(accumulate(map(len, values), initial=0)), np.int64)
    files = read_files(raw, bounds[:-1], bounds[1:])
    read = Read(entries, values, raw, files)
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


def _longest_block(hot: HotState, read: Read, first: int, stop: int, batches_min: int) -> tuple[CommitBlock | None, int]:
    """The block up to the first unusual file, and that file, or `stop`; None when too few batches are before it."""
    while first < stop and _count(read.files, "batches", first, stop) >= batches_min:
        block = block_of(hot, read, first, stop)
        if isinstance(block, CommitBlock):
            return block, stop
        stop = block.file
    return None, stop


def _count(files: RawFiles, kind: str, first: int, stop: int) -> int:
    """How many runs, batches or producers files have."""
    if stop - first == len(files):
        count: int = getattr(files, kind)
        return count
    return int(files.head(f"{kind}_of_file")[first:stop].sum())


def block_of(hot: HotState, read: Read, first: int, stop: int) -> CommitBlock | Unusual:
    """The block of plain files, or the first of them that only the readable path can tell what it does."""
    files = read.files
    columns = np.empty((9, _count(files, "batches", first, stop)), np.int64)
    segments = np.empty((4, _count(files, "runs", first, stop)), np.int64)
    keys: list[bytes] = []
    table = hot.partitions
    found = place_batches(
        read.raw,
        files.heads.data,
        first,
        stop,
        files.columns.data,
        table.index,
        table.high_watermark.cells,
        keys,
        segments.data,
        columns.data,
    )
    if found < 0:
        return Unusual(first - found - 1)
    producers = _producers(hot, files, first, stop, segments, columns)
    if isinstance(producers, Unusual):
        return producers
    file_of, base, count, byte_offset, size, timestamp, timestamp_type, order, log_start = columns
    log_start.fill(0)  # it held the partitions' numbers until here
    message = int(files.heads[0, first])
    return CommitBlock(
        heads=_heads(read, first, stop),
        append_times=files.head("append_time_ms")[first:stop],
        batches_of_file=files.head("batches_of_file")[first:stop],
        file_of=file_of,
        keys=keys,
        order=order,
        starts=segments[2, :found],
        stops=segments[3, :found],
        base=base,
        count=count,
        byte_offset=byte_offset,
        size=size,
        timestamp=timestamp,
        timestamp_type=timestamp_type,
        log_start=log_start,
        producers=producers,
        encoded=read.values[message : message + stop - first],
    )


def _producers(hot: HotState, files: RawFiles, first: int, stop: int, segments: Table, columns: Table) -> ProducerColumns | Unusual | None:
    """The idempotent batches sorted by producer, None when there are none; or the first file that changes an epoch."""
    found = _count(files, "producers", first, stop)
    if not found:
        return None
    of_batch, of_producer = np.empty((3, found), np.int64), np.empty((5, found), np.int64)
    table = hot.producers
    producers = place_producers(
        files.heads.data,
        first,
        stop,
        files.columns.data,
        segments.data,
        columns.data,
        table.index,
        table.epoch.cells,
        table.mark.cells,
        np.empty((4, found), np.int64).data,
        of_batch.data,
        of_producer.data,
    )
    if producers < 0:
        return Unusual(first - producers - 1)
    at, first_sequences, last_sequences = of_batch
    starts, numbers_of_segments, producer_ids, slots, epochs = of_producer[:, :producers]
    return ProducerColumns(
        at=at,
        starts=starts,
        segments=numbers_of_segments,
        producer_ids=producer_ids,
        slots=slots,
        epochs=epochs,
        first_sequences=first_sequences,
        last_sequences=last_sequences,
    )


def _heads(read: Read, first: int, stop: int) -> list[FileHead]:
    """The heads of files as the request path has them."""
    raw, files = read.raw, read.files
    _, key_start, key_size, object_format, file_size, uploader, owners, created_ms, append_time_ms, hash_start = files.heads[
        :10, first:stop
    ].tolist()
    owner = int(files.head("owners_of_file")[:first].sum()) if first else 0
    owner_ids = files.owner_ids[owner : owner + sum(owners)].tolist()
    keys = [raw[start : start + size].decode() for start, size in zip(key_start, key_size, strict=True)]
    owner_lists = [owner_ids[end - count : end] for end, count in zip(accumulate(owners), owners, strict=True)]
    hashes = [raw[start : start + _HASH_BYTES] for start in hash_start]
    columns = zip(keys, object_format, file_size, uploader, owner_lists, created_ms, append_time_ms, hashes, strict=True)
    return list(map(_NEW_HEAD, columns))
