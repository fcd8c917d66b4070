"""How entries of the log change the tables.

`apply_files` and `apply_entry` are the only ways in: leader, follower, restart and simulation all go through them, in log order.
Trimming (counting deleted batches out of their files) is housekeeping on the side: it is bounded per step and never changes an answer,
because deleted batches are invisible from the moment their entry was applied.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from coordinator.core.files.apply import ApplyResult, apply
from coordinator.core.files.logged import AppliedFiles, LoggedFiles
from coordinator.core.state.lookups import Lookups
from coordinator.core.state.tombstone_ages import TombstoneAges
from coordinator.core.state.trimming import TakenOut
from coordinator.core.tables.in_memory import BrokenInvariant
from coordinator.core.tables.stored_rows import Tombstone
from records.model import (
    FilesFenced,
    FilesHandedOver,
    FilesRemoved,
    Record,
    RecordsDeleted,
    TombstonesExpired,
    TopicDeleted,
)

TRIM_BATCHES = 1_000
"""Deleted batches that one step counts out of their files, which takes less than a millisecond."""
TRIM_PARTITION_COST = 10
"""The cost of looking at a partition, in batches counted out."""


@dataclass(slots=True)
class Applying(Lookups):
    """The tables of one metadata partition up to and including `applied_offset`, and how entries change them."""

    applied_offset: int = -1
    tombstone_ages: TombstoneAges[int] = field(default_factory=TombstoneAges)
    trimming: OrderedDict[int, int] = field(default_factory=OrderedDict)
    """The offset up to which the deleted batches of a partition are counted out of their files, by its row."""
    dead: dict[int, bytes] = field(default_factory=dict)
    """The keys of forgotten partitions whose batches are not all counted out, by their rows."""

    def apply_entry(self, records: Sequence[Record], offset: int) -> bool:
        """Apply the records, which are no files, of the entry at `offset`; returns whether the directory changed.

        Raises `BrokenInvariant` when they do not fit.
        """
        if offset <= self.applied_offset:
            raise BrokenInvariant(f"entry {offset} comes again after {self.applied_offset}")
        has_directory_changed = False
        for record in records:
            if isinstance(record, TombstonesExpired):
                has_directory_changed |= self._apply_expiry(record, offset)
            elif not self._apply_keys(record):
                has_directory_changed |= self._apply_hot(record, offset)
        self.applied_offset = offset
        return has_directory_changed

    def apply_files(self, files: LoggedFiles, first: int, stop: int) -> ApplyResult:
        """Apply the files `[first, stop)`, whose `offsets` are set, up to the first that the log before it rules out.

        The caller has seen that their keys are new.
        """
        if files.offsets[first] <= self.applied_offset:
            raise BrokenInvariant(f"entry {files.offsets[first]} comes again after {self.applied_offset}")
        np.add(files.offsets[first:stop], self.hot.file_id_base, out=files.file_ids[first:stop])
        result = apply(self.hot, files, first, stop)
        end = result.stop
        if end > first:
            applied = AppliedFiles(files, first, end, files.accepted[first:end].tolist())
            self.active.add(applied)
            self.known_keys.update(map(hash, applied.object_keys()))
            self.applied_offset = int(files.offsets[end - 1])
        return result

    def first_doubtful(self, files: LoggedFiles, first: int, stop: int) -> int:
        """The first file whose key may be known, or may be that of an earlier one; `stop` when all are new for certain."""
        hashes = [hash(head.object_key) for head in files.table.heads[first:stop]]
        if len(set(hashes)) == len(hashes) and self.known_keys.isdisjoint(hashes):
            return stop
        seen: set[int] = set()
        for file, hashed in enumerate(hashes, first):
            if hashed in self.known_keys or hashed in seen:
                return file
            seen.add(hashed)
        return stop

    def skip_entry(self, offset: int) -> None:
        """Pass over a void entry."""
        if offset <= self.applied_offset:
            raise BrokenInvariant(f"entry {offset} comes again after {self.applied_offset}")
        self.applied_offset = offset

    def _apply_expiry(self, record: TombstonesExpired, offset: int) -> bool:
        self.active.expire_tombstones(record.keys_before_ms)
        self.known_keys.difference_update(self.tombstone_ages.take_before(record.keys_before_ms))
        # Deleted topics leave the same trace as keys: an id that may not come back.
        return self.hot.apply(record, offset)

    def _apply_keys(self, record: Record) -> bool:
        """Apply a record that only concerns object keys; returns whether it was one."""
        match record:
            case FilesFenced():
                for key, created_ms in zip(record.object_keys, record.created_ms, strict=True):
                    self._bury_again(key, "fenced", created_ms)
            case FilesRemoved():
                self._end_files(record.object_keys, "removed")
            case FilesHandedOver():
                self._end_files(record.object_keys, "handed over")
            case _:
                return False
        return True

    def _end_files(self, object_keys: Sequence[str], reason: str) -> None:
        """Forget files, which leave tombstones; a key that is no file's gets one without a time."""
        files = self.find_files(object_keys)
        for key in object_keys:
            row = files.pop(key, None)
            if row is None:
                self._bury_again(key, reason, -1)
            else:
                self.active.remove_file(row)
                self._empty_kept.pop(key, None)
                self._bury(key, reason, row.created_ms)

    def _bury_again(self, object_key: str, reason: str, created_ms: int) -> None:
        """Take a tombstone, perhaps in the place of an earlier one."""
        earlier = self.find_tombstone(object_key)
        if earlier is not None:
            self.tombstone_ages.discard(earlier.created_ms, hash(object_key))
        self._bury(object_key, reason, created_ms)

    def _bury(self, object_key: str, reason: str, created_ms: int) -> None:
        """Take the tombstone of a key that has none; no file of it is known any more."""
        hashed = hash(object_key)
        self.active.tombstones[object_key] = Tombstone(object_key, reason, self.hot.log_time_ms, created_ms)
        self.tombstone_ages.add(created_ms, hashed)
        self.known_keys.add(hashed)

    def _apply_hot(self, record: Record, offset: int) -> bool:
        hot = self.hot
        forgotten_before = len(hot.touched.partitions_forgotten)
        if isinstance(record, RecordsDeleted):
            row = hot.partitions.find(record.topic_id, record.partition)
            if row is not None and record.new_log_start_offset > hot.partitions.log_start.cells[row]:
                begin = hot.stretch_of(record.topic_id, record.partition).base_offset
                self.trimming.setdefault(row, max(begin, hot.partitions.log_start.cells[row]))
        begins = {key: stretch.base_offset for key, stretch in hot.stretches.items()} if isinstance(record, TopicDeleted) else {}
        has_directory_changed = hot.apply(record, offset)
        if gone := hot.touched.partitions_forgotten[forgotten_before:]:
            self._bury_partitions(gone, begins)
        return has_directory_changed

    def _bury_partitions(self, rows: list[int], begins: Mapping[bytes, int]) -> None:
        """The batches of forgotten partitions are to be counted out, from where that is for those of which some are already.

        `begins` are the offsets of the first batches that those had here which came by a move.
        """
        table = self.hot.partitions
        keys = list(map(table.keys.__getitem__, rows))
        self.dead.update(zip(rows, keys, strict=True))
        starts = dict(zip(rows, table.log_start.array[rows].tolist(), strict=True))
        if begins:
            starts = {row: max(starts[row], begins.get(key, 0)) for row, key in zip(rows, keys, strict=True)}
        for row in starts.keys() & self.trimming.keys():
            del starts[row]
        self.trimming.update(starts)

    # ---- trimming

    def trim_step(self, rows_max: int = TRIM_BATCHES) -> bool:
        """Count some deleted batches out of their files; returns whether there is more to do.

        Partitions take turns, a run or a few at a time. A file has batches of many partitions that were written together: when they go
        together, too, the count of the file is written once and not once for each of its partitions.
        """
        budget = rows_max
        taken = TakenOut(self.active)
        try:
            while self.trimming and budget > 0:
                budget -= self._trim_partition(next(iter(self.trimming)), budget, taken) + TRIM_PARTITION_COST
        finally:
            taken.count()
        return bool(self.trimming)

    def _trim_partition(self, row: int, budget: int, taken: TakenOut) -> int:
        """Trim a partition as far as the budget reaches; returns the cost."""
        table = self.hot.partitions
        is_dead = row in self.dead
        target = table.high_watermark.cells[row] if is_dead else table.log_start.cells[row]
        start, cost = self.trimming[row], 0
        # A deleted topic may have very many partitions without a batch.
        if start < target:
            key = self.dead[row] if is_dead else table.keys[row]
            start, cost = taken.take(self.runs_from(row, start), row, key, start, target, budget)
        self.active.trimmed[row] = start
        if start < target:
            self.trimming[row] = start
            self.trimming.move_to_end(row)
        else:
            del self.trimming[row]
            if is_dead:
                self.active.purged.append(row)
        return cost
