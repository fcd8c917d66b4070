"""Reads of the state database for the event loop: a read-only connection of its own, no transaction that stays open.

The writer commits in another thread, so the database may be one flush ahead of what the loop knows. Runs, tombstones and
removed files of that flush are also in the frozen generation, where looking at both does no harm. Counters of live
batches are the exception: until `written` they are given back without the losses of the flush under way, because the
state takes those away itself.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from coordinator.adapters.sqlite.errors import TROUBLES, DamagedRow, translated, translation
from coordinator.adapters.sqlite.proofs import file_of, name_of, run_of, tombstone_of
from coordinator.adapters.sqlite.run_index import RunEntry, RunIndex
from coordinator.adapters.sqlite.schema import connect_reader, fetch, fetch_at_once, rows_as_json
from coordinator.core.tables.stored_rows import NO_FILES, FileName, FileRow, FileTotals, RunRow, Tombstone

NAME_COLUMNS = (
    "id, object_key, content_hash, object_format, file_size, uploader_broker_id, owner_ids, created_ms, append_time_ms, batch_count"
)
FILE_COLUMNS = f"{NAME_COLUMNS}, live_batches, record, emptied_ms, lost_batches, record_proof, proof"
LISTED_COLUMNS = f"{NAME_COLUMNS}, live_batches, emptied_ms, lost_batches, proof"
"""The columns of a file without the kept results: they are most of a row, and only a repetition of its commit needs them."""
TOMBSTONE_COLUMNS = "object_key, reason, time_ms, created_ms, proof"
RUN_COLUMNS = "id, last_offset, max_timestamp"
FLUSHES = "(SELECT flushes FROM header)"

FILE_BY_KEY = f"SELECT {FILE_COLUMNS}, {FLUSHES} FROM file WHERE object_key = ?"
LISTED = f"SELECT {LISTED_COLUMNS} FROM file"
LISTED_WITH_FLUSHES = f"{LISTED_COLUMNS}, {FLUSHES}"
FILES_BY_KEY = rows_as_json(LISTED_WITH_FLUSHES, f"{LISTED} WHERE object_key IN (SELECT value FROM json_each(?))")
FILES_AFTER = rows_as_json(LISTED_WITH_FLUSHES, f"{LISTED} WHERE object_key > ? ORDER BY object_key LIMIT ?")
EMPTY_FILES_OF_TIME = rows_as_json(
    LISTED_WITH_FLUSHES,
    f"{LISTED} WHERE emptied_ms >= 0 AND emptied_ms < ? AND emptied_ms = ? AND id > ? ORDER BY id LIMIT ?",
)
EMPTY_FILES_LATER = rows_as_json(
    LISTED_WITH_FLUSHES,
    f"{LISTED} WHERE emptied_ms >= 0 AND emptied_ms < ? AND emptied_ms > ? ORDER BY emptied_ms, id LIMIT ?",
)
TOMBSTONE = f"SELECT {TOMBSTONE_COLUMNS} FROM tombstone WHERE object_key = ?"
TOMBSTONES_AFTER = rows_as_json(
    TOMBSTONE_COLUMNS, f"SELECT {TOMBSTONE_COLUMNS} FROM tombstone WHERE object_key > ? ORDER BY object_key LIMIT ?"
)
NAME_OF_FILE = f"SELECT {NAME_COLUMNS}, proof FROM file WHERE id = ?"
RUN = "SELECT partition_id, base_offset, last_offset, max_timestamp, file_base, timestamp_base, batches, proof FROM run WHERE id = ?"
# SQLite leaves out the order of a query inside another one, unless it has a limit.
RUNS_OF_PARTITION = rows_as_json(RUN_COLUMNS, f"SELECT {RUN_COLUMNS} FROM run WHERE partition_id = ? ORDER BY last_offset LIMIT -1")
NAMES_MAX = 4096
"""Files whose names are kept, about a megabyte: the partitions of a file are mostly read at the same time."""
LOOKS_MAX = 10
"""The limit of looks for a run: a commit may trim it between two, but so many commits do not come one after the other."""
FLUSHES_SO_FAR = "SELECT flushes FROM header"


@dataclass(frozen=True, slots=True)
class WrittenChanges:
    """The changes of a flush to the runs and the number of files, told to the reader after the commit."""

    runs: list[RunEntry]
    trimmed: list[tuple[int, int]]
    purged: list[int]
    files: FileTotals


class StateReader:
    """The `ColdStore` of a state database. Belongs to one thread, but for `announce` and `report`."""

    def __init__(self, path: Path, on_corrupt: Callable[[str], None]) -> None:
        self._path = path
        self._on_corrupt = on_corrupt
        with translated(path, on_corrupt):
            self._connection = connect_reader(path)
            self._cursor = self._connection.cursor()
            found = fetch(self._cursor, FLUSHES_SO_FAR)
        self._indexes: dict[int, RunIndex] = {}
        self._names: dict[int, FileName] = {}
        self._commits: deque[WrittenChanges] = deque()
        self._file_changes = NO_FILES
        self._flush_known: int = found[0][0] if found else 0
        self._flush_under_way: tuple[int, Mapping[int, int]] = (self._flush_known, {})

    # ---- called by the writer

    def announce(self, flush_number: int, live_lost: Mapping[int, int]) -> None:
        """Note that a flush is about to be written."""
        self._flush_under_way = (flush_number, live_lost)

    def report(self, committed: WrittenChanges) -> None:
        """Note that the announced flush was committed."""
        self._commits.append(committed)

    # ---- called by the event loop

    def written(self) -> None:
        """Note that the state knows of the announced flush."""
        self._flush_known = self._flush_under_way[0]
        self._take_commits()

    def close(self) -> None:
        """Close the connection (idempotent)."""
        self._connection.close(True)

    def run_covering(self, partition_row: int, offset: int) -> RunRow | None:
        """The first run whose last offset is at or after `offset`."""
        return self._run(partition_row, lambda index: index.covering(offset))

    def run_reaching(self, partition_row: int, from_offset: int, timestamp_ms: int) -> RunRow | None:
        """The first run that ends at or after `from_offset` and has a batch at or after a time, by `max_timestamp`."""
        return self._run(partition_row, lambda index: index.reaching(from_offset, timestamp_ms))

    def max_run(self, partition_row: int, from_offset: int) -> RunRow | None:
        """The first run with the greatest `max_timestamp` among those that end at or after `from_offset`."""
        return self._run(partition_row, lambda index: index.greatest(from_offset))

    def file_by_key(self, object_key: str) -> FileRow | None:
        """A written file by its key."""
        with translated(self._path, self._on_corrupt):
            rows = fetch(self._cursor, FILE_BY_KEY, (object_key,))
            file = self._file_row(rows[0]) if rows else None
            if file is not None and file.object_key != object_key:
                raise DamagedRow(f"file {file.object_key!r:.100} was found under the key {object_key}")
        return file

    def files_by_key(self, object_keys: Sequence[str]) -> list[FileRow]:
        """The written files among some keys, in any order."""
        with translated(self._path, self._on_corrupt):
            files = [self._file_row(row) for row in self._listed(FILES_BY_KEY, (json.dumps(object_keys),))]
            wrong = {file.object_key for file in files}.difference(object_keys)
            if wrong:
                raise DamagedRow(f"file {wrong.pop()!r:.100} was found though it was not asked for")
        return files

    def file_name(self, file_id: int) -> FileName | None:
        """A written file by the offset of its entry."""
        name = self._names.get(file_id)
        if name is None:
            try:
                rows = fetch(self._cursor, NAME_OF_FILE, (file_id,))
                if not rows:
                    return None
                name = name_of(rows[0])
            except TROUBLES as trouble:
                raise translation(trouble, self._path, self._on_corrupt) from trouble
            if len(self._names) >= NAMES_MAX:
                self._names.clear()
            self._names[file_id] = name
        return name

    def files_after(self, object_key: str, limit: int) -> list[FileRow]:
        """Files in key order after a key ('' = from the start)."""
        with translated(self._path, self._on_corrupt):
            rows = self._listed(FILES_AFTER, (object_key, limit))
            files = [self._file_row(row) for row in rows]
            _check_order("files", object_key, files)
        return files

    def empty_files(self, before_ms: int, after: tuple[int, int], limit: int) -> list[FileRow]:
        """Files with `emptied_ms` below `before_ms`, ordered by it and the file id, after that pair.

        A deleted topic empties very many files at the same time. SQLite does not begin in the middle of them for a comparison of pairs.
        """
        emptied_ms, _ = after
        with translated(self._path, self._on_corrupt):
            rows = self._listed(EMPTY_FILES_OF_TIME, (before_ms, *after, limit))
            if len(rows) < limit:
                rows += self._listed(EMPTY_FILES_LATER, (before_ms, emptied_ms, limit - len(rows)))
            return [self._file_row(row) for row in rows]

    def file_changes(self) -> FileTotals:
        """The changes of the stored files' number and size since the store was opened."""
        self._take_commits()
        return self._file_changes

    def tombstone(self, object_key: str) -> Tombstone | None:
        """A written tombstone by its key."""
        with translated(self._path, self._on_corrupt):
            rows = fetch(self._cursor, TOMBSTONE, (object_key,))
            return tombstone_of(rows[0]) if rows else None

    def tombstones_after(self, object_key: str, limit: int) -> list[Tombstone]:
        """Tombstones in key order after a key ('' = from the start)."""
        with translated(self._path, self._on_corrupt):
            found = fetch_at_once(self._cursor, TOMBSTONES_AFTER, (object_key, limit))
            stones = [tombstone_of((*row[:-1], bytes.fromhex(row[-1]))) for row in found]
            _check_order("tombstones", object_key, stones)
        return stones

    # ---- helpers

    def _run(self, partition_row: int, find: Callable[[RunIndex], int | None]) -> RunRow | None:
        if self._commits:
            self._take_commits()
        # Not `translated`, which takes as long as the rest of this.
        try:
            for _ in range(LOOKS_MAX):
                index = self._indexes.get(partition_row)
                if index is None:
                    index = self._load_index(partition_row)
                run_id = find(index)
                if run_id is None:
                    return None
                rows = fetch(self._cursor, RUN, (run_id,))
                if rows:
                    run = run_of(run_id, rows[0])
                    if run.partition_row != partition_row:
                        raise DamagedRow(f"run {run_id} belongs to partition row {run.partition_row}, not {partition_row}")
                    return run
                # Trimmed by a commit that was not reported yet.
                del self._indexes[partition_row]
            raise DamagedRow(f"the index of the runs of partition {partition_row} names a run that is not there")
        except TROUBLES as trouble:
            raise translation(trouble, self._path, self._on_corrupt) from trouble

    def _load_index(self, partition_row: int) -> RunIndex:
        try:
            index = RunIndex(fetch_at_once(self._cursor, RUNS_OF_PARTITION, (partition_row,)))
        except (TypeError, OverflowError) as error:
            raise DamagedRow(f"the index of the runs of partition {partition_row} holds what is no number") from error
        self._indexes[partition_row] = index
        return index

    def _take_commits(self) -> None:
        indexes = self._indexes
        while self._commits:
            committed = self._commits.popleft()
            self._file_changes = self._file_changes.plus(committed.files)
            for entry in committed.runs:
                index = indexes.get(entry.partition_row)
                if index is not None:
                    index.put(entry)
            for partition_row, to in committed.trimmed:
                if partition_row in indexes:
                    indexes[partition_row].trim(to)
            for partition_row in committed.purged:
                indexes.pop(partition_row, None)

    def _listed(self, sql: str, bindings: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        """Rows of files as `_file_row` takes them, without kept results."""
        return [
            (*row[:2], bytes.fromhex(row[2]), *row[3:11], b"", *row[11:13], b"", bytes.fromhex(row[13]), row[14])
            for row in fetch_at_once(self._cursor, sql, bindings)
        ]

    def _file_row(self, columns: tuple[Any, ...]) -> FileRow:
        row = file_of(columns[:-1])
        if columns[-1] == self._flush_known:
            return row
        lost = self._flush_under_way[1].get(row.file_id, 0)
        return row._replace(live_batches=row.live_batches + lost) if lost else row


def _check_order(what: str, object_key: str, rows: Sequence[FileRow] | Sequence[Tombstone]) -> None:
    """Raise `DamagedRow` unless the rows found after a key are in the order of their keys."""
    keys = [object_key, *(row.object_key for row in rows)]
    if any(later <= earlier for earlier, later in pairwise(keys)):
        raise DamagedRow(f"the {what} after {object_key} are not in order")
