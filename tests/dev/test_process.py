"""Children: signals, their end, and the register by which leftovers are found."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from cli.dev.process import ChildProcess, Registered, command_line, reap_leftovers, register_folder, start_child, started_at

ENDLESS = """
import signal, sys
with open(sys.argv[2], "w") as up:
    up.write("up")
signal.pause()
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISKLESS_CACHE_DIR", str(tmp_path / "cache"))


class Endless:
    """A program that says through a pipe when it is up, and then waits for signals."""

    def __init__(self, marker: str, folder: Path) -> None:
        self._up = folder / f"{marker}.up"
        os.mkfifo(self._up)
        self.command = [sys.executable, "-c", ENDLESS, marker, str(self._up)]

    def wait_until_up(self) -> None:
        assert self._up.read_text(encoding="ascii") == "up"


def start_endless(marker: str, folder: Path) -> ChildProcess:
    program = Endless(marker, folder)
    child = start_child(program.command, marker=marker, log=folder / "log")
    program.wait_until_up()
    return child


def test_a_child_is_registered_until_it_ends(tmp_path: Path) -> None:
    child = start_endless("mark-1", tmp_path)
    entry = json.loads((register_folder() / f"{child.pid}.json").read_text(encoding="utf-8"))
    assert (entry["marker"], entry["owner_pid"]) == ("mark-1", os.getpid())
    assert "mark-1" in command_line(child.pid)
    assert child.is_running()
    child.kill()
    assert child.exit_status() == -signal.SIGKILL
    assert not list(register_folder().glob("*.json"))
    assert started_at(child.pid) is None


def test_a_stopped_child_can_be_killed(tmp_path: Path) -> None:
    child = start_endless("mark-2", tmp_path)
    child.send(signal.SIGSTOP)
    assert child.is_running()
    child.kill()
    assert not child.is_running()


def test_output_goes_to_the_log(tmp_path: Path) -> None:
    child = start_child([sys.executable, "-c", "print('hello'); import sys; sys.exit(3)"], marker="hello", log=tmp_path / "a" / "log")
    assert child.wait(30) == 3
    assert (tmp_path / "a" / "log").read_text(encoding="utf-8") == "hello\n"


def test_a_marker_that_is_not_in_the_command_line_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="marker"):
        start_child(["true"], marker="absent", log=tmp_path / "log")


def test_a_living_owners_child_is_left_alone(tmp_path: Path) -> None:
    child = start_endless("mark-3", tmp_path)
    assert reap_leftovers() == []
    assert child.is_running()
    child.kill()


@pytest.mark.parametrize("matches", [True, False], ids=["our child", "a stranger that got its pid"])
def test_a_dead_owners_child_is_killed_only_when_its_command_line_matches(matches: bool, tmp_path: Path) -> None:
    program = Endless("mark-4", tmp_path)
    leftover = subprocess.Popen(program.command, start_new_session=True)
    try:
        program.wait_until_up()
        marker = "mark-4" if matches else "another"
        entry = Registered(pid=leftover.pid, marker=marker, owner_pid=os.getpid(), owner_started="another time")
        file = register_folder() / f"{leftover.pid}.json"
        file.write_text(json.dumps(asdict(entry)), encoding="utf-8")
        assert reap_leftovers() == ([leftover.pid] if matches else [])
        assert not file.exists()
        if matches:
            assert leftover.wait(30) == -signal.SIGKILL
        else:
            assert leftover.poll() is None
    finally:
        leftover.kill()
        leftover.wait(30)
