"""`diskless db`: look into the state database of a metadata partition, also while the service runs. Changes nothing in it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli.options import RegularFile, output_option
from cli.output import print_fields, print_rows
from cli.progress import doing

if TYPE_CHECKING:
    import apsw

    from cli.output import Row

TABLES = ("topic", "partition", "run", "file", "producer", "tombstone", "directory", "batch")
HIDDEN = ("batches", "record", "remembered")  # packed columns, which only programs read
TOPIC_ID_BYTES = 16
DIGEST_COLUMNS = ("file", "metadata_partition", "applied_offset", "digest", "sound", "kept_digest", "rows_digest")

file_argument = click.argument("file", type=RegularFile())


@click.group()
def db() -> None:
    """Look into the state database of a metadata partition."""


@db.command()
@file_argument
@click.option("--table", type=click.Choice(TABLES), help="Print the rows of this table instead; `batch` has a row per live batch.")
@output_option
def dump(file: Path, table: str | None, output: str) -> None:
    """Print the header of a state database and the size of its tables, or the rows of one table.

    FILE is `partition-<n>.db` in a data directory.

    Examples: `diskless db dump /var/lib/diskless/partition-0.db`,
    `diskless db dump /var/lib/diskless/partition-0.db --table file -o jsonl`
    """
    with _open(file) as connection:
        if table is not None:
            columns, rows = _query(connection, f"SELECT * FROM {table}")
            print_rows(rows, output, columns, empty=f"table {table} is empty")
            return
        header = _query(connection, "SELECT * FROM header")[1]
        counts = {name: _query(connection, f"SELECT count(*) AS count FROM {name}")[1][0]["count"] for name in TABLES if name != "batch"}
    fields: dict[str, object] = {name: value for row in header for name, value in row.items() if name != "id"}
    print_fields({"file": str(file), **fields, "rows": counts}, output)


@db.command()
@file_argument
@click.argument("query")
@output_option
def sql(file: Path, query: str, output: str) -> None:
    """Run an SQL query over a state database; it is opened for reading only.

    FILE is `partition-<n>.db` in a data directory. Besides its tables there is `batch`, with a row per live batch, and
    `batch('<topic id>', <partition>)`; topic_id_text(topic_id) writes an id as text.

    Examples: `diskless db sql partition-0.db "SELECT object_key, live_batches FROM file LIMIT 10"`,
    `diskless db sql partition-0.db "SELECT topic_id, partition, count(*) FROM batch GROUP BY 1, 2" -o json`
    """
    with _open(file) as connection:
        _refuse_a_second_statement(connection, query)
        columns, rows = _query(connection, query)
    print_rows(rows, output, columns, empty="no rows")


@db.command()
@click.argument("files", metavar="FILE...", type=RegularFile(), nargs=-1, required=True)
@output_option
def digest(files: Sequence[Path], output: str) -> None:
    """Compute the state digest from the rows of state databases, and compare it with the one their replica keeps.

    FILE is `partition-<n>.db` in a data directory, also of a running node. `digest` is that of the state at `applied_offset`:
    equal for all replicas there, and what `diskless monitor verify` computes from the log. `kept_digest` and `rows_digest` still
    count deleted batches that are not trimmed; status 5 when these two differ, for then the rows are not those that were written.

    Example: `diskless db digest /var/lib/diskless/partition-0.db /var/lib/diskless/partition-1.db -o json`
    """
    from cli.log.replica_state import digests_of, open_state
    from cli.outcome import Exit, Failed

    rows: list[Row] = []
    for file in files:
        with doing(f"reading {file}"), open_state(file) as state:
            found = digests_of(state)
        header = found.header
        rows.append(
            {
                "file": str(file),
                "metadata_partition": header.metadata_partition,
                "applied_offset": header.applied_offset,
                "digest": found.logical.to_bytes().hex(),
                "sound": found.is_sound,
                "kept_digest": found.kept.to_bytes().hex(),
                "rows_digest": found.of_rows.to_bytes().hex(),
            }
        )
    print_rows(rows, output, DIGEST_COLUMNS)
    wrong = [str(row["file"]) for row in rows if not row["sound"]]
    if wrong:
        raise Failed(f"{', '.join(wrong)}: the rows are not those its replica wrote; delete the file while the node is down", Exit.AUDIT)


@db.command()
@file_argument
@click.argument("target", type=RegularFile())
def copy(file: Path, target: Path) -> None:
    """Copy a state database into a new file, as of one moment, also while the service runs.

    FILE is `partition-<n>.db` in a data directory. A copy by the file system may be torn while the node runs; this one is not. Until it
    is whole its name ends with `.part`; one that a killed command has left is removed by the next copy to the same TARGET.

    Example: `diskless db copy /var/lib/diskless/partition-0.db /tmp/partition-0.db`
    """
    import apsw

    from cli.outcome import Exit, Failed
    from coordinator.adapters.sqlite.logical import copy_database

    try:
        with doing(f"copying {file}"):
            copy_database(file, target)
    except FileNotFoundError as error:
        raise Failed(str(error), Exit.NOT_FOUND) from error
    except FileExistsError as error:
        raise Failed(str(error), Exit.USAGE) from error
    except (apsw.Error, OSError) as error:
        raise Failed(f"{file} cannot be copied to {target}: {error}") from error


@contextmanager
def _open(file: Path) -> Iterator[apsw.Connection]:
    import apsw

    from cli.outcome import Exit, Failed
    from coordinator.adapters.sqlite.inspect import open_for_inspection

    try:
        connection = open_for_inspection(file)
        try:
            with doing(f"reading {file}"):
                yield connection
        finally:
            connection.close()
    except FileNotFoundError as error:
        raise Failed(str(error), Exit.NOT_FOUND) from error
    except apsw.BusyError as error:
        raise Failed(f"{file}: {error}; retry", Exit.UNAVAILABLE) from error
    except apsw.SQLError as error:
        raise Failed(f"{file}: {error}; `diskless db dump FILE` lists the tables", Exit.USAGE) from error
    except apsw.Error as error:
        raise Failed(f"{file}: {error}") from error


def _refuse_a_second_statement(connection: apsw.Connection, query: str) -> None:
    """Raise `Failed` when more than a comment follows the first statement: rows of several have no columns in common. Runs nothing."""
    import apsw
    import apsw.ext

    from cli.outcome import Exit, Failed

    rest = apsw.ext.query_info(connection, query).query_remaining
    if rest is None:
        return
    try:
        is_statement = apsw.ext.query_info(connection, rest).has_vdbe
    except apsw.SQLError:
        is_statement = True  # it may need what the first one would do, and is one too many in any case
    if is_statement:
        shown = f"{rest[:40]}..." if len(rest) > 40 else rest
        raise Failed(
            f"QUERY has more than one statement, and one is the limit: run {shown!r} by a `diskless db sql` of its own", Exit.USAGE
        )


def _query(connection: apsw.Connection, query: str) -> tuple[list[str], list[Row]]:
    import apsw

    cursor = connection.execute(query)
    try:
        names = [name for name, *_ in cursor.get_description()]
    except apsw.ExecutionCompleteError:
        return [], []  # no row, and the library does not name the columns of nothing
    columns = list(zip(names, _unique(names), strict=True))
    rows: list[Row] = [
        {column: _value(name, value) for (name, column), value in zip(columns, row, strict=True) if name not in HIDDEN} for row in cursor
    ]
    return [column for name, column in columns if name not in HIDDEN], rows


def _unique(names: Sequence[str]) -> list[str]:
    """The names, each once: a repeated one gets a number, as SQLite writes it (`a`, `a:1`), for rows have their values by name."""
    taken = set(names)
    given: set[str] = set()
    unique = []
    for name in names:
        found = name
        if name in given:
            found = next(one for number in count(1) if (one := f"{name}:{number}") not in taken)
        given.add(found)
        taken.add(found)
        unique.append(found)
    return unique


def _value(name: str, value: object) -> object:
    from coordinator.kafka.names import topic_id_text

    if isinstance(value, bytes):
        return topic_id_text(value) if name == "topic_id" and len(value) == TOPIC_ID_BYTES else value.hex()
    if isinstance(value, float) and not math.isfinite(value):
        return "Inf" if value > 0 else "-Inf"  # as SQLite casts them to text, for JSON has no such number; it has no NaN, that is NULL
    return value
