"""How many rows the newest snapshot of a metadata partition has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from coordinator.core.tables.stored_rows import PACKED
from records.snapshot import TableRows


class RowCount:
    """Counts the rows that a process writes into a snapshot, or reads to prove one."""

    def __init__(self) -> None:
        self.rows = 0
        """Batches and other rows of the last snapshot that was written or proven whole; 0 before the first."""

    def counted(self, tables: Iterable[TableRows]) -> Iterator[TableRows]:
        """Pass the tables of a snapshot on."""
        rows = 0
        for table in tables:
            packed = table.columns.get("batches", ())
            if packed:
                rows += sum(len(run) for run in packed if isinstance(run, bytes)) // PACKED.itemsize
            else:
                rows += len(next(iter(table.columns.values()), ()))
            yield table
        self.rows = rows
