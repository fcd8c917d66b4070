"""Gives a WAL file an object key of its own that is remembered beside the file, so that a retry is not a second commit.

The record `<file>.commit.json` names the object key and the SHA-256 of the file it is for; it is durable before the first
byte is uploaded. Invariant: one file content, one key, however often and from however many processes `files commit` is
run; a changed file gets a new key. Who reads the record and perhaps replaces it does both within a lock of the folder. A record
is written only for a key that an object can have: it stays, and so would the error.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from cli.outcome import Exit, Failed
from records.durable import sync, write_whole
from records.folder_lock import LOCK_WAIT_S, FolderIsLocked, folder_locked

KEY_PREFIX = "wal/"


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadRecord:
    """Which key a file has. `is_new` is false when the key was chosen by an earlier run."""

    object_key: str
    sha256: str
    is_new: bool


def record_path(wal: Path) -> Path:
    """Name the record beside a WAL file."""
    return wal.with_name(wal.name + ".commit.json")


def check_prefix(prefix: str, kept_prefixes: tuple[str, ...]) -> None:
    """Raise `Failed` for a prefix below which the service takes no object for that of a file: it would never delete it."""
    if prefix.startswith(kept_prefixes):
        kept = " and ".join(kept_prefixes)
        raise Failed(
            f"--key-prefix: {prefix} is where the service keeps objects of its own ({kept}), and it would never delete the file; "
            f"pass another one, such as {KEY_PREFIX}",
            Exit.USAGE,
        )


def choose_key(wal: Path, *, now_ms: int, prefix: str = KEY_PREFIX, renew: bool = False, lock_wait_s: float = LOCK_WAIT_S) -> UploadRecord:
    """Return the key that this content was given before, else give it one. `renew` gives a new one in any case. Raises `Failed`."""
    try:
        with folder_locked(wal.parent, lock_wait_s):
            return _choose(wal, now_ms, prefix, renew=renew)
    except FolderIsLocked as locked:
        raise Failed(str(locked), Exit.UNAVAILABLE) from locked


def _choose(wal: Path, now_ms: int, prefix: str, *, renew: bool) -> UploadRecord:
    from coordinator.client.records.ulid import RANDOM_BYTES, new_key
    from coordinator.object_store import check_key, is_key

    # Read within the lock, else the record of an older content could replace that of the newer one, whose retry would be a second commit.
    with wal.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    path = record_path(wal)
    known = _read(path)
    # No store takes an object of an illegal key, so nothing was ever uploaded under one: its record may be replaced.
    if known is not None and known.sha256 == digest and not renew and is_key(known.object_key):
        return known
    try:
        key = check_key(new_key(now_ms, os.urandom(RANDOM_BYTES), prefix=prefix))
    except ValueError as error:
        raise Failed(f"--key-prefix: {error}; pass another one, such as {KEY_PREFIX}", Exit.USAGE) from error
    record = UploadRecord(object_key=key, sha256=digest, is_new=True)
    return _write(path, record, replace=known is not None)


def _read(path: Path) -> UploadRecord | None:
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        return UploadRecord(object_key=str(fields["object_key"]), sha256=str(fields["sha256"]), is_new=False)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Failed(f"{path} is not the record of an upload ({error}); if the file was never committed, delete the record") from error


def _write(path: Path, record: UploadRecord, *, replace: bool) -> UploadRecord:
    """Write a record whole and durably. Of two machines that give the first key at once, one wins and both use its key."""
    text = json.dumps({"object_key": record.object_key, "sha256": record.sha256})
    try:
        write_whole(path, text.encode(), replace=replace)
    except FileExistsError:
        other = _read(path)
        assert other is not None, f"{path} vanished while it was looked at"
        return other
    sync(path.parent)
    return record
