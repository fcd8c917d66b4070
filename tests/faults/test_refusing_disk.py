"""A preloaded library makes files below one folder refuse while a process runs, open ones too, and no others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from integration_tests.faults.preload import NoPreload, joined
from integration_tests.faults.refusing_disk import RefusingDisk, build_library

PROGRAM = """
import pathlib, sqlite3, sys
folder, outside = sys.argv[1:]
database = sqlite3.connect(folder + "/state.db", isolation_level=None)
database.execute("pragma journal_mode = wal")
database.execute("create table numbers (number)")
for line in sys.stdin:
    pathlib.Path(outside).write_text(line)
    try:
        database.execute("insert into numbers values (1)")
        print("written", database.execute("select count(*) from numbers").fetchone()[0], flush=True)
    except sqlite3.Error as problem:
        print(type(problem).__name__, problem, flush=True)
"""


def test_a_disk_refuses_and_heals_under_an_open_database(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    try:
        disk = RefusingDisk(build_library(tmp_path), tmp_path / "control", folder)
    except NoPreload as reason:
        pytest.skip(str(reason))
    command = [sys.executable, "-c", PROGRAM, str(folder), str(tmp_path / "outside")]
    with subprocess.Popen(
        command, env={**os.environ, **disk.environment}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None

        def insert() -> str:
            assert program.stdin is not None
            assert program.stdout is not None
            program.stdin.write("x\n")
            program.stdin.flush()
            return program.stdout.readline().strip()

        assert insert() == "written 1"
        disk.refuse_writes()
        assert insert().startswith("OperationalError")
        disk.heal()
        assert insert() == "written 2"
        disk.fail(1)
        assert insert().startswith("OperationalError disk I/O error")
        disk.heal()
        assert insert() == "written 3"
        program.stdin.close()
        assert program.wait(10) == 0


def test_several_libraries_are_preloaded_together() -> None:
    assert joined({"LD_PRELOAD": "a", "X": "1"}, {"LD_PRELOAD": "b", "Y": "2"}) == {"LD_PRELOAD": "a:b", "X": "1", "Y": "2"}
    assert joined() == {}
