"""The file of users: one line for each user and SCRAM mechanism, with salted hashes and no passwords.

    alice SCRAM-SHA-256 salt=...,stored_key=...,server_key=...,iterations=8192

The credentials are written as Kafka writes them. A file is replaced as a whole or not at all, and only its owner may read it. Who
reads it takes no lock; who changes what was read does both within `users_locked`, else the changes of another process are lost.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from coordinator.security.login import NODE_USER
from coordinator.security.scram import ITERATIONS, ITERATIONS_MAX, ITERATIONS_MIN, SALT_BYTES, SCRAM_HASHES, ScramCredentials
from records.durable import part_file, rename_durably
from records.folder_lock import FolderIsLocked, folder_locked

FILE_BYTES_MAX: Final = 64 * 1024 * 1024
HEAD: Final = "# Users of a Diskless Coordinator service: SCRAM credentials made by `diskless users add`. No passwords.\n"

Users = Mapping[str, Mapping[str, ScramCredentials]]
"""The credentials of each user by mechanism."""

_USER: Final = re.compile(r"[^\s,;:#=\"'\\\x00-\x1f\x7f]{1,255}")


class UsersFileError(Exception):
    """The file of users cannot be used; the text names file, line and remedy, and nothing of its credentials."""


def check_user(name: str) -> None:
    """Raise ValueError unless a user may have this name."""
    if name == NODE_USER:
        raise ValueError(f"{NODE_USER} is the service's own user; choose another name")
    if _USER.fullmatch(name) is None:
        raise ValueError("a user name has 1 to 255 characters without spaces, control characters and , ; : # = \" ' \\")


def credentials_of(password: str, *, iterations: int = ITERATIONS) -> dict[str, ScramCredentials]:
    """Derive the credentials of a password for every mechanism, each with a salt of its own."""
    return {one: ScramCredentials.of(one, password, secrets.token_bytes(SALT_BYTES), iterations) for one in SCRAM_HASHES}


def read_users(path: Path) -> Users:
    """Read a file of users. Raises `UsersFileError`."""
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
        if len(content) > FILE_BYTES_MAX:
            raise UsersFileError(f"{path} has more than {FILE_BYTES_MAX} bytes; is it a file of users?")
        text = content.decode()
    except OSError as error:
        raise UsersFileError(f"cannot read the users file {path}: {error}; make one with `diskless users add`") from error
    except UnicodeDecodeError as error:
        why = f"{path} is no file of users, or is damaged: {error}"
        raise UsersFileError(f"{why}; name another, or move it away and make one with `diskless users add`") from error
    return parse_users(text, str(path))


def parse_users(text: str, name: str) -> Users:
    """Read the text of a file of users. Raises `UsersFileError`."""
    users: dict[str, dict[str, ScramCredentials]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            user, mechanism, fields = line.split()
            check_user(user)
            of_user = users.setdefault(user, {})
            if mechanism in of_user:
                raise ValueError(f"{mechanism} of this user is in an earlier line, too")
            of_user[mechanism] = _credentials(mechanism, fields)
        except ValueError as error:
            what = "it is not `USER MECHANISM CREDENTIALS`" if len(line.split()) != 3 else str(error)
            raise UsersFileError(f"{name}:{number}: {what}; remove the line, then add the user with `diskless users add`") from error
    return users


def format_users(users: Users) -> str:
    """Write the text of a file of users, in the order of names."""
    lines = [HEAD]
    for user in sorted(users):
        for mechanism, one in sorted(users[user].items()):
            salt, stored, server = (base64.b64encode(data).decode() for data in (one.salt, one.stored_key, one.server_key))
            lines.append(f"{user} {mechanism} salt={salt},stored_key={stored},server_key={server},iterations={one.iterations}\n")
    return "".join(lines)


@contextmanager
def users_locked(path: Path, wait_s: float) -> Iterator[None]:
    """Keep other processes and threads from changing the file of users meanwhile. Raises OSError, and `UsersFileError` after `wait_s`."""
    try:
        with folder_locked(path.resolve().parent, wait_s):
            yield
    except FolderIsLocked as locked:
        raise UsersFileError(f"cannot change the users file {path}: {locked}") from locked


def write_users(path: Path, users: Users) -> None:
    """Replace the file of users. Raises OSError. Mode and owner of a file that is there are kept; a new one is for its owner alone."""
    target = path.resolve()
    with part_file(target, mode=0o600) as part:
        with part.open("w", encoding="utf-8") as writing:
            if target.exists():
                found = target.stat()
                os.fchmod(writing.fileno(), found.st_mode & 0o777)
                if (found.st_uid, found.st_gid) != (os.geteuid(), os.getegid()):
                    os.fchown(writing.fileno(), found.st_uid, found.st_gid)
            writing.write(format_users(users))
            writing.flush()
            os.fsync(writing.fileno())
        rename_durably(part, target)


def _credentials(mechanism: str, fields: str) -> ScramCredentials:
    """Read the credentials of one line. Raises ValueError, whose text holds none of them."""
    if mechanism not in SCRAM_HASHES:
        raise ValueError(f"the mechanism is none of {', '.join(SCRAM_HASHES)}")
    found = dict(part.split("=", 1) for part in fields.split(",") if "=" in part)
    if found.keys() != {"salt", "stored_key", "server_key", "iterations"}:
        raise ValueError("the credentials are not salt=,stored_key=,server_key=,iterations=")
    size = hashlib.new(SCRAM_HASHES[mechanism]).digest_size
    try:
        salt, stored, server = (base64.b64decode(found[one], validate=True) for one in ("salt", "stored_key", "server_key"))
        iterations = int(found["iterations"])
    except (binascii.Error, ValueError):
        raise ValueError("the credentials are damaged") from None
    if len(stored) != size or len(server) != size or len(salt) < 8:
        raise ValueError(f"the credentials are not of {mechanism}")
    if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        raise ValueError(f"{iterations} iterations, allowed are {ITERATIONS_MIN} to {ITERATIONS_MAX}")
    return ScramCredentials(salt, stored, server, iterations)
