"""`diskless db digest` and `db copy` on the state database of a replica whose housekeeping may be under way, and how a copy is ended."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import apsw
import pytest
from click.testing import CliRunner, Result

from cli.main import root
from cli.outcome import Exit
from coordinator.adapters.sqlite.logical import copy_database
from tests.cli.test_endings import end, started, wait_for
from tests.spark.written_states import change, write

ROWS = 3_000_000
"""A copy of them takes half a second."""


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
    assert run("db", "copy", write(tmp_path, 1).path, tmp_path / "nowhere" / "x.db").exit_code == Exit.FAILURE


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "partition-0.db"
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE file (id INTEGER PRIMARY KEY)").fetchall()
    numbers = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < ?) SELECT x FROM n"
    connection.execute(f"INSERT INTO file {numbers}", (ROWS,)).fetchall()
    connection.close()
    return path


class Ended(BaseException):
    """The handler of a signal has run."""


def test_a_signal_ends_a_copy_while_sqlite_works(large: Path, tmp_path: Path) -> None:
    def cpu_s_of_copy(name: str) -> float:
        began_s = time.process_time()
        try:
            copy_database(large, tmp_path / name)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        return time.process_time() - began_s

    def on_signal(*_: object) -> None:
        raise Ended

    whole_s = cpu_s_of_copy("whole.db")
    former = signal.signal(signal.SIGPROF, on_signal)
    try:
        signal.setitimer(signal.ITIMER_PROF, whole_s / 10)
        began_s = time.process_time()
        with pytest.raises(Ended):
            cpu_s_of_copy("half.db")
        assert time.process_time() - began_s < whole_s * 0.6
    finally:
        signal.signal(signal.SIGPROF, former)
    assert [one.name for one in tmp_path.iterdir()] == ["whole.db"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_copy_that_was_ended_is_not_there_and_one_that_was_killed_goes_with_the_next(
    number: signal.Signals, large: Path, tmp_path: Path
) -> None:
    target = tmp_path / "copy.db"
    with started("db", "copy", str(large), str(target), folder=tmp_path) as process:
        wait_for(lambda: any(tmp_path.glob("copy.db.*")), process)
        if number is signal.SIGKILL:
            process.kill()
            process.wait()
            assert all(one.name.startswith("copy.db.") for one in tmp_path.iterdir())
        else:
            assert end(process, number).startswith("diskless: stopped by a signal")
            assert process.returncode == Exit.FAILURE
            assert list(tmp_path.iterdir()) == []
    assert run("db", "copy", large, target).exit_code == Exit.OK
    assert list(tmp_path.iterdir()) == [target]


def test_a_copy_takes_no_name_that_was_taken_meanwhile(large: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "copy.db"
    monkeypatch.setattr(Path, "exists", lambda path: path != target)
    target.write_bytes(b"of another process")
    assert run("db", "copy", large, target).exit_code == Exit.USAGE
    assert target.read_bytes() == b"of another process"
    assert list(tmp_path.iterdir()) == [target]
