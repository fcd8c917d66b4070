"""The database of a monitor behind one seam: a file of SQLite in the monitor's folder, or tables of PostgreSQL (`postgres`).

Statements are in the SQL that engines share (`statements`); what differs is here: connections, transactions, the tables' making, the
number that changes with every commit, and what an error means. A file of SQLite is a connection of its module with these words added.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, Protocol, TypeAlias
from urllib.parse import parse_qs, quote, urlsplit

DATABASE = "monitor.db"
WRITER_WAIT_S = 30.0
READER_WAIT_S = 10.0
STEPS_BETWEEN_LOOKS = 100_000
_SECRETS = {"password", "sslpassword", "oauth_client_secret"}


class PostgresError(Exception):
    """What PostgreSQL and its client raise; `sqlstate` is PostgreSQL's code, None when the error is not its own.

    `is_lost`: there is no connection to the server, which may come back.
    """

    def __init__(self, text: str, sqlstate: str | None = None, *, is_lost: bool = False) -> None:
        super().__init__(text)
        self.sqlstate = sqlstate
        self.is_lost = is_lost


@dataclass(frozen=True, slots=True)
class PostgresPlace:
    """A database of PostgreSQL by its URL, which has no password: that is given apart, or found as libpq finds it."""

    url: str
    password: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Raises ValueError for another URL."""
        parts = urlsplit(self.url)
        if parts.scheme not in ("postgresql", "postgres"):
            raise ValueError("it must be postgresql://[USER@]HOST[:PORT]/DATABASE")
        if parts.password is not None or not _SECRETS.isdisjoint(parse_qs(parts.query)):
            raise ValueError("it has a password, which others may see: keep it in a file, or in PGPASSFILE")

    def __str__(self) -> str:
        return self.url


StorePlace: TypeAlias = Path | PostgresPlace
"""Where the database of a monitor is: a folder, whose `monitor.db` it is, or PostgreSQL."""

STORE_ERRORS: tuple[type[Exception], ...] = (sqlite3.Error, PostgresError)
"""What a database raises."""


class StoreRow(Protocol):
    """A row of a reader: values by name and by place."""

    def __getitem__(self, key: str | int, /) -> Any: ...
    def __iter__(self) -> Iterator[Any]: ...
    def keys(self) -> Any:
        """Return the names, so that `dict` takes the row."""


class StoreAnswer(Protocol):
    """The answer to a statement."""

    @property
    def rowcount(self) -> int: ...
    def fetchone(self) -> Any:
        """Return the next row, None after the last."""

    def fetchall(self) -> list[Any]:
        """Return the rows that are left."""

    def __iter__(self) -> Iterator[Any]: ...


class StoreConnection(Protocol):
    """What executes statements; parameters stand for question marks."""

    def execute(self, sql: str, parameters: Sequence[Any] = ..., /) -> StoreAnswer:
        """Execute a statement."""

    def executemany(self, sql: str, rows: Any, /) -> StoreAnswer:
        """Execute a statement once for each row of parameters."""


class OpenStore(StoreConnection, Protocol):
    """A connection to a database, to be closed."""

    def close(self) -> None:
        """End the connection."""

    def script(self, sql: str) -> None:
        """Execute several statements, those that make tables in SQLite's words for types, all or none."""

    def is_made(self) -> bool:
        """Return whether the tables are there; all of them come at once."""

    def hold(self) -> bool:
        """Keep other monitors out until the connection is closed; False when one is in. Of a folder that is a matter of its lock."""

    def writing(self) -> AbstractContextManager[object]:
        """Return a transaction that writes, undone by an exception. There is one at a time, others wait."""

    def reading(self, seconds_max: float) -> AbstractContextManager[object]:
        """Return a transaction that sees one state of the database; its queries end with an error when they take longer."""

    def version(self) -> str:
        """Return a text that changes with every transaction of a writer."""


