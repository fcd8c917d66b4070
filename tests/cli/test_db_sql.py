"""`diskless db sql`: one statement, every value of a row, JSON that is JSON, and an end when it is asked for, as `db digest` has."""

from __future__ import annotations

import json
import signal
from dataclasses import fields
from pathlib import Path
from typing import Any

import apsw
import pytest
from click.testing import CliRunner, Result

from cli.main import root
from cli.outcome import Exit
from coordinator.core.tables.stored_rows import Header
from tests.cli.test_endings import end, started, wait_for

ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c"
ENDLESS_HEADER = ENDLESS.replace("count(*)", ", ".join(["count(*)"] * len(fields(Header))))
BUSY_TICKS = 20
"""Of processor time, far more than it takes from the open database to the query."""


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "partition-0.db"
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE file (topic_id BLOB, record BLOB); INSERT INTO file VALUES (zeroblob(16), zeroblob(3))")
    connection.close()
    return path


def run(database: Path, query: str, output: str = "json") -> Result:
    result = CliRunner().invoke(root, ["db", "sql", "-o", output, "--", str(database), query], prog_name="diskless")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def rows(database: Path, query: str) -> Any:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    done = run(database, query)
    assert done.exit_code == Exit.OK, done.output
    return json.loads(done.stdout, parse_constant=refuse)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT 1; SELECT 2,3",
        "SELECT 1; SELECT 2",
        "SELECT 1; -- one\n; SELECT 2",
        "SELECT 1; nonsense",
        f"{ENDLESS}; SELECT 2",
        "SELECT 1 WHERE 0; SELECT 2",
    ],
)
def test_a_second_statement_is_refused_before_the_first_one_runs(database: Path, query: str) -> None:
    done = run(database, query)
    assert done.exit_code == Exit.USAGE
    assert done.stdout == ""
    assert "more than one statement" in done.stderr


@pytest.mark.parametrize(
    "query", ["SELECT 1 AS a", "SELECT 1 AS a;", " ; SELECT 1 AS a ; ; ", "-- one\nSELECT 1 AS a; -- no; more\n/* ; */"]
)
def test_one_statement_may_have_comments_and_semicolons_around_it(database: Path, query: str) -> None:
    assert rows(database, query) == [{"a": 1}]


@pytest.mark.parametrize("query", ["", ";", "-- nothing", "SELECT 1 WHERE 0"])
def test_a_query_without_rows_has_none(database: Path, query: str) -> None:
    assert rows(database, query) == []


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT 1 AS a, 2 AS a", {"a": 1, "a:1": 2}),
        ("SELECT 1 AS a, 2 AS a, 3 AS a", {"a": 1, "a:1": 2, "a:2": 3}),
        ('SELECT 1 AS a, 2 AS a, 3 AS "a:1"', {"a": 1, "a:2": 2, "a:1": 3}),
        ('SELECT 1 AS "{}", 2 AS "{}"', {"{}": 1, "{}:1": 2}),
    ],
)
def test_values_of_columns_with_one_name_are_all_there(database: Path, query: str, expected: dict[str, int]) -> None:
    assert rows(database, query) == [expected]


def test_a_repeated_column_is_written_and_hidden_as_the_first_one(database: Path) -> None:
    text = "A" * 22
    assert rows(database, "SELECT one.*, other.* FROM file AS one, file AS other") == [{"topic_id": text, "topic_id:1": text}]
    assert run(database, "SELECT 1 AS a, 2 AS a", "table").stdout.split() == ["A", "A:1", "1", "2"]


def test_numbers_that_json_has_not_are_texts(database: Path) -> None:
    expected = [{"i": "Inf", "n": "-Inf", "f": 1.5, "nan": None}]
    assert rows(database, "SELECT 1e999 AS i, -1e999 AS n, 1.5 AS f, 1e999 - 1e999 AS nan") == expected


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("command", ["sql", "digest"])
def test_a_signal_ends_a_query_that_has_no_end(command: str, number: signal.Signals, database: Path, tmp_path: Path) -> None:
    connection = apsw.Connection(str(database))
    connection.execute(f"CREATE VIEW header ({', '.join(one.name for one in fields(Header))}) AS {ENDLESS_HEADER}").fetchall()
    connection.close()
    words = (str(database), ENDLESS) if command == "sql" else (str(database),)
    with started("db", command, *words, folder=tmp_path) as process:
        process_files = Path(f"/proc/{process.pid}")
        opened: list[int] = []

        def is_querying() -> bool:
            """Whether it has opened the database, with all imports behind it, and the processor has worked on since then."""
            try:
                files = {file.readlink() for file in (process_files / "fd").iterdir()}
            except FileNotFoundError:
                return False  # it closed one meanwhile
            if database not in files:
                return False
            opened.append(sum(map(int, (process_files / "stat").read_text().rpartition(")")[2].split()[11:13])))
            return opened[-1] - opened[0] > BUSY_TICKS

        wait_for(is_querying, process)
        said = end(process, number)
    assert process.returncode == Exit.FAILURE
    assert said.startswith("diskless: stopped by a signal")
