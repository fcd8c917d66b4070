"""What is known of files, tombstones and batches: looked up in the unwritten generations, and behind them in the database.

Reads never see an entry that was not applied, and change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from coordinator.core.state.unwritten import Generation, UnwrittenRun, with_losses
from coordinator.core.tables.in_memory import BrokenInvariant, HotState
from coordinator.core.tables.stored_rows import (
    NO_FILES,
    ColdStore,
    EmptyFilesPage,
    FileName,
    FileRow,
    FileTotals,
    Rows,
    RunRow,
    Tombstone,
    WrittenRun,
    unpack,
)

OFFSET_END = (1 << 63) - 1
"""An offset behind every other."""

EMPTY_FILES_KEPT_MAX = 4096
"""Empty files that are kept, about two megabytes: more than a leader reads before it ends the first of them."""


@dataclass(slots=True)
class Lookups:
    """The tables of one metadata partition, to be read."""

    cold: ColdStore
    hot: HotState = field(default_factory=HotState)
    active: Generation = field(default_factory=Generation)
    frozen: list[Generation] = field(default_factory=list)
    """Generations that are being written or sealed, the oldest first."""
    known_keys: set[int] = field(default_factory=set)
    """The hashes of the keys of files and tombstones."""
    loaded_files: FileTotals = NO_FILES
    """The number of files that were stored when the state was loaded."""
    _empty_kept: dict[str, FileRow] = field(default_factory=dict)
    """Empty files that were read a moment ago. Until they end nothing changes in them, and they are read in order to be ended."""

    def _generations(self) -> tuple[Generation, ...]:
        return (*self.frozen, self.active)

    def may_know(self, object_key: str) -> bool:
        """Whether there may be a file or a tombstone of this key; False is certain."""
        return hash(object_key) in self.known_keys

    def may_know_any(self, object_keys: Iterable[str]) -> bool:
        """`may_know` of any of these keys."""
        return not self.known_keys.isdisjoint(map(hash, object_keys))

    def find_file(self, object_key: str) -> FileRow | None:
        """A known file, with its live batches as of now."""
        if not self.may_know(object_key):
            return None
        is_certain, file = self._find_unwritten(object_key)
        if is_certain:
            return file
        row = self.cold.file_by_key(object_key)
        if row is None:
            self._check_absent(object_key)
            return None
        if row.object_key != object_key:
            raise BrokenInvariant(f"the state has file {row.object_key!r:.100} under the key {object_key}")
        return with_losses(row, *self._generations())

    def find_files(self, object_keys: Iterable[str]) -> dict[str, FileRow]:
        """The known files among some keys, with their live batches as of now: much cheaper than one by one."""
        found: dict[str, FileRow] = {}
        left: list[str] = []
        for key in filter(self.may_know, object_keys):
            kept = self._empty_kept.get(key)
            is_certain, file = (True, kept) if kept is not None else self._find_unwritten(key)
            if file is not None:
                found[key] = file
            elif not is_certain:
                left.append(key)
        if left:
            generations = self._generations()
            rows = [with_losses(row, *generations) for row in self.cold.files_by_key(left)]
            self._keep_empty(rows)
            found.update((row.object_key, row) for row in rows)
        for key in left:
            if key not in found:
                self._check_absent(key)
        return found

    def _find_unwritten(self, object_key: str) -> tuple[bool, FileRow | None]:
        """A file of the unwritten generations; with False the database has to be looked at."""
        for generation in reversed(self._generations()):
            if object_key in generation.files_removed:
                return True, None
            file = generation.file(object_key)
            if file is not None:
                return True, with_losses(file, *self._later_than(generation))
        return False, None

    def _check_absent(self, object_key: str) -> None:
        """A key that was committed and is not found is lost: without this check it would be committed again, and its data twice."""
        if any(object_key in generation.tombstones for generation in self._generations()):
            return
        if self.cold.tombstone(object_key) is None:
            raise BrokenInvariant(f"the state has neither a file nor a tombstone of the known key {object_key}")

    def _later_than(self, generation: Generation) -> tuple[Generation, ...]:
        generations = self._generations()
        place = next(number for number, one in enumerate(generations) if one is generation)
        return generations[place + 1 :]

    def find_tombstone(self, object_key: str) -> Tombstone | None:
        """The tombstone of a key, if it has one."""
        if not self.may_know(object_key):
            return None
        for generation in reversed(self._generations()):
            stone = generation.tombstones.get(object_key)
            if stone is not None:
                return None if _is_expired(stone, *self._later_than(generation)) else stone
        stone = self.cold.tombstone(object_key)
        return None if stone is None or _is_expired(stone, *self._generations()) else stone

    def file_name(self, file_id: int) -> FileName | None:
        """A known file by the offset of its entry."""
        for generation in self._generations():
            name = generation.file_name(file_id)
            if name is not None:
                return name
        return self.cold.file_name(file_id)

    def files_after(self, object_key: str, limit: int) -> list[FileRow]:
        """Known files in key order after a key ('' = from the start)."""
        hidden = {key for generation in self._generations() for key in generation.files_removed}
        rows = {row.object_key: with_losses(row, *self._generations()) for row in self.cold.files_after(object_key, limit + len(hidden))}
        for generation in self._generations():
            for file in generation.files():
                if file.object_key > object_key:
                    rows[file.object_key] = with_losses(file, *self._later_than(generation))
        return [rows[key] for key in sorted(rows) if key not in hidden][:limit]

    def empty_files(self, before_ms: int, after: tuple[int, int], limit: int) -> EmptyFilesPage:
        """Files without live batches, as far as that is written, whose `emptied_ms` is below a time; at most so many.

        They are ordered by `emptied_ms` and file id, and begin behind that pair (-1, -1: the first). Files whose end is not written yet
        are left out, so that a page may have fewer rows than there are, or none, without being the last one.
        """
        page = self.cold.empty_files(before_ms, after, limit)
        generations = self._generations()
        found = [
            with_losses(row, *generations)
            for row in page
            if not any(row.object_key in generation.files_removed for generation in generations)
        ]
        self._keep_empty(found)
        return EmptyFilesPage(found, (page[-1].emptied_ms, page[-1].file_id) if len(page) == limit else None)

    def _keep_empty(self, rows: list[FileRow]) -> None:
        """Keep those of some files that are written as empty: what ends them is judged first and applied then."""
        if len(self._empty_kept) + len(rows) > EMPTY_FILES_KEPT_MAX:
            self._empty_kept.clear()
        self._empty_kept.update((row.object_key, row) for row in rows if row.emptied_ms >= 0)

    def file_totals(self) -> FileTotals:
        """The number of files in the state database."""
        return self.loaded_files.plus(self.cold.file_changes())

    def tombstones_after(self, object_key: str, limit: int) -> list[Tombstone]:
        """Tombstones in key order after a key ('' = from the start)."""
        unwritten: dict[str, Tombstone | None] = {}
        for generation in self._generations():
            for key, stone in generation.tombstones.items():
                if key > object_key:
                    unwritten[key] = None if _is_expired(stone, *self._later_than(generation)) else stone
        found = [stone for stone in unwritten.values() if stone is not None]
        after, is_end = object_key, False
        wanted = len(found) + limit
        while len(found) < wanted and not is_end:
            page = self.cold.tombstones_after(after, limit)
            found += [one for one in page if one.object_key not in unwritten and not _is_expired(one, *self._generations())]
            is_end = len(page) < limit
            after = page[-1].object_key if page else after
        return sorted(found, key=lambda stone: stone.object_key)[:limit]

    def runs_from(self, partition_row: int, offset: int) -> Iterator[WrittenRun | UnwrittenRun]:
        """The runs of a partition that end at or after an offset."""
        return self._runs(partition_row, offset, self.cold.run_covering)

    def runs_reaching(self, partition_row: int, offset: int, timestamp_ms: int) -> Iterator[WrittenRun | UnwrittenRun]:
        """Like `runs_from`, without the written runs whose batches are all older than a time."""
        return self._runs(partition_row, offset, lambda row, at: self.cold.run_reaching(row, at, timestamp_ms))

    def rows_of_greatest(self, partition_row: int, offset: int) -> Iterator[Rows]:
        """Runs in offset order, the first batch with the greatest effective timestamp from an offset on among them."""
        run = self.cold.max_run(partition_row, offset)
        while run is not None:
            yield unpack(run)
            # The greatest of a run that is cut by the offset may lie before it: then one of the later runs has it.
            run = self.cold.max_run(partition_row, run.last + 1) if run.base < offset else None
        for generation in self._generations():
            for unwritten in generation.runs_from(partition_row, offset):
                yield unwritten.rows()

    def _runs(self, partition_row: int, offset: int, next_run: Callable[[int, int], RunRow | None]) -> Iterator[WrittenRun | UnwrittenRun]:
        """Written runs first, up to where the unwritten ones begin: a run being written is in both places."""
        unwritten = [(generation, generation.first_base(partition_row)) for generation in self._generations()]
        written_end = next((base for _, base in unwritten if base is not None), OFFSET_END)
        at = offset
        while at < written_end:
            run = next_run(partition_row, at)
            if run is None:
                break
            if run.partition_row != partition_row or not max(run.base, at) <= run.last:
                raise BrokenInvariant(f"run {run.base} to {run.last} of row {run.partition_row} was given for {at} of row {partition_row}")
            if run.base >= written_end:
                break
            # Short runs are joined as they are written, so one run can hold old batches and those of the frozen generation.
            yield WrittenRun(run, written_end)
            at = run.last + 1
        for generation, base in unwritten:
            if base is not None:
                yield from generation.runs_from(partition_row, offset)


def _is_expired(stone: Tombstone, *later: Generation) -> bool:
    """Whether a tombstone was expired by a later generation; keys without a creation time never expire."""
    return any(0 <= stone.created_ms < generation.tombstones_expired_before_ms for generation in later)
