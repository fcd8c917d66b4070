"""Tables of the state database, their migrations, and how connections are set up.

The names are for people too (`diskless db sql`). Rows of user partitions and producers are numbered as in memory;
a file's id is the offset of the entry that committed it. No index besides the keys is touched by a commit, but for the
one that finds runs: it holds everything the reader keeps in memory, so loading that never touches the packed data. The index of empty
files has none with live batches.
A column `proof` is the hash of its row (`proofs`). What travels in a snapshot follows from the tables as they are made here
(`state_tables`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import apsw

PAGE_BYTES = 16384
WAL_CHECKPOINT_BYTES = 16 << 20
WAL_FILE_BYTES_MAX = 64 << 20
CACHE_BYTES = 64 << 20
BUSY_TIMEOUT_MS = 5000
"""A reader waits so long for a lock. While a connection is open, no lock of another one keeps it from reading."""
WRITER_BUSY_TIMEOUT_MS = 50
"""A writer waits so long and is asked again later: its thread writes the other databases meanwhile."""
STEPS_BETWEEN_SIGNALS = 10_000
"""Steps of SQLite's machine, which does millions of them in a second; a copy writes some thousand rows meanwhile."""

MIGRATIONS = (
    """
    CREATE TABLE header (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        cluster_id TEXT NOT NULL,
        topic_id BLOB NOT NULL,
        metadata_partition INTEGER NOT NULL,
        applied_offset INTEGER NOT NULL,
        epoch INTEGER NOT NULL,
        term INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        leader_node_id INTEGER NOT NULL,
        leader_endpoints TEXT NOT NULL,
        log_time_ms INTEGER NOT NULL,
        last_entry_hash BLOB NOT NULL,
        digest BLOB NOT NULL,
        flushes INTEGER NOT NULL,
        proof BLOB NOT NULL
    ) STRICT;
    CREATE TABLE topic (
        topic_id BLOB PRIMARY KEY,
        name TEXT NOT NULL,
        order_offset INTEGER NOT NULL,
        deleted_ms INTEGER NOT NULL
    ) WITHOUT ROWID, STRICT;
    CREATE TABLE partition (
        id INTEGER PRIMARY KEY,
        topic_id BLOB NOT NULL,
        partition INTEGER NOT NULL,
        high_watermark INTEGER NOT NULL,
        log_start INTEGER NOT NULL,
        first_offset INTEGER NOT NULL,
        prefix_start INTEGER NOT NULL,
        leader_epoch INTEGER NOT NULL,
        max_timestamp INTEGER NOT NULL,
        max_timestamp_offset INTEGER NOT NULL,
        trimmed_to INTEGER NOT NULL,
        is_dead INTEGER NOT NULL,
        proof INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE run (
        id INTEGER PRIMARY KEY,
        partition_id INTEGER NOT NULL,
        base_offset INTEGER NOT NULL,
        last_offset INTEGER NOT NULL,
        max_timestamp INTEGER NOT NULL,
        file_base INTEGER NOT NULL,
        timestamp_base INTEGER NOT NULL,
        batches BLOB NOT NULL,
        proof BLOB NOT NULL
    ) STRICT;
    CREATE INDEX run_by_offset ON run (partition_id, last_offset, max_timestamp);
    CREATE TABLE file (
        id INTEGER PRIMARY KEY,
        object_key TEXT NOT NULL UNIQUE,
        content_hash BLOB NOT NULL,
        object_format INTEGER NOT NULL,
        file_size INTEGER NOT NULL,
        uploader_broker_id INTEGER NOT NULL,
        owner_ids TEXT NOT NULL,
        created_ms INTEGER NOT NULL,
        append_time_ms INTEGER NOT NULL,
        batch_count INTEGER NOT NULL,
        live_batches INTEGER NOT NULL,
        record BLOB NOT NULL,
        emptied_ms INTEGER NOT NULL,
        lost_batches INTEGER NOT NULL,
        record_proof BLOB NOT NULL,
        proof BLOB NOT NULL
    ) STRICT;
    CREATE INDEX file_by_emptied ON file (emptied_ms) WHERE emptied_ms >= 0;
    CREATE TABLE producer (
        id INTEGER PRIMARY KEY,
        partition_id INTEGER NOT NULL,
        producer_id INTEGER NOT NULL,
        epoch INTEGER NOT NULL,
        last_append_ms INTEGER NOT NULL,
        remembered BLOB NOT NULL
    ) STRICT;
    CREATE TABLE tombstone (
        object_key TEXT PRIMARY KEY,
        reason TEXT NOT NULL,
        time_ms INTEGER NOT NULL,
        created_ms INTEGER NOT NULL,
        proof BLOB NOT NULL
    ) WITHOUT ROWID, STRICT;
    CREATE INDEX tombstone_by_creation ON tombstone (created_ms);
    CREATE TABLE directory (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        content TEXT NOT NULL,
        proof BLOB NOT NULL
    ) STRICT;
    """,
    "-- The digest of a batch is another one; nothing is brought up to date, see VERSION_MIN.",
    "-- Every row has a proof; nothing is brought up to date, see VERSION_MIN.",
    "-- Files say since when they are empty; nothing is brought up to date, see VERSION_MIN.",
    "-- Partitions say where their migration stands; nothing is brought up to date, see VERSION_MIN.",
)
"""Number n brings a database from version n to n + 1; never change one that was released."""