class SqliteStore(sqlite3.Connection):
    """The file of a folder."""

    _deadline_s = 0.0

    def script(self, sql: str) -> None:
        """See `OpenStore`."""
        self.executescript(f"begin immediate; {sql}; commit;")

    def is_made(self) -> bool:
        """See `OpenStore`."""
        with closing(self.execute("select name from sqlite_master limit 1")) as found:
            return found.fetchone() is not None

    def hold(self) -> bool:
        """See `OpenStore`."""
        return True

    @contextmanager
    def writing(self) -> Iterator[None]:
        """See `OpenStore`."""
        self.execute("begin immediate")
        try:
            yield
            self.execute("commit")
        except BaseException:
            self.execute("rollback")
            raise

    @contextmanager
    def reading(self, seconds_max: float) -> Iterator[None]:
        """See `OpenStore`."""
        self._deadline_s = time.monotonic() + seconds_max
        self.set_progress_handler(lambda: time.monotonic() > self._deadline_s, STEPS_BETWEEN_LOOKS)
        self.execute("begin")
        try:
            yield
        finally:
            self.execute("rollback")

    def version(self) -> str:
        """See `OpenStore`."""
        return str(self.execute("pragma data_version").fetchone()[0])


def open_writer(place: StorePlace, wait_s: float = WRITER_WAIT_S) -> OpenStore:
    """Connect in order to write; rows are tuples. Tables are not made, nor is a folder. `wait_s` is for other writers."""
    if isinstance(place, PostgresPlace):
        return _open_postgres(place, wait_s, is_writer=True)
    # Used by one thread at a time, not always the same.
    db = sqlite3.connect(place / DATABASE, isolation_level=None, timeout=wait_s, check_same_thread=False, factory=SqliteStore)
    # WAL: readers never wait. A power cut may lose the last micro-batches whole, which are then read again.
    db.executescript("pragma journal_mode = wal; pragma synchronous = normal; pragma temp_store = memory; pragma cache_size = -32768;")
    return db


def open_reader(place: StorePlace, wait_s: float = READER_WAIT_S) -> OpenStore:
    """Connect in order to read. Rows are `StoreRow`s."""
    if isinstance(place, PostgresPlace):
        return _open_postgres(place, wait_s, is_writer=False)
    name = f"file:{quote(str((place / DATABASE).absolute()))}?mode=ro"
    db = _connect(name, wait_s)
    try:
        db.is_made()
    except sqlite3.OperationalError as error:
        db.close()
        # A folder that cannot be written has no place for the files that readers and a writer share; then no process writes either.
        if _primary_code(error) not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
            raise
        return _connect(f"{name}&immutable=1", wait_s)
    return db


def exists(place: StorePlace) -> bool:
    """Return whether there may be a database."""
    return isinstance(place, PostgresPlace) or (place / DATABASE).is_file()


def identity(place: StorePlace) -> tuple[int, int] | None:
    """Return what changes when the database becomes another; None when there is none. A database of PostgreSQL stays the same."""
    if isinstance(place, PostgresPlace):
        return 0, 0
    try:
        status = (place / DATABASE).stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def named(place: StorePlace) -> str:
    """Return the name of the database for messages."""
    return str(place) if isinstance(place, PostgresPlace) else str(place / DATABASE)


def open_empty() -> OpenStore:
    """Return a database in memory with all tables and no row."""
    db = _connect(":memory:", 0)
    db.script(tables())
    return db


def tables() -> str:
    """Return the statements that make the tables which are missing."""
    return files("spark_jobs.store").joinpath("schema.sql").read_text(encoding="utf-8")


def _open_postgres(place: PostgresPlace, wait_s: float, *, is_writer: bool) -> OpenStore:
    try:
        from spark_jobs.store.postgres import open_postgres
    except ImportError as error:
        raise PostgresError("psycopg is not installed: pip install 'diskless-coordinator[postgres]'") from error
    return open_postgres(place, wait_s, is_writer=is_writer)


def _connect(name: str, wait_s: float) -> SqliteStore:
    db = sqlite3.connect(name, uri=True, isolation_level=None, timeout=wait_s, check_same_thread=False, factory=SqliteStore)
    db.row_factory = sqlite3.Row
    return db


def is_ended(error: Exception) -> bool:
    """Return whether a query was ended because it took too long."""
    return _primary_code(error) == sqlite3.SQLITE_INTERRUPT or getattr(error, "sqlstate", None) == "57014"


def is_lost(error: Exception | None) -> bool:
    """Return whether there is no connection to the database, which may come back. A file is never lost so."""
    return isinstance(error, PostgresError) and error.is_lost


def is_other_version(error: Exception) -> bool:
    """Return whether the database has not the tables that were asked."""
    return "no such" in str(error) if isinstance(error, sqlite3.Error) else getattr(error, "sqlstate", None) in ("42P01", "42703")


def _primary_code(error: Exception) -> int | None:
    """Return SQLite's code without its extension; None when the error is the module's own."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF
