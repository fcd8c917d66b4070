"""Blocks of the store that say which files hold the batches of a user partition, and counting deleted batches out of them.

A batch is dead when its last offset is before the log start; a deleted partition's batches are all dead. Only blocks that
overlap the range that died are looked at. New frames are added to the newest block of a partition while it is small.
"""

from __future__ import annotations

import sqlite3
from collections import Counter

import numpy as np

from spark_jobs.scan.blocks import file_numbers, unpack
from spark_jobs.store.chain_rules import PartitionState

BLOCK_BYTES_MAX = 4096
"""A block of this size is not added to any more; frames larger than that are blocks of their own."""

_NEW = """insert into run_block (kpart, topic_id, partition, first_offset, end_offset, runs) values (?,?,?,?,?,?)
    on conflict do update set runs = runs || excluded.runs, end_offset = max(end_offset, excluded.end_offset)"""
_MORE = """update run_block set runs = runs || ?, end_offset = max(end_offset, ?)
    where kpart = ? and topic_id = ? and partition = ? and first_offset = ?"""
_OVERLAPPING = """select first_offset, end_offset, runs from run_block
    where kpart = ? and topic_id = ? and partition = ? and first_offset < ? and end_offset > ?"""
_DELETE = "delete from run_block where kpart = ? and topic_id = ? and partition = ? and first_offset = ?"

OFFSET_MAX = 2**63 - 1

Name = tuple[int, bytes, int]


class RunBlocks:
    """The blocks of one partition of the metadata topic while a micro-batch is merged; `lost` are batches and bytes by file."""

    def __init__(self, db: sqlite3.Connection, kpart: int) -> None:
        self._db = db
        self._kpart = kpart
        self.lost_batches: Counter[int] = Counter()
        self.lost_bytes: Counter[int] = Counter()
        self._new: list[tuple[object, ...]] = []
        self._more: list[tuple[object, ...]] = []

    def add(self, topic_id: bytes, partition: int, state: PartitionState) -> None:
        """Take the frames of a partition that are not written yet."""
        frames, state.frames = state.frames, []
        joined = b"".join([row.frame for row in frames])
        first, end = min(row.base_offset for row in frames), max(row.next_offset for row in frames)
        if state.block_offset is not None and state.block_bytes + len(joined) <= BLOCK_BYTES_MAX and first >= state.block_offset:
            self._more.append((joined, end, self._kpart, topic_id, partition, state.block_offset))
            state.block_bytes += len(joined)
        else:
            self._new.append((self._kpart, topic_id, partition, first, end, joined))
            state.block_offset, state.block_bytes = first, len(joined)
        state.is_changed = True

    def write(self) -> None:
        """Write the frames that were added."""
        self._db.executemany(_MORE, self._more)
        self._db.executemany(_NEW, self._new)
        self._more, self._new = [], []

    def trim(self, topic_id: bytes, partition: int, state: PartitionState | None, start: int, end: int = OFFSET_MAX) -> None:
        """Count batches out whose last offsets are in `[start, end)`. Frames must be written before."""
        name = (self._kpart, topic_id, partition)
        gone = []
        for first, block_end, runs in self._db.execute(_OVERLAPPING, (*name, end, start)).fetchall():
            batches = unpack(runs)
            last = batches.base_offset + batches.records - 1
            dead = (last >= start) & (last < end)
            self._lose(batches.file[dead], batches.size_bytes[dead])
            if block_end <= end:
                gone.append((*name, first))
                if state is not None and state.block_offset == first:
                    state.block_offset, state.block_bytes = None, 0
        self._db.executemany(_DELETE, gone)

    def _lose(self, files: np.ndarray[tuple[int, ...], np.dtype[np.int64]], sizes: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> None:
        if not len(files):
            return
        kinds, place, counts = np.unique(files, return_inverse=True, return_counts=True)
        numbers = file_numbers(self._kpart, kinds).tolist()
        lost = np.bincount(place, sizes).astype(np.int64)
        for number, count, size in zip(numbers, counts.tolist(), lost.tolist(), strict=True):
            self.lost_batches[number] += count
            self.lost_bytes[number] += size
