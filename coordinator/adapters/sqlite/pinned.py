"""The state of a database as of one write, read while further ones are written: the source of a snapshot.

A read transaction stays open for as long. The writer is not held up by it, but the write-ahead log cannot be begun anew: it grows
by what is written meanwhile, and is cut back after the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from coordinator.adapters.sqlite.errors import DamagedRow, translated
from coordinator.adapters.sqlite.schema import Table, connect_reader, fetch_columns, fetch_columns_at_once, state_tables
from coordinator.adapters.sqlite.snapshot_rows import head_of
from coordinator.adapters.sqlite.stored import read_header, select_all
from coordinator.core.state.damage import StateFailed
from coordinator.core.yielding import Rest, no_rest
from records.snapshot import SnapshotHead, TableRows

CHUNK_BYTES = 1 << 20
"""About so many bytes of rows are handed out at a time."""
ROWS_A_PIECE = 64
"""Rows of the longest runs, 24 000 bytes each, are read in a millisecond, a step for each."""
SHORT_ROWS_A_PIECE = 256
"""So many short rows are read in one step. SQLite lets go of the interpreter in each, which a busy event loop has to hand over again: with
a step for each row a snapshot took a tenth of the commits of a saturated node."""
LONG_ROW_BYTES = 512
"""Rows of so many bytes are long, if those before them were: a piece of short ones cannot be interrupted."""
NUMBER_BYTES = 8

Columns: TypeAlias = Sequence[Sequence[Any]]
"""The values of some rows by column, in the order of the table's columns."""


class PinnedDatabase:
    """A connection with an open read transaction. Belongs to one thread at a time; it has to be closed."""

    def __init__(self, path: Path, on_corrupt: Callable[[str], None]) -> None:
        """Pin the newest write. Raises `StateFailed` when there is none, `StateCorrupt`, `DirectoryFailed`."""
        self._path = path
        self._on_corrupt = on_corrupt
        with translated(path, on_corrupt):
            self._connection = connect_reader(path)
            try:
                self._connection.execute("BEGIN")
                # The transaction begins with the first read.
                header = read_header(self._connection)
            except BaseException:
                self._connection.close(True)
                raise
        if header is None:
            self._connection.close(True)
            raise StateFailed(f"nothing was written to the state database {path} yet: pin it after a write")
        self.header = header

    @property
    def head(self) -> SnapshotHead:
        """The head of a snapshot of this state."""
        return head_of(self.header)

    def tables(self, rest: Rest = no_rest) -> Iterator[TableRows]:
        """All rows of all tables, in the order of their keys, a chunk at a time; pauses between pieces of a millisecond.

        Raises `StateCorrupt`, `DirectoryFailed`.
        """
        for table in state_tables().values():
            yield from self._chunks(table, rest)

    def close(self) -> None:
        """End the read transaction (idempotent)."""
        self._connection.close(True)

    def _chunks(self, table: Table, rest: Rest) -> Iterator[TableRows]:
        chunk, last_key, row_bytes = _Chunk(table), None, LONG_ROW_BYTES
        while True:
            rest()
            with translated(self._path, self._on_corrupt):
                columns = self._rows_behind(table, last_key, are_short=row_bytes < LONG_ROW_BYTES)
                rows = len(columns[0]) if columns else 0
                if rows:
                    row_bytes = chunk.add(columns) // rows
                    last_key = chunk.columns[table.key][-1]
            if chunk.size_bytes and (chunk.size_bytes >= CHUNK_BYTES or not rows):
                yield TableRows(table.name, chunk.columns)
                chunk = _Chunk(table)
            if not rows:
                return

    def _rows_behind(self, table: Table, last_key: Any, *, are_short: bool) -> Columns:
        """The next rows of a table, by column."""
        where, bindings = ("", ()) if last_key is None else (f"WHERE {table.key} > ?", (last_key,))
        limit = SHORT_ROWS_A_PIECE if are_short else ROWS_A_PIECE
        source = f"{select_all(table.name, where)} LIMIT {limit}"
        if are_short:
            return fetch_columns_at_once(self._connection, table.columns, source, bindings)
        return fetch_columns(self._connection, source, bindings)


class _Chunk:
    """Rows of a table as columns."""

    def __init__(self, table: Table) -> None:
        self.columns: dict[str, Any] = {name: [] for name in table.columns}
        self.size_bytes = 0
        self._table = table

    def add(self, columns: Columns) -> int:
        """Add rows, at least one, as they were read; returns their size in bytes. Raises `DamagedRow`."""
        size_before = self.size_bytes
        for (name, kind), values in zip(self._table.columns.items(), columns, strict=True):
            if set(map(type, values)) != {kind}:
                raise DamagedRow(f"the column {name} of table {self._table.name} holds what is no {kind.__name__}")
            self.columns[name] += values
            self.size_bytes += NUMBER_BYTES * len(values) if kind is int else sum(map(len, values))
        return self.size_bytes - size_before
