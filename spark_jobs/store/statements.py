"""Insertions in the SQL that SQLite and PostgreSQL share, made of the names of columns: all statements of the store keep to that.

So no column has a reserved name, a conflict names its key, a column in doubt names its table, and a boolean is never added up.
"""

from __future__ import annotations

from collections.abc import Sequence


def insert(table: str, *columns: str) -> str:
    """Return the insertion of a row."""
    return f"insert into {table} ({', '.join(columns)}) values ({marks(columns)})"


def insert_new(table: str, *columns: str) -> str:
    """Return the insertion of a row that does nothing where there is one with its key."""
    return f"{insert(table, *columns)} on conflict do nothing"


def insert_numbered(table: str, *columns: str) -> str:
    """Return the insertion of a row whose `id` is the next: ids have no gaps, also where a transaction was undone."""
    return f"insert into {table} (id, {', '.join(columns)}) values ((select coalesce(max(id), 0) + 1 from {table}), {marks(columns)})"


def upsert(table: str, key: str, *columns: str, keep: str = "") -> str:
    """Return the insertion of a row that overwrites the one with its key. `key` and `keep`, columns that stay, are joined by commas."""
    kept = {*key.split(","), *keep.split(",")}
    changed = ", ".join(f"{column} = excluded.{column}" for column in columns if column not in kept)
    return f"{insert(table, *columns)} on conflict ({key}) do {f'update set {changed}' if changed else 'nothing'}"


def insert_adding(table: str, key: str, *columns: str) -> str:
    """Return the insertion of a row that adds its values to those of the one with its key."""
    added = ", ".join(f"{column} = {table}.{column} + excluded.{column}" for column in columns if column not in key.split(","))
    return f"{insert(table, *columns)} on conflict ({key}) do update set {added}"


def marks(values: Sequence[object]) -> str:
    """Return a question mark for each value, joined by commas; of no value, what equals nothing."""
    return ",".join("?" * len(values)) or "null"
