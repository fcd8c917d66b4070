"""Writes flushes: one transaction each, the applied offset in the same transaction as its rows.

Rows go in by the hundred per statement. SQLite lets go of the interpreter for every step, and under load a thread gets
it back only after the event loop's turn of up to 5 ms: a step per row would make a flush of a few thousand rows last
for seconds. Lists of numbers travel as JSON for the same reason, and SQLite sums up the changes of a statement.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, compress, islice
from operator import neg, sub

import apsw
import numpy as np

from coordinator.adapters.sqlite.joining import is_short, joined
from coordinator.adapters.sqlite.kept_results import KeptResults
from coordinator.adapters.sqlite.proofs import header_proof, run_of, run_proofs
from coordinator.adapters.sqlite.reader import WrittenChanges
from coordinator.adapters.sqlite.run_index import RunEntry
from coordinator.adapters.sqlite.schema import fetch
from coordinator.core.state.frozen import PartitionRow
from coordinator.core.state.packing import Flush
from coordinator.core.state.proof import directory_proof
from coordinator.core.tables.stored_rows import NO_FILES, Columns, FileRow, FileTotals, Header, RunRow
from coordinator.core.yielding import Rest, no_rest
from coordinator.kafka.batches import split_partition_key

ROWS_PER_STATEMENT = (256, 64, 16, 4, 1)
FEW_ROWS = 4096
"""A flush of up to so many rows has 64 in a statement at most: the event loop waits while the values of a statement are taken over."""
FILES_A_STATEMENT = 1_000
"""A deleted topic takes batches of very many files: their list is text that holds the interpreter while it is made."""
LAST_RUNS_REMEMBERED_MAX = 100_000

PUT_HEADER = "INSERT OR REPLACE INTO header"
PUT_TOPIC = "INSERT OR REPLACE INTO topic"
PUT_PARTITION = "INSERT OR REPLACE INTO partition"
PUT_RUN = "INSERT OR REPLACE INTO run"
PUT_FILE = "INSERT INTO file"
PUT_PRODUCER = "INSERT OR REPLACE INTO producer"
PUT_TOMBSTONE = "INSERT OR REPLACE INTO tombstone"
PUT_DIRECTORY = "INSERT OR REPLACE INTO directory"

DROP_PRODUCERS = "DELETE FROM producer WHERE id IN (SELECT value FROM json_each(?))"
DROP_TOPIC = "DELETE FROM topic WHERE topic_id = ?"
SUM_OF_FILES = """
    SELECT emptied_ms < 0, count(*), sum(file_size) FROM file WHERE id IN (SELECT value FROM json_each(?)) GROUP BY emptied_ms < 0
"""
DROP_FILES = "DELETE FROM file WHERE id IN (SELECT value FROM json_each(?))"
SUM_OF_EMPTIED = """
    SELECT count(*), ifnull(sum(file_size), 0) FROM json_each(?) AS lost CROSS JOIN file ON file.id = CAST(lost.key AS INTEGER)
    WHERE file.live_batches = lost.value
"""
LOSE_BATCHES = """
    UPDATE file SET live_batches = live_batches - lost.batches, lost_batches = lost_batches + lost.batches,
        emptied_ms = CASE live_batches WHEN lost.batches THEN ?2 ELSE emptied_ms END
    FROM (SELECT CAST(key AS INTEGER) AS id, value AS batches FROM json_each(?1)) AS lost WHERE file.id = lost.id
"""
EXPIRE_TOMBSTONES = "DELETE FROM tombstone WHERE created_ms >= 0 AND created_ms < ?"
TRIM_RUNS = "DELETE FROM run WHERE partition_id = ? AND last_offset < ?"
PURGE_RUNS = "DELETE FROM run WHERE partition_id = ?"
PURGE_PARTITION = "DELETE FROM partition WHERE id = ?"

LAST_RUNS = """
    SELECT id, partition_id, base_offset, last_offset, max_timestamp, file_base, timestamp_base, batches, proof
    FROM run WHERE id IN (
        SELECT (SELECT id FROM run WHERE partition_id = value ORDER BY last_offset DESC LIMIT 1) FROM json_each(?)
    )
