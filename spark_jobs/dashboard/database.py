"""Reading the store while the job writes it: one read-only connection on one thread, every answer from one transaction.

The database may be missing (the job never ran), may appear, and may be another one later; the reader notices each. While it is
missing, or its tables are still to be made, the panels see an empty database with the same tables, so that "nothing yet"
needs no special case anywhere.
A query that takes too long is ended: a page must not hold a thread, and an open read keeps SQLite's log from shrinking.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from spark_jobs.store.engine import (
    STORE_ERRORS,
    OpenStore,
    StoreConnection,
    StorePlace,
    exists,
    identity,
    is_ended,
    is_other_version,
    named,
    open_empty,
    open_reader,
)

T = TypeVar("T")

QUERY_SECONDS_MAX = 5.0
BUSY_TIMEOUT_S = 2.0


class StoreUnreadableError(Exception):
    """The store is there and cannot be read; the text says why and what to do."""


class Database:
    """The store of a monitor."""

    def __init__(self, place: StorePlace, *, query_seconds_max: float = QUERY_SECONDS_MAX) -> None:
        """Look for the store at `place`; it need not exist yet."""
        self._query_seconds_max = query_seconds_max
        self._place = place
        self._thread = ThreadPoolExecutor(1, "store-reader")
        self._connection: OpenStore | None = None
        self._identity: tuple[int, int] | None = None
        self._opened = 0

    async def read(self, work: Callable[[StoreConnection], T]) -> T:
        """Run `work` in one read transaction on the reader's thread. Raises `StoreUnreadableError`."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._read, work)

    async def version(self) -> str:
        """A text that changes with every commit of the job, and when the file becomes another. Raises `StoreUnreadableError`."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._read, lambda db: f"{self._opened}.{db.version()}")

    async def close(self) -> None:
        """Close the connection and end the thread."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._forget)
        self._thread.shutdown()

    def exists(self) -> bool:
        """Whether there may be a store."""
        return exists(self._place)

    def _read(self, work: Callable[[OpenStore], T]) -> T:
        try:
            connection = self._current()
            with connection.reading(self._query_seconds_max):
                return work(connection)
        except STORE_ERRORS as error:
            self._forget()
            raise StoreUnreadableError(self._explain(error)) from error

    def _explain(self, error: Exception) -> str:
        name = named(self._place)
        if is_ended(error):
            return f"a query of {name} took more than {self._query_seconds_max:g} s and was ended; ask for less"
        if is_other_version(error):
            return f"{name} was written by another version of the monitor ({error}): use the dashboard of that version"
        return f"{name} cannot be read: {error}"

    def _current(self) -> OpenStore:
        present = identity(self._place)
        if self._connection is None or present != self._identity:
            found = None if present is None else self._open()
            if self._connection is None or found is not None or self._identity is not None:
                self._forget()
                self._connection, self._identity = found or open_empty(), present if found is not None else None
                self._opened += 1
        assert self._connection is not None
        return self._connection

    def _open(self) -> OpenStore | None:
        """Connect, unless the job has made the database and not yet the tables, which all come at once."""
        connection = open_reader(self._place, BUSY_TIMEOUT_S)
        if connection.is_made():
            return connection
        connection.close()
        return None

    def _forget(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
