"""Changes that are applied but not yet written to the state database.

The log is the truth and the database follows lazily: a *generation* collects applied files, runs and tombstones until
it is frozen and written in one transaction. Reads look into the database, then the frozen generation, then the
active one: for each partition the three hold consecutive offsets, so nothing is ever seen twice or missed.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from coordinator.core.files.logged import AppliedFiles
from coordinator.core.state.packing_loops import count_losses
from coordinator.core.tables.stored_rows import FileName, FileRow, Rows, Tombstone
from records.state_digest import U64, Int64s


class UnwrittenRun(NamedTuple):
    """Consecutive batches of one partition among applied files: the sorted rows `[start, stop)`."""

    base: int
    last: int
    files: AppliedFiles
    start: int
    stop: int

    def rows(self) -> Rows:
        """The batches."""
        return self.files.sorted().rows[self.start : self.stop]


@dataclass(slots=True)
class Generation:
    """The changes applied between two writes of the state database. `batches` is its size: batches and files."""

    applied: list[AppliedFiles] = field(default_factory=list)
    _runs: dict[int, list[UnwrittenRun]] = field(default_factory=dict)
    _sorted: int = 0
    _place_of_key: dict[str, tuple[AppliedFiles, int]] = field(default_factory=dict)
    _place_of_id: dict[int, tuple[AppliedFiles, int]] = field(default_factory=dict)
    _named: int = 0
    tombstones: dict[str, Tombstone] = field(default_factory=dict)
    tombstones_expired_before_ms: int = 0
    files_removed: dict[str, FileRow] = field(default_factory=dict)
    live_lost: dict[int, int] = field(default_factory=dict)
    trimmed: dict[int, int] = field(default_factory=dict)
    trimmed_sums: dict[int, U64] = field(default_factory=dict)
    """The sums of the hashes of batches that were counted out, by partition row: a pair as in `state_digest.lanes_of`."""
    purged: list[int] = field(default_factory=list)
    batches: int = 0

    def add(self, applied: AppliedFiles) -> None:
        """Take committed files."""
        self.applied.append(applied)
        self.batches += applied.lines + len(applied)

    def _name_files(self) -> None:
        """Make files found by key and id; only when they are looked for, because most are written before that."""
        for applied in self.applied[self._named :]:
            ids = applied.files.file_ids.tolist()
            for file in range(applied.first, applied.stop):
                self._place_of_key[applied.files.table.heads[file].object_key] = self._place_of_id[ids[file]] = (applied, file)
        self._named = len(self.applied)

    def file(self, object_key: str) -> FileRow | None:
        """A file of this generation."""
        self._name_files()
        place = self._place_of_key.get(object_key)
        return None if place is None else place[0].file_row(place[1])

    def files(self) -> list[FileRow]:
        """All files of this generation but those that were removed."""
        self._name_files()
        found: list[FileRow] = []
        for applied in self.applied:
            for file, row in enumerate(applied.file_rows(applied.first, applied.stop).rows(), applied.first):
                place = self._place_of_key.get(row.object_key)
                if place is not None and place[0] is applied and place[1] == file:
                    found.append(row)
        return found

    def file_name(self, file_id: int) -> FileName | None:
        """A file of this generation by the offset of its entry."""
        self._name_files()
        place = self._place_of_id.get(file_id)
        return None if place is None else place[0].file_name(place[1])

    def remove_file(self, row: FileRow) -> None:
        """Take out a file that is known no longer; its batches are gone."""
        self._name_files()
        self._place_of_key.pop(row.object_key, None)
        self.files_removed[row.object_key] = row

    def _runs_of(self, partition_row: int) -> list[UnwrittenRun] | None:
        """The runs of a partition. Files are sorted by partition only when they are read: most are written before that."""
        for applied in self.applied[self._sorted :]:
            rows, partition_rows, starts = applied.sorted()
            bases, ends = rows["base"], rows["base"] + rows["count"]
            for row, start, stop in zip(partition_rows, starts, [*starts, len(rows)][1:], strict=True):
                self._runs.setdefault(row, []).append(UnwrittenRun(int(bases[start]), int(ends[stop - 1]) - 1, applied, start, stop))
        self._sorted = len(self.applied)
        return self._runs.get(partition_row)

    def expire_tombstones(self, before_ms: int) -> None:
        """Forget the tombstones so far of keys created before a time; those that come later are not concerned."""
        self.tombstones_expired_before_ms = max(self.tombstones_expired_before_ms, before_ms)
        self.tombstones = {key: stone for key, stone in self.tombstones.items() if not 0 <= stone.created_ms < before_ms}

    def runs_from(self, partition_row: int, offset: int) -> list[UnwrittenRun]:
        """The runs that end at or after an offset, in order."""
        runs = self._runs_of(partition_row)
        if not runs:
            return []
        at = bisect_left(runs, offset, key=lambda run: run.last)
        return runs[at:]

    def first_base(self, partition_row: int) -> int | None:
        """Offset where this generation's batches of a partition begin."""
        runs = self._runs_of(partition_row)
        return runs[0].base if runs else None

    def lose(self, files: Int64s) -> None:
        """Count a batch of each of these files as gone; a file may be there several times."""
        self._name_files()
        for file_id in count_losses(np.ascontiguousarray(files).data, self._place_of_id, self.live_lost):
            applied, file = self._place_of_id[file_id]
            applied.live_batches[file - applied.first] -= 1


def with_losses(row: FileRow, *generations: Generation | None) -> FileRow:
    """A written file row, less the batches lost since."""
    lost = sum(generation.live_lost.get(row.file_id, 0) for generation in generations if generation is not None)
    return row if not lost else row._replace(live_batches=row.live_batches - lost)
