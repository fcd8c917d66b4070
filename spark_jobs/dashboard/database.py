"""Reading the store while the job writes it: one read-only connection on one thread, every answer from one transaction.

The file may be missing (the job never ran), may appear, and may be another file later; the reader notices each. While it is
missing, or its tables are still to be made, the panels see an empty database with the same tables, so that "nothing yet"
needs no special case anywhere.
A query that takes too long is ended: a page must not hold a thread, and an open read keeps SQLite's log from shrinking.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

T = TypeVar("T")

DATABASE_FILE = "monitor.db"
QUERY_SECONDS_MAX = 5.0
STEPS_BETWEEN_LOOKS = 100_000
BUSY_TIMEOUT_S = 2.0


class StoreUnreadableError(Exception):
    """The store is there and cannot be read; the text says why and what to do."""


class Database:
    """The store of a monitor's folder."""

    def __init__(self, folder: Path, *, query_seconds_max: float = QUERY_SECONDS_MAX) -> None:
        """Look for the store in `folder`; it need not exist yet."""
        self._query_seconds_max = query_seconds_max
        self.path = folder / DATABASE_FILE
        self._thread = ThreadPoolExecutor(1, "store-reader")
        self._connection: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None
        self._opened = 0
        self._deadline_s = 0.0

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` in one read transaction on the reader's thread. Raises `StoreUnreadableError`."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._read, work)

    async def version(self) -> str:
        """A text that changes with every commit of the job, and when the file becomes another. Raises `StoreUnreadableError`."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._version)

    async def close(self) -> None:
        """Close the connection and end the thread."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._forget)
        self._thread.shutdown()

    def exists(self) -> bool:
        """Whether there is a store."""
        return self.path.exists()

    def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            connection = self._current()
            self._deadline_s = time.monotonic() + self._query_seconds_max
            connection.execute("begin")
            try:
                return work(connection)
            finally:
                connection.execute("rollback")
        except sqlite3.Error as error:
            self._forget()
            raise StoreUnreadableError(self._explain(error)) from error

    def _version(self) -> str:
        try:
            (number,) = self._current().execute("pragma data_version").fetchone()
        except sqlite3.Error as error:
            self._forget()
            raise StoreUnreadableError(self._explain(error)) from error
        return f"{self._opened}.{number}"

    def _explain(self, error: sqlite3.Error) -> str:
        if _primary_code(error) == sqlite3.SQLITE_INTERRUPT:
            return f"a query of {self.path} took more than {self._query_seconds_max:g} s and was ended; ask for less"
        if "no such" in str(error):
            return f"{self.path} was written by another version of the monitor ({error}): use the dashboard of that version"
        return f"{self.path} cannot be read: {error}"

    def _current(self) -> sqlite3.Connection:
        try:
            status = self.path.stat()
            identity: tuple[int, int] | None = (status.st_dev, status.st_ino)
        except FileNotFoundError:
            identity = None
        if self._connection is None or identity != self._identity:
            found = None if identity is None else _open(self.path)
            if self._connection is None or found is not None or self._identity is not None:
                self._take(found or _empty(), identity if found is not None else None)
        self._deadline_s = time.monotonic() + self._query_seconds_max
        assert self._connection is not None
        return self._connection

    def _take(self, connection: sqlite3.Connection, identity: tuple[int, int] | None) -> None:
        self._forget()
        self._connection, self._identity = connection, identity
        self._opened += 1
        connection.row_factory = sqlite3.Row
        connection.set_progress_handler(lambda: time.monotonic() > self._deadline_s, STEPS_BETWEEN_LOOKS)

    def _forget(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _open(path: Path) -> sqlite3.Connection | None:
    """Connect, unless the job has made the file and not yet the tables, which all come at once."""
    name = f"file:{quote(str(path))}"
    connection = sqlite3.connect(f"{name}?mode=ro", uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None)
    try:
        is_made = connection.execute("select name from sqlite_master limit 1").fetchone() is not None
    except sqlite3.OperationalError as error:
        connection.close()
        # A folder that cannot be written has no place for the files that readers and a writer share; then no process writes either.
        if _primary_code(error) not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
            raise
        return sqlite3.connect(f"{name}?mode=ro&immutable=1", uri=True, isolation_level=None)
    if not is_made:
        connection.close()
        return None
    return connection


def _empty() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.executescript(files("spark_jobs.store").joinpath("schema.sql").read_text(encoding="utf-8"))
    return connection


def _primary_code(error: sqlite3.Error) -> int | None:
    """Return SQLite's code without its extension; None when the error is the module's own."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF
