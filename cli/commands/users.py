"""`diskless users`: the file of users who may log in to nodes by PLAIN and SCRAM. It holds salted hashes, never a password."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli.options import RegularFile, config_option, output_option
from cli.output import print_rows, say

if TYPE_CHECKING:
    from cli.output import Row
    from coordinator.security.users_file import Users

COLUMNS = ("user", "mechanisms", "iterations")
PASSWORD_CHARACTERS_MAX = 1024

file_option = click.option("--file", "users_file", type=RegularFile(), help="The file of users; without it `users.file` of --config.")


@click.group()
def users() -> None:
    """Make and list the users who may log in to nodes."""


@users.command("add")
@click.argument("name")
@click.option("--password-stdin", is_flag=True, help="Read the password from the first line of standard input, and do not ask for it.")
@file_option
@config_option
def add(name: str, password_stdin: bool, users_file: Path | None, config_file: Path | None) -> None:
    """Add a user, or change the password of one.

    Nodes read a file that has changed within seconds. The password itself is stored nowhere; a command line has no place for it, because
    other users of the machine see that.

    Example: `diskless users add alice --file /etc/diskless/users`
    """
    from cli.outcome import Exit, Failed
    from coordinator.security.users_file import check_user, credentials_of

    file = _file(users_file, config_file)
    try:
        check_user(name)
    except ValueError as error:
        raise Failed(f"{error}", Exit.USAGE) from error
    _known(file)  # a file that cannot be used is refused before a password is asked for
    password = _from_input() if password_stdin else click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    if not password or len(password) > PASSWORD_CHARACTERS_MAX or not password.isprintable():
        limit = f"has 1 to {PASSWORD_CHARACTERS_MAX} printable characters"
        raise Failed(f"a password {limit}; this one has {len(password)}", Exit.USAGE)
    credentials = credentials_of(password)
    # The lock is held for a moment only: not while the user types, nor while the password is hashed.
    with _changing(file):
        known = _known(file)
        _write(file, {**known, name: credentials})
    say(f"{'changed the password of' if name in known else 'added'} user {name} in {file}")


@users.command("remove")
@click.argument("name")
@file_option
@config_option
def remove(name: str, users_file: Path | None, config_file: Path | None) -> None:
    """Remove a user.

    Connections of the user that are logged in stay so, at the longest for connections.max.reauth.ms.

    Example: `diskless users remove alice --file /etc/diskless/users`
    """
    from cli.outcome import Exit, Failed

    file = _file(users_file, config_file)
    _read(file)  # says of a missing file how to make one, even if the folder is missing
    with _changing(file):
        known = _read(file)
        if name not in known:
            raise Failed(f"{file} has no user of this name; `diskless users list` shows those that it has", Exit.NOT_FOUND)
        _write(file, {user: credentials for user, credentials in known.items() if user != name})
    say(f"removed user {name} from {file}")


@users.command("list")
@file_option
@config_option
@output_option
def list_(users_file: Path | None, config_file: Path | None, output: str) -> None:
    """List the users of a file, with the mechanisms that they can log in by.

    Example: `diskless users list --file /etc/diskless/users`
    """
    rows: list[Row] = [
        {"user": user, "mechanisms": ",".join(sorted(found)), "iterations": min(one.iterations for one in found.values())}
        for user, found in sorted(_read(_file(users_file, config_file)).items())
    ]
    print_rows(rows, output, list(COLUMNS))


def _file(users_file: Path | None, config_file: Path | None) -> Path:
    """Return the file that was named. Raises `Failed`."""
    from cli.configuration import read_service_settings
    from cli.outcome import Exit, Failed

    if users_file is not None:
        return users_file
    found = None if config_file is None else read_service_settings(config_file).users_file
    if found is None:
        raise Failed("no file of users is given: pass --file, or --config with a file that has users.file", Exit.USAGE)
    return found


def _read(file: Path) -> Users:
    from cli.outcome import Failed
    from coordinator.security.users_file import UsersFileError, read_users

    try:
        return read_users(file)
    except UsersFileError as error:
        raise Failed(str(error)) from error


def _known(file: Path) -> Users:
    """Return the users of a file that need not be there yet. Raises `Failed`."""
    return _read(file) if file.exists() else {}


@contextmanager
def _changing(file: Path) -> Iterator[None]:
    """Hold the lock under which a file is read and written, so that two changes at once both stay. Raises `Failed`."""
    from cli.outcome import Failed
    from coordinator.security.users_file import UsersFileError, users_locked
    from records.folder_lock import LOCK_WAIT_S

    try:
        with users_locked(file, LOCK_WAIT_S):
            yield
    except UsersFileError as error:
        raise Failed(str(error)) from error
    except OSError as error:
        raise Failed(f"cannot write {file}: {error.strerror or error}; give a folder that this user may write to") from error


def _write(file: Path, users: Users) -> None:
    """Replace a file. Raises OSError, which `_changing` words."""
    from coordinator.security.users_file import write_users

    write_users(file, users)


def _from_input() -> str:
    """Return the first line of standard input. Raises `Failed` for bytes that are no UTF-8."""
    from cli.outcome import Exit, Failed

    raw = sys.stdin.buffer.readline(4 * PASSWORD_CHARACTERS_MAX)
    try:
        return raw.decode().rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise Failed("the password is no UTF-8", Exit.USAGE) from error