"""
GREATEST_RUN_ID = "SELECT ifnull(max(id), 0) FROM run"
FLUSHES_SO_FAR = "SELECT flushes FROM header"


class FlushWriter:
    """Writes one flush after the other through a connection of its own."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._last_runs: dict[int, tuple[int, RunRow] | None] = {}
        self._next_run_id = 0
        self._kept_results = KeptResults(connection)
        self.flushes = 0
        self._start_over()

    def _start_over(self) -> None:
        """Read from the database what each flush keeps up to date afterwards."""
        self._last_runs.clear()
        self._next_run_id = self._number(GREATEST_RUN_ID) + 1
        self.flushes = self._number(FLUSHES_SO_FAR)
        self._kept_results.start_over()

    def _number(self, sql: str) -> int:
        rows = fetch(self._connection, sql)
        return int(rows[0][0]) if rows else 0

    def write(self, flush: Flush, rest: Rest = no_rest) -> WrittenChanges:
        """Write a flush in one transaction, resting between statements; on an error nothing of it is written."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            runs = self._place_runs(flush.runs)
            files = self._write_rows(flush, runs, rest)
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            self._start_over()
            raise
        self.flushes += 1
        self._forget_runs(flush)
        entries = [RunEntry(run.partition_row, run_id, run.last, run.max_timestamp) for run_id, run in runs.items()]
        return WrittenChanges(entries, flush.trimmed, flush.partitions_purged, files)

    def _write_rows(self, flush: Flush, runs: Mapping[int, RunRow], rest: Rest) -> FileTotals:
        """Write everything; returns how the number of files changes.

        Order matters: freed row numbers before their reuse, removals before what may come again, purging last.
        """
        connection = self._connection
        if flush.producers_dropped:
            connection.execute(DROP_PRODUCERS, (json.dumps(flush.producers_dropped),))
        removed = NO_FILES
        if flush.files_removed:
            ids = (json.dumps(flush.files_removed),)
            for is_live, count, size in fetch(connection, SUM_OF_FILES, ids):
                removed = removed.plus(FileTotals(live=count, bytes_live=size) if is_live else FileTotals(empty=count, bytes_empty=size))
            connection.execute(DROP_FILES, ids)
        if flush.tombstones_expired_before_ms > 0:
            connection.execute(EXPIRE_TOMBSTONES, (flush.tombstones_expired_before_ms,))
        connection.executemany(DROP_TOPIC, [(topic_id,) for topic_id in flush.topics_forgotten])
        put(connection, PUT_TOPIC, [(t.topic_id, t.name, t.order_offset, t.deleted_ms) for t in flush.topics])
        put(connection, PUT_PARTITION, [partition_columns(row, proof) for row, proof in flush.partitions], rest)
        put(connection, PUT_RUN, [(number, *run, proof) for (number, run), proof in zip(runs.items(), run_proofs(runs), strict=True)], rest)
        files, proofs = _left(flush)
        put_columns(connection, PUT_FILE, (*files.lists, *proofs), rest)
        self._kept_results.clear(flush.results_before_ms, len(flush.files))
        became = NO_FILES
        for losses in map(json.dumps, _losses(flush.live_lost, rest)):
            [(count, size)] = fetch(connection, SUM_OF_EMPTIED, (losses,))
            became = became.plus(FileTotals(live=-count, empty=count, bytes_live=-size, bytes_empty=size))
            connection.execute(LOSE_BATCHES, (losses, flush.emptied_ms))
        connection.executemany(TRIM_RUNS, flush.trimmed)
        put_columns(connection, PUT_PRODUCER, flush.producers.lists, rest)
        put_columns(connection, PUT_TOMBSTONE, (*flush.tombstones.lists, flush.tombstone_hashes), rest)
        if flush.directory is not None:
            put(connection, PUT_DIRECTORY, [(1, flush.directory, directory_proof(flush.directory))])
        purged = [(row,) for row in flush.partitions_purged]
        connection.executemany(PURGE_RUNS, purged)
        connection.executemany(PURGE_PARTITION, purged)
        put(connection, PUT_HEADER, [header_columns(flush.header, self.flushes + 1)])
        return _totals(files).plus(became).plus(FileTotals(*map(neg, removed)))

    def _place_runs(self, runs: Sequence[RunRow]) -> dict[int, RunRow]:
        """Give every run its id; one that follows a short run takes its place together with it."""
        self._find_last_runs({run.partition_row for run in runs})
        placed: dict[int, RunRow] = {}
        for run in runs:
            last = self._last_runs[run.partition_row]
            both = None if last is None else joined(last[1], run)
            if last is None or both is None:
                run_id, kept = self._next_run_id, run
                self._next_run_id += 1
            else:
                run_id, kept = last[0], both
            placed[run_id] = kept
            self._last_runs[run.partition_row] = (run_id, kept) if is_short(kept) else None
        return placed

    def _find_last_runs(self, partition_rows: set[int]) -> None:
        """Look up the partitions' last runs, where they are not known, and keep those to which another may be joined."""
        if len(self._last_runs) > LAST_RUNS_REMEMBERED_MAX:
            self._last_runs.clear()
        unknown = [row for row in partition_rows if row not in self._last_runs]
        if not unknown:
            return
        self._last_runs.update(dict.fromkeys(unknown))
        for run_id, *columns in fetch(self._connection, LAST_RUNS, (json.dumps(unknown),)):
            run = run_of(run_id, tuple(columns))
            if is_short(run):
                self._last_runs[run.partition_row] = (run_id, run)

    def _forget_runs(self, flush: Flush) -> None:
        """Forget last runs that were deleted: no other run is joined to them."""
        for partition_row, to in flush.trimmed:
            last = self._last_runs.get(partition_row)
            if last is not None and last[1].last < to:
                self._last_runs[partition_row] = None
        for partition_row in flush.partitions_purged:
            self._last_runs.pop(partition_row, None)


