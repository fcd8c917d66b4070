"""Makes a state database from the rows of a snapshot: written under another name, proven, and only then put in its place.

A crash at any point leaves the database that was there, or none, or the new one whole. The remains of an unfinished one are
never opened, and removed when its database is made or opened next.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import apsw

from coordinator.adapters.sqlite.errors import DamagedRow, directory_failed, translated
from coordinator.adapters.sqlite.files import delete_database, files_of, sync_database, sync_folder
from coordinator.adapters.sqlite.lock import LockFile
from coordinator.adapters.sqlite.schema import connect_builder, connect_writer
from coordinator.adapters.sqlite.snapshot_rows import Misfit, checked_columns, header_of, refused_as_bad
from coordinator.adapters.sqlite.stored import read_state
from coordinator.adapters.sqlite.writer import PUT_HEADER, header_columns, put, put_columns
from coordinator.core.state.damage import DiskFull
from coordinator.core.state.replica_state import Stored
from coordinator.core.tables.stored_rows import Header
from coordinator.core.yielding import Rest, no_rest
from records.snapshot import SnapshotHead, TableRows

UNFINISHED = ".building"
FIRST_FLUSH = 1


def remove_unfinished(path: Path) -> None:
    """Remove what a crash left of a database that was being made in the place of this one. Raises `DirectoryFailed`."""
    remove_database(_unfinished(path))


def replace_database(path: Path, lock: LockFile, head: SnapshotHead, rows: Iterable[TableRows], rest: Rest = no_rest) -> Stored:
    """Make a database in the place of the one at a path, whose lock is held; returns the state in it, proven.

    Raises `BadSnapshot` when the rows are not those that the head describes, and `StateFailed`; then the earlier one is still there.
    """
    unfinished = _unfinished(path)
    stored = make_database(unfinished, head, rows, rest)
    adopt_database(unfinished, path, lock)
    return stored


def adopt_database(made: Path, path: Path, lock: LockFile) -> None:
    """Put a closed database in the place of the one at a path, whose lock is held. Raises `DirectoryFailed`."""
    try:
        sync_database(made)
        # First the database and then its write-ahead log, which belongs to no other; both before the mark, which vouches for any.
        delete_database(path)
        sync_folder(path.parent)
        lock.mark_clean()
        made.rename(path)
        sync_folder(path.parent)
    except OSError as error:
        raise directory_failed(path, "replaced", error) from error


def make_database(path: Path, head: SnapshotHead, rows: Iterable[TableRows], rest: Rest = no_rest) -> Stored:
    """Make a database and close it; returns the state in it, proven. Raises as `replace_database`; then nothing is left of it."""
    remove_database(path)
    try:
        with refused_as_bad(head), translated(path, _no_mark):
            header = header_of(head)
            _write(path, header, rows, rest)
            return _prove(path, header)
    except BaseException as error:
        if isinstance(error, DiskFull):
            error.wanted_bytes = _size_of(path)  # the probe of the directory comes after the removal, which makes room
        remove_database(path)
        raise


def remove_database(path: Path) -> None:
    """Delete a closed database. Raises `DirectoryFailed`."""
    try:
        delete_database(path)
    except OSError as error:
        raise directory_failed(path, "removed", error) from error


def _size_of(path: Path) -> int:
    """The bytes that a database takes; 0 where that cannot be found out."""
    try:
        return sum(file.stat().st_size for file in files_of(path) if file.exists())
    except OSError:
        return 0


def _unfinished(path: Path) -> Path:
    return path.with_name(path.name + UNFINISHED)


def _no_mark(reason: str) -> None:
    """Leave the lock unmarked: a damaged file that is not in use yet is deleted, and no later start has to be warned of it."""


def _write(path: Path, header: Header, rows: Iterable[TableRows], rest: Rest) -> None:
    connection = connect_builder(path)
    try:
        connection.execute("BEGIN")
        for chunk in rows:
            columns = checked_columns(chunk)
            try:
                put_columns(connection, f"INSERT INTO {chunk.table}", columns, rest)
            except (apsw.ConstraintError, OverflowError, UnicodeEncodeError) as error:
                raise Misfit(f"its rows of table {chunk.table} cannot be stored: {error}") from error
        put(connection, PUT_HEADER, [header_columns(header, FIRST_FLUSH)])
        connection.execute("COMMIT")
    finally:
        connection.close(True)


def _prove(path: Path, header: Header) -> Stored:
    """Open the database as any other, which makes it one with a write-ahead log, and read it to the end."""
    connection = connect_writer(path)
    try:
        stored = read_state(connection)
    except DamagedRow as damaged:
        raise Misfit(f"its rows are not those that its head describes: {damaged}") from damaged
    finally:
        connection.close(True)
    if stored is None or stored.header != header:
        raise DamagedRow("its header is not the one that was written")
    return stored
