"""One `dev up` on a folder, found by others, and what a killed one leaves is cleared."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.dev.process import started_at
from cli.dev.running import LOCK_FILE, FolderInUseError, FolderLock, entry_folder, find_running, register, stop_running
from cli.main import root
from cli.outcome import Exit

STAND_IN = "import signal, sys; print('up', flush=True); signal.pause()"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISKLESS_CACHE_DIR", str(tmp_path / "cache"))


def _entry(pid: int, folder: Path, *, started: str | None = None, temporary: bool = False) -> Path:
    entry = entry_folder() / f"{pid}.json"
    started = started or started_at(pid) or ""
    entry.write_text(json.dumps({"pid": pid, "started": started, "folder": str(folder), "temporary": temporary}))
    return entry


def test_a_folder_is_held_by_one_and_free_after_it(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path)
    with pytest.raises(FolderInUseError, match=rf"pid {os.getpid()}\): use it, stop it with `diskless dev down --folder {tmp_path}`"):
        FolderLock(tmp_path)
    lock.release()
    assert not (tmp_path / LOCK_FILE).exists()
    FolderLock(tmp_path).release()


def test_a_lock_file_without_a_holder_does_not_hold(tmp_path: Path) -> None:
    (tmp_path / LOCK_FILE).write_text("12345")
    FolderLock(tmp_path).release()


def test_a_process_of_another_command_is_never_taken_for_one(tmp_path: Path) -> None:
    entry = register(tmp_path, temporary=False)  # this process is no `dev up`
    assert find_running() == []
    assert not entry.exists()


def test_what_a_killed_one_left_is_cleared_but_only_folders_it_made(tmp_path: Path) -> None:
    made, named = tmp_path / "diskless-dev-x1", tmp_path / "mine"
    for folder in (made, named):
        folder.mkdir()
    entries = [_entry(999_999_001, made, started="1", temporary=True), _entry(999_999_002, named, started="1", temporary=True)]
    assert find_running() == []
    assert not made.exists()
    assert named.exists()
    assert not any(entry.exists() for entry in entries)


def test_one_that_runs_is_found_and_stopped(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", STAND_IN, "dev", "up"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        _entry(process.pid, tmp_path)
        (one,) = find_running()
        assert (one.pid, one.folder) == (process.pid, str(tmp_path))
        assert stop_running(one, timeout_s=20)
        assert process.wait(20) == -signal.SIGTERM
    assert find_running() == []


def test_who_finds_the_folder_in_use_speaks_of_nothing_that_was_stopped(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path)
    try:
        result = CliRunner().invoke(root, ["dev", "up", "--folder", str(tmp_path)], prog_name="diskless")
    finally:
        lock.release()
    assert result.exit_code == Exit.FAILURE
    assert "runs already" in result.stderr
    assert "nothing is left running" not in result.stderr