def put(connection: apsw.Connection, head: str, rows: Sequence[Sequence[apsw.SQLiteValue]], rest: Rest = no_rest) -> None:
    """Insert rows, many per statement."""
    for at, size in portions(len(rows)):
        rest()
        connection.execute(insert_statement(head, len(rows[0]), size), list(chain.from_iterable(rows[at : at + size])))


def put_columns(connection: apsw.Connection, head: str, columns: Sequence[Sequence[apsw.SQLiteValue]], rest: Rest = no_rest) -> None:
    """Insert rows given as columns, many per statement."""
    width = len(columns)
    for at, size in portions(len(columns[0])):
        rest()
        values: list[apsw.SQLiteValue] = [None] * (width * size)
        for number, column in enumerate(columns):
            values[number::width] = column[at : at + size]
        connection.execute(insert_statement(head, width, size), values)


def portions(rows: int) -> Iterator[tuple[int, int]]:
    """The place of each statement's first row, and the number of its rows."""
    at = 0
    for size in ROWS_PER_STATEMENT[rows <= FEW_ROWS :]:
        while rows - at >= size:
            yield at, size
            at += size


@cache
def insert_statement(head: str, columns: int, rows: int) -> str:
    """Return the statement that inserts so many rows."""
    row = f"({','.join('?' * columns)})"
    return f"{head} VALUES {','.join([row] * rows)}"


def _losses(live_lost: Mapping[int, int], rest: Rest) -> Iterator[dict[int, int]]:
    """The batches that files lose, for a statement at a time, resting before each.

    They are in the order of the rows: going through the table up and down makes a statement three times as long.
    """
    ids, pieces = iter(live_lost), [np.empty(0, np.int64)]
    while len(piece := np.fromiter(islice(ids, FILES_A_STATEMENT), np.int64)):
        pieces.append(piece)
        rest()
    ordered = np.sort(np.concatenate(pieces))
    for first in range(0, len(ordered), FILES_A_STATEMENT):
        rest()
        yield {file_id: live_lost[file_id] for file_id in ordered[first : first + FILES_A_STATEMENT].tolist()}


def _left(flush: Flush) -> tuple[Columns[FileRow], Sequence[Sequence[apsw.SQLiteValue]]]:
    """The files that were not removed again, and the columns behind them; batches that were deleted meanwhile are lost already."""
    proofs: Sequence[Sequence[apsw.SQLiteValue]] = (
        list(map(sub, flush.files["batch_count"], flush.files["live_batches"])),
        flush.record_hashes,
        flush.file_hashes,
    )
    if not flush.files_removed:
        return flush.files, proofs
    removed = set(flush.files_removed)
    is_left = [file_id not in removed for file_id in flush.files["file_id"]]
    return flush.files.chosen(is_left), [list(compress(column, is_left)) for column in proofs]


def _totals(files: Columns[FileRow]) -> FileTotals:
    """The number and size of files that are added with and without live batches."""
    sizes: dict[bool, list[int]] = {True: [], False: []}
    for size, emptied_ms in zip(files["file_size"], files["emptied_ms"], strict=True):
        sizes[emptied_ms < 0].append(size)
    live, empty = sizes[True], sizes[False]
    return FileTotals(live=len(live), empty=len(empty), bytes_live=sum(live), bytes_empty=sum(empty))


def partition_columns(row: PartitionRow, proof: int) -> tuple[apsw.SQLiteValue, ...]:
    """The row of a partition."""
    return (
        row.row,
        *split_partition_key(row.key),
        row.high_watermark,
        row.log_start,
        row.first_offset,
        row.prefix_start,
        row.leader_epoch,
        row.max_timestamp,
        row.max_timestamp_offset,
        row.trimmed_to,
        int(row.is_dead),
        proof,
    )


def header_columns(header: Header, flushes: int) -> tuple[apsw.SQLiteValue, ...]:
    """The row of the header, with its proof."""
    columns = (
        header.cluster_id,
        header.topic_id,
        header.metadata_partition,
        header.applied_offset,
        header.epoch,
        header.term,
        header.seq,
        header.leader_node_id,
        header.leader_endpoints,
        header.log_time_ms,
        header.last_entry_hash,
        header.digest,
        flushes,
    )
    return (1, *columns, header_proof(columns))
