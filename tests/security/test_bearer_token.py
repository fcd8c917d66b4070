"""Tokens of a file: which are taken, which files are refused, and what happens when the file changes."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from coordinator.security.bearer_token import BearerTokens, TokenFileError

FIRST, SECOND = "a" * 16, "0123456789abcdef-~!"


@pytest.mark.parametrize(
    ("header", "is_admitted"),
    [
        (f"Bearer {FIRST}", True),
        (f"bearer   {SECOND} ", True),
        ("", False),
        ("Bearer", False),
        ("Bearer ", False),
        (FIRST, False),
        (f"Basic {FIRST}", False),
        (f"Bearer {FIRST[:-1]}", False),
        (f"Bearer {FIRST}a", False),
        (f"Bearer {FIRST} {SECOND}", False),
        ("Bearer \xff\xfe", False),
    ],
)
def test_any_token_of_the_file_lets_in_and_nothing_else(tmp_path: Path, header: str, is_admitted: bool) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"\n{FIRST}\r\n\n  {SECOND}\n")
    assert BearerTokens("the.key", file).admit(header) is is_admitted


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (None, "No such file"),
        (b"", "1 to 16 tokens"),
        (b"\n \n", "1 to 16 tokens"),
        (b"short", "token 1 must have 16 to 4096"),
        (f"{FIRST}\nwith space in it, long".encode(), "token 2 must have"),
        (b"\xff" * 20, "token 1 must have"),
        (b"x" * 4_097, "token 1 must have"),
        (f"{FIRST}\n".encode() * 17, "1 to 16 tokens"),
        (b"x" * 200_000, "1 to 16 tokens"),
    ],
)
def test_files_that_protect_nothing_are_refused_without_showing_a_token(tmp_path: Path, data: bytes | None, told: str) -> None:
    file = tmp_path / "tokens"
    if data is not None:
        file.write_bytes(data)
    with pytest.raises(TokenFileError) as raised:
        BearerTokens("the.key", file)
    assert f"the.key {file}: " in str(raised.value)
    assert told in str(raised.value)
    assert "openssl rand" in str(raised.value)
    assert FIRST not in str(raised.value)


def test_a_file_that_changes_is_read_and_one_that_is_not_usable_changes_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "tokens"
    file.write_text(FIRST)
    tokens = BearerTokens("the.key", file)
    with caplog.at_level(logging.INFO):
        file.write_text("no")
        tokens.refresh()
        tokens.refresh()
        assert tokens.admit(f"Bearer {FIRST}")
        file.write_text(SECOND)
        tokens.refresh()
    assert (tokens.admit(f"Bearer {FIRST}"), tokens.admit(f"Bearer {SECOND}")) == (False, True)
    lines = [one.getMessage() for one in caplog.records]
    assert [line.split(" ", 2)[:2] for line in lines] == [["tokens", "not"], ["tokens", "reloaded"]]
    assert SECOND not in caplog.text
