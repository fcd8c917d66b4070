"""The file of users: what is written is read, what is damaged is refused by line, and the service's own user is nobody's."""

from __future__ import annotations

import os
import resource
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from coordinator.security.login import NODE_USER
from coordinator.security.scram import ScramCredentials
from coordinator.security.users_file import (
    UsersFileError,
    check_user,
    credentials_of,
    format_users,
    parse_users,
    read_users,
    users_locked,
    write_users,
)
from coordinator.security.watched_users import WatchedUsers
from records.folder_lock import LOCK_WAIT_S

USERS = {name: credentials_of(f"secret of {name}", iterations=4096) for name in ("alice", "bob@example.org", "Zoë")}


def test_what_is_written_is_read_and_holds_no_password(tmp_path: Path) -> None:
    file = tmp_path / "users"
    write_users(file, USERS)
    assert read_users(file) == USERS
    assert "secret" not in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    assert [one.name for one in tmp_path.iterdir()] == ["users"]


def test_a_file_behind_a_link_is_replaced_where_it_is_and_keeps_its_mode(tmp_path: Path) -> None:
    target = tmp_path / "data" / "users"
    target.parent.mkdir()
    target.write_text("")
    target.chmod(0o640)
    (tmp_path / "link").symlink_to(target)
    write_users(tmp_path / "link", USERS)
    assert (tmp_path / "link").is_symlink()
    assert read_users(target) == USERS
    assert target.stat().st_mode & 0o777 == 0o640


def test_a_write_that_fails_leaves_the_file_and_nothing_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "users"
    write_users(file, USERS)

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("coordinator.security.users_file.os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_users(file, {})
    assert read_users(file) == USERS
    assert [one.name for one in tmp_path.iterdir()] == ["users"]


def test_changes_under_the_lock_all_stay(tmp_path: Path) -> None:
    file, one = tmp_path / "users", USERS["alice"]
    write_users(file, {})
    names = [f"user-{number}" for number in range(40)]

    def add(name: str) -> None:
        with users_locked(file, LOCK_WAIT_S):
            write_users(file, {**read_users(file), name: one})

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, names))
    assert sorted(read_users(file)) == sorted(names)
    assert [one.name for one in tmp_path.iterdir()] == ["users"]


def test_a_lock_is_waited_for_only_so_long_and_free_after_it(tmp_path: Path) -> None:
    file = tmp_path / "users"
    with (
        users_locked(file, LOCK_WAIT_S),
        pytest.raises(UsersFileError, match="another process has locked the folder"),
        users_locked(file, 0.05),
    ):
        pytest.fail("two hold one lock")
    with users_locked(file, 0.0):
        pass


LINE = format_users({"alice": {"SCRAM-SHA-256": USERS["alice"]["SCRAM-SHA-256"]}}).splitlines()[1]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("alice", "it is not `USER MECHANISM CREDENTIALS`"),
        (LINE.replace("alice", NODE_USER), "is the service's own user"),
        (LINE.replace("alice", "a;b"), "a user name has"),
        (f"{LINE}\n{LINE}", "is in an earlier line, too"),
        (LINE.replace("SHA-256", "SHA-1"), "is none of SCRAM-SHA-256, SCRAM-SHA-512"),
        (LINE.replace("SHA-256", "SHA-512"), "are not of SCRAM-SHA-512"),
        (LINE.replace("salt=", "salz="), "are not salt=,stored_key=,server_key=,iterations="),
        (LINE.replace("stored_key=", "stored_key=!"), "are damaged"),
        (LINE.replace("4096", "4095"), "4095 iterations, allowed are 4096 to 1000000"),
    ],
)
def test_a_line_that_is_wrong_is_named_without_its_credentials(text: str, complaint: str) -> None:
    with pytest.raises(UsersFileError, match=complaint) as caught:
        parse_users(f"# comment\n\n{text}\n", "users")
    assert str(caught.value).startswith(f"users:{3 + text.count(chr(10))}: ")
    assert LINE.split("salt=")[1][:10] not in str(caught.value)
    # `diskless users add` refuses the file, too, as long as the line is there.
    assert str(caught.value).endswith("; remove the line, then add the user with `diskless users add`")


@pytest.mark.parametrize("name", ["", "a b", "a\tb", "a:b", "a,b", "#a", "x" * 256, NODE_USER, "a=b", "a\\b"])
def test_names_that_would_break_files_or_lists_of_principals_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="user"):
        check_user(name)


def test_a_file_that_is_missing_or_no_text_says_how_to_make_one(tmp_path: Path) -> None:
    (tmp_path / "rubbish").write_bytes(b"\xff\xfe")
    for name in ("missing", "rubbish"):
        with pytest.raises(UsersFileError, match=f"{name}.*diskless users add"):
            read_users(tmp_path / name)


def test_a_changed_file_is_taken_and_a_damaged_one_is_not(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "users"
    write_users(file, USERS)
    users = WatchedUsers(file)

    def known() -> list[bool]:
        return [users.find("SCRAM-SHA-512", name) is not None for name in ("alice", "carol")]

    assert known() == [True, False]
    write_users(file, {"carol": USERS["alice"]})
    users.refresh()
    assert known() == [False, True]
    file.write_text("rubbish")
    for _ in range(3):
        users.refresh()
    assert known() == [False, True]
    assert [record.message for record in caplog.records if "not reloaded" in record.message] == [caplog.records[-1].message]
    file.unlink()
    users.refresh()
    assert known() == [False, True]


def test_a_file_that_is_being_copied_locks_nobody_out_and_one_without_users_everybody(tmp_path: Path) -> None:
    file = tmp_path / "users"
    write_users(file, USERS)
    users, whole = WatchedUsers(file), file.read_bytes()
    first = whole.index(b"\n")
    for size in (0, 1, first, first + 20):
        file.write_bytes(whole[:size])
        users.refresh()
        assert users.find("SCRAM-SHA-512", "alice") is not None, size
    write_users(file, {})
    users.refresh()
    assert users.find("SCRAM-SHA-512", "alice") is None


def test_a_file_that_could_not_be_opened_for_a_moment_is_read_later(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "users"
    write_users(file, USERS)
    users = WatchedUsers(file)
    write_users(file, {"carol": USERS["alice"]})
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    os.close(lowest_free := os.dup(0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, limits[1]))
    try:
        users.refresh()
        users.refresh()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert users.find("SCRAM-SHA-512", "alice") is not None
    assert [one.message.count("Too many open files") for one in caplog.records] == [1]
    users.refresh()
    assert users.find("SCRAM-SHA-512", "alice") is None


def test_credentials_differ_by_mechanism_and_salt() -> None:
    first, second = credentials_of("x", iterations=4096), credentials_of("x", iterations=4096)
    assert len({one.salt for made in (first, second) for one in made.values()}) == 4
    one = first["SCRAM-SHA-256"]
    assert ScramCredentials.of("SCRAM-SHA-256", "x", one.salt, 4096) == one
