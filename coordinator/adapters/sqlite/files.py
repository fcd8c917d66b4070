"""The files of one database: their names, their deletion, and their way to the disk."""

from __future__ import annotations

import os
from pathlib import Path

SUFFIXES = ("", "-wal", "-shm", "-journal")


def files_of(path: Path) -> list[Path]:
    """The names of a database's files, whether they exist or not: the database, its write-ahead log and the index of
    that, and the journal in which a copy is made."""
    return [path.with_name(path.name + suffix) for suffix in SUFFIXES]


def delete_database(path: Path) -> None:
    """Delete the files of a closed database, if there are any. Raises OSError."""
    for part in files_of(path):
        part.unlink(missing_ok=True)


def sync_database(path: Path) -> None:
    """Wait until a closed database is on the disk. Raises OSError.

    Closing brought the write-ahead log into the file, unless another connection still reads it.
    """
    for part in files_of(path)[:2]:
        if part.exists():
            _sync(part, os.O_RDWR)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk. Raises OSError."""
    _sync(folder, os.O_RDONLY)


def _sync(path: Path, flags: int) -> None:
    fd = os.open(path, flags)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
