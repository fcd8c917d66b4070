"""The database of a monitor as tables of PostgreSQL, in the schema that the connection's `search_path` names first.

Statements come in the words that SQLite shares with PostgreSQL; marks of parameters and names of types are put into PostgreSQL's here.
One writer at a time has the row of `store_change`, whose number goes up with each transaction. Texts are compared by their bytes, as
SQLite does. PostgreSQL takes no text with a character of code 0, which a stranger may have put into the log: it is stored as two others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import psycopg
from psycopg.abc import Buffer
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.types.numeric import Int8Dumper
from psycopg.types.string import StrDumper, TextLoader

from spark_jobs.store.engine import OpenStore, PostgresError, PostgresPlace

_DEFAULTS = {
    "application_name": "diskless monitor",
    "connect_timeout": 10,
    # A server that is gone without a word is noticed after half a minute.
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 4,
    "tcp_user_timeout": 30_000,
}
"""Settings of connections; those of the URL go before them."""

LOCKS = 0x64736B6D
"""The first half of the keys of locks: those of a monitor's store."""

_LOST = ("08", "57P")
"""Codes of a connection that broke, and of a server that ends or starts. What libpq says by itself has none."""

_ESCAPE = "\N{SYMBOL FOR NULL}"
_CHANGE = """create table if not exists store_change (number bigint not null);
insert into store_change select 0 where not exists (select 1 from store_change);
"""
# Every join of the merge is by the key of a few rows, which the statistics of a table made for them do not say. A server that hears nothing
# of a writer's machine lets its locks go, too.
_WRITER = """set enable_hashjoin = off; set enable_mergejoin = off; set synchronous_commit = off;
set tcp_keepalives_idle = 10; set tcp_keepalives_interval = 5; set tcp_keepalives_count = 4"""


class PostgresRow(tuple[Any, ...]):
    """A row of a reader, as `StoreRow` says."""

    places: Mapping[str, int]

    def __getitem__(self, key: Any, /) -> Any:
        return super().__getitem__(self.places[key] if isinstance(key, str) else key)

    def keys(self) -> Any:
        """Return the names of the columns."""
        return self.places.keys()


class PostgresStore:
    """A connection to PostgreSQL; see `OpenStore`."""

    def __init__(self, raw: psycopg.Connection[Any]) -> None:
        self._raw = raw

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> psycopg.Cursor[Any]:
        """See `OpenStore`."""
        with _errors():
            return self._raw.execute(statement(sql), parameters)

    def executemany(self, sql: str, rows: Any, /) -> psycopg.Cursor[Any]:
        """See `OpenStore`."""
        with _errors():
            cursor = self._raw.cursor()
            cursor.executemany(statement(sql), rows)
            return cursor

    def close(self) -> None:
        """See `OpenStore`."""
        self._raw.close()

    def script(self, sql: str) -> None:
        """See `OpenStore`."""
        with _errors(), self._raw.transaction():
            # Two that make a table at once disturb each other.
            self._raw.execute(f"select pg_advisory_xact_lock({LOCKS}, 0)".encode())
            self._raw.execute((_CHANGE + definitions(sql)).encode())

    def is_made(self) -> bool:
        """See `OpenStore`."""
        return self.execute("select to_regclass('head') is not null").fetchone()[0] is True  # type: ignore[index]

    def hold(self) -> bool:
        """See `OpenStore`."""
        found = self.execute(f"select pg_try_advisory_lock({LOCKS}, hashtext(current_schema()))").fetchone()
        return found is not None and found[0] is True

    @contextmanager
    def writing(self) -> Iterator[None]:
        """See `OpenStore`."""
        with _errors(), self._raw.transaction():
            self._raw.execute("update store_change set number = number + 1")
            yield

    @contextmanager
    def reading(self, seconds_max: float) -> Iterator[None]:
        """See `OpenStore`."""
        with _errors(), self._raw.transaction():
            self._raw.execute(f"set local statement_timeout = {max(1, round(1000 * seconds_max))}".encode())
            yield

    def version(self) -> str:
        """See `OpenStore`."""
        return str(self.execute("select number from store_change").fetchone()[0])  # type: ignore[index]


def open_postgres(place: PostgresPlace, wait_s: float, *, is_writer: bool) -> OpenStore:
    """Connect. Raises `PostgresError`."""
    with _errors():
        settings: dict[str, Any] = {**_DEFAULTS, **conninfo_to_dict(place.url, password=place.password, client_encoding="utf8")}
        raw = psycopg.connect(make_conninfo("", **settings), autocommit=True)
        raw.adapters.register_dumper(str, _EscapedText)
        raw.adapters.register_loader("text", _UnescapedText)
        raw.adapters.register_dumper(int, Int8Dumper)
        raw.adapters.register_loader("numeric", _WholeNumber)
        raw.execute(f"set lock_timeout = {round(1000 * wait_s)}".encode())
        if is_writer:
            raw.execute(_WRITER)
        else:
            raw.row_factory = _named_rows
            raw.read_only, raw.isolation_level = True, psycopg.IsolationLevel.REPEATABLE_READ
    if (encoding := raw.info.parameter_status("server_encoding")) != "UTF8":
        raw.close()
        raise PostgresError(f"the database at {place} has the encoding {encoding}: the monitor needs one with the encoding UTF8")
    return PostgresStore(raw)


@lru_cache(maxsize=1024)
def statement(sql: str) -> bytes:
    """Return a statement as PostgreSQL and its client take it. No text in a statement has a question mark."""
    return re.sub(r"\bas blob\)", "as bytea)", sql.replace("%", "%%").replace("?", "%s")).encode()


def definitions(sql: str) -> str:
    """Return definitions of tables as PostgreSQL takes them; a temporary table is empty at the end of a transaction."""
    sql = re.sub(r"--.*", "", sql)
    sql = re.sub(r"(create temp table[^;]*) without rowid", r"\1 on commit delete rows", sql).replace("without rowid", "")
    sql = re.sub(r"\bblob\b", "bytea", re.sub(r"\binteger\b", "bigint", sql))
    return re.sub(r"(\w+) text\b", r'\1 text collate "C"', sql)


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        state = error.sqlstate
        is_lost = isinstance(error, psycopg.OperationalError) and (state is None or state.startswith(_LOST))
        raise PostgresError(" ".join(str(error).split()), state, is_lost=is_lost) from error


def _named_rows(cursor: psycopg.Cursor[Any]) -> Any:
    places: dict[str, int] = {}
    for place, column in enumerate(cursor.description or ()):
        places.setdefault(column.name, place)

    def made(values: Sequence[Any]) -> PostgresRow:
        row = PostgresRow(values)
        row.places = places
        return row

    return made


class _EscapedText(StrDumper):
    def dump(self, obj: str) -> Buffer | None:
        return super().dump(obj.replace(_ESCAPE, 2 * _ESCAPE).replace("\0", f"{_ESCAPE}0"))


class _UnescapedText(TextLoader):
    def load(self, data: Buffer) -> str | bytes:
        text = super().load(data)
        if isinstance(text, bytes) or _ESCAPE not in text:
            return text
        return re.sub(f"{_ESCAPE}([0{_ESCAPE}])", lambda found: "\0" if found[1] == "0" else _ESCAPE, text)


class _WholeNumber(psycopg.adapt.Loader):
    def load(self, data: Buffer) -> int:
        return int(bytes(data))
