"""Errors of a state database, by their consequence for the replica.

A busy database is never a corrupt one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from coordinator.config.disk import FULL, megabytes, remedy, room_of
from coordinator.core.state.damage import DirectoryFailed, DiskFull, StateBusy, StateCorrupt, StateFailed, StateLocked

__all__ = [
    "CORRUPTIONS",
    "TROUBLES",
    "DamagedRow",
    "DirectoryFailed",
    "StateBusy",
    "StateCorrupt",
    "StateLocked",
    "translated",
    "translation",
]


class DamagedRow(Exception):
    """A row that SQLite read has a content that was never written. `translated` makes a `StateCorrupt` of it."""


CORRUPTIONS = (apsw.CorruptError, apsw.NotADBError, DamagedRow, UnicodeDecodeError)
"""Exceptions of the library that mean damage; the last one, since a text that is not UTF-8 was never written."""
OTHER_SIGNS = (
    apsw.SQLError,
    apsw.SchemaChangeError,
    apsw.MismatchError,
    apsw.TooBigError,
    apsw.InternalError,
    apsw.FormatError,
)
"""The statements are those of this release and so are the tables: where one does not fit the other, the file has changed."""
DIRECTORY_FAILURES = (apsw.IOError, apsw.FullError, apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError)
SHORT_READS = (apsw.SQLITE_IOERR_SHORT_READ, apsw.SQLITE_IOERR_CORRUPTFS)
"""The file is shorter than it was, or the file system found it damaged: another one can be written in its place."""

FULL_BYTES = 256 * 1024
"""A file system with less room than this is full: a write-ahead log and its index need more."""

LOCKS = (apsw.BusyError, apsw.LockedError, apsw.ProtocolError)
"""Another connection holds a lock, or too many of them want the lock of the write-ahead log at once: the file is as it was."""
TROUBLES = (*CORRUPTIONS, *DIRECTORY_FAILURES, *OTHER_SIGNS, *LOCKS)
"""The exceptions that `translation` takes."""


def translation(error: Exception, path: Path, on_corrupt: Callable[[str], None]) -> StateFailed:
    """Return the exception to raise instead of one of the `TROUBLES`."""
    if isinstance(error, LOCKS):
        return StateBusy(f"the state database {path} is locked by another connection ({error}); end what writes to it")
    if isinstance(error, DIRECTORY_FAILURES) and _extended(error) not in SHORT_READS:
        if isinstance(error, apsw.FullError) or _extended(error) == apsw.SQLITE_IOERR_SHMSIZE or _is_full(path):
            return disk_full(path, str(error))
        if isinstance(error, apsw.ReadOnlyError):
            why = "the file or its file system is read-only: see the kernel's log, correct the mount, or the owner and mode of the file"
        else:
            why = "check the disk, its mount, its owner and its mode"
        return DirectoryFailed(f"the state database {path} cannot be used ({error}): {why}")
    on_corrupt(str(error))
    return StateCorrupt(f"the state database {path} is damaged ({error}); it is set aside and rebuilt from the log")


def _extended(error: Exception) -> int:
    """The library's extended result code; 0 when it set none."""
    return int(getattr(error, "extendedresult", 0))


def directory_failed(path: Path, what: str, error: OSError) -> DirectoryFailed:
    """Return the exception to raise when a file of the data directory cannot be `what`."""
    if error.errno in FULL:
        return disk_full(path, str(error))
    return DirectoryFailed(f"{path} cannot be {what} ({error}): {remedy(error)}")


def disk_full(path: Path, error: str) -> DiskFull:
    """The error of a full disk, which says how full it is and what to do."""
    try:
        room = room_of(path.parent)
        how_full = f"{megabytes(room.free_bytes)} of {megabytes(room.total_bytes)} are free"
    except OSError as unknown:
        how_full = str(unknown)
    return DiskFull(
        f"the file system of {path.parent} is full ({how_full}; {path.name}: {error}). Remove something from it or enlarge it, and"
        " start the node again if it has ended or the directory is offline. There is no evidence (partition-N.db.failed-TIME) left"
        " there to remove; of the node's own files partition-N.db, -wal and -shm may be removed while it is stopped, they are built anew"
        " from the log"
    )


def _is_full(path: Path) -> bool:
    """Whether a failure without a reason of its own is one of a full disk: nothing can be begun in so little room."""
    try:
        return room_of(path.parent).free_bytes < FULL_BYTES
    except OSError:
        return False


@contextmanager
def translated(path: Path, on_corrupt: Callable[[str], None]) -> Iterator[None]:
    """Raise `StateCorrupt`, `DirectoryFailed` or `StateBusy` instead of the library's errors. Takes a microsecond: see `StateReader`."""
    try:
        yield
    except TROUBLES as error:
        raise translation(error, path, on_corrupt) from error
