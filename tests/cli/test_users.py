"""`diskless users`: passwords become hashes that let their users in, and nothing else is ever written or shown."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cli.main import root
from coordinator.security.scram import ScramCredentials
from coordinator.security.users_file import read_users, users_locked, write_users
from integration_tests.waiting import wait_until

PASSWORD = "s3cret, with = and é"


def users(*words: str, given: str | None = None) -> Result:
    return CliRunner().invoke(root, ["users", *words], input=given)


def test_users_are_added_changed_listed_and_removed(tmp_path: Path) -> None:
    file = tmp_path / "users"
    added = users("add", "alice", "--file", str(file), "--password-stdin", given=PASSWORD + "\n")
    assert (added.exit_code, added.stderr) == (0, f"added user alice in {file}\n")
    assert users("add", "bob", "--file", str(file), given="b0b\nb0b\n").exit_code == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    for mechanism, one in read_users(file)["alice"].items():
        assert ScramCredentials.of(mechanism, PASSWORD, one.salt, one.iterations) == one
    before = file.read_text(encoding="utf-8")
    assert PASSWORD not in before + added.output
    changed = users("add", "alice", "--file", str(file), "--password-stdin", given="another\n")
    assert changed.stderr == f"changed the password of user alice in {file}\n"
    shown = users("list", "--file", str(file), "-o", "jsonl").stdout.splitlines()
    mechanisms = '"mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512", "iterations": 8192'
    assert shown == [f'{{"user": "{name}", {mechanisms}}}' for name in ("alice", "bob")]
    assert users("remove", "alice", "--file", str(file)).exit_code == 0
    assert list(read_users(file)) == ["bob"]
    assert users("remove", "alice", "--file", str(file)).exit_code == 3


def test_what_cannot_be_done_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "users"
    refused = {
        ("add", "diskless-node", "--file", str(file), "--password-stdin"): (2, "is the service's own user"),
        ("add", "a b", "--file", str(file), "--password-stdin"): (2, "without spaces"),
        ("add", "alice", "--password-stdin"): (2, "no file of users is given"),
        ("list", "--file", str(file)): (1, "make one with `diskless users add`"),
        ("add", "alice", "--file", str(tmp_path / "none" / "users"), "--password-stdin"): (1, "cannot write"),
    }
    for words, (status, text) in refused.items():
        done = users(*words, given="password\n")
        assert done.exit_code == status, done.output
        assert text in done.stderr
        assert len(done.stderr.splitlines()) == 1
    for password in ("\n", "", "x" * 1025 + "\n", "a\x00b\n"):
        assert users("add", "alice", "--file", str(file), "--password-stdin", given=password).exit_code == 2
    assert not file.exists()
    differing = users("add", "alice", "--file", str(file), given="one\ntwo\none\ntwo\n")
    assert differing.exit_code != 0
    assert not file.exists()


def test_the_file_may_come_from_the_settings(tmp_path: Path) -> None:
    config = tmp_path / "node.properties"
    users_file = tmp_path / "users"
    given = {"bootstrap.servers": "k:9092", "data.dirs": str(tmp_path), "object.store.url": f"file://{tmp_path}", "users.file": users_file}
    config.write_text("".join(f"{key}={value}\n" for key, value in given.items()), encoding="utf-8")
    assert users("add", "alice", "--config", str(config), "--password-stdin", given="p\n").exit_code == 0
    assert list(read_users(users_file)) == ["alice"]


def test_processes_that_change_a_file_at_once_lose_no_change(tmp_path: Path) -> None:
    folder, given = tmp_path / "folder", tmp_path / "password"
    folder.mkdir()
    given.write_text("p\n")
    file = folder / "users"
    for name in ("old-0", "old-1"):
        assert users("add", name, "--file", str(file), "--password-stdin", given="p\n").exit_code == 0
    added = [f"user-{number}" for number in range(8)]
    words = [*(("add", name, "--password-stdin") for name in added), ("remove", "old-0")]
    running = []
    # All have started and wait for the lock before the first may go on, and then they all do at once.
    with users_locked(file, 1.0):
        for one in words:
            command = [sys.executable, "-m", "cli.program", "users", *one, "--file", str(file)]
            with given.open("rb") as stdin:
                running.append(subprocess.Popen(command, stdin=stdin, stderr=subprocess.PIPE, cwd=Path(__file__).parents[2], text=True))
        wait_until(
            lambda: all(process.poll() is not None or _has_open(process.pid, folder) for process in running), "all to wait for the lock"
        )
        write_users(file, {**read_users(file), "mine": read_users(file)["old-1"]})
    for process in running:
        said = process.communicate(timeout=60)[1]
        assert process.returncode == 0, said
    assert sorted(read_users(file)) == sorted(["mine", "old-1", *added])
    assert os.listdir(folder) == ["users"]


def _has_open(pid: int, path: Path) -> bool:
    try:
        return any(os.path.realpath(one) == str(path.resolve()) for one in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False  # it has ended, or closed one of them meanwhile


def test_what_another_process_changes_between_question_and_answer_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "users"
    assert users("add", "alice", "--file", str(file), "--password-stdin", given="p\n").exit_code == 0

    def answer(*_: object, **__: object) -> str:
        monkeypatch.undo()
        assert users("add", "bob", "--file", str(file), "--password-stdin", given="p\n").exit_code == 0
        return "p"

    monkeypatch.setattr("cli.commands.users.click.prompt", answer)
    assert users("add", "carol", "--file", str(file)).exit_code == 0
    assert sorted(read_users(file)) == ["alice", "bob", "carol"]


def test_a_lock_that_is_never_given_back_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "users"
    assert users("add", "alice", "--file", str(file), "--password-stdin", given="p\n").exit_code == 0
    monkeypatch.setattr("records.folder_lock.LOCK_WAIT_S", 0.05)
    with users_locked(file, 1.0):
        for words in (("add", "bob", "--password-stdin"), ("remove", "alice")):
            refused = users(*words, "--file", str(file), given="p\n")
            assert refused.exit_code == 1, refused.output
            assert f"has locked the folder {tmp_path} for more than 0.05 s; end that process" in refused.stderr
        assert users("list", "--file", str(file)).exit_code == 0
    assert list(read_users(file)) == ["alice"]