VERSION = len(MIGRATIONS)
VERSION_MIN = 5
"""Databases before this one hold numbers that cannot be converted; they are built anew from the log."""


COLUMNS_OF_TABLES = """
    SELECT t.name, c.name, c.type, c.pk FROM sqlite_schema AS t, pragma_table_info(t.name) AS c
    WHERE t.type = 'table' AND t.name <> 'header' ORDER BY t.rowid, c.cid
"""
COLUMN_TYPES: Mapping[str, type] = {"INTEGER": int, "BLOB": bytes, "TEXT": str}


class Table(NamedTuple):
    """A table: its key is one column; the types of its columns are int, bytes and str, none of them may be null."""

    name: str
    key: str
    columns: Mapping[str, type]


class UnknownVersion(Exception):
    """The database was written by a newer release, or by one too old."""


def connect_writer(path: Path, *, journal: str = "wal") -> apsw.Connection:
    """Open for writing and bring the schema up to date. Raises `UnknownVersion` and the library's errors."""
    connection = apsw.Connection(str(path))
    try:
        connection.set_busy_timeout(WRITER_BUSY_TIMEOUT_MS)
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}").fetchall()
        connection.execute(f"PRAGMA journal_mode = {journal}").fetchall()
        # The log is the truth and this file a cache of it: what a crash of the machine takes is read again from the log, and
        # the lock file tells that it happened. A crash of the process alone loses nothing that was committed.
        connection.execute("PRAGMA synchronous = OFF").fetchall()
        connection.execute(f"PRAGMA wal_autocheckpoint = {WAL_CHECKPOINT_BYTES // PAGE_BYTES}").fetchall()
        connection.execute(f"PRAGMA journal_size_limit = {WAL_FILE_BYTES_MAX}").fetchall()
        connection.execute(f"PRAGMA cache_size = -{CACHE_BYTES >> 10}").fetchall()
        migrate(connection)
    except BaseException:
        connection.close(True)
        raise
    return connection


def connect_reader(path: Path, flags: int = 0) -> apsw.Connection:
    """Open for reading beside a writer; `flags` are those of the library, besides that it only reads."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY | flags)
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    connection.execute(f"PRAGMA cache_size = -{CACHE_BYTES >> 10}").fetchall()
    return connection


def connect_interruptible(path: Path, flags: int = 0) -> apsw.Connection:
    """Open as `connect_reader` does, for a command that signals end: the exception of a signal's handler ends what SQLite works on."""
    connection = connect_reader(path, flags)
    # The interpreter handles signals between steps of Python only, and one call of SQLite may take hours.
    connection.set_progress_handler(_do_not_abort, STEPS_BETWEEN_SIGNALS)
    return connection


