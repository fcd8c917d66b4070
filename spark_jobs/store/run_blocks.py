"""Blocks of the store that say which files hold the batches of a user partition, and the subtraction of deleted batches from them.

A batch is dead when its last offset is before the log start; a deleted partition's batches are all dead. Dead batches leave
their block, so only blocks that begin before the log start are looked at, and each batch dies once. New frames are added
to the newest block of a partition while it is small. `first_offset` of a block is the least offset in it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spark_jobs.scan.blocks import Batches, file_numbers, pack_batches, unpack
from spark_jobs.store.chain_rules import PartitionState
from spark_jobs.store.engine import StoreConnection

BLOCK_BYTES_MAX = 4096
"""A block of this size is not added to any more; frames larger than that are blocks of their own."""

_NEW = """insert into run_block (kpart, topic_id, partition, first_offset, end_offset, runs) values (?,?,?,?,?,?)
    on conflict (kpart, topic_id, partition, first_offset) do update set runs = cast(run_block.runs || excluded.runs as blob),
    end_offset = case when run_block.end_offset > excluded.end_offset then run_block.end_offset else excluded.end_offset end"""
_MORE = """update run_block set runs = cast(runs || ? as blob), end_offset = case when end_offset > ? then end_offset else ? end
    where kpart = ? and topic_id = ? and partition = ? and first_offset = ?"""
_BEGINNING = "select first_offset, runs from run_block where kpart = ? and topic_id = ? and partition = ? and first_offset < ?"
_DELETE = "delete from run_block where kpart = ? and topic_id = ? and partition = ? and first_offset = ?"

OFFSET_MAX = 2**63 - 1

Name = tuple[int, bytes, int]


class Loss(NamedTuple):
    """Batches of a file that died at a time."""

    append_ms: int
    file_number: int
    batches: int
    size_bytes: int


class RunBlocks:
    """The blocks of one partition of the metadata topic while a micro-batch is merged; `losses` are in log order."""

    def __init__(self, db: StoreConnection, kpart: int) -> None:
        self._db = db
        self._kpart = kpart
        self.losses: list[Loss] = []
        self._new: list[tuple[object, ...]] = []
        self._more: list[tuple[object, ...]] = []

    def add(self, topic_id: bytes, partition: int, state: PartitionState) -> None:
        """Take the frames of a partition that are not written yet."""
        frames, state.frames = state.frames, []
        joined = b"".join([row.frame for row in frames])
        first, end = min(row.base_offset for row in frames), max(row.next_offset for row in frames)
        if state.block_offset is not None and state.block_bytes + len(joined) <= BLOCK_BYTES_MAX and first >= state.block_offset:
            self._more.append((joined, end, end, self._kpart, topic_id, partition, state.block_offset))
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

    def trim(self, topic_id: bytes, partition: int, state: PartitionState | None, end: int, append_ms: int) -> None:
        """Count batches out that end before an offset. Frames must be written before. Without a state, the partition goes."""
        name = (self._kpart, topic_id, partition)
        for first, runs in self._db.execute(_BEGINNING, (*name, end)).fetchall():
            batches = unpack(runs)
            is_dead = batches.base_offset + batches.records <= end
            if not is_dead.any():
                continue
            self._lose(batches.keep(is_dead), append_ms)
            self._db.execute(_DELETE, (*name, first))
            alive = batches.keep(~is_dead)
            if len(alive.file):
                least, last = int(alive.base_offset.min()), int((alive.base_offset + alive.records).max())
                self._db.execute(_NEW, (*name, least, last, pack_batches(alive)))
            if state is not None and state.block_offset == first:
                state.block_offset, state.block_bytes = None, 0

    def _lose(self, gone: Batches, append_ms: int) -> None:
        kinds, place, counts = np.unique(gone.file, return_inverse=True, return_counts=True)
        numbers = file_numbers(self._kpart, kinds).tolist()
        sizes = np.bincount(place, gone.size_bytes).astype(np.int64).tolist()
        self.losses += [Loss(append_ms, *loss) for loss in zip(numbers, counts.tolist(), sizes, strict=True)]
