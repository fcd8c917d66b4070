"""The state of a database as of one write, read while further ones are written: the source of a snapshot.

A read transaction stays open for as long. The writer is not held up by it, but the write-ahead log cannot be begun anew: it grows
by what is written meanwhile, and is cut back after the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

from coordinator.adapters.sqlite.errors import DamagedRow, translated
from coordinator.adapters.sqlite.schema import Table, connect_reader, fetch_columns, state_tables
from coordinator.adapters.sqlite.snapshot_rows import head_of
from coordinator.adapters.sqlite.stored import read_header, select_all
from coordinator.core.state.damage import StateFailed
from coordinator.core.yielding import Rest, no_rest
from records.snapshot import SnapshotHead, TableRows

CHUNK_BYTES = 1 << 20
"""About so many bytes of rows are handed out at a time."""
LONG_ROWS = frozenset({"run", "directory"})
"""The tables that are read row by row: a row may have many thousand bytes."""
ROWS_A_PIECE = 64
"""Rows of the longest runs, 24 000 bytes each, are read in a millisecond."""
SHORT_ROWS_A_PIECE = 256
"""So many rows of other tables are read in one step, which asks for the interpreter once. A busy event loop has to let it go each time:
with a step a row a snapshot took a tenth of the commits of a saturated node."""
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
        """All rows of all tables, in the order of their keys, a chunk at a time; rests between pieces of a millisecond.

        Raises `StateCorrupt`, `DirectoryFailed`.
        """
        for table in state_tables().values():
            yield from self._chunks(table, rest)

    def close(self) -> None:
        """End the read transaction (idempotent)."""
        self._connection.close(True)

    def _chunks(self, table: Table, rest: Rest) -> Iterator[TableRows]:
        pieces = self._pieces_by_row(table) if table.name in LONG_ROWS else self._pieces_by_column(table)
        chunk = _Chunk(table)
        while True:
            rest()
            with translated(self._path, self._on_corrupt):
                piece = next(pieces, None)
                if piece is not None:
                    chunk.add(piece)
            if chunk.size_bytes and (chunk.size_bytes >= CHUNK_BYTES or piece is None):
                yield TableRows(table.name, chunk.columns)
                chunk = _Chunk(table)
            if piece is None:
                return

    def _pieces_by_row(self, table: Table) -> Iterator[Columns]:
        cursor = self._connection.execute(select_all(table.name))
        while rows := list(islice(cursor, ROWS_A_PIECE)):
            yield list(zip(*rows, strict=True))

    def _pieces_by_column(self, table: Table) -> Iterator[Columns]:
        key_at, last_key = list(table.columns).index(table.key), None
        while True:
            where = "" if last_key is None else f"WHERE {table.key} > ?"
            source = f"SELECT * FROM {table.name} {where} ORDER BY {table.key} LIMIT {SHORT_ROWS_A_PIECE}"
            columns = fetch_columns(self._connection, table.columns, source, () if last_key is None else (last_key,))
            if not columns[key_at]:
                return
            last_key = columns[key_at][-1]
            yield columns


class _Chunk:
    """Rows of a table as columns."""

    def __init__(self, table: Table) -> None:
        self.columns: dict[str, Any] = {name: [] for name in table.columns}
        self.size_bytes = 0
        self._table = table

    def add(self, columns: Columns) -> None:
        """Add rows, at least one, as they were read. Raises `DamagedRow`."""
        for (name, kind), values in zip(self._table.columns.items(), columns, strict=True):
            if set(map(type, values)) != {kind}:
                raise DamagedRow(f"the column {name} of table {self._table.name} holds what is no {kind.__name__}")
            self.columns[name] += values
            self.size_bytes += NUMBER_BYTES * len(values) if kind is int else sum(map(len, values))
