"""Rows of the tables for the state store in memory: as a snapshot takes them, and as it brings them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from coordinator.adapters.sqlite.schema import state_tables
from coordinator.adapters.sqlite.snapshot_rows import Misfit, checked_columns, head_of
from coordinator.core.tables.stored_rows import Header
from coordinator.core.yielding import Rest, no_rest
from records.snapshot import SnapshotHead, TableRows

Row: TypeAlias = tuple[Any, ...]

ROWS_A_CHUNK = 5
"""Few, so that small tables have several chunks."""


class MemoryPinnedState:
    """A `PinnedState` in memory: rows as they were when it was pinned, by table; the first column is the key."""

    def __init__(self, header: Header, rows: Mapping[str, Sequence[Row]]) -> None:
        self.header = header
        self._rows = rows

    @property
    def head(self) -> SnapshotHead:
        """The head of a snapshot of this state."""
        return head_of(self.header)

    def tables(self, rest: Rest = no_rest) -> Iterator[TableRows]:
        """All rows in the order of their keys."""
        for name, table in state_tables().items():
            rows = sorted(self._rows[name], key=lambda row: row[0])
            for at in range(0, len(rows), ROWS_A_CHUNK):
                rest()
                yield TableRows(name, dict(zip(table.columns, zip(*rows[at : at + ROWS_A_CHUNK], strict=True), strict=True)))

    def close(self) -> None:
        """Do nothing: rows in memory hold nothing."""


def rows_of_tables(rows: Iterable[TableRows], rest: Rest = no_rest) -> Callable[[str], list[Row]]:
    """The rows of each table in the order of their keys. Raises `Misfit`, and what `rows` raises."""
    tables: dict[str, dict[Any, Row]] = {name: {} for name in state_tables()}
    for chunk in rows:
        rest()
        table = tables.get(chunk.table, {})
        for row in zip(*checked_columns(chunk), strict=True):
            if row[0] in table:
                raise Misfit(f"its rows of table {chunk.table} cannot be stored: {row[0]!r:.100} is there twice")
            table[row[0]] = row
    if not tables["directory"].keys() <= {1}:
        raise Misfit("its rows of table directory cannot be stored: there is but one row 1")
    return lambda name: [tables[name][key] for key in sorted(tables[name])]
