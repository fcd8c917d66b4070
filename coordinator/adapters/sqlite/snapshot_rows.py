"""The content of a snapshot of a state database: a head, made from the header, and rows of the tables as they are stored.

A snapshot may come from another release: a table or column that does not fit the tables of this one is refused by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields
from typing import Any

from coordinator.adapters.sqlite.schema import VERSION, state_tables
from coordinator.core.tables.stored_rows import Header
from records.snapshot import BadSnapshot, SnapshotHead, TableRows

LEADER_COLUMNS = ("leader_node_id", "leader_endpoints")
"""Columns of the header that say nothing of the place in the log."""
DIGEST_BYTES = 16
COLUMN_TYPES = {field.name: {"int": int, "str": str, "bytes": bytes}[str(field.type)] for field in fields(Header)}


class Misfit(Exception):
    """The content of a snapshot does not fit the tables, or is not what its head describes."""


def check_partition(head: SnapshotHead, partition: int) -> None:
    """Raise `BadSnapshot` unless the snapshot is of this metadata partition."""
    if head.metadata_partition != partition:
        raise BadSnapshot(f"the snapshot is of metadata partition {head.metadata_partition}, not of {partition}")


@contextmanager
def refused_as_bad(head: SnapshotHead) -> Iterator[None]:
    """Raise `BadSnapshot` for a `Misfit`."""
    try:
        yield
    except Misfit as misfit:
        place = f"the snapshot up to offset {head.end_offset} of metadata partition {head.metadata_partition}"
        raise BadSnapshot(f"{place} cannot be loaded: {misfit}") from misfit


def head_of(header: Header) -> SnapshotHead:
    """The head of a snapshot of the state that a header describes."""
    columns = asdict(header)
    leader = {name: columns.pop(name) for name in LEADER_COLUMNS}
    return SnapshotHead(end_offset=columns.pop("applied_offset") + 1, table_version=VERSION, header=leader, **columns)


def header_of(head: SnapshotHead) -> Header:
    """The header of a database that holds the rows of a snapshot. Raises `Misfit`."""
    if head.table_version != VERSION:
        raise Misfit(f"its tables have version {head.table_version}, this release reads and writes version {VERSION}")
    if set(head.header) != set(LEADER_COLUMNS):
        raise Misfit(f"its head has the further columns {sorted(head.header)}, those of the header are {list(LEADER_COLUMNS)}")
    columns = head._asdict() | head.header | {"applied_offset": head.end_offset - 1}
    for name, kind in COLUMN_TYPES.items():
        if type(columns[name]) is not kind:
            raise Misfit(f"its head has a {name} that is no {kind.__name__}: {columns[name]!r:.100}")
    if len(head.digest) != DIGEST_BYTES:
        raise Misfit(f"its head has a digest of {len(head.digest)} bytes, {DIGEST_BYTES} are right")
    return Header(**{name: columns[name] for name in COLUMN_TYPES})


def checked_columns(rows: TableRows) -> list[Sequence[Any]]:
    """The columns of rows in the order of the table's. Raises `Misfit` when they are none of a table of this release."""
    table = state_tables().get(rows.table)
    if table is None:
        raise Misfit(f"it has rows of a table {rows.table!r:.100}; the tables are {', '.join(state_tables())}")
    if set(rows.columns) != set(table.columns):
        wrong = sorted(set(rows.columns) ^ set(table.columns))
        raise Misfit(f"its rows of table {table.name} have other columns than the table: {', '.join(wrong)}")
    columns = [rows.columns[name] for name in table.columns]
    if len(set(map(len, columns))) != 1:
        raise Misfit(f"its rows of table {table.name} have columns of different lengths: {[len(column) for column in columns]}")
    for (name, kind), column in zip(table.columns.items(), columns, strict=True):
        if column and set(map(type, column)) != {kind}:
            raise Misfit(f"its rows of table {table.name} have a column {name} that holds what is no {kind.__name__}")
    return columns
