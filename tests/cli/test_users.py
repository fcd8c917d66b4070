"""`diskless users`: passwords become hashes that let their users in, and nothing else is ever written or shown."""

from __future__ import annotations

import stat
from pathlib import Path

from click.testing import CliRunner, Result

from cli.main import root
from coordinator.security.scram import ScramCredentials
from coordinator.security.users_file import read_users

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