def _do_not_abort() -> bool:
    """Let SQLite go on: that the interpreter runs at all lets the handlers of signals run."""
    return False


def connect_builder(path: Path) -> apsw.Connection:
    """Open a file in which a database is made at once: without a journal, nothing can be taken back."""
    return connect_writer(path, journal="off")


@cache
def state_tables() -> Mapping[str, Table]:
    """The tables that hold the state, by name: all but the header."""
    connection = apsw.Connection(":memory:")
    migrate(connection)
    tables: dict[str, Table] = {}
    for name, rows in groupby(fetch(connection, COLUMNS_OF_TABLES), key=itemgetter(0)):
        columns = list(rows)
        key = next(column for _, column, _, place in columns if place)
        tables[name] = Table(name, key, {column: COLUMN_TYPES[kind] for _, column, kind, _ in columns})
    connection.close()
    return tables


def fetch(source: apsw.Connection | apsw.Cursor, sql: str, bindings: apsw.Bindings = ()) -> list[tuple[Any, ...]]:
    """All rows of a query; reading to the end also ends its read transaction."""
    return source.execute(sql, bindings).fetchall()


BYTES_LISTED = frozenset({"content_hash", "proof"})
"""The columns of bytes that are read as text (`rows_as_json`)."""


def rows_as_json(columns: str, source: str) -> str:
    """Return a query for the rows of `source` as one text, for `fetch_at_once`: names with ", " between them, and bytes in hexadecimal."""
    written = ", ".join(f"hex({column})" if column in BYTES_LISTED else column for column in columns.split(", "))
    return f"SELECT json_group_array(json_array({written})) FROM ({source})"


def fetch_at_once(cursor: apsw.Cursor, sql: str, bindings: apsw.Bindings = ()) -> list[list[Any]]:
    """All rows of a query of `rows_as_json`.

    Reading a row gives the interpreter away, and a busy thread keeps it for half a millisecond: the event loop needs the rows in one step.
    """
    found: list[list[Any]] = json.loads(fetch(cursor, sql, bindings)[0][0])
    return found


def fetch_columns_at_once(
    connection: apsw.Connection, columns: Mapping[str, type], source: str, bindings: apsw.Bindings = ()
) -> Sequence[Sequence[Any]]:
    """All rows of a query by column, read in one step; `columns` are the names and types of its columns (`Table.columns`).

    Values of other types come as they are stored.
    """
    written = [f"json_group_array(hex({name}))" if kind is bytes else f"json_group_array({name})" for name, kind in columns.items()]
    others = " + ".join(["0", *(f"total(typeof({name}) <> 'blob')" for name, kind in columns.items() if kind is bytes)])
    try:
        [(other_types, *texts)] = fetch(connection, f"SELECT {others}, {', '.join(written)} FROM ({source})", bindings)
    except apsw.SQLError:
        other_types = True  # JSON cannot hold bytes, which are where none belong
    if other_types:
        return fetch_columns(connection, source, bindings)
    lists: list[list[Any]] = list(map(json.loads, texts))
    return [list(map(bytes.fromhex, one)) if kind is bytes else one for one, kind in zip(lists, columns.values(), strict=True)]


def fetch_columns(connection: apsw.Connection, source: str, bindings: apsw.Bindings = ()) -> Sequence[Sequence[Any]]:
    """All rows of a query by column, read in a step for each; empty when there are none."""
    return list(zip(*fetch(connection, source, bindings), strict=True))


def migrate(connection: apsw.Connection) -> None:
    """Apply the missing migrations, each with its number in one transaction."""
    version = connection.pragma("user_version")
    if not isinstance(version, int) or version > VERSION:
        raise UnknownVersion(f"its schema has version {version}, this release knows up to {VERSION}")
    if 0 < version < VERSION_MIN:
        raise UnknownVersion(f"its schema has version {version}, this release reads from {VERSION_MIN} on")
    for number in range(version, VERSION):
        with connection:
            connection.execute(MIGRATIONS[number])
            connection.execute(f"PRAGMA user_version = {number + 1}")
