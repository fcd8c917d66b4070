"""`diskless db digest` and `db copy` on the state database of a replica whose housekeeping may be under way."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cli.main import root
from cli.outcome import Exit
from tests.spark.written_states import change, write


def run(*args: str | Path) -> Result:
    return CliRunner().invoke(root, [str(arg) for arg in args], prog_name="diskless")


@pytest.mark.parametrize("seed", [0, 1, 2, 4])
def test_a_copy_has_the_digests_of_its_original(tmp_path: Path, seed: int) -> None:
    original = write(tmp_path, seed).path
    copy = tmp_path / "copy.db"
    assert run("db", "copy", original, copy).exit_code == Exit.OK
    done = run("db", "digest", original, copy, "-o", "json")
    assert done.exit_code == Exit.OK, done.output
    one, other = json.loads(done.stdout)
    assert one["sound"] is True
    assert one["kept_digest"] == one["rows_digest"]
    assert {name: value for name, value in one.items() if name != "file"} == {n: v for n, v in other.items() if n != "file"}
    assert run("db", "copy", original, copy).exit_code == Exit.USAGE


def test_rows_that_nobody_wrote_are_found(tmp_path: Path) -> None:
    path = write(tmp_path, 3).path
    assert change(path, "UPDATE producer SET last_append_ms = 1 WHERE id = (SELECT min(id) FROM producer)") == 1
    done = run("db", "digest", path, "-o", "json")
    assert done.exit_code == Exit.AUDIT
    assert json.loads(done.stdout)[0]["sound"] is False
    assert "not those its replica wrote" in done.stderr


def test_a_database_that_is_not_there_is_said(tmp_path: Path) -> None:
    assert run("db", "digest", tmp_path / "partition-9.db").exit_code == Exit.NOT_FOUND
    assert run("db", "copy", tmp_path / "partition-9.db", tmp_path / "x.db").exit_code == Exit.NOT_FOUND
